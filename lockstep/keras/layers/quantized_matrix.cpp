#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/kernel_layer_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

bool contains(const Ints& axes, std::int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

// The axes of a kernel that are not summed, in the layout's order.
Ints kept_axes(const QuantizedLayout& layout) {
  if (!layout.kept.empty()) return layout.kept;
  Ints kept;
  for (std::int64_t axis = 0; axis < layout.shape.rank(); ++axis) {
    if (!contains(layout.summed, axis)) kept.push_back(axis);
  }
  return kept;
}

std::int64_t ceil_of_half(std::int64_t extent) { return (extent + 1) / 2; }

constexpr std::pair<std::int64_t, std::int64_t> kFourBits = {-8, 7};

}  // namespace

std::pair<std::int64_t, std::int64_t> QuantizedMatrix::extents() const {
  const Shape& shape = layout_.shape;
  if (layout_.summed_axis == 1) return {shape[0], shape[1]};
  std::int64_t rows = 1, columns = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) (contains(layout_.summed, axis) ? rows : columns) *= shape[axis];
  return {rows, columns};
}

void QuantizedMatrix::build(const QuantizedLayout& layout, const std::string& mode,
                            std::optional<std::int64_t> block_size, const AddWeight& add_weight) {
  layout_ = layout;
  mode_ = mode;
  block_size_ = packed() && block_size.value_or(-1) > 0 ? block_size : std::nullopt;
  const auto add = [&](const std::string& name, Shape shape, std::optional<DType> dtype, const char* initializer) {
    return add_weight(
        {.shape = std::move(shape), .initializer = initializer, .dtype = dtype, .trainable = false, .name = name});
  };
  const std::string& name = layout.name;
  if (!packed()) {
    values_ = add(name, layout.shape, DType::kInt8, "zeros");
    scale_ = add(name + "_scale", layout.scale_shape, std::nullopt, "ones");
    return;
  }
  const auto [rows, columns] = extents();
  Shape stored({rows, columns});
  stored[layout.packed_axis] = ceil_of_half(stored[layout.packed_axis]);
  values_ = add(name, stored, DType::kInt8, "zeros");
  const std::int64_t summed = layout.summed_axis == 0 ? rows : columns, kept = layout.summed_axis == 0 ? columns : rows;
  if (!in_groups()) {
    scale_ = add(name + "_scale", {kept}, std::nullopt, "ones");
    return;
  }
  const std::int64_t groups = (summed + *block_size_ - 1) / *block_size_;
  const Shape shape = layout.summed_axis == 0 ? Shape({groups, kept}) : Shape({kept, groups});
  scale_ = add(name + "_scale", shape, std::nullopt, "ones");
  zero_ = add(name + "_zero", shape, layout.zero_dtype, "zeros");
  if (!layout.own_groups) return;
  groups_ = add("g_idx", {summed}, DType::kFloat32, "zeros");
  groups_->assign(ops::cast(ops::floor_div(ops::range(summed), Tensor::scalar(static_cast<std::int32_t>(*block_size_))),
                            DType::kFloat32));
}

QuantizedMatrix::Stored QuantizedMatrix::store(const Tensor& floating,
                                               const std::optional<quantizers::AbsMaxQuantizer>& quantizer) const {
  quantizers::AbsMaxQuantizer how = quantizer.value_or(quantizers::AbsMaxQuantizer());
  if (packed()) how.value_range = kFourBits;
  if (!packed()) {
    const auto [values, scale] = quantizers::abs_max_quantize(floating, layout_.summed, how);
    const Ints kept = kept_axes(layout_);
    Ints order = kept;
    order.insert(order.end(), layout_.summed.begin(), layout_.summed.end());
    return {
        ops::cast(values, DType::kInt8), ops::reshape(ops::transpose(scale, order), layout_.scale_shape.dims()), {}};
  }
  const auto [rows, columns] = extents();
  const Tensor matrix = ops::reshape(floating, {rows, columns});
  const auto pack = [&](const Tensor& values) { return quantizers::pack_int4(values, layout_.packed_axis); };
  if (!in_groups()) {
    const auto [values, scale] = quantizers::abs_max_quantize(matrix, {layout_.summed_axis}, how);
    return {pack(values), ops::squeeze(scale, {layout_.summed_axis}), {}};
  }
  if (layout_.summed_axis == 0) {
    const auto [values, scale, zero] = quantizers::quantize_groups(matrix, *block_size_);
    return {pack(values), scale, zero};
  }
  const auto [values, scale, zero] = quantizers::quantize_groups(ops::transpose(matrix), *block_size_);
  return {pack(ops::transpose(values)), ops::transpose(scale), ops::transpose(zero)};
}

void QuantizedMatrix::assign(const Stored& stored) {
  values_->assign(stored.values);
  scale_->assign(ops::cast(stored.scale, scale_->dtype()));
  if (zero_) zero_->assign(ops::cast(stored.zero, zero_->dtype()));
}

Tensor QuantizedMatrix::integers(DType dtype) const {
  if (!packed()) return ops::cast(values_->read(), dtype);
  const auto [rows, columns] = extents();
  const std::int64_t extent = layout_.packed_axis == 0 ? rows : columns;
  const Tensor matrix = quantizers::unpack_int4(values_->read(), layout_.packed_axis, extent, dtype);
  return layout_.shape.rank() == 2 ? matrix : ops::reshape(matrix, layout_.shape.dims());
}

Tensor QuantizedMatrix::scale(DType dtype) const { return ops::cast(scale_->read(), dtype); }

Tensor QuantizedMatrix::groups() const {
  if (groups_) return ops::cast(groups_->read(), DType::kInt32);
  const auto [rows, columns] = extents();
  const std::int64_t summed = layout_.summed_axis == 0 ? rows : columns;
  return ops::floor_div(ops::range(summed), Tensor::scalar(static_cast<std::int32_t>(*block_size_)));
}

Tensor QuantizedMatrix::dequantized(DType dtype) const {
  const Tensor whole = integers(dtype);
  if (!packed()) {
    const Ints kept = kept_axes(layout_);
    Ints sizes, back(kept.size()), kernel_shape = layout_.shape.dims();
    for (const std::int64_t axis : kept) sizes.push_back(layout_.shape[static_cast<int>(axis)]);
    Ints sorted = kept;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i)
      back[i] = std::find(kept.begin(), kept.end(), sorted[i]) - kept.begin();
    for (const std::int64_t axis : layout_.summed) kernel_shape[static_cast<std::size_t>(axis)] = 1;
    return whole / ops::reshape(ops::transpose(ops::reshape(scale(dtype), sizes), back), kernel_shape);
  }
  const auto [rows, columns] = extents();
  const Tensor matrix = ops::reshape(whole, {rows, columns});
  const auto in_shape = [&](const Tensor& made) { return ops::reshape(made, layout_.shape.dims()); };
  if (!in_groups())
    return in_shape(matrix / (layout_.summed_axis == 0 ? scale(dtype) : ops::expand_dims(scale(dtype), -1)));
  const Tensor group = groups();
  const Tensor zeros = ops::gather(ops::cast(zero_->read(), dtype), group, layout_.summed_axis);
  return in_shape((matrix - zeros) * ops::gather(scale(dtype), group, layout_.summed_axis));
}

Tensor QuantizedMatrix::rows(const Tensor& indices, DType dtype) const {
  const Tensor flat = ops::reshape(indices, {-1});
  Tensor whole = ops::gather(values_->read(), flat);
  whole = packed() ? quantizers::unpack_int4(whole, 1, layout_.shape[1], dtype) : ops::cast(whole, dtype);
  const Tensor scales = ops::gather(scale(dtype), flat);
  if (in_groups()) {
    const Tensor zeros = ops::gather(ops::cast(zero_->read(), dtype), flat), group = groups();
    whole = (whole - ops::gather(zeros, group, 1)) * ops::gather(scales, group, 1);
  } else {
    whole = whole / ops::expand_dims(scales, -1);
  }
  Ints shape = indices.shape().dims();
  shape.push_back(layout_.shape[1]);
  if (std::count(shape.begin(), shape.end(), kUnknownDim) <= 1) return ops::reshape(whole, shape);
  const Tensor columns = Tensor::from_vector<std::int32_t>({static_cast<std::int32_t>(layout_.shape[1])});
  return ops::reshape(whole, ops::concat({ops::shape_of(indices), columns}, 0));
}

std::vector<VariablePtr> QuantizedMatrix::parameters() const {
  std::vector<VariablePtr> all;
  for (const VariablePtr& variable : {scale_, zero_, groups_}) {
    if (variable) all.push_back(variable);
  }
  return all;
}

Tensor without_gradient(const Tensor& x) { return x.is_value() ? ops::stop_gradient(x) : x; }

Tensor with_straight_gradient(const Tensor& x, const Tensor& y, std::function<Tensor(const Tensor&)> adjoint) {
  if (!x.is_value() || !ops::grad_enabled() || !ops::requires_grad(x)) return y;
  return ops::with_adjoint(x, y, std::move(adjoint));
}

}  // namespace lockstep::keras
