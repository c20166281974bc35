// The dtypes of a layer's computations and of its variables (keras.DTypePolicy).
#pragma once

#include <string>

#include "lockstep/base/dtype.h"
#include "lockstep/base/json.h"

namespace lockstep::keras {

// "float32" and other dtypes compute and keep variables in that type; "mixed_float16" and
// "mixed_bfloat16" keep float32 variables and compute in the 16-bit type.
class DTypePolicy {
 public:
  DTypePolicy();  // the process's default policy
  DTypePolicy(const char* name) : DTypePolicy(std::string(name)) {}
  DTypePolicy(const std::string& name);  // throws InvalidArgument for an unknown name
  // From a string, {"class_name": "DTypePolicy", "config": {"name": …}} or null (the default). Throws
  // Unimplemented for quantized policies. Messages begin with `who`.
  static DTypePolicy from_config(const Json& config, const std::string& who = {});

  const std::string& name() const { return name_; }
  DType compute_dtype() const { return compute_; }
  DType variable_dtype() const { return variable_; }
  // As Keras 3.4 and later write it.
  Json serialize() const;

  friend bool operator==(const DTypePolicy& a, const DTypePolicy& b) { return a.name_ == b.name_; }

 private:
  std::string name_;
  DType compute_ = DType::kFloat32;
  DType variable_ = DType::kFloat32;
};

// keras.config.set_dtype_policy: of layers made from now on. Initially "float32".
void set_dtype_policy(const std::string& name);

}  // namespace lockstep::keras
