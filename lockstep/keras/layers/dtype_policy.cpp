#include "lockstep/keras/layers/dtype_policy.h"

#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::keras {
namespace {

std::mutex g_mutex;
std::string& default_name() {
  static std::string name = "float32";
  return name;
}

}  // namespace

DTypePolicy::DTypePolicy() {
  const std::lock_guard lock(g_mutex);
  const std::string name = default_name();
  *this = DTypePolicy(name);
}

DTypePolicy::DTypePolicy(const std::string& name) : name_(name) {
  if (name == "mixed_float16") {
    compute_ = DType::kFloat16;
  } else if (name == "mixed_bfloat16") {
    compute_ = DType::kBFloat16;
  } else if (name.find("_from_") != std::string::npos) {
    throw_unimplemented(fmt::format("dtype policy '{}': quantized layers are not supported", name));
  } else if (const auto dtype = parse_dtype(name); dtype && (is_floating(*dtype) || is_integer(*dtype) ||
                                                             *dtype == DType::kBool || *dtype == DType::kString)) {
    name_ = std::string(dtype_name(*dtype));
    compute_ = variable_ = *dtype;
  } else {
    throw_invalid_argument(fmt::format(
        "unknown dtype policy '{}'; expected a dtype such as 'float32', or 'mixed_float16' or 'mixed_bfloat16'", name));
  }
}

DTypePolicy DTypePolicy::from_config(const Json& config, const std::string& who) {
  if (config.is_null()) return DTypePolicy();
  if (config.is_string()) return DTypePolicy(config.get<std::string>());
  if (config.is_object() && config.contains("config") && config["config"].is_object()) {
    const Json& inner = config["config"];
    if (inner.contains("name") && inner["name"].is_string()) return DTypePolicy(inner["name"].get<std::string>());
    const std::string kind = config.value("class_name", Json("")).is_string() ? config.value("class_name", "") : "";
    if (kind != "DTypePolicy" && kind != "Policy") {
      const std::string mode =
          inner.contains("mode") ? fmt::format(" with mode {}", dump_json(inner["mode"]).substr(0, 80)) : "";
      throw_unimplemented(
          fmt::format("{}dtype policy {}{} is not supported; save the model before it is quantized", who, kind, mode));
    }
  }
  throw_invalid_argument(fmt::format("{}{} is not a dtype policy", who, dump_json(config)));
}

Json DTypePolicy::serialize() const {
  return {
      {"module", "keras"}, {"class_name", "DTypePolicy"}, {"config", {{"name", name_}}}, {"registered_name", nullptr}};
}

void set_dtype_policy(const std::string& name) {
  const DTypePolicy checked(name);
  const std::lock_guard lock(g_mutex);
  default_name() = checked.name();
}

}  // namespace lockstep::keras
