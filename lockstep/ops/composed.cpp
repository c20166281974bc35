#include "lockstep/ops/composed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/number_internal.h"
#include "lockstep/ops/operators.h"

namespace lockstep::ops {
namespace {

Tensor scalar_of(Number number, bool integer) {
  return integer ? cast(Tensor::scalar(number.integer()), DType::kInt32)
                 : Tensor::scalar(number.value(), DType::kFloat32);
}

}  // namespace

Tensor constant(const Values& values, DType dtype) { return Tensor(std::initializer_list<Values>{values}, dtype)[0]; }
Tensor convert_to_tensor(const Tensor& value, DType dtype) {
  if (dtype == DType::kInvalid || value.dtype() == dtype) return value;
  throw_invalid_argument(fmt::format("convert_to_tensor: the tensor has dtype {}, {} was asked for; use ops::cast",
                                     dtype_name(value.dtype()), dtype_name(dtype)));
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, DType dtype) {
  return one_hot(range(rows, DType::kInt64), columns.value_or(rows), dtype);
}
Tensor cast(const Tensor& x, std::string_view dtype) {
  if (const auto known = parse_dtype(dtype)) return cast(x, *known);
  throw_invalid_argument(fmt::format("cast: unknown dtype '{}'", dtype));
}
Tensor cast(Number x, DType dtype) { return cast(scalar_of(x, x.is_integer()), dtype); }
Tensor fill(const ShapeArg& shape, Number value) { return fill(shape, scalar_of(value, value.is_integer())); }
Tensor range(Number start, Number limit, Number delta) {
  const bool integer = start.is_integer() && limit.is_integer() && delta.is_integer();
  return range(scalar_of(start, integer), scalar_of(limit, integer), scalar_of(delta, integer));
}
Tensor linspace(double start, double stop, std::int64_t num) {
  return linspace(constant(start, DType::kFloat32), constant(stop, DType::kFloat32), num);
}

Tensor floor_div(const Tensor& a, Number b) { return floor_div(a, number_like(a, b)); }
Tensor floor_mod(const Tensor& a, Number b) { return floor_mod(a, number_like(a, b)); }
Tensor pow(Number a, const Tensor& b) { return pow(number_like(b, a), b); }
Tensor maximum(Number a, const Tensor& b) { return maximum(number_like(b, a), b); }
Tensor minimum(Number a, const Tensor& b) { return minimum(number_like(b, a), b); }
Tensor where(const Tensor& condition, const Tensor& yes, Number no) {
  return where(condition, yes, number_like(yes, no));
}
Tensor where(const Tensor& condition, Number yes, const Tensor& no) {
  return where(condition, number_like(no, yes), no);
}

Tensor reduce_variance(const Tensor& x, const Axes& axes, bool keepdims) {
  return reduce_mean(square(x - reduce_mean(x, axes, true)), axes, keepdims);
}
Tensor reduce_std(const Tensor& x, const Axes& axes, bool keepdims) { return sqrt(reduce_variance(x, axes, keepdims)); }
Tensor reduce_euclidean_norm(const Tensor& x, const Axes& axes, bool keepdims) {
  return sqrt(reduce_sum(square(x), axes, keepdims));
}
Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keepdims) {
  return reduce_sum(cast(not_equal(x, zeros_like(x)), DType::kInt64), axes, keepdims);
}
Tensor norm(const Tensor& x, std::optional<double> ord, const Axes& axes, bool keepdims) {
  if (!ord) return reduce_euclidean_norm(x, axes, keepdims);
  if (axes && axes->size() > 1) throw_invalid_argument("norm: ord requires one axis; norms of matrices have no kernel");
  if (*ord == 2) return reduce_euclidean_norm(x, axes, keepdims);
  if (*ord == 1) return reduce_sum(abs(x), axes, keepdims);
  if (*ord == std::numeric_limits<double>::infinity()) return reduce_max(abs(x), axes, keepdims);
  if (!(*ord > 0)) throw_invalid_argument(fmt::format("norm: invalid ord: {}; expected a positive number", *ord));
  return pow(reduce_sum(pow(abs(x), *ord), axes, keepdims), 1 / *ord);
}

Tensor tensordot(const Tensor& a, const Tensor& b, int axes) {
  const Shape &left = a.shape(), &right = b.shape();
  if (axes < 0 || axes > left.rank() || axes > right.rank()) {
    throw_invalid_argument(fmt::format("tensordot: invalid axes: {}; shapes {} and {} have no such number of axes",
                                       axes, left.to_string(), right.to_string()));
  }
  Ints dims;
  std::int64_t summed = 1;
  for (int i = 0; i < left.rank() - axes; ++i) dims.push_back(left[i]);
  for (int i = axes; i < right.rank(); ++i) dims.push_back(right[i]);
  for (int i = 0; i < axes; ++i) {
    if (left[left.rank() - axes + i] != right[i]) {
      throw_invalid_argument(fmt::format("tensordot: the last {} axes of shape {} are not the first of {}", axes,
                                         left.to_string(), right.to_string()));
    }
    summed *= right[i];
  }
  return reshape(matmul(reshape(a, Ints{-1, summed}), reshape(b, Ints{summed, -1})), dims);
}
Tensor trace(const Tensor& x) {
  const std::int64_t rows = x.dim(-2), columns = x.dim(-1);
  return reduce_sum(x * eye(rows, columns, x.dtype()), {-2, -1});
}

Tensor boolean_mask(const Tensor& x, const Tensor& mask) {
  const int rank = mask.rank();
  if (rank == 0) throw_invalid_argument("boolean_mask: the mask is a scalar; expected at least one axis");
  Ints dims = {-1};
  for (int i = 0; i < x.rank(); ++i) {
    if (i >= rank) {
      dims.push_back(x.dim(i));
    } else if (x.dim(i) != mask.dim(i)) {
      throw_invalid_argument(fmt::format("boolean_mask: the mask of shape {} does not fit the tensor of shape {}",
                                         mask.shape().to_string(), x.shape().to_string()));
    }
  }
  if (rank > x.rank()) {
    throw_invalid_argument(fmt::format("boolean_mask: the mask of shape {} has more axes than the tensor of shape {}",
                                       mask.shape().to_string(), x.shape().to_string()));
  }
  return gather(reshape(x, dims), squeeze(where(reshape(mask, Ints{-1})), {1}));
}

#define LOCKSTEP_SCATTER(function, op)                                             \
  Tensor function(const Tensor& x, const Tensor& indices, const Tensor& updates) { \
    return call1(op, {x, indices, updates});                                       \
  }
LOCKSTEP_SCATTER(tensor_scatter_nd_update, "TensorScatterUpdate")
LOCKSTEP_SCATTER(tensor_scatter_nd_add, "TensorScatterAdd")
LOCKSTEP_SCATTER(tensor_scatter_nd_sub, "TensorScatterSub")
LOCKSTEP_SCATTER(tensor_scatter_nd_max, "TensorScatterMax")
LOCKSTEP_SCATTER(tensor_scatter_nd_min, "TensorScatterMin")
#undef LOCKSTEP_SCATTER

Tensor tensordot(const Tensor& a, const Tensor& b, const std::pair<Ints, Ints>& axes) {
  // Both in an order in which the axes of the sum are the last of a and the first of b.
  const auto split = [](const Tensor& x, const Ints& summed) {
    std::pair<Ints, Ints> out;  // kept, summed
    for (const std::int64_t axis : summed) {
      if (axis < -x.rank() || axis >= x.rank())
        throw_invalid_argument(fmt::format("tensordot: invalid axis {} of a tensor of rank {}", axis, x.rank()));
      out.second.push_back(axis < 0 ? axis + x.rank() : axis);
    }
    for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
      if (std::find(out.second.begin(), out.second.end(), axis) == out.second.end()) out.first.push_back(axis);
    }
    return out;
  };
  if (axes.first.size() != axes.second.size()) {
    throw_invalid_argument(fmt::format("tensordot: found {} axes of a and {} of b, expected as many of each",
                                       axes.first.size(), axes.second.size()));
  }
  auto [kept_a, summed_a] = split(a, axes.first);
  auto [kept_b, summed_b] = split(b, axes.second);
  const int count = static_cast<int>(summed_a.size());
  kept_a.insert(kept_a.end(), summed_a.begin(), summed_a.end());
  summed_b.insert(summed_b.end(), kept_b.begin(), kept_b.end());
  return tensordot(transpose(a, kept_a), transpose(b, summed_b), count);
}

Tensor solve(const Tensor& matrix, const Tensor& rhs) { return call1("MatrixSolve", {matrix, rhs}); }
Tensor inv(const Tensor& x) { return call1("MatrixInverse", {x}); }
Tensor det(const Tensor& x) { return call1("MatrixDeterminant", {x}); }
Tensor cholesky(const Tensor& x) { return call1("Cholesky", {x}); }

Tensor segment_sum(const Tensor& data, const Tensor& segment_ids) { return call1("SegmentSum", {data, segment_ids}); }
Tensor segment_mean(const Tensor& data, const Tensor& segment_ids) { return call1("SegmentMean", {data, segment_ids}); }
Tensor segment_max(const Tensor& data, const Tensor& segment_ids) { return call1("SegmentMax", {data, segment_ids}); }
Tensor segment_min(const Tensor& data, const Tensor& segment_ids) { return call1("SegmentMin", {data, segment_ids}); }

namespace {
bool descends(const SortOptions& options) {
  if (options.direction != "ASCENDING" && options.direction != "DESCENDING") {
    throw_invalid_argument(
        fmt::format("invalid direction: found '{}', expected \"ASCENDING\" or \"DESCENDING\"", options.direction));
  }
  return options.direction == "DESCENDING";
}
}  // namespace

Tensor sort(const Tensor& x, const SortOptions& options) { return sort(x, options.axis, descends(options)); }
Tensor argsort(const Tensor& x, const SortOptions& options) { return argsort(x, options.axis, descends(options)); }
Unique unique(const Tensor& x) {
  const Tensors out = call("Unique", {x});
  return {out[0], out[1]};
}

}  // namespace lockstep::ops
