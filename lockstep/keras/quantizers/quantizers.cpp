#include "lockstep/keras/quantizers/quantizers.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/fields_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

template <>
struct FieldType<std::pair<std::int64_t, std::int64_t>> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "list of two integers"; }
  static bool read(const Json& found, std::pair<std::int64_t, std::int64_t>& v) {
    Ints both;
    if (!FieldType<Ints>::read(found, both) || both.size() != 2) return false;
    v = {both[0], both[1]};
    return true;
  }
  static Json write(const std::pair<std::int64_t, std::int64_t>& v) { return Json::array({v.first, v.second}); }
};

}  // namespace lockstep::keras

namespace lockstep::quantizers {
namespace {

using keras::FieldReader;

template <typename V>
void fields(V& v, AbsMaxQuantizer& o) {
  v("value_range", o.value_range);
  v("epsilon", o.epsilon);
  v("output_dtype", o.output_dtype);
}

constexpr const char* kModule = "keras.quantizers";

void check(const AbsMaxQuantizer& quantizer, const std::string& who) {
  const auto [least, greatest] = quantizer.value_range;
  if (quantizer.output_dtype != "int8")
    throw_invalid_argument(
        fmt::format("{}AbsMaxQuantizer: output_dtype is '{}', expected 'int8'", who, quantizer.output_dtype));
  if (least < -128 || greatest > 127 || greatest < 1 || least > 0)
    throw_invalid_argument(
        fmt::format("{}AbsMaxQuantizer: value_range is [{}, {}], expected a range around 0 within [-128, 127]", who,
                    least, greatest));
}

Json serialize_quantizer(const std::optional<AbsMaxQuantizer>& quantizer) {
  if (!quantizer) return nullptr;
  Json config = Json::object();
  keras::FieldWriter writer(config);
  fields(writer, const_cast<AbsMaxQuantizer&>(*quantizer));
  if (quantizer->axis) config["axis"] = static_cast<const keras::Ints&>(*quantizer->axis);
  return keras::object_config(kModule, "AbsMaxQuantizer", std::move(config));
}

std::optional<AbsMaxQuantizer> read_quantizer(const Json& found, const std::string& who) {
  if (found.is_null()) return std::nullopt;
  const auto object = keras::parse_object_config(found);
  if (!object || object->class_name != "AbsMaxQuantizer")
    throw_unimplemented(
        fmt::format("{}quantizer {} is not supported, only AbsMaxQuantizer", who, dump_json(found).substr(0, 80)));
  FieldReader reader("AbsMaxQuantizer", object->config);
  AbsMaxQuantizer quantizer;
  fields(reader, quantizer);
  keras::Ints axes;
  reader("axis", axes);
  if (!axes.empty()) quantizer.axis = keras::Axes(axes);
  reader.finish();
  check(quantizer, who);
  return quantizer;
}

}  // namespace

QuantizationConfig make_config(std::string mode, std::optional<AbsMaxQuantizer> weight_quantizer,
                               std::optional<AbsMaxQuantizer> activation_quantizer,
                               std::optional<std::int64_t> block_size, const std::string& who) {
  for (const auto* quantizer : {&weight_quantizer, &activation_quantizer}) {
    if (*quantizer) check(**quantizer, who);
  }
  if (block_size && *block_size < 1 && *block_size != -1)
    throw_invalid_argument(
        fmt::format("{}Int4QuantizationConfig: block_size is {}, expected -1 or at least 1", who, *block_size));
  if (block_size.value_or(-1) > 0 && (weight_quantizer || activation_quantizer))
    throw_invalid_argument(
        fmt::format("{}Int4QuantizationConfig: quantizers require block_size = -1, found {}", who, *block_size));
  if (mode == "int4" && weight_quantizer &&
      weight_quantizer->value_range != std::pair<std::int64_t, std::int64_t>(-8, 7))
    throw_invalid_argument(who + "Int4QuantizationConfig: weight_quantizer requires value_range = {-8, 7}");
  QuantizationConfig config;
  config.mode_ = std::move(mode);
  config.weight_quantizer_ = std::move(weight_quantizer);
  config.activation_quantizer_ = std::move(activation_quantizer);
  config.block_size_ = block_size;
  return config;
}

QuantizationConfig::QuantizationConfig(const std::string& mode) {
  if (mode == "int8") {
    *this = Int8QuantizationConfig();
  } else if (mode == "int4") {
    *this = Int4QuantizationConfig();
  } else if (mode == "float8") {
    *this = Float8QuantizationConfig();
  } else if (mode == "gptq" || mode == "awq") {
    throw_unimplemented(fmt::format("quantization mode '{}' is not supported, only 'int8', 'int4' and 'float8'", mode));
  } else {
    throw_invalid_argument(fmt::format("unknown quantization mode '{}'; expected 'int8', 'int4' or 'float8'", mode));
  }
}

QuantizationConfig Int8QuantizationConfig(const Int8QuantizationConfigOptions& options) {
  return make_config("int8", options.weight_quantizer, options.activation_quantizer, std::nullopt, "");
}

QuantizationConfig Int4QuantizationConfig(const Int4QuantizationConfigOptions& options) {
  return make_config("int4", options.weight_quantizer, options.activation_quantizer, options.block_size, "");
}

QuantizationConfig Float8QuantizationConfig() { return make_config("float8", {}, {}, std::nullopt, ""); }

QuantizationConfig QuantizationConfig::from_config(const Json& found, const std::string& who) {
  const auto object = keras::parse_object_config(found);
  if (!object)
    throw_invalid_argument(fmt::format("{}{} is not a quantization_config", who, dump_json(found).substr(0, 80)));
  if (object->class_name == "Float8QuantizationConfig") {
    FieldReader(object->class_name, object->config).finish();
    return Float8QuantizationConfig();
  }
  const bool int4 = object->class_name == "Int4QuantizationConfig";
  if (!int4 && object->class_name != "Int8QuantizationConfig")
    throw_unimplemented(fmt::format("{}quantization_config {} is not supported", who, object->class_name));
  FieldReader reader(object->class_name, object->config);
  Json weights, activations;
  reader("weight_quantizer", weights);
  reader("activation_quantizer", activations);
  std::optional<std::int64_t> block_size;
  if (int4) reader("block_size", block_size);
  reader.finish();
  return make_config(int4 ? "int4" : "int8", read_quantizer(weights, who), read_quantizer(activations, who), block_size,
                     who);
}

Json QuantizationConfig::serialize() const {
  if (mode_ == "float8") return keras::object_config(kModule, "Float8QuantizationConfig", Json::object());
  Json config = {{"weight_quantizer", serialize_quantizer(weight_quantizer_)},
                 {"activation_quantizer", serialize_quantizer(activation_quantizer_)}};
  if (mode_ == "int4") config["block_size"] = block_size_ ? Json(*block_size_) : Json(nullptr);
  return keras::object_config(kModule, mode_ == "int4" ? "Int4QuantizationConfig" : "Int8QuantizationConfig",
                              std::move(config));
}

}  // namespace lockstep::quantizers
