// tf.SparseTensor and tf.sparse. Names, order of arguments and defaults are TensorFlow's.
#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/fill_value.h"
#include "lockstep/ops/functions.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {

// Values at some indices of a tensor, zeros elsewhere:
//   SparseTensor({.indices = {{0, 3}, {2, 4}}, .values = {10, 20}, .dense_shape = {3, 10}}).
// Functions take indices in the order of rows, as reorder() gives them.
class SparseTensor {
 public:
  struct Parts {
    FieldNamesOnly names_only = {};
    Tensor indices = {};      // (n, rank), integers
    Tensor values = {};       // (n,)
    Tensor dense_shape = {};  // (rank,)
  };
  // Throw InvalidArgument for parts whose shapes do not fit.
  SparseTensor(const Parts& parts);
  SparseTensor(const Tensor& indices, const Tensor& values, const Tensor& dense_shape)
      : SparseTensor(Parts{{}, indices, values, dense_shape}) {}
  // With extents that are computed: SparseTensor(indices, values, {ops::shape(x)[0], 10}).
  template <std::same_as<ShapeArg> S = ShapeArg>
  SparseTensor(const Tensor& indices, const Tensor& values, const S& dense_shape)
      : SparseTensor(Parts{{}, indices, values, ops::shape_tensor(dense_shape)}) {}
  // Of {"indices", "values", "dense_shape"}, as io::parse_single_example gives features of variable length.
  SparseTensor(const Nested<Tensor>& parts);
  // As an element of a dataset: such a dict. A template, so that functions of structures are not meant.
  template <std::same_as<Nested<Tensor>> N>
  operator N() const {
    return N::dict({{"indices", indices_}, {"values", values_}, {"dense_shape", dense_shape_}});
  }

  const Tensor& indices() const { return indices_; }  // int64
  const Tensor& values() const { return values_; }
  const Tensor& dense_shape() const { return dense_shape_; }  // int64
  Shape shape() const;
  DType dtype() const { return values_.dtype(); }
  SparseTensor with_values(const Tensor& values) const { return {indices_, values, dense_shape_}; }

 private:
  Tensor indices_, values_, dense_shape_;
};
// The elements of a dense tensor, which is broadcast to the shape, at the indices of a sparse one.
Tensor values_at(const Tensor& dense, const SparseTensor& sparse);
// x * 2.0, x / rows: by a number or a dense tensor that is broadcast to the shape. Templates, so that what is a list or
// a dict of tensors is none.
template <std::same_as<SparseTensor> S, std::convertible_to<Tensor> T>
S operator*(const S& x, const T& y) {
  return x.with_values(x.values() * values_at(y, x));
}
template <std::same_as<SparseTensor> S, std::convertible_to<Tensor> T>
S operator*(const T& y, const S& x) {
  return x * y;
}
template <std::same_as<SparseTensor> S, std::convertible_to<Tensor> T>
S operator/(const S& x, const T& y) {
  return x.with_values(x.values() / values_at(y, x));
}
// "SparseTensor(indices=..., values=..., dense_shape=...)".
std::ostream& operator<<(std::ostream& out, const SparseTensor& sparse);

namespace sparse {

using lockstep::SparseTensor;

// Keyword arguments of the functions below.
struct ConcatKeywords {
  FieldNamesOnly names_only = {};
  int axis = 0;
  std::vector<SparseTensor> sp_inputs = {};
};
struct SliceKeywords {
  FieldNamesOnly names_only = {};
  ops::Ints start = {};
  ops::Ints size = {};
};
struct SplitKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num_split = 1;
  int axis = 0;
};
struct TransposeKeywords {
  FieldNamesOnly names_only = {};
  ops::Ints perm = {};
};

struct ToDenseArguments {
  FieldNamesOnly names_only = {};
  SparseTensor sp_input;
  FillValue default_value = {};
};
struct ToDenseKeywords {
  FieldNamesOnly names_only = {};
  FillValue default_value = {};  // default: 0 or ""
};

Tensor to_dense(const SparseTensor& sp_input, const ToDenseKeywords& keywords = {});
// By position. A template, because GCC would take {.default_value = ""} for a tensor.
template <std::convertible_to<FillValue> Value>
Tensor to_dense(const SparseTensor& sp_input, const Value& default_value) {
  return to_dense(sp_input, ToDenseKeywords{{}, default_value});
}
inline Tensor to_dense(const ToDenseArguments& o) { return to_dense(o.sp_input, {.default_value = o.default_value}); }
SparseTensor from_dense(const Tensor& tensor);
SparseTensor reorder(const SparseTensor& sp_input);
SparseTensor add(const SparseTensor& a, const SparseTensor& b);
Tensor add(const SparseTensor& a, const Tensor& b);
SparseTensor reshape(const SparseTensor& sp_input, const ShapeArg& shape);
SparseTensor concat(int axis, const std::vector<SparseTensor>& sp_inputs);
inline SparseTensor concat(const ConcatKeywords& o) { return concat(o.axis, o.sp_inputs); }
SparseTensor slice(const SparseTensor& sp_input, const ops::Ints& start, const ops::Ints& size);
inline SparseTensor slice(const SparseTensor& sp_input, const SliceKeywords& o) {
  return slice(sp_input, o.start, o.size);
}
// Equal parts along an axis, the first ones larger by one where they cannot be equal.
std::vector<SparseTensor> split(const SparseTensor& sp_input, std::int64_t num_split, int axis);
inline std::vector<SparseTensor> split(const SparseTensor& sp_input, const SplitKeywords& o) {
  return split(sp_input, o.num_split, o.axis);
}
// The axes in the order of `perm`; without it, in reverse order.
SparseTensor transpose(const SparseTensor& sp_input, const TransposeKeywords& keywords = {});
template <std::convertible_to<ops::Ints> Perm = ops::Ints>  // as {.perm = {1, 0}} would be a list
SparseTensor transpose(const SparseTensor& sp_input, const Perm& perm) {
  return transpose(sp_input, TransposeKeywords{{}, perm});
}
SparseTensor expand_dims(const SparseTensor& sp_input, int axis = -1);
// The values that a bool vector marks.
SparseTensor retain(const SparseTensor& sp_input, const Tensor& to_retain);
// The matrix with default_value at the first place of each row without values, and which rows these were.
std::pair<SparseTensor, Tensor> fill_empty_rows(const SparseTensor& sp_input, const Tensor& default_value);
// Of the values of each row of the last axis.
SparseTensor softmax(const SparseTensor& sp_input);
SparseTensor maximum(const SparseTensor& sp_a, const SparseTensor& sp_b);
SparseTensor minimum(const SparseTensor& sp_a, const SparseTensor& sp_b);
// A bool tensor whose last axis has vocab_size elements: true at those that are values in the row.
Tensor to_indicator(const SparseTensor& sp_input, std::int64_t vocab_size);
SparseTensor eye(std::int64_t num_rows, std::int64_t num_columns, DTypeLike dtype = DType::kFloat32);
inline SparseTensor eye(std::int64_t num_rows) { return eye(num_rows, num_rows); }
// fn of the values; zeros elsewhere stay zeros.
SparseTensor map_values(const std::function<Tensor(const Tensor&)>& fn, const SparseTensor& sp_input);
// fn(values, other), where a sparse tensor stands for its values.
SparseTensor map_values(const std::function<Tensor(const Tensor&, const Tensor&)>& fn, const SparseTensor& sp_input,
                        const Tensor& other);
inline SparseTensor map_values(const std::function<Tensor(const Tensor&, const Tensor&)>& fn,
                               const SparseTensor& sp_input, const SparseTensor& other) {
  return map_values(fn, sp_input, other.values());
}
// Functions of overloaded names, such as ops::add.
template <std::same_as<SparseTensor> S>
S map_values(Tensor (*fn)(const Tensor&), const S& sp_input) {
  return map_values(std::function<Tensor(const Tensor&)>(fn), sp_input);
}
template <std::same_as<SparseTensor> S, typename B>
S map_values(Tensor (*fn)(const Tensor&, const Tensor&), const S& sp_input, const B& other) {
  return map_values(std::function<Tensor(const Tensor&, const Tensor&)>(fn), sp_input, other);
}
// Of matrices; differentiable in the values and in `b`.
struct MatmulKeywords {
  FieldNamesOnly names_only = {};
  bool adjoint_a = false;
  bool adjoint_b = false;
};
Tensor sparse_dense_matmul(const SparseTensor& sp_a, const Tensor& b, const MatmulKeywords& keywords = {});
Tensor reduce_sum(const SparseTensor& sp_input, const ops::AxisKeywords& keywords = {});
// Of the values that are there, not of the zeros elsewhere.
Tensor reduce_max(const SparseTensor& sp_input, const ops::AxisKeywords& keywords = {});
// By position: reduce_sum(x, 1), reduce_sum(x, {0, 1}). Templates, because GCC would take {.axis = 1} for a list.
template <std::convertible_to<ops::Axes> A = ops::Axes>
Tensor reduce_sum(const SparseTensor& sp_input, const A& axis, bool keepdims = false) {
  return reduce_sum(sp_input, ops::AxisKeywords{{}, axis, keepdims});
}
template <std::convertible_to<ops::Axes> A = ops::Axes>
Tensor reduce_max(const SparseTensor& sp_input, const A& axis, bool keepdims = false) {
  return reduce_max(sp_input, ops::AxisKeywords{{}, axis, keepdims});
}

// How often each number is in `values` (a tensor, or the values of a sparse one), or with axis = -1 in each of its
// rows: only those that are there. With weights their sums, of the weights' dtype; else of the values' dtype.
struct BincountKeywords {
  FieldNamesOnly names_only = {};
  Tensor weights = {};
  int axis = 0;
  std::optional<std::int64_t> minlength = std::nullopt;
  std::optional<std::int64_t> maxlength = std::nullopt;  // greater numbers are not counted
  bool binary_output = false;                            // 1 for each number that is there
};
SparseTensor bincount(const Tensor& values, const BincountKeywords& keywords = {});
// The weights are sparse, with the indices of the values.
struct SparseBincountKeywords {
  FieldNamesOnly names_only = {};
  std::optional<SparseTensor> weights = std::nullopt;
  int axis = 0;
  std::optional<std::int64_t> minlength = std::nullopt;
  std::optional<std::int64_t> maxlength = std::nullopt;
  bool binary_output = false;
};
SparseTensor bincount_of_sparse(const SparseTensor& values, const SparseBincountKeywords& keywords);
template <std::same_as<SparseTensor> S>
SparseTensor bincount(const S& values, const SparseBincountKeywords& keywords = {}) {
  return bincount_of_sparse(values, keywords);
}

// Rows of `data` by their indices, added up (the mean; the sum over the square root of their number) for each segment;
// the ids are sorted. num_segments: default up to the last one. The rows of segments without indices are 0.
struct SegmentKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> num_segments = std::nullopt;
};
Tensor segment_sum(const Tensor& data, const Tensor& indices, const Tensor& segment_ids, const SegmentKeywords& o = {});
Tensor segment_mean(const Tensor& data, const Tensor& indices, const Tensor& segment_ids,
                    const SegmentKeywords& o = {});
Tensor segment_sqrt_n(const Tensor& data, const Tensor& indices, const Tensor& segment_ids,
                      const SegmentKeywords& o = {});
// In a larger shape of as many axes; without one, the smallest that the values fit. Throws InvalidArgument for a
// smaller one.
SparseTensor reset_shape(const SparseTensor& sp_input, const std::optional<Shape>& new_shape = std::nullopt);
template <std::same_as<Shape> S = Shape>  // reset_shape(x, {3, 4})
SparseTensor reset_shape(const SparseTensor& sp_input, const S& new_shape) {
  return reset_shape(sp_input, std::optional<Shape>(new_shape));
}

}  // namespace sparse

namespace ops {

// A template, so that what is a list or a dict of tensors is none.
template <std::same_as<SparseTensor> S>
S cast(const S& x, DTypeLike dtype) {
  return x.with_values(cast(x.values(), dtype));
}

}  // namespace ops
}  // namespace lockstep
