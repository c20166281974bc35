// A kernel or table that a layer keeps as small integers, as a member of the layer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/layers/lora_internal.h"
#include "lockstep/keras/quantizers/quantize_internal.h"

namespace lockstep::keras {

// How the numbers of a matrix share scales.
struct QuantizedLayout {
  std::string name;  // "kernel": the variables are kernel, kernel_scale, kernel_zero and g_idx
  Shape shape;       // of the floating values
  Ints summed;       // axes of `shape` that products sum over: their numbers share a scale
  // Of int4, whose values are a matrix of shape [product of summed extents, product of the others], or `shape` if that
  // is a matrix whose second axis is summed.
  int summed_axis = 0;
  int packed_axis = 1;
  // Of int8. The axes that are not summed come in the order `kept`; empty: in their own.
  Shape scale_shape = {};
  Ints kept = {};
  bool own_groups = true;           // has g_idx
  DType zero_dtype = DType::kInt8;  // of zero points
};

class QuantizedMatrix {
 public:
  // Makes the variables. `mode` is "int8" or "int4"; a block size gives each block of rows a scale and a zero point.
  void build(const QuantizedLayout& layout, const std::string& mode, std::optional<std::int64_t> block_size,
             const AddWeight& add_weight);
  bool active() const { return static_cast<bool>(values_); }
  bool in_groups() const { return block_size_.has_value(); }
  const QuantizedLayout& layout() const { return layout_; }

  // The variables' values for floating values; by default with one scale for each unit.
  struct Stored {
    Tensor values, scale, zero;
  };
  Stored store(const Tensor& floating,
               const std::optional<quantizers::AbsMaxQuantizer>& quantizer = std::nullopt) const;
  void assign(const Stored& stored);

  // Whole numbers of the shape of the floating values.
  Tensor integers(DType dtype) const;
  // As the variable holds it: the integers of int8, and of int4 without groups, are divided by it.
  Tensor scale(DType dtype) const;
  DType scale_dtype() const { return scale_->dtype(); }
  Tensor dequantized(DType dtype) const;

  // The floating rows for integer indices of any shape, of a matrix whose rows have their scales.
  Tensor rows(const Tensor& indices, DType dtype) const;

  const VariablePtr& values() const { return values_; }
  // Scale, zero points and g_idx, as far as there are any.
  std::vector<VariablePtr> parameters() const;

 private:
  bool packed() const { return mode_ == "int4"; }
  // Rows and columns of the matrix as which int4 keeps the values.
  std::pair<std::int64_t, std::int64_t> extents() const;
  // Each element's group; a vector of int32.
  Tensor groups() const;

  QuantizedLayout layout_;
  std::string mode_;
  std::optional<std::int64_t> block_size_;
  VariablePtr values_, scale_, zero_, groups_;
};

}  // namespace lockstep::keras
