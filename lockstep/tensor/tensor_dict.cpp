#include "lockstep/tensor/tensor_dict.h"

#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

const Tensor& TensorDict::at(const std::string& name) const {
  const auto found = find(name);
  if (found != end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : *this) names.push_back(known);
  throw_not_found(fmt::format("there is no tensor '{}'; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace lockstep
