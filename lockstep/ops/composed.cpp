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
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/linear_algebra.h"
#include "lockstep/ops/number_internal.h"
#include "lockstep/ops/number_range_internal.h"
#include "lockstep/ops/operators.h"
#include "lockstep/ops/tensor_functions.h"
#include "lockstep/tensor/array_internal.h"

namespace lockstep::ops {
namespace {

Tensor scalar_of(Number number, bool integer) {
  return integer ? cast(Tensor::scalar(number.integer()), DType::kInt32)
                 : Tensor::scalar(number.value(), DType::kFloat32);
}

Tensor scalar_of(Number number) {
  return number.is_bool() ? Tensor(number.integer() != 0) : scalar_of(number, number.is_integer());
}

NumberRange range_of(DType dtype) {
  const auto range = number_range(dtype);
  if (!range) throw_invalid_argument(fmt::format("saturate_cast: {} is not supported", dtype_name(dtype)));
  return *range;
}

}  // namespace

Tensor saturate_cast(const Tensor& value, DTypeLike dtype) {
  if (value.dtype() == dtype) return value;
  const NumberRange from = range_of(value.dtype()), to = range_of(dtype);
  const bool exact = is_floating(dtype) || !is_floating(value.dtype()) || to.bits <= from.bits;
  const double high = exact ? to.high : std::ldexp(1.0, to.bits) - std::ldexp(1.0, to.bits - from.bits);
  Tensor out = value;
  if (to.low > from.low) out = maximum(out, number_like(out, to.low));
  if (high < from.high) out = minimum(out, number_like(out, high));
  return cast(out, dtype);
}

Tensor constant(const Values& values, DTypeLike dtype) {
  return Tensor(std::initializer_list<Values>{values}, dtype)[0];
}
Tensor constant(const Values& values, const ConstantKeywords& keywords) {
  const Tensor given = constant(values, keywords.dtype);
  if (!keywords.shape.fully_known()) return given;
  return given.num_elements() == 1 ? broadcast_to(reshape(given, Shape{}), keywords.shape)
                                   : reshape(given, keywords.shape);
}
Tensor convert_to_tensor(const Tensor& value, DTypeLike dtype) {
  if (is_array(value)) return as_tensor(dtype == DType::kInvalid ? value : value.astype(dtype));
  if (dtype == DType::kInvalid || value.dtype() == dtype) return value;
  throw_invalid_argument(fmt::format("convert_to_tensor: the tensor has dtype {}, {} was requested; use ops::cast",
                                     dtype_name(value.dtype()), dtype_name(dtype)));
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, DTypeLike dtype) {
  return one_hot(range(rows, DType::kInt64), columns.value_or(rows), dtype);
}
Tensor eye(std::int64_t rows, const EyeKeywords& keywords) {
  const Tensor one = eye(rows, keywords.num_columns, keywords.dtype);
  if (keywords.batch_shape.empty()) return one;
  Ints dims = keywords.batch_shape;
  dims.insert(dims.end(), one.shape().dims().begin(), one.shape().dims().end());
  return broadcast_to(one, Shape(dims));
}
Tensor eye_of(const Tensor& rows, DType dtype) {
  if (rows.is_value()) return eye(rows.item<std::int64_t>(), std::nullopt, dtype);
  const Tensor places = range(rows);
  return cast(equal(expand_dims(places, 1), places), dtype);
}
Tensor eye(const Tensor& rows, const Tensor& columns, DTypeLike dtype) {
  return cast(equal(expand_dims(range(rows), 1), range(columns)), dtype);
}
Tensor cast(const Tensor& x, std::string_view dtype) { return cast(x, DType(DTypeLike(dtype))); }
Tensor cast(Number x, DTypeLike dtype) { return cast(scalar_of(x, x.is_integer()), dtype); }
Tensor fill(const ShapeArg& shape, Number value) { return fill(shape, scalar_of(value)); }
Tensor range(Number start, Number limit, Number delta) {
  const bool integer = start.is_integer() && limit.is_integer() && delta.is_integer();
  return range(scalar_of(start, integer), scalar_of(limit, integer), scalar_of(delta, integer));
}
Tensor range(const Tensor& limit) { return range(zeros_like(limit), limit, ones_like(limit)); }
Tensor range(const Tensor& start, const Tensor& limit) { return range(start, limit, ones_like(start)); }
Tensor range(Number start, const Tensor& limit) { return range(number_like(limit, start), limit); }
Tensor range(Number start, const Tensor& limit, Number delta) {
  return range(number_like(limit, start), limit, number_like(limit, delta));
}
Tensor roll_by(const Tensor& x, const Tensor& shift, const Ints& axis) {
  const bool one = shift.rank() == 0;
  return call1("Roll", {x, shift, one ? Tensor::scalar(static_cast<std::int32_t>(axis.at(0))) : constant_ints(axis)});
}
Tensor linspace(double start, double stop, std::int64_t num) {
  return linspace(constant(start, DType::kFloat32), constant(stop, DType::kFloat32), num);
}

Tensor one_hot(std::int64_t index, std::int64_t depth, DTypeLike dtype) {
  return one_hot(Tensor::scalar(index), depth, dtype);
}
Tensor one_hot(const Tensor& indices, std::int64_t depth, const OneHotKeywords& keywords) {
  if (depth < 0) throw_invalid_argument(fmt::format("one_hot: invalid depth: found {}, expected 0 or more", depth));
  return call1("OneHot",
               {indices, Tensor::scalar(static_cast<std::int32_t>(depth)), constant(keywords.on_value, keywords.dtype),
                constant(keywords.off_value, keywords.dtype)},
               {{"axis", static_cast<std::int64_t>(keywords.axis)}});
}
Tensor range(const RangeKeywords& keywords) {
  const Tensor& limit = keywords.limit.tensor();
  if (!keywords.limit.number() && !limit.defined()) throw_invalid_argument("range requires limit");
  const Tensor numbers = limit.defined() ? range(keywords.start, limit, keywords.delta)
                                         : range(keywords.start, *keywords.limit.number(), keywords.delta);
  return keywords.dtype ? cast(numbers, *keywords.dtype) : numbers;
}
Tensor linspace(const LinspaceKeywords& keywords) {
  const auto tensor = [](const RangeLimit& end) {
    if (!end.number() && !end.tensor().defined()) throw_invalid_argument("linspace requires start and stop");
    return end.number() ? cast(*end.number(), DType::kFloat32) : end.tensor();
  };
  return linspace(tensor(keywords.start), tensor(keywords.stop), keywords.num);
}
std::int64_t count_of_segments(const Extent& num_segments) {
  const Tensor& count = num_segments.tensor();
  return count.defined() ? count.item<std::int64_t>() : num_segments.known();
}
Unpacked meshgrid(const Tensor& x, const Tensor& y, std::string_view indexing) {
  if (indexing != "xy" && indexing != "ij")
    throw_invalid_argument(fmt::format("meshgrid: invalid indexing: found '{}', expected \"xy\" or \"ij\"", indexing));
  if (x.rank() != 1 || y.rank() != 1) {
    throw_invalid_argument(fmt::format("meshgrid: found shapes {} and {}, expected vectors", x.shape().to_string(),
                                       y.shape().to_string()));
  }
  if (indexing == "ij")
    return Tensors{tile(expand_dims(x, 1), Ints{1, y.dim(0)}), tile(expand_dims(y, 0), Ints{x.dim(0), 1})};
  return Tensors{tile(expand_dims(x, 0), Ints{y.dim(0), 1}), tile(expand_dims(y, 1), Ints{1, x.dim(0)})};
}
Tensor sequence_mask(const Tensor& lengths, std::optional<std::int64_t> maxlen, DTypeLike dtype) {
  const Tensor limit = maxlen ? cast(Tensor::scalar(*maxlen), lengths.dtype())
                              : maximum(reduce_max(lengths), zeros_like(reduce_max(lengths)));
  const Tensor places =
      range(cast(Tensor::scalar(0), lengths.dtype()), limit, cast(Tensor::scalar(1), lengths.dtype()));
  return cast(less(places, expand_dims(lengths, -1)), dtype);
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

Tensor where(const Tensor& condition, Number yes, Number no) {
  if (yes.is_bool() && no.is_bool()) return where(condition, scalar_of(yes), scalar_of(no));
  const bool integer = yes.is_integer() && no.is_integer();
  return where(condition, scalar_of(yes, integer), scalar_of(no, integer));
}

Tensor reduce_variance(const Tensor& x, const AxisKeywords& how) {
  return reduce_mean(square(x - reduce_mean(x, how.axis, true)), how);
}
Tensor reduce_std(const Tensor& x, const AxisKeywords& how) { return sqrt(reduce_variance(x, how)); }
Tensor reduce_euclidean_norm(const Tensor& x, const AxisKeywords& how) { return sqrt(reduce_sum(square(x), how)); }
Tensor count_nonzero(const Tensor& x, const AxisKeywords& how) {
  return reduce_sum(cast(not_equal(x, zeros_like(x)), DType::kInt64), how);
}
NormOrder::NormOrder(std::string_view name) {
  if (name != "euclidean" && name != "fro") {
    throw_invalid_argument(fmt::format("norm: invalid ord: '{}'; expected euclidean, fro or a positive number", name));
  }
}

namespace {

// Of the matrices on two axes.
Tensor matrix_norm(const Tensor& x, double ord, const Ints& axes, bool keepdims) {
  const int rank = x.rank();
  const auto place = [&](std::size_t i) { return axes[i] < 0 ? axes[i] + rank : axes[i]; };
  const std::int64_t rows = place(0), columns = place(1);
  x.dim(static_cast<int>(rows)), x.dim(static_cast<int>(columns));
  Tensor norms;
  if (ord == 1) {
    norms = reduce_max(reduce_sum(abs(x), {rows}, true), {columns}, true);
  } else if (ord == std::numeric_limits<double>::infinity()) {
    norms = reduce_max(reduce_sum(abs(x), {columns}, true), {rows}, true);
  } else if (ord == 2) {
    Ints order;
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      if (axis != rows && axis != columns) order.push_back(axis);
    }
    order.insert(order.end(), {rows, columns});
    norms = reduce_max(svdvals(transpose(x, order)), -1);
    for (const std::int64_t axis : {std::min(rows, columns), std::max(rows, columns)})
      norms = expand_dims(norms, static_cast<int>(axis));
  } else {
    throw_invalid_argument(
        fmt::format("norm: invalid ord: {}; a norm of matrices requires 1, 2, infinity, fro or euclidean", ord));
  }
  return keepdims ? norms : squeeze(norms, {rows, columns});
}

}  // namespace

Tensor norm(const Tensor& x, const NormOrder& order, const Axes& axes, bool keepdims) {
  if (!order.number()) return reduce_euclidean_norm(x, axes, keepdims);
  const double ord = *order.number();
  if (axes && axes->size() == 2) return matrix_norm(x, ord, *axes, keepdims);
  if (axes && axes->size() > 2) throw_invalid_argument("norm: ord requires one axis, or two of matrices");
  if (ord == 2) return reduce_euclidean_norm(x, axes, keepdims);
  if (ord == 1) return reduce_sum(abs(x), axes, keepdims);
  if (ord == std::numeric_limits<double>::infinity()) return reduce_max(abs(x), axes, keepdims);
  if (!(ord > 0)) throw_invalid_argument(fmt::format("norm: invalid ord: {}; expected a positive number", ord));
  return pow(reduce_sum(pow(abs(x), ord), axes, keepdims), 1 / ord);
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

Tensor repeat(const Tensor& x, std::int64_t repeats, std::optional<int> axis) {
  if (!axis) return repeat(reshape(x, {-1}), repeats, 0);
  const Tensor data = x.rank() == 0 ? expand_dims(x, 0) : x;
  const int at = *axis < 0 ? *axis + data.rank() : *axis;
  data.dim(at);
  Ints multiples(static_cast<std::size_t>(data.rank()) + 1, 1);
  multiples[static_cast<std::size_t>(at) + 1] = repeats;
  std::vector<Extent> extents;
  for (int i = 0; i < data.rank(); ++i) {
    const bool known = data.dim(i) != kUnknownDim;
    const std::int64_t factor = i == at ? repeats : 1;
    extents.push_back(known ? Extent(data.dim(i) * factor)
                            : Extent(dim_of(data, i) * Number(static_cast<std::int32_t>(factor))));
  }
  return reshape(tile(expand_dims(data, at + 1), multiples), ShapeArg(extents));
}
Tensor repeat(const Tensor& x, const RepeatKeywords& keywords) {
  const Ints& repeats = keywords.repeats;
  const std::optional<int> axis = keywords.axis;
  if (repeats.size() == 1) return repeat(x, repeats[0], axis);
  if (!axis) return repeat(reshape(x, {-1}), repeats, 0);
  if (x.dim(*axis) != static_cast<std::int64_t>(repeats.size())) {
    throw_invalid_argument(
        fmt::format("repeat: found {} repeats, expected one or {}, the extent of axis {} of shape {}", repeats.size(),
                    x.dim(*axis), *axis, x.shape().to_string()));
  }
  Ints places;
  for (std::size_t i = 0; i < repeats.size(); ++i)
    places.insert(places.end(), static_cast<std::size_t>(std::max<std::int64_t>(repeats[i], 0)),
                  static_cast<std::int64_t>(i));
  return gather(x, constant_ints(places), *axis);
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

Tensor unsorted_segment_max(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments) {
  return call1("UnsortedSegmentMax", {data, segment_ids, Tensor::scalar(num_segments)});
}
Tensor unsorted_segment_min(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments) {
  return call1("UnsortedSegmentMin", {data, segment_ids, Tensor::scalar(num_segments)});
}
Tensor unsorted_segment_prod(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments) {
  return call1("UnsortedSegmentProd", {data, segment_ids, Tensor::scalar(num_segments)});
}

namespace {

// How many rows each segment has, at least 1, with axes of 1 behind.
Tensor segment_counts(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments) {
  const Tensor rows = cast(ones_like(segment_ids), data.dtype());
  Tensor counts = maximum(unsorted_segment_sum(rows, segment_ids, num_segments), 1.0);
  for (int axis = 1; axis <= data.rank() - segment_ids.rank(); ++axis) counts = expand_dims(counts, -1);
  return counts;
}

}  // namespace

Tensor unsorted_segment_mean(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments) {
  return unsorted_segment_sum(data, segment_ids, num_segments) / segment_counts(data, segment_ids, num_segments);
}
Tensor unsorted_segment_sqrt_n(const Tensor& data, const Tensor& segment_ids, std::int64_t num_segments) {
  return unsorted_segment_sum(data, segment_ids, num_segments) / sqrt(segment_counts(data, segment_ids, num_segments));
}
Tensor segment_sum(const Tensor& data, const Tensor& segment_ids) { return call1("SegmentSum", {data, segment_ids}); }
Tensor segment_mean(const Tensor& data, const Tensor& segment_ids) { return call1("SegmentMean", {data, segment_ids}); }
Tensor segment_max(const Tensor& data, const Tensor& segment_ids) { return call1("SegmentMax", {data, segment_ids}); }
Tensor segment_prod(const Tensor& data, const Tensor& segment_ids) { return call1("SegmentProd", {data, segment_ids}); }
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

UniqueWithCounts unique_with_counts(const Tensor& x) {
  const Tensors out = call("UniqueWithCounts", {x});
  return {out[0], out[1], out[2]};
}
Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, std::string_view side) {
  if (side != "left" && side != "right")
    throw_invalid_argument(fmt::format("searchsorted: invalid side: found '{}', expected \"left\" or \"right\"", side));
  const auto rows = [](const Tensor& x) { return reshape(x, Ints{-1, x.dim(-1)}); };
  const char* const op = side == "left" ? "LowerBound" : "UpperBound";
  return reshape(call1(op, {rows(sorted_sequence), rows(values)}), shape_of(values));
}
Tensor invert_permutation(const Tensor& x) { return call1("InvertPermutation", {x}); }

Tensor bincount(const Tensor& x) {
  return cast(bincount(x, x.num_elements() == 0 ? 0 : reduce_max(x).item<std::int64_t>() + 1), DType::kInt32);
}
Tensor confusion_matrix(const Tensor& labels, const Tensor& predictions, std::optional<std::int64_t> num_classes) {
  return confusion_matrix({.labels = labels, .predictions = predictions, .num_classes = num_classes});
}
Tensor histogram_fixed_width(const Tensor& values, const Tensor& value_range, std::int64_t nbins) {
  return call1("HistogramFixedWidth", {values, value_range, Tensor::scalar(static_cast<std::int32_t>(nbins))});
}

Tensor clip_by_value(const Tensor& x, const ClipKeywords& keywords) {
  if (!keywords.clip_value_min.defined() || !keywords.clip_value_max.defined()) {
    throw_invalid_argument("clip_by_value requires clip_value_min and clip_value_max");
  }
  const auto fitting = [&x](const Tensor& bound) {
    const bool cast_it = bound.is_number() || (is_floating(x.dtype()) && is_integer(bound.dtype()));
    return cast_it ? cast(bound, x.dtype()) : bound;
  };
  return clip_by_value(x, fitting(keywords.clip_value_min), fitting(keywords.clip_value_max));
}

Tensor tensordot(const Tensor& a, const Tensor& b, const TensordotKeywords& keywords) {
  const std::vector<IntOrInts>& axes = keywords.axes;
  if (axes.size() == 1 && axes[0].is_one()) return tensordot(a, b, static_cast<int>(axes[0][0]));
  if (axes.size() != 2) {
    throw_invalid_argument(fmt::format(
        "tensordot: invalid axes: found {} entries, expected one number, or axes of a and of b", axes.size()));
  }
  return tensordot(a, b, std::pair<Ints, Ints>(axes[0], axes[1]));
}
Unpacked dynamic_partition(const Tensor& data, const Tensor& partitions, std::int64_t num_partitions) {
  return call("DynamicPartition", {data, partitions}, {{"num_partitions", num_partitions}});
}
Tensor dynamic_stitch(const Tensors& indices, const Tensors& data) {
  Tensors inputs = indices;
  inputs.insert(inputs.end(), data.begin(), data.end());
  return call1("DynamicStitch", inputs, {{"N", static_cast<std::int64_t>(indices.size())}});
}
Tensor strided_slice(const Tensor& x, const Ints& begin, const Ints& end, const Ints& strides) {
  if (begin.size() != end.size() || (!strides.empty() && strides.size() != begin.size())) {
    throw_invalid_argument(fmt::format("strided_slice: found {} begins, {} ends and {} strides", begin.size(),
                                       end.size(), strides.size()));
  }
  std::vector<SliceSpec> index;
  for (std::size_t i = 0; i < begin.size(); ++i)
    index.push_back(SliceSpec::range(begin[i], end[i], strides.empty() ? 1 : strides[i]));
  return strided_slice(x, index);
}
Tensor ensure_shape(const Tensor& x, const Shape& shape) { return call1("EnsureShape", {x}, {{"shape", shape}}); }

}  // namespace lockstep::ops
