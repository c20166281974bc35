// tf.autodiff.ForwardAccumulator: Jacobian-vector products.
#pragma once

#include <string_view>
#include <type_traits>

#include "lockstep/base/field_names_only.h"
#include "lockstep/distribute/gradient_tape.h"

namespace lockstep::autodiff {

using lockstep::GradientTape;

struct ForwardAccumulatorKeywords {
  FieldNamesOnly names_only = {};
  Nested<GradientSource> primals = {};
  Nested<Tensor> tangents = {};
};
struct JvpKeywords {
  FieldNamesOnly names_only = {};
  std::string_view unconnected_gradients = UnconnectedGradients::NONE;
};

// Records on the thread on which it was made, as a tape does, from construction until its destruction.
//
//   autodiff::ForwardAccumulator acc(x, direction);
//   Tensor y = model(x);
//   Tensor along = acc.jvp(y);  // d y / d x times `direction`, in the shape of y
//
// The product is computed as a gradient of a gradient, at about twice the cost of GradientTape::gradient(), so the
// operations between x and y must have gradients of second order. An outer tape cannot differentiate it.
class ForwardAccumulator {
 public:
  // A tensor or a variable, or a structure of these, and its direction: tensors of the same structure, shapes and
  // dtypes (InvalidArgument otherwise). Tensors are watched in place, as by GradientTape::watch().
  ForwardAccumulator(const Nested<GradientSource>& primals, const Nested<Tensor>& tangents);
  explicit ForwardAccumulator(const ForwardAccumulatorKeywords& keywords)
      : ForwardAccumulator(keywords.primals, keywords.tangents) {}

  // Undefined for a tensor without a connection to the primals; with unconnected_gradients = "zero" zeros.
  Tensor jvp(const Tensor& primals, const JvpKeywords& keywords = {});
  // Of each leaf of a structure.
  template <typename Structure>
  requires(std::is_convertible_v<const Structure&, Nested<Tensor>> &&
           !std::is_convertible_v<const Structure&, Tensor>) Nested<Tensor> jvp(const Structure& primals,
                                                                                const JvpKeywords& keywords = {}) {
    return Nested<Tensor>(primals).map([&](const Tensor& leaf) { return jvp(leaf, keywords); });
  }

 private:
  GradientTape outer_;  // records how gradients depend on their weights
  GradientTape tape_;
  Nested<GradientSource> primals_;
  Tensors tangents_;
};

}  // namespace lockstep::autodiff
