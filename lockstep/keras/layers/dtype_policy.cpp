#include "lockstep/keras/layers/dtype_policy.h"

#include <charconv>
#include <mutex>

#include <fmt/format.h>
#include <re2/re2.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/dtype_arg.h"

namespace lockstep::keras {

namespace {

std::mutex g_mutex;
// The default policy's name; empty: floatx.
std::string& default_name() {
  static std::string name;
  return name;
}
std::string& floatx_name() {
  static std::string name = "float32";
  return name;
}

constexpr std::string_view kFrom = "_from_";

// The number after "int4/".
std::int64_t block_size_of(const std::string& mode, const std::string& policy) {
  const std::string digits = mode.substr(mode.find('/') + 1);
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size() || size == 0 || size < -1)
    throw_invalid_argument(
        fmt::format("dtype policy '{}': block size '{}', expected -1 or a positive integer", policy, digits));
  return size;
}

Json object(const char* module, const char* class_name, Json config) {
  return {{"module", module}, {"class_name", class_name}, {"config", std::move(config)}, {"registered_name", nullptr}};
}

std::string text(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

struct DTypePolicy::Map {
  Json default_policy;  // as it is written
  DTypePolicy source;
  std::vector<std::pair<std::string, DTypePolicy>> layers;
};

DTypePolicy::DTypePolicy() {
  const std::lock_guard lock(g_mutex);
  const std::string name = default_name().empty() ? floatx_name() : default_name();
  *this = DTypePolicy(name);
}

DTypePolicy::DTypePolicy(const std::string& name) : name_(name) {
  if (name == "mixed_float16") {
    compute_ = DType::kFloat16;
  } else if (name == "mixed_bfloat16") {
    compute_ = DType::kBFloat16;
  } else if (name.find(kFrom) != std::string::npos) {
    set_quantized(name);
  } else if (const auto dtype = parse_dtype(name); dtype && (is_floating(*dtype) || is_integer(*dtype) ||
                                                             *dtype == DType::kBool || *dtype == DType::kString)) {
    name_ = std::string(dtype_name(*dtype));
    compute_ = variable_ = *dtype;
  } else {
    throw_invalid_argument(fmt::format(
        "unknown dtype policy '{}'; expected a dtype such as 'float32', or 'mixed_float16' or 'mixed_bfloat16'", name));
  }
}

void DTypePolicy::set_quantized(const std::string& name) {
  written_mode_ = name.substr(0, name.find(kFrom));
  mode_ = written_mode_.substr(0, written_mode_.find('/'));
  if (mode_ != "int8" && mode_ != "int4" && mode_ != "float8")
    throw_unimplemented(fmt::format(
        "dtype policy '{}': quantization mode '{}' is not supported, only 'int8', 'int4' and 'float8'", name, mode_));
  if (mode_ != "int4" && written_mode_ != mode_)
    throw_invalid_argument(
        fmt::format("dtype policy '{}': unknown mode '{}', expected '{}'", name, written_mode_, mode_));
  const DTypePolicy source(name.substr(name.find(kFrom) + kFrom.size()));
  source_ = source.name();
  compute_ = source.compute_;
  variable_ = source.variable_;
  if (mode_ == "int8" && compute_ == DType::kFloat16)
    throw_invalid_argument(fmt::format("dtype policy '{}': int8 requires another compute dtype than float16", name));
  if (written_mode_ != mode_) block_size_ = block_size_of(written_mode_, name);
}

DTypePolicy DTypePolicy::quantized(const std::string& mode, std::optional<std::int64_t> block_size,
                                   const DTypePolicy& source) {
  const std::string written = mode == "int4" ? fmt::format("int4/{}", block_size.value_or(-1)) : mode;
  return DTypePolicy(fmt::format("{}{}{}", written, kFrom, source.source_.empty() ? source.name_ : source.source_));
}

DTypePolicy DTypePolicy::map(const DTypePolicy& source, std::vector<std::pair<std::string, DTypePolicy>> layers) {
  DTypePolicy made = source;
  made.map_ = std::make_shared<Map>(Map{source.serialize(), source, std::move(layers)});
  made.name_ = "map_" + source.name_;
  return made;
}

DTypePolicy DTypePolicy::at(const std::string& path) const {
  if (!map_) return *this;
  const DTypePolicy* found = nullptr;
  std::string pattern;
  for (const auto& [key, policy] : map_->layers) {
    if (key == path) {
      found = &policy;
      break;
    }
    if (!RE2::FullMatch(path, RE2(key, RE2::Quiet))) continue;
    if (found)
      throw_invalid_argument(
          fmt::format("DTypePolicyMap: layer '{}' matches '{}' and '{}', expected one key", path, pattern, key));
    found = &policy;
    pattern = key;
  }
  DTypePolicy made = found ? *found : map_->source;
  made.map_ = map_;
  return made;
}

DTypePolicy DTypePolicy::from_config(const Json& config, const std::string& who) {
  if (config.is_null()) return DTypePolicy();
  if (config.is_string()) return DTypePolicy(config.get<std::string>());
  if (!config.is_object() || !config.contains("config") || !config["config"].is_object())
    throw_invalid_argument(fmt::format("{}{} is not a dtype policy", who, dump_json(config)));
  const Json& inner = config["config"];
  const std::string kind = text(config, "class_name");
  if (kind == "DTypePolicyMap") {
    const Json* layers = inner.contains("policy_map") ? &inner["policy_map"] : nullptr;
    if (!layers || !layers->is_object())
      throw_invalid_argument(fmt::format("{}{} is not a DTypePolicyMap", who, dump_json(config).substr(0, 80)));
    Map map{inner.value("default_policy", Json()), {}, {}};
    map.source = from_config(map.default_policy, who);
    for (const auto& [path, policy] : layers->items()) map.layers.emplace_back(path, from_config(policy, who));
    DTypePolicy made = map.source;
    made.name_ = "map_" + made.name_;
    made.map_ = std::make_shared<Map>(std::move(map));
    return made;
  }
  if (inner.contains("mode")) {
    std::string source = text(inner, "source_name");
    if (source.empty()) source = DTypePolicy().name();
    try {
      DTypePolicy made(text(inner, "mode") + std::string(kFrom) + source);
      if (const auto length = inner.find("amax_history_length"); length != inner.end()) {
        if (!length->is_number_integer() || length->get<std::int64_t>() < 1)
          throw_invalid_argument(
              fmt::format("dtype policy '{}': amax_history_length is {}, expected a positive integer", made.name_,
                          dump_json(*length).substr(0, 80)));
        made.amax_history_length_ = length->get<std::int64_t>();
      }
      return made;
    } catch (const Error& error) {
      if (error.code() == Code::kUnimplemented)
        throw_unimplemented(fmt::format("{}{}; save the model before it is quantized", who, error.message()));
      throw_invalid_argument(who + error.message());
    }
  }
  if (inner.contains("name") && inner["name"].is_string()) return DTypePolicy(inner["name"].get<std::string>());
  if (kind == "DTypePolicy" && inner.contains("name") && inner["name"].is_null()) return DTypePolicy();
  throw_invalid_argument(fmt::format("{}{} is not a dtype policy", who, dump_json(config)));
}

Json DTypePolicy::serialize() const {
  if (map_) {
    Json layers = Json::object();
    for (const auto& [path, policy] : map_->layers) layers[path] = policy.serialize();
    return object("keras.dtype_policies", "DTypePolicyMap",
                  {{"default_policy", map_->default_policy}, {"policy_map", std::move(layers)}});
  }
  if (mode_.empty()) return object("keras", "DTypePolicy", {{"name", name_}});
  if (mode_ == "float8")
    return object("keras.dtype_policies", "QuantizedFloat8DTypePolicy",
                  {{"mode", mode_}, {"source_name", source_}, {"amax_history_length", amax_history_length_}});
  return object("keras.dtype_policies", block_size_ ? "Int4DTypePolicy" : "QuantizedDTypePolicy",
                {{"mode", written_mode_}, {"source_name", source_}});
}

void set_dtype_policy(const std::string& name) {
  const DTypePolicy checked(name);
  const std::lock_guard lock(g_mutex);
  default_name() = checked.name();
}

std::string default_floatx() {
  const std::lock_guard lock(g_mutex);
  return floatx_name();
}

void set_default_floatx(const std::string& name) {
  if (name != "float16" && name != "bfloat16" && name != "float32" && name != "float64") {
    throw_invalid_argument(
        fmt::format("set_floatx: unknown dtype '{}', expected float16, bfloat16, float32 or float64", name));
  }
  const std::lock_guard lock(g_mutex);
  floatx_name() = name;
}

}  // namespace lockstep::keras
