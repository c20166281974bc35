#include "lockstep/ops/function.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

void check_input_signature(const std::vector<Nested<TensorSpec>>& signature,
                           const std::vector<Nested<Tensor>>& arguments) {
  if (arguments.size() != signature.size()) {
    throw_invalid_argument(fmt::format("function: invalid call: found {} arguments, expected {} of input_signature",
                                       arguments.size(), signature.size()));
  }
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const Tensors leaves = arguments[i].flatten();
    const std::vector<TensorSpec> specs = signature[i].flatten();
    bool fits = leaves.size() == specs.size();
    for (std::size_t k = 0; fits && k < specs.size(); ++k)
      fits = leaves[k].dtype() == specs[k].dtype && leaves[k].shape().compatible_with(specs[k].shape);
    if (fits) continue;
    const auto names = [](const auto& all) {
      std::string out;
      for (const auto& each : all) {
        if constexpr (std::is_same_v<std::decay_t<decltype(each)>, Tensor>) {
          out += fmt::format("{}{} {}", out.empty() ? "" : ", ", dtype_name(each.dtype()), each.shape().to_string());
        } else {
          out += fmt::format("{}{} {}", out.empty() ? "" : ", ", dtype_name(each.dtype), each.shape.to_string());
        }
      }
      return out;
    };
    throw_invalid_argument(fmt::format("function: invalid argument {}: found {}, expected {} of input_signature", i,
                                       names(leaves), names(specs)));
  }
}

const Function::State& Function::state() const {
  if (!state_) throw_failed_precondition("Function: the call requires a function, found an empty Function");
  return *state_;
}
Nested<Tensor> Function::call(const std::vector<Nested<Tensor>>& arguments) const {
  const State& known = state();
  if (!known.input_signature.empty()) check_input_signature(known.input_signature, arguments);
  return known.call(arguments);
}
const std::vector<Nested<TensorSpec>>& Function::input_signature() const { return state().input_signature; }
void Function::throw_wrong_arguments(std::size_t expected, std::size_t found) {
  throw_invalid_argument(fmt::format("function: invalid call: found {} arguments, expected {}", found, expected));
}

}  // namespace lockstep
