#include "lockstep/ops/slices_internal.h"

#include <algorithm>

#include "lockstep/ops/functions.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/slice_gradients_internal.h"

namespace lockstep::ops {
namespace {

Tensor with_slices(at::Tensor indices, const at::Tensor& values, at::IntArrayRef shape) {
  Tensor dense = wrap(at::zeros(shape, values.options()).index_add_(0, indices, values));
  set_slices(dense, {wrap(std::move(indices)), wrap(values)});
  return dense;
}

}  // namespace

const std::shared_ptr<const IndexedSlices>& slices_of(const Tensor& gradient) {
  static const std::shared_ptr<const IndexedSlices> none;
  return gradient.defined() ? gradient.impl()->slices : none;
}

void set_slices(const Tensor& gradient, IndexedSlices slices) {
  gradient.impl()->slices = std::make_shared<IndexedSlices>(std::move(slices));
}

Tensor slicewise(const Tensor& gradient, const std::function<Tensor(const Tensor&)>& f) {
  const auto& slices = slices_of(gradient);
  if (!slices) return f(gradient);
  return with_slices(aten(slices->indices), aten(f(slices->values)), gradient.shape().dims());
}

Tensor gradient_square(const Tensor& gradient) {
  return slicewise(gradient, [](const Tensor& g) { return square(g); });
}

Tensor gradient_times(const Tensor& gradient, const Tensor& factor) {
  Tensor product = gradient * factor;
  if (const auto& slices = slices_of(gradient)) {
    const at::Tensor rows = aten(factor).index_select(0, aten(slices->indices));
    set_slices(product, {slices->indices, wrap(aten(slices->values) * rows)});
  }
  return product;
}

void join_slices(const Tensors& gradients, const Tensor& sum) {
  if (gradients.size() < 2 ||
      !std::all_of(gradients.begin(), gradients.end(), [](const Tensor& g) { return slices_of(g) != nullptr; }))
    return;
  std::vector<at::Tensor> indices, values;
  for (const Tensor& gradient : gradients) {
    indices.push_back(aten(slices_of(gradient)->indices));
    values.push_back(aten(slices_of(gradient)->values));
  }
  set_slices(sum, {wrap(at::cat(indices)), wrap(at::cat(values))});
}

}  // namespace lockstep::ops
