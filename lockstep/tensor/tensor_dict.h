// Tensors by name.
#pragma once

#include <map>
#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// results["output_0"], for (const auto& [name, tensor] : results). Access to a name that does not exist throws
// NotFound.
class TensorDict : public std::map<std::string, Tensor> {
 public:
  using map::map;
  const Tensor& at(const std::string& name) const;
  const Tensor& operator[](const std::string& name) const { return at(name); }
};

}  // namespace lockstep
