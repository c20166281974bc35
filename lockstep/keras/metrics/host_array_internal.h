// Metrics are computed on plain arrays in host memory: cheaper than operations, and no part of any tape.
#pragma once

#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::metrics {

struct HostArray {
  Shape shape;
  std::vector<float> values;

  int rank() const { return shape.rank(); }
  std::size_t size() const { return values.size(); }
  // Elements of one entry of the leading axis.
  std::size_t row_size() const {
    return shape.rank() == 0 || shape[0] == 0 ? 1 : values.size() / static_cast<std::size_t>(shape[0]);
  }
};

// Any numeric or bool tensor, as float32.
HostArray to_host(const Tensor& tensor);
Tensor to_tensor(const HostArray& array);

// Keras's rule for ranks that differ by one: a trailing axis of 1 goes, or comes to the one of rank 1.
void squeeze_or_expand(HostArray& a, HostArray& b);

// NumPy's broadcasting of `a` to a shape. Throws InvalidArgument, naming `what`, when it does not fit.
HostArray broadcast_to(const HostArray& a, const Shape& shape, const char* what);

// The mean, and the sum, over all axes from `axis` on.
HostArray mean_from(const HostArray& a, int axis);
HostArray sum_from(const HostArray& a, int axis);

// The position of the largest element of each row of the last axis; the first of equal ones.
HostArray argmax_last(const HostArray& a);
HostArray argmax_last(const Tensor& tensor);  // float32 is read where it is

// The array with `axis` moved to the end.
HostArray move_to_end(const HostArray& a, int axis);

// Whether a metric sees symbols, as in a layer's call while a functional model is built or traced: it does not count
// them.
inline bool is_symbolic(const Tensor& y_true, const Tensor& y_pred) {
  return (y_true.defined() && y_true.is_symbolic()) || (y_pred.defined() && y_pred.is_symbolic());
}

}  // namespace lockstep::metrics
