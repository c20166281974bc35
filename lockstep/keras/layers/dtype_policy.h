// The dtypes of a layer's computations and of its variables (keras.DTypePolicy).
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/json.h"

namespace lockstep::keras {

// "float32" and other dtypes compute and keep variables in that type; "mixed_float16" and
// "mixed_bfloat16" keep float32 variables and compute in the 16-bit type. "int8_from_float32" and
// "int4/128_from_float32" also keep kernels as integers, "float8_from_float32" rounds inputs and kernels of products to
// floating numbers of 8 bits, see Layer::quantize(). In a file, a policy may also be a map from the paths of layers to
// policies (keras.dtype_policies.DTypePolicyMap), of which each layer takes its own.
class DTypePolicy {
 public:
  DTypePolicy();  // the process's default policy
  DTypePolicy(const char* name) : DTypePolicy(std::string(name)) {}
  DTypePolicy(DType dtype) : DTypePolicy(std::string(dtype_name(dtype))) {}
  template <std::derived_from<DTypeLike> T>  // np::float32
  DTypePolicy(const T& dtype) : DTypePolicy(static_cast<DType>(dtype)) {}
  DTypePolicy(const std::string& name);  // throws InvalidArgument for an unknown name, Unimplemented for gptq and awq
  // From a string, {"class_name": "DTypePolicy", "config": {"name": …}} or null (the default). Throws
  // Unimplemented for gptq and awq. Messages begin with `who`.
  static DTypePolicy from_config(const Json& config, const std::string& who = {});
  // The policy of a layer of that policy whose mode is "int8", "int4" or "float8". `block_size` is that of
  // Int4QuantizationConfig.
  static DTypePolicy quantized(const std::string& mode, std::optional<std::int64_t> block_size,
                               const DTypePolicy& source);
  // A map: `layers` are paths and policies, `source` is that of other layers.
  static DTypePolicy map(const DTypePolicy& source, std::vector<std::pair<std::string, DTypePolicy>> layers);

  const std::string& name() const { return name_; }
  DType compute_dtype() const { return compute_; }
  DType variable_dtype() const { return variable_; }
  // "int8", "int4", "float8" or empty.
  const std::string& quantization_mode() const { return mode_; }
  std::optional<std::int64_t> block_size() const { return block_size_; }
  // Of float8: the number of steps whose greatest magnitudes decide about a scale.
  std::int64_t amax_history_length() const { return amax_history_length_; }
  bool is_map() const { return map_ != nullptr; }
  // Of a map: the policy of the layer with that path, by its key or else by the only key that matches the whole path as
  // a regular expression (RE2); it is written as the map. Throws InvalidArgument if several match.
  DTypePolicy at(const std::string& path) const;
  // As Keras 3.4 and later write it.
  Json serialize() const;

  friend bool operator==(const DTypePolicy& a, const DTypePolicy& b) {
    return a.name_ == b.name_ && a.amax_history_length_ == b.amax_history_length_;
  }

 private:
  struct Map;
  void set_quantized(const std::string& name);

  std::string name_;
  DType compute_ = DType::kFloat32;
  DType variable_ = DType::kFloat32;
  std::string mode_, written_mode_, source_;  // of quantized policies
  std::optional<std::int64_t> block_size_;
  std::int64_t amax_history_length_ = 1024;
  std::shared_ptr<const Map> map_;
};

// keras.config.set_dtype_policy: of layers made from now on. Initially "float32".
void set_dtype_policy(const std::string& name);
// keras.config.floatx and set_floatx: the default policy as long as none was set.
std::string default_floatx();
void set_default_floatx(const std::string& name);

// <DTypePolicy "float32">.
std::ostream& operator<<(std::ostream& out, const DTypePolicy& policy);

}  // namespace lockstep::keras
