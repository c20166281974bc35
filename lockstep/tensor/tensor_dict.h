// Tensors by name.
#pragma once

#include <map>
#include <string>

#include "lockstep/base/list.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// results["output_0"], for (const auto& [name, tensor] : results). Access to a name that does not exist throws
// NotFound.
class TensorDict : public std::map<std::string, Tensor> {
 public:
  using map::map;
  const Tensor& at(const std::string& name) const;
  const Tensor& operator[](const std::string& name) const { return at(name); }
  List<std::string> keys() const {
    List<std::string> names;
    for (const auto& [name, tensor] : *this) names.push_back(name);
    return names;
  }
  List<Tensor> values() const {
    List<Tensor> all;
    for (const auto& [name, tensor] : *this) all.push_back(tensor);
    return all;
  }
  const TensorDict& items() const { return *this; }
};

}  // namespace lockstep
