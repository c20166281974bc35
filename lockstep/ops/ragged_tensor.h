// tf.RaggedTensor and tf.ragged: tensors whose rows differ in length. Names and defaults are TensorFlow's.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/json.h"
#include "lockstep/ops/fill_value.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/sparse_tensor.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {

class RaggedRow;

// Keyword arguments of from_tensor() and to_tensor().
struct RaggedFromTensorKeywords {
  FieldNamesOnly names_only = {};
  Tensor lengths = {};     // of each row
  FillValue padding = {};  // dropped at the ends of rows
};
struct UniformRowsKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t uniform_row_length = 0;
  std::optional<std::int64_t> nrows = std::nullopt;
};
struct RaggedParts;
struct RaggedLengthsKeywords {
  FieldNamesOnly names_only = {};
  int axis = 1;
};
struct RaggedToTensorKeywords {
  FieldNamesOnly names_only = {};
  FillValue default_value = {};         // default: 0 or ""
  Shape shape = Shape::unknown_rank();  // rows are cut and filled up to it; kUnknownDim: the longest
};

// Rows of different lengths: those of row i are values[row_splits[i] .. row_splits[i + 1]]. Values may be ragged
// themselves. Without ragged axes it is a plain tensor, as elements of an axis can be.
class RaggedTensor {
 public:
  RaggedTensor() = default;
  RaggedTensor(const Tensor& values) : values_(values) {}  // of no ragged axes
  // Texts in lists.
  RaggedTensor(const std::vector<std::vector<std::string>>& rows);
  // An element of a dataset. A template, so that braces are the values of a tensor.
  template <std::derived_from<Nested<Tensor>> Element>
  RaggedTensor(const Element& element) : RaggedTensor(of_element(element)) {}
  // As an element of a dataset: of no ragged axes the tensor, else a variant, as in TensorFlow.
  operator Nested<Tensor>() const;
  // tf.ragged.constant: lists in lists, all but the innermost of any length. Throws InvalidArgument for lists of
  // different depth.
  static RaggedTensor constant(const Values& values, DTypeLike dtype = DType::kInvalid);
  // Throw InvalidArgument for splits that do not begin at 0, decrease, or end elsewhere than the values.
  static RaggedTensor from_row_splits(const RaggedTensor& values, const Tensor& row_splits);
  static RaggedTensor from_row_splits(const Tensor& values,
                                      const Tensor& row_splits) {  // from_row_splits({3, 1}, {0, 2})
    return from_row_splits(RaggedTensor(values), row_splits);
  }
  static RaggedTensor from_row_splits(const RaggedParts& o);
  static RaggedTensor from_row_lengths(const RaggedTensor& values, const Tensor& row_lengths);
  static RaggedTensor from_row_lengths(const Tensor& values, const Tensor& row_lengths) {
    return from_row_lengths(RaggedTensor(values), row_lengths);
  }
  static RaggedTensor from_row_lengths(const RaggedParts& o);
  static RaggedTensor from_value_rowids(const RaggedTensor& values, const Tensor& value_rowids,
                                        std::optional<std::int64_t> nrows = std::nullopt);
  static RaggedTensor from_value_rowids(const Tensor& values, const Tensor& value_rowids,
                                        std::optional<std::int64_t> nrows = std::nullopt) {
    return from_value_rowids(RaggedTensor(values), value_rowids, nrows);
  }
  static RaggedTensor from_value_rowids(const RaggedParts& o);
  // By the first place of each row, or the place after its last.
  static RaggedTensor from_row_starts(const RaggedTensor& values, const Tensor& row_starts);
  static RaggedTensor from_row_starts(const Tensor& values, const Tensor& row_starts) {
    return from_row_starts(RaggedTensor(values), row_starts);
  }
  static RaggedTensor from_row_starts(const RaggedParts& o);
  static RaggedTensor from_row_limits(const RaggedTensor& values, const Tensor& row_limits);
  static RaggedTensor from_row_limits(const Tensor& values, const Tensor& row_limits) {
    return from_row_limits(RaggedTensor(values), row_limits);
  }
  static RaggedTensor from_row_limits(const RaggedParts& o);
  // Rows of equal length. Throws InvalidArgument where the values are not a multiple of it, and for rows of length 0
  // without their number.
  static RaggedTensor from_uniform_row_length(const RaggedTensor& values, std::int64_t uniform_row_length,
                                              std::optional<std::int64_t> nrows = std::nullopt);
  static RaggedTensor from_uniform_row_length(const Tensor& values, std::int64_t uniform_row_length,
                                              std::optional<std::int64_t> nrows = std::nullopt) {
    return from_uniform_row_length(RaggedTensor(values), uniform_row_length, nrows);
  }
  template <std::convertible_to<RaggedTensor> V = Tensor>
  static RaggedTensor from_uniform_row_length(const V& values, const UniformRowsKeywords& o) {
    return from_uniform_row_length(RaggedTensor(values), o.uniform_row_length, o.nrows);
  }
  static RaggedTensor from_uniform_row_length(const RaggedParts& o);
  // Of several ragged axes, the parts of the outermost first.
  static RaggedTensor from_nested_row_splits(const Tensor& flat_values, const Tensors& nested_row_splits);
  static RaggedTensor from_nested_row_lengths(const Tensor& flat_values, const Tensors& nested_row_lengths);
  // Without nested_nrows, the last row of each axis has values.
  static RaggedTensor from_nested_value_rowids(const Tensor& flat_values, const Tensors& nested_value_rowids,
                                               const std::vector<std::int64_t>& nested_nrows = {});
  struct NestedParts;
  static RaggedTensor from_nested_row_splits(const NestedParts& o);
  // Rows of equal length, of the first two axes of a tensor.
  static RaggedTensor from_uniform_rows(const Tensor& tensor);
  static RaggedTensor from_tensor(const Tensor& tensor, const RaggedFromTensorKeywords& keywords = {});
  // Of two axes. Throws InvalidArgument unless each row has values at its first places.
  static RaggedTensor from_sparse(const SparseTensor& st_input);

  int ragged_rank() const { return static_cast<int>(splits_.size()); }
  DType dtype() const { return values_.dtype(); }
  // kUnknownDim for ragged axes, except those of rows of equal length.
  Shape shape() const;
  // Of rows that were made of equal length; empty for others.
  std::optional<std::int64_t> uniform_row_length() const;
  const Tensor& flat_values() const { return values_; }
  RaggedRow values() const;                                            // one ragged axis less
  const Tensor& row_splits() const { return nested_row_splits()[0]; }  // int64
  const Tensors& nested_row_splits() const;
  Tensor row_lengths() const;
  // Of the rows along a ragged axis, of which the first is 1: axis 2 has a list of lengths for each row of axis 1.
  // Throws InvalidArgument for other axes.
  RaggedRow row_lengths(int axis) const;
  RaggedRow row_lengths(const RaggedLengthsKeywords& o) const;
  Tensors nested_row_lengths() const;
  Tensor row_starts() const;
  Tensor row_limits() const;
  Tensor value_rowids() const;
  Tensors nested_value_rowids() const;
  std::int64_t nrows() const;
  Tensor bounding_shape() const;
  Tensor bounding_shape(int axis) const { return bounding_shape()[axis]; }
  // Python's rt[i]; of one ragged axis a tensor.
  RaggedRow operator[](std::int64_t index) const;
  RaggedTensor operator[](const Range& rows) const;
  // Python's rt[2, :3], rt[:, -2:], rt[::2]. Throws InvalidArgument for a single index in a ragged axis, whose rows may
  // lack it, and for ellipsis and newaxis.
  RaggedRow index(std::initializer_list<ops::SliceSpec> entries) const;
  // Rows by their numbers, in any order and number.
  RaggedTensor rows(const std::vector<std::int64_t>& numbers) const;
  // The tensor. Throws FailedPrecondition where there are ragged axes.
  explicit operator Tensor() const;

  Tensor to_tensor(const RaggedToTensorKeywords& keywords = {}) const;
  SparseTensor to_sparse() const;
  RaggedTensor with_flat_values(const Tensor& values) const;
  RaggedTensor with_values(const RaggedTensor& values) const;  // of the same rows
  // The axes outer_axis to inner_axis as one: a RaggedRow, as it may be a tensor. Negative axes count from the end.
  // Throws InvalidArgument for axes that are missing or in the wrong order.
  RaggedRow merge_dims(int outer_axis, int inner_axis) const;
  // "[[3, 1], [], [5]]".
  std::string to_string() const;
  // The lists in lists, as JSON.
  Json to_list() const;

 private:
  static RaggedTensor of_element(const Nested<Tensor>& element);
  // FieldNamesOnly, as {{1, 2}, {3}} would be values and splits.
  RaggedTensor(FieldNamesOnly, Tensor values, Tensors splits, std::vector<std::int64_t> uniform = {})
      : values_(std::move(values)), splits_(std::move(splits)), uniform_(std::move(uniform)) {}
  // The length of the rows of a ragged axis if they were made of equal length, else kUnknownDim.
  std::int64_t uniform(std::size_t level) const { return level < uniform_.size() ? uniform_[level] : kUnknownDim; }

  Tensor values_;
  Tensors splits_;                     // of the outermost axis first
  std::vector<std::int64_t> uniform_;  // as uniform() has them; may be shorter than the splits
};
// All arguments of from_row_splits() and its like by name.
struct RaggedParts {
  FieldNamesOnly names_only = {};
  // A tensor, its elements in braces, or a ragged tensor.
  class RowValues : public RaggedTensor {
   public:
    RowValues() = default;
    RowValues(const Tensor& values) : RaggedTensor(values) {}
    RowValues(std::initializer_list<Values> values) : RaggedTensor(Tensor(values)) {}
    template <std::derived_from<RaggedTensor> R>
    RowValues(const R& values) : RaggedTensor(values) {}
  };
  RowValues values = RowValues();
  Tensor row_splits = {};
  Tensor row_lengths = {};
  Tensor row_starts = {};
  Tensor row_limits = {};
  Tensor value_rowids = {};
  std::int64_t uniform_row_length = 0;
  std::optional<std::int64_t> nrows = std::nullopt;
};
inline RaggedTensor RaggedTensor::from_row_splits(const RaggedParts& o) {
  return from_row_splits(static_cast<const RaggedTensor&>(o.values), o.row_splits);
}
inline RaggedTensor RaggedTensor::from_row_lengths(const RaggedParts& o) {
  return from_row_lengths(static_cast<const RaggedTensor&>(o.values), o.row_lengths);
}
inline RaggedTensor RaggedTensor::from_value_rowids(const RaggedParts& o) {
  return from_value_rowids(static_cast<const RaggedTensor&>(o.values), o.value_rowids, o.nrows);
}
inline RaggedTensor RaggedTensor::from_row_starts(const RaggedParts& o) {
  return from_row_starts(static_cast<const RaggedTensor&>(o.values), o.row_starts);
}
inline RaggedTensor RaggedTensor::from_row_limits(const RaggedParts& o) {
  return from_row_limits(static_cast<const RaggedTensor&>(o.values), o.row_limits);
}
inline RaggedTensor RaggedTensor::from_uniform_row_length(const RaggedParts& o) {
  return from_uniform_row_length(static_cast<const RaggedTensor&>(o.values), o.uniform_row_length, o.nrows);
}
struct RaggedTensor::NestedParts {
  FieldNamesOnly names_only = {};
  Tensor flat_values = {};
  Tensors nested_row_splits = {};
};
inline RaggedTensor RaggedTensor::from_nested_row_splits(const NestedParts& o) {
  return from_nested_row_splits(o.flat_values, o.nested_row_splits);
}
// A row, which converts to a tensor: const Tensor row = ragged[0]. Throws FailedPrecondition where it has rows of
// different lengths itself.
class RaggedRow : public RaggedTensor {
 public:
  explicit RaggedRow(const RaggedTensor& row) : RaggedTensor(row) {}
  operator Tensor() const;
  RaggedRow operator[](std::int64_t index) const { return RaggedTensor::operator[](index); }
  RaggedRow operator[](const Range& rows) const {
    return ragged_rank() == 0 ? RaggedRow(static_cast<Tensor>(*this)[rows]) : RaggedRow(RaggedTensor::operator[](rows));
  }
  Tensor numpy() const { return static_cast<Tensor>(*this).numpy(); }
  template <typename T>
  std::vector<T> to_vector() const {
    return static_cast<Tensor>(*this).to_vector<T>();
  }
  template <typename T>
  T item() const {
    return static_cast<Tensor>(*this).item<T>();
  }
  // float(row[0]), int(row[0]): of one element.
  template <typename T>
  requires std::is_arithmetic_v<T>
  explicit operator T() const { return static_cast<Tensor>(*this).item<T>(); }
};
inline RaggedRow RaggedTensor::row_lengths(const RaggedLengthsKeywords& o) const { return row_lengths(o.axis); }
std::ostream& operator<<(std::ostream& out, const RaggedTensor& ragged);
inline std::int64_t len(const RaggedTensor& ragged) {
  return ragged.ragged_rank() > 0 ? ragged.nrows() : len(ragged.flat_values());
}

// A tensor or what converts to one, no ragged tensor, of which some convert too.
template <typename T>
concept DenseTensor = std::convertible_to<T, Tensor> && !std::derived_from<T, RaggedTensor>;

namespace ragged {

inline RaggedTensor constant(const Values& values, DTypeLike dtype = DType::kInvalid) {
  return RaggedTensor::constant(values, dtype);
}
struct ConstantKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kInvalid;
  std::optional<int> ragged_rank = std::nullopt;  // axes behind it have rows of equal length
};
RaggedTensor constant(const Values& values, const ConstantKeywords& o);
// fn of the values of all rows together.
RaggedTensor map_flat_values(const std::function<Tensor(const Tensor&)>& fn, const RaggedTensor& ragged);
// Of two ragged tensors with rows of equal lengths, or of a ragged tensor and one that fits it.
RaggedTensor map_flat_values(const std::function<Tensor(const Tensor&, const Tensor&)>& fn, const RaggedTensor& a,
                             const RaggedTensor& b);
template <std::derived_from<RaggedTensor> R>
RaggedTensor map_flat_values(Tensor (*fn)(const Tensor&), const R& ragged) {
  return map_flat_values(std::function<Tensor(const Tensor&)>(fn), ragged);
}
template <std::derived_from<RaggedTensor> R, std::convertible_to<RaggedTensor> B>
RaggedTensor map_flat_values(Tensor (*fn)(const Tensor&, const Tensor&), const R& a, const B& b) {
  return map_flat_values(std::function<Tensor(const Tensor&, const Tensor&)>(fn), a, b);
}
// 0 … limit - 1 for each of the limits, or start, start + delta, … below the limit.
RaggedTensor range(const Tensor& limits);
RaggedTensor range(const Tensor& starts, const Tensor& limits, const Tensor& deltas = Tensor::scalar(1));
// The elements where the mask, of as many axes or fewer, is true: rows of what is left of each row.
RaggedTensor boolean_mask(const RaggedTensor& data, const RaggedTensor& mask);
template <DenseTensor T = Tensor>
RaggedTensor boolean_mask(const T& data, const T& mask) {
  return boolean_mask(RaggedTensor::from_uniform_rows(data), RaggedTensor::from_uniform_rows(mask));
}
// Along axis 0 one after the other, along axis 1 the rows of the same number next to each other.
RaggedTensor stack(const std::vector<RaggedTensor>& values, int axis = 0);
// Row i: the elements of data whose partition is i, in their order. The axes of the partitions are the first of data.
RaggedTensor stack_dynamic_partitions(const RaggedTensor& data, const Tensor& partitions, std::int64_t num_partitions);
template <DenseTensor T = Tensor>
RaggedTensor stack_dynamic_partitions(const T& data, const Tensor& partitions, std::int64_t num_partitions) {
  return stack_dynamic_partitions(RaggedTensor(Tensor(data)), partitions, num_partitions);
}
// The row of each value, and the splits of sorted rows; int64. num_segments: default up to the last one.
Tensor row_splits_to_segment_ids(const Tensor& splits);
Tensor segment_ids_to_row_splits(const Tensor& segment_ids, std::optional<std::int64_t> num_segments = std::nullopt);

}  // namespace ragged

namespace ops {

// Along axis 0 rows after rows; along axis 1 the rows of the same number joined. Tensors next to ragged ones have rows
// of equal length.
RaggedTensor concat_ragged(const std::vector<RaggedTensor>& values, int axis);
// "Sum", "Mean", "Variance", "Std", "Max", "Min", "Prod", "Any", "All" or "Join" (of strings, followed by the
// separator) over axes, or without any over all values. What is left of ragged axes is ragged; there means of integers
// are float64.
RaggedRow reduce_ragged(const RaggedTensor& ragged, std::string_view how, const Axes& axes);
struct RaggedAxisKeywords {
  FieldNamesOnly names_only = {};
  Axes axis = std::nullopt;
  bool keepdims = false;  // of one axis
};
RaggedRow reduce_ragged(const RaggedTensor& ragged, std::string_view how, const RaggedAxisKeywords& keywords);
// A new axis of extent 1 in front of an axis; the place of the first axis is 0.
RaggedTensor expand_ragged_dims(const RaggedTensor& ragged, int axis);
// The order of the elements along these axes turned round.
RaggedTensor reverse_ragged(const RaggedTensor& ragged, const Axes& axes);
// Axes by position are not written in braces, which GCC could not tell from keywords.
#define LOCKSTEP_REDUCE_RAGGED(function, how)                               \
  template <std::derived_from<RaggedTensor> R>                              \
  Tensor function(const R& ragged) {                                        \
    return reduce_ragged(ragged, how, std::nullopt);                        \
  }                                                                         \
  template <std::derived_from<RaggedTensor> R, std::convertible_to<Axes> A> \
  RaggedRow function(const R& ragged, const A& axis) {                      \
    return reduce_ragged(ragged, how, axis);                                \
  }                                                                         \
  template <std::derived_from<RaggedTensor> R>                              \
  RaggedRow function(const R& ragged, const RaggedAxisKeywords& keywords) { \
    return reduce_ragged(ragged, how, keywords);                            \
  }
LOCKSTEP_REDUCE_RAGGED(reduce_sum, "Sum")
LOCKSTEP_REDUCE_RAGGED(reduce_mean, "Mean")
LOCKSTEP_REDUCE_RAGGED(reduce_max, "Max")
LOCKSTEP_REDUCE_RAGGED(reduce_min, "Min")
LOCKSTEP_REDUCE_RAGGED(reduce_prod, "Prod")
LOCKSTEP_REDUCE_RAGGED(reduce_any, "Any")
LOCKSTEP_REDUCE_RAGGED(reduce_all, "All")
LOCKSTEP_REDUCE_RAGGED(reduce_variance, "Variance")
LOCKSTEP_REDUCE_RAGGED(reduce_std, "Std")
#undef LOCKSTEP_REDUCE_RAGGED

}  // namespace ops
}  // namespace lockstep
