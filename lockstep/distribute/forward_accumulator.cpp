#include "lockstep/distribute/forward_accumulator.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/composed.h"

namespace lockstep::autodiff {

ForwardAccumulator::ForwardAccumulator(const Nested<GradientSource>& primals, const Nested<Tensor>& tangents)
    : outer_({.persistent = true, .watch_accessed_variables = false}),
      tape_({.persistent = true, .watch_accessed_variables = false}),
      primals_(primals),
      tangents_(tangents.flatten()) {
  const auto sources = primals_.flatten();
  if (sources.size() != tangents_.size())
    throw_invalid_argument(
        fmt::format("ForwardAccumulator: {} primals but {} tangents", sources.size(), tangents_.size()));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const bool is_variable = static_cast<bool>(sources[i].variable());
    const Tensor value = is_variable ? sources[i].variable().value() : sources[i].tensor();
    if (value.shape() != tangents_[i].shape() || value.dtype() != tangents_[i].dtype())
      throw_invalid_argument(fmt::format("ForwardAccumulator: tangent {} is {} {}, the primal {} {}", i,
                                         dtype_name(tangents_[i].dtype()), tangents_[i].shape().to_string(),
                                         dtype_name(value.dtype()), value.shape().to_string()));
    if (is_variable) {
      tape_.watch(sources[i].variable());
    } else {
      tape_.watch(sources[i].tensor());
    }
  }
}

// The gradient of y with weights w is J^T w. Its gradient with respect to w, with the tangents as weights, is J t.
Tensor ForwardAccumulator::jvp(const Tensor& primals, const JvpKeywords& keywords) {
  const Tensor weights = ops::ones_like(primals);
  outer_.watch(weights);
  const Tensors gradients = tape_.gradient(primals, primals_, weights).flatten();
  Tensor sum;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const Tensor part = outer_.gradient(gradients[i], weights, tangents_[i]);
    if (part.defined()) sum = sum.defined() ? sum + part : part;
  }
  if (!sum.defined() && keywords.unconnected_gradients == UnconnectedGradients::ZERO) return ops::zeros_like(primals);
  return sum;
}

}  // namespace lockstep::autodiff
