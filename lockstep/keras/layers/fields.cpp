#include "lockstep/keras/layers/fields.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/strings_internal.h"

namespace lockstep::keras {

Json one_or_list(const Ints& values) {
  if (values.size() == 1) return values[0];
  Json out = Json::array();
  for (std::int64_t value : values) out.push_back(value);
  return out;
}

FieldReader::FieldReader(std::string class_name, const Json& config)
    : class_name_(std::move(class_name)), config_(config.is_null() ? Json::object() : config) {
  if (!config_.is_object()) {
    throw_invalid_argument(fmt::format("{}: its config is {}, expected an object", class_name_, dump_json(config_)));
  }
}

void FieldReader::fail(const char* key, const char* expected) const {
  const auto name = config_.find("name");
  const std::string which =
      name != config_.end() && name->is_string() ? fmt::format(" '{}'", name->get<std::string>()) : "";
  std::string found = dump_json(config_.at(key));
  if (found.size() > 80) found = found.substr(0, 80) + "…";
  throw_invalid_argument(fmt::format("{}{}: '{}' is {}, expected {}", class_name_, which, key, found, expected));
}

const Json* FieldReader::take(const char* key) {
  used_.insert(key);
  const auto it = config_.find(key);
  return it == config_.end() ? nullptr : &*it;
}

void FieldReader::operator()(const char* key, bool& v) {
  const Json* found = take(key);
  if (!found || found->is_null()) return;
  if (found->is_number()) {
    v = found->get<double>() != 0;
  } else if (found->is_boolean()) {
    v = found->get<bool>();
  } else {
    fail(key, "true or false");
  }
}

namespace {
std::optional<std::int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (number != std::floor(number) || std::abs(number) > 9e15) return std::nullopt;
  return static_cast<std::int64_t>(number);
}
}  // namespace

void FieldReader::operator()(const char* key, std::int64_t& v) {
  const Json* found = take(key);
  if (!found || found->is_null()) return;
  const auto value = as_integer(*found);
  if (!value) fail(key, "an integer");
  v = *value;
}

void FieldReader::operator()(const char* key, double& v) {
  const Json* found = take(key);
  if (!found || found->is_null()) return;
  if (!found->is_number()) fail(key, "a number");
  v = found->get<double>();
}

void FieldReader::operator()(const char* key, Number& v) {
  const Json* found = take(key);
  if (!found || found->is_null()) return;
  // Keras 2 wrote some numbers as {"class_name": "__numpy__", …} or as plain arrays of one.
  if (!found->is_number()) fail(key, "a number");
  v.integer = found->is_number_integer();
  v.value = found->get<double>();
}

void FieldReader::operator()(const char* key, std::string& v) {
  const Json* found = take(key);
  if (!found || found->is_null()) return;
  if (!found->is_string()) fail(key, "a string");
  v = found->get<std::string>();
}

void FieldReader::operator()(const char* key, Ints& v) {
  const Json* found = take(key);
  if (!found || found->is_null()) return;
  const Json* list = found;
  if (list->is_object() && list->contains("items")) list = &(*list)["items"];  // Keras 2's tuples
  v.clear();
  if (const auto single = as_integer(*list)) {
    v.push_back(*single);
    return;
  }
  if (!list->is_array()) fail(key, "an integer or a list of integers");
  for (const Json& entry : *list) {
    const auto value = as_integer(entry);
    if (!value) fail(key, "a list of integers");
    v.push_back(*value);
  }
}

void FieldReader::operator()(const char* key, Window& v) { (*this)(key, v.values); }

void FieldReader::operator()(const char* key, Json& v) {
  if (const Json* found = take(key)) v = *found;
}

void FieldReader::operator()(const char* key, LayerHandle& v) {
  const Json* found = take(key);
  if (!found || found->is_null()) return;
  v = LayerHandle(deserialize_layer(*found));
}

void FieldReader::drop(const char* key, const Json& harmless) {
  const Json* found = take(key);
  if (!found || harmless.is_null() || found->is_null() || *found == harmless) return;
  fail(key, fmt::format("{} (an older Keras's keyword that this layer no longer has)", dump_json(harmless)).c_str());
}

void FieldReader::finish() const {
  for (const auto& [key, value] : config_.items()) {
    if (used_.contains(key)) continue;
    std::vector<std::string> known(used_.begin(), used_.end());
    const auto name = config_.find("name");
    throw_invalid_argument(
        fmt::format("{}{}: unknown keyword '{}' (= {}){}", class_name_,
                    name != config_.end() && name->is_string() ? " '" + name->get<std::string>() + "'" : "", key,
                    dump_json(value).substr(0, 80), did_you_mean(key, known)));
  }
}

namespace {

std::string who(FieldReader& reader) {
  const Json name = reader.config().value("name", Json(""));
  return fmt::format("{} '{}'", reader.class_name(), name.is_string() ? name.get<std::string>() : "");
}

// What Keras makes of some layers, and which trains another way.
void refuse_variants(FieldReader& reader) {
  const auto refuse = [&](const char* key, const char* why) {
    const Json* found = reader.take(key);
    if (!found || found->is_null()) return;
    throw_unimplemented(fmt::format("{}: {} is {}: {}", who(reader), key, dump_json(*found).substr(0, 80), why));
  };
  refuse("lora_rank",
         "LoRA is not supported. Keras saves the kernel with LoRA's part added: load these weights into the same model "
         "without lora_rank");
  reader.drop("lora_alpha");
  refuse("quantization_config", "quantized layers are not supported; save the model before it is quantized");
}

}  // namespace

Layer::Options read_layer_options(FieldReader& reader) {
  Layer::Options options;
  reader("name", options.name);
  reader("trainable", options.trainable);
  if (const Json* dtype = reader.take("dtype")) options.dtype = DTypePolicy::from_config(*dtype, who(reader) + ": ");
  reader("activity_regularizer", options.activity_regularizer);
  reader.drop("autocast");
  reader.drop("batch_input_shape");  // Keras 2's; the Sequential that reads it makes an InputLayer of it
  reader.drop("input_shape");
  reader.drop("input_dim");
  reader.drop("input_dtype");
  reader.drop("batch_size");
  refuse_variants(reader);
  return options;
}

}  // namespace lockstep::keras
