#include "lockstep/keras/layers/bias_add_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

Tensor add_as_keras(const Tensor& x, const Tensor& y) {
  std::int64_t extent = 1;
  for (int axis = 0; axis < y.rank(); ++axis) {
    if (y.dim(axis) == 1) continue;
    if (extent != 1 || y.dim(axis) == kUnknownDim) return x + y;
    extent = y.dim(axis);
  }
  if (extent <= 1 || x.rank() < 2) return x + y;
  if (x.dim(-1) == extent) return x + ops::reshape(y, ops::Ints{extent});
  if (x.dim(1) != extent) return x + y;
  ops::Ints shape(static_cast<std::size_t>(x.rank()) - 1, 1);
  shape[0] = extent;
  return x + ops::reshape(y, shape);
}

Tensor BiasAdder::biased(const Tensor& y, const Tensor& bias) const {
  return by_axis_ ? y + bias : add_as_keras(y, bias);
}

}  // namespace lockstep::keras
