#include "lockstep/ops/sparse_tensor.h"

#include <ostream>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"

namespace lockstep {

Tensor values_at(const Tensor& dense, const SparseTensor& sparse) {
  if (dense.rank() == 0) return dense;
  return ops::gather_nd(ops::broadcast_to(dense, sparse.shape()), sparse.indices());
}

SparseTensor::SparseTensor(const Parts& parts)
    : indices_(ops::cast(parts.indices, DType::kInt64)),
      values_(parts.values),
      dense_shape_(ops::cast(parts.dense_shape, DType::kInt64)) {
  const Shape &places = indices_.shape(), &values = values_.shape(), &shape = dense_shape_.shape();
  if (places.rank() == 2 && values.rank() == 1 && shape.rank() == 1 && places[0] == values[0] && places[1] == shape[0])
    return;
  throw_invalid_argument(
      fmt::format("SparseTensor: found indices of shape {}, values of shape {}, dense_shape of shape {}; expected (n, "
                  "rank), (n,) and (rank,)",
                  places.to_string(), values.to_string(), shape.to_string()));
}
SparseTensor::SparseTensor(const Nested<Tensor>& parts)
    : SparseTensor(parts.at("indices").leaf(), parts.at("values").leaf(), parts.at("dense_shape").leaf()) {}
Shape SparseTensor::shape() const { return Shape(dense_shape_.to_vector<std::int64_t>()); }
std::ostream& operator<<(std::ostream& out, const SparseTensor& sparse) {
  return out << "SparseTensor(indices=" << sparse.indices() << ", values=" << sparse.values()
             << ", dense_shape=" << sparse.dense_shape() << ")";
}

namespace sparse {

Tensor to_dense(const SparseTensor& sp_input, const ToDenseKeywords& keywords) {
  const Tensor& default_value = keywords.default_value;
  Tensor other = default_value;
  if (!other.defined()) {
    other = sp_input.dtype() == DType::kString ? Tensor::strings({""}, {}) : Tensor::scalar(0.0, sp_input.dtype());
  }
  return ops::call1("SparseToDense", {sp_input.indices(), sp_input.dense_shape(), sp_input.values(),
                                      sp_input.dtype() == DType::kString ? other : ops::cast(other, sp_input.dtype())});
}
SparseTensor from_dense(const Tensor& tensor) {
  const Tensor set = tensor.dtype() == DType::kString ? ops::not_equal(tensor, Tensor::strings({""}, {}))
                                                      : ops::not_equal(tensor, ops::zeros_like(tensor));
  const Tensor places = ops::call1("Where", {set});
  return {places, ops::gather_nd(tensor, places), ops::cast(ops::shape(tensor), DType::kInt64)};
}
SparseTensor reorder(const SparseTensor& sp_input) {
  const Tensors sorted = ops::call("SparseReorder", {sp_input.indices(), sp_input.values(), sp_input.dense_shape()});
  return {sorted[0], sorted[1], sp_input.dense_shape()};
}
SparseTensor add(const SparseTensor& a, const SparseTensor& b) {
  const Tensors sum = ops::call("SparseAdd", {a.indices(), a.values(), a.dense_shape(), b.indices(), b.values(),
                                              b.dense_shape(), Tensor::scalar(0.0, a.dtype())});
  return {sum[0], sum[1], sum[2]};
}
Tensor add(const SparseTensor& a, const Tensor& b) { return to_dense(a) + b; }
SparseTensor reshape(const SparseTensor& sp_input, const ShapeArg& shape) {
  const Tensors made = ops::call("SparseReshape", {sp_input.indices(), sp_input.dense_shape(),
                                                   ops::constant_ints(shape.shape().dims(), DType::kInt64)});
  return {made[0], sp_input.values(), made[1]};
}
SparseTensor concat(int axis, const std::vector<SparseTensor>& sp_inputs) {
  if (sp_inputs.size() == 1) return sp_inputs[0];
  Tensors inputs;
  for (const SparseTensor& each : sp_inputs) inputs.push_back(each.indices());
  for (const SparseTensor& each : sp_inputs) inputs.push_back(each.values());
  for (const SparseTensor& each : sp_inputs) inputs.push_back(each.dense_shape());
  const Tensors made = ops::call(
      "SparseConcat", inputs, {{"concat_dim", std::int64_t{axis}}, {"N", static_cast<std::int64_t>(sp_inputs.size())}});
  return {made[0], made[1], made[2]};
}
SparseTensor slice(const SparseTensor& sp_input, const ops::Ints& start, const ops::Ints& size) {
  const Tensors made =
      ops::call("SparseSlice", {sp_input.indices(), sp_input.values(), sp_input.dense_shape(),
                                ops::constant_ints(start, DType::kInt64), ops::constant_ints(size, DType::kInt64)});
  return {made[0], made[1], made[2]};
}
std::vector<SparseTensor> split(const SparseTensor& sp_input, std::int64_t num_split, int axis) {
  const std::int64_t place = axis < 0 ? axis + sp_input.shape().rank() : axis;
  const Tensors made =
      ops::call("SparseSplit", {Tensor::scalar(place), sp_input.indices(), sp_input.values(), sp_input.dense_shape()},
                {{"num_split", num_split}});
  const auto count = static_cast<std::size_t>(num_split);
  std::vector<SparseTensor> parts;
  for (std::size_t i = 0; i < count; ++i) parts.emplace_back(made[i], made[count + i], made[2 * count + i]);
  return parts;
}
SparseTensor transpose(const SparseTensor& sp_input, const TransposeKeywords& keywords) {
  ops::Ints axes = keywords.perm;
  if (axes.empty()) {
    for (int axis = sp_input.shape().rank(); axis-- > 0;) axes.push_back(axis);
  }
  const Tensor order = ops::constant_ints(axes, DType::kInt64);
  return reorder(
      {ops::gather(sp_input.indices(), order, 1), sp_input.values(), ops::gather(sp_input.dense_shape(), order, 0)});
}
SparseTensor expand_dims(const SparseTensor& sp_input, int axis) {
  std::vector<std::int64_t> dims = sp_input.shape().dims();
  const int rank = static_cast<int>(dims.size()), place = axis < 0 ? axis + rank + 1 : axis;
  if (place < 0 || place > rank) {
    throw_invalid_argument(fmt::format("sparse.expand_dims: axis is {}, expected {} to {}", axis, -rank - 1, rank));
  }
  dims.insert(dims.begin() + place, 1);
  return reshape(sp_input, Shape(dims));
}
SparseTensor retain(const SparseTensor& sp_input, const Tensor& to_retain) {
  return {ops::boolean_mask(sp_input.indices(), to_retain), ops::boolean_mask(sp_input.values(), to_retain),
          sp_input.dense_shape()};
}
std::pair<SparseTensor, Tensor> fill_empty_rows(const SparseTensor& sp_input, const Tensor& default_value) {
  const Tensors made = ops::call("SparseFillEmptyRows", {sp_input.indices(), sp_input.values(), sp_input.dense_shape(),
                                                         ops::cast(default_value, sp_input.dtype())});
  return {SparseTensor(made[0], made[1], sp_input.dense_shape()), made[2]};
}
SparseTensor softmax(const SparseTensor& sp_input) {
  return sp_input.with_values(
      ops::call1("SparseSoftmax", {sp_input.indices(), sp_input.values(), sp_input.dense_shape()}));
}
namespace {
SparseTensor extremum(const char* op, const SparseTensor& a, const SparseTensor& b) {
  const Tensors made =
      ops::call(op, {a.indices(), a.values(), a.dense_shape(), b.indices(), b.values(), b.dense_shape()});
  return {made[0], made[1], a.dense_shape()};
}
}  // namespace
SparseTensor maximum(const SparseTensor& sp_a, const SparseTensor& sp_b) {
  return extremum("SparseSparseMaximum", sp_a, sp_b);
}
SparseTensor minimum(const SparseTensor& sp_a, const SparseTensor& sp_b) {
  return extremum("SparseSparseMinimum", sp_a, sp_b);
}
Tensor to_indicator(const SparseTensor& sp_input, std::int64_t vocab_size) {
  const int last = sp_input.shape().rank() - 1;
  std::vector<std::int64_t> dims = sp_input.shape().dims();
  dims.back() = vocab_size;
  const Tensor rows = ops::slice_axis(sp_input.indices(), 1, 0, last);
  const Tensor places = ops::concat({rows, ops::expand_dims(ops::cast(sp_input.values(), DType::kInt64), 1)}, 1);
  const Tensor ones = ops::ones(Shape{sp_input.values().dim(0)}, DType::kInt32);
  return ops::cast(ops::scatter_nd(places, ones, ops::constant_ints(dims, DType::kInt64)), DType::kBool);
}
SparseTensor eye(std::int64_t num_rows, std::int64_t num_columns, DTypeLike dtype) {
  const std::int64_t count = std::min(num_rows, num_columns);
  const Tensor places = ops::range(count, DType::kInt64);
  return {ops::stack({places, places}, 1), ops::ones({count}, dtype),
          ops::constant_ints({num_rows, num_columns}, DType::kInt64)};
}
SparseTensor map_values(const std::function<Tensor(const Tensor&)>& fn, const SparseTensor& sp_input) {
  return sp_input.with_values(fn(sp_input.values()));
}
SparseTensor map_values(const std::function<Tensor(const Tensor&, const Tensor&)>& fn, const SparseTensor& sp_input,
                        const Tensor& other) {
  return sp_input.with_values(fn(sp_input.values(), other));
}
Tensor sparse_dense_matmul(const SparseTensor& sp_a, const Tensor& b, const MatmulKeywords& keywords) {
  return ops::call1("SparseTensorDenseMatMul", {sp_a.indices(), sp_a.values(), sp_a.dense_shape(), b},
                    {{"adjoint_a", keywords.adjoint_a}, {"adjoint_b", keywords.adjoint_b}});
}
Tensor reduce_sum(const SparseTensor& sp_input, const ops::AxisKeywords& keywords) {
  return ops::reduce_sum(to_dense(sp_input), keywords.axis, keywords.keepdims);
}
Tensor reduce_max(const SparseTensor& sp_input, const ops::AxisKeywords& keywords) {
  ops::Ints axes = keywords.axis.value_or(ops::Ints());
  for (int i = 0; !keywords.axis && i < sp_input.shape().rank(); ++i) axes.push_back(i);
  return ops::call1("SparseReduceMax",
                    {sp_input.indices(), sp_input.values(), sp_input.dense_shape(), ops::constant_ints(axes)},
                    {{"keep_dims", keywords.keepdims}});
}

namespace {

Tensor sparse_segments(const std::string& op, const Tensor& data, const Tensor& indices, const Tensor& segment_ids,
                       const SegmentKeywords& o) {
  if (!o.num_segments) return ops::call1(op, {data, indices, segment_ids});
  return ops::call1(op + "WithNumSegments", {data, indices, segment_ids, Tensor::scalar(*o.num_segments)});
}

}  // namespace

Tensor segment_sum(const Tensor& data, const Tensor& indices, const Tensor& segment_ids, const SegmentKeywords& o) {
  return sparse_segments("SparseSegmentSum", data, indices, segment_ids, o);
}
Tensor segment_mean(const Tensor& data, const Tensor& indices, const Tensor& segment_ids, const SegmentKeywords& o) {
  return sparse_segments("SparseSegmentMean", data, indices, segment_ids, o);
}
Tensor segment_sqrt_n(const Tensor& data, const Tensor& indices, const Tensor& segment_ids, const SegmentKeywords& o) {
  return sparse_segments("SparseSegmentSqrtN", data, indices, segment_ids, o);
}
namespace {

template <typename Keywords>
ops::Attrs count_attrs(const Keywords& keywords) {
  if (keywords.axis != 0 && keywords.axis != -1)
    throw_invalid_argument(fmt::format("sparse.bincount: invalid axis: found {}, expected 0 or -1", keywords.axis));
  return {{"minlength", keywords.minlength.value_or(-1)},
          {"maxlength", keywords.maxlength.value_or(-1)},
          {"binary_output", keywords.binary_output}};
}

SparseTensor counts(const char* op, const Tensors& inputs, const ops::Attrs& attrs) {
  const Tensors parts = ops::call(op, inputs, attrs);
  return {parts[0], parts[1], parts[2]};
}

}  // namespace

SparseTensor bincount(const Tensor& values, const BincountKeywords& keywords) {
  const auto shaped = [&](const Tensor& x) { return keywords.axis == 0 ? ops::reshape(x, {-1}) : x; };
  const Tensor weights = keywords.weights.defined() ? shaped(keywords.weights) : Tensor::zeros({0}, values.dtype());
  return counts("DenseCountSparseOutput", {shaped(values), weights}, count_attrs(keywords));
}

SparseTensor bincount_of_sparse(const SparseTensor& values, const SparseBincountKeywords& keywords) {
  const Tensor weights = keywords.weights ? keywords.weights->values() : Tensor::zeros({0}, values.values().dtype());
  if (keywords.axis == 0) {
    BincountKeywords of_values{{}, {}, 0, keywords.minlength, keywords.maxlength, keywords.binary_output};
    if (keywords.weights) of_values.weights = weights;
    return bincount(values.values(), of_values);
  }
  return counts("SparseCountSparseOutput", {values.indices(), values.values(), values.dense_shape(), weights},
                count_attrs(keywords));
}

SparseTensor reset_shape(const SparseTensor& sp_input, const std::optional<Shape>& new_shape) {
  const Shape old = sp_input.shape();
  if (!new_shape) {
    const Tensor smallest = ops::reduce_max(sp_input.indices(), 0) + std::int64_t{1};
    // The largest index of no values is the smallest integer.
    return {sp_input.indices(), sp_input.values(), ops::maximum(smallest, ops::zeros_like(smallest))};
  }
  bool contains = old.rank() == new_shape->rank();
  for (int axis = 0; contains && axis < old.rank(); ++axis) contains = old[axis] <= (*new_shape)[axis];
  if (!contains) {
    throw_invalid_argument(fmt::format("sparse.reset_shape: invalid new_shape: found {}, expected one that contains {}",
                                       new_shape->to_string(), old.to_string()));
  }
  return {sp_input.indices(), sp_input.values(), ops::constant_ints(new_shape->dims(), DType::kInt64)};
}

}  // namespace sparse
}  // namespace lockstep
