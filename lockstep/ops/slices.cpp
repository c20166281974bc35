#include "lockstep/ops/slices_internal.h"

#include <algorithm>

#include "lockstep/ops/functions.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/slice_gradients_internal.h"

namespace lockstep::ops {

const std::shared_ptr<const IndexedSlices>& slices_of(const Tensor& gradient) {
  static const std::shared_ptr<const IndexedSlices> none;
  return gradient.defined() ? gradient.impl()->slices : none;
}

Tensor slicewise(const Tensor& gradient, const std::function<Tensor(const Tensor&)>& f) {
  const auto& slices = slices_of(gradient);
  if (!slices) return f(gradient);
  return tensor_of_rows({slices->indices, f(slices->values)}, gradient.shape());
}

Tensor gradient_square(const Tensor& gradient) {
  return slicewise(gradient, [](const Tensor& g) { return square(g); });
}

Tensor gradient_times(const Tensor& gradient, const Tensor& factor) {
  const auto& slices = slices_of(gradient);
  if (!slices) return gradient * factor;
  const at::Tensor rows = aten(factor).index_select(0, aten(slices->indices));
  return tensor_of_rows({slices->indices, wrap(aten(slices->values) * rows)}, gradient.shape());
}

Tensor sum_of_slices(const Tensors& gradients) {
  std::vector<at::Tensor> indices, values;
  for (const Tensor& gradient : gradients) {
    const auto& slices = slices_of(gradient);
    if (!slices) return {};
    indices.push_back(aten(slices->indices));
    values.push_back(aten(slices->values));
  }
  if (gradients.size() == 1) return gradients[0];
  return tensor_of_rows({wrap(at::cat(indices)), wrap(at::cat(values))}, gradients[0].shape());
}

}  // namespace lockstep::ops
