#include "lockstep/ops/slices_internal.h"

#include <algorithm>

#include "lockstep/ops/functions.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/slice_gradients_internal.h"

namespace lockstep::ops {

const std::shared_ptr<const RowSlices>& slices_of(const Tensor& gradient) {
  static const std::shared_ptr<const RowSlices> none;
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

Tensor with_unique_slices(const Tensor& gradient) {
  const auto& slices = slices_of(gradient);
  if (!slices) return gradient;
  const auto [rows, places, counts] = at::_unique2(aten(slices->indices), true, true);
  const at::Tensor values = aten(slices->values);
  Ints shape = values.sizes().vec();
  shape[0] = rows.size(0);
  const at::Tensor sums = at::zeros(shape, values.options()).index_add_(0, places.flatten(), values);
  return tensor_of_rows({wrap(rows), wrap(sums)}, gradient.shape());
}

Tensors exchange_rows(const Tensor& gradient, std::span<Tensor* const> tensors) {
  Tensors whole;
  for (Tensor* const tensor : tensors) {
    whole.push_back(*tensor);
    *tensor = wrap(aten(*tensor).index_select(0, aten(slices_of(gradient)->indices)));
  }
  return whole;
}

void put_rows(const Tensor& gradient, std::span<Tensor* const> tensors, const Tensors& whole) {
  const at::Tensor rows = aten(slices_of(gradient)->indices);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    *tensors[i] = wrap(aten(whole[i]).index_copy(0, rows, aten(*tensors[i])));
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
