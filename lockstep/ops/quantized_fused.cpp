// Convolutions and matrix products of quantized numbers with what oneDNN joins to them: bias, relu, requantization. As
// TensorFlow computes them in a graph with oneDNN; its other kernels give nothing. A range stands for levels on both
// sides of 0: 127 for qint8, 255 for quint8, which is never negative.
#pragma GCC optimize("fp-contract=off")
#include <algorithm>
#include <cmath>

#include "lockstep/ops/call.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/tensor/quantized_internal.h"

namespace lockstep::ops {
namespace {

// Of the inputs of a call, by their names; these operations have up to 12 of them.
const Tensor* find_input(const Call& call, std::string_view name) {
  const std::vector<ArgDef>& arguments = Table::instance().at(call.name()).signature->inputs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name == name) return &call.input(static_cast<int>(i));
  }
  return nullptr;
}
at::Tensor floats_in(const Call& call, const char* name) {
  const Tensor* const given = find_input(call, name);
  if (!given) throw_error(Code::kInternal, fmt::format("there is no input '{}'", name));
  return dense(*given).to(at::kFloat);
}
float single(const Call& call, const char* name) {
  const at::Tensor x = floats_in(call, name);
  if (x.numel() != 1) throw_invalid_argument(fmt::format("{} must be a single number", name));
  return x.item<float>();
}

float range_levels(DType dtype) {
  if (dtype != DType::kQInt8 && dtype != DType::kQUInt8)
    throw_unimplemented(fmt::format("an input is {}, expected qint8 or quint8", dtype_name(dtype)));
  return dtype == DType::kQInt8 ? 127.0F : 255.0F;
}
// What one level of a range is, where the range is cut into levels from its minimum to its maximum.
at::Tensor level_width(const at::Tensor& low, const at::Tensor& high, DType dtype) {
  return (high - low) / (dtype == DType::kQInt8 ? 254.0F : 255.0F);
}
at::Tensor larger_bound(const at::Tensor& low, const at::Tensor& high) {
  return at::maximum(at::abs(low), at::abs(high));
}

struct FusedProduct {
  at::Tensor sums;     // whole numbers, as double
  at::Tensor unit;     // what one of them stands for, a number or one for each channel
  at::Tensor weights;  // the range of the weights, likewise
  Tensor low, high;    // of the range that qint32 stands for
};

FusedProduct fused_sums(const Call& call, const char* a, const char* b, at::Tensor sums) {
  const Tensor &x = call.input(0), &w = call.input(1);
  const at::Tensor a_low = floats_in(call, fmt::format("min_{}", a).c_str()).reshape({}),
                   a_high = floats_in(call, fmt::format("max_{}", a).c_str()).reshape({});
  const at::Tensor b_low = floats_in(call, fmt::format("min_{}", b).c_str()),
                   b_high = floats_in(call, fmt::format("max_{}", b).c_str());
  if (b_low.sizes() != b_high.sizes() || b_low.dim() > 1 || (b_low.numel() != 1 && b_low.numel() != sums.size(-1)))
    throw_invalid_argument(fmt::format("min_{0} and max_{0} must be numbers, or have one for each channel", b));
  if (x.dtype() == DType::kQUInt8 && a_low.item<float>() < 0)
    throw_unimplemented(fmt::format("min_{} is {}, but quint8 stands for numbers from 0 on", a, a_low.item<float>()));
  const at::Tensor unit =
      larger_bound(a_low, a_high) * larger_bound(b_low, b_high) / (range_levels(x.dtype()) * range_levels(w.dtype()));
  const at::Tensor whole = level_width(a_low, a_high, x.dtype()) * level_width(b_low, b_high, w.dtype()) * 0x1p31F;
  return {std::move(sums), unit, larger_bound(b_low, b_high), wrap(-whole), wrap(whole)};
}

// Adds the bias, cuts off below 0, and gives the result in the range that the call asks for, or as qint32.
Tensors finished(const Call& call, FusedProduct product, bool channels_in_units) {
  const std::string_view name = call.name();
  const Tensor* const bias = find_input(call, "bias");
  at::Tensor sums = product.sums;
  if (bias) {
    if (bias->rank() != 1 || bias->dim(0) != sums.size(-1))
      throw_invalid_argument(fmt::format("bias must have {} numbers", sums.size(-1)));
    const at::Tensor given = dense(*bias).to(at::kDouble);
    sums = sums + (bias->dtype() == DType::kQInt32 ? given : given / product.unit.to(at::kDouble));
  }
  if (name.find("Relu") != std::string_view::npos) sums = sums.clamp_min(0);
  const at::Tensor values = sums.to(at::kFloat) * product.unit;
  if (name.ends_with("Dequantize")) return one(values);
  if (name.ends_with("Requantize")) {
    const float low = single(call, "min_freezed_output"), high = single(call, "max_freezed_output");
    const DType to = call.attr<DType>(find_input(call, "a") ? "Toutput" : "out_type");
    const float levels = range_levels(to);
    const at::Tensor scale = product.unit * (levels / std::max(std::abs(low), std::abs(high)));
    const at::Tensor level = at::round(sums.to(at::kFloat) * scale);
    return {wrap_as(at::clamp(level, to == DType::kQInt8 ? -128 : 0, levels).to(to_scalar_type(to)), to),
            Tensor::scalar(low), Tensor::scalar(high)};
  }
  // Channels with their own ranges are brought to the largest one.
  if (channels_in_units && product.weights.numel() > 1)
    sums = sums * (product.weights / product.weights.max()).to(at::kDouble);
  sums = at::round(sums);
  return {wrap_as(sums.clamp(-0x1p31, 0x1p31 - 1).to(at::kLong).to(at::kInt), DType::kQInt32), product.low,
          product.high};
}

at::Tensor levels_in(const Call& call, int i) {
  range_levels(call.input(i).dtype());
  return in(call, i).to(at::kDouble);
}

Tensors fused_convolution(const Call& call) {
  const bool depthwise = call.name().starts_with("QuantizedDepthwise");
  Attrs attrs{{"strides", call.attr<Ints>("strides")}, {"dilations", call.attr<Ints>("dilations")}};
  const Ints* const pads = call.find_attr<Ints>("padding_list");
  attrs.set("padding", pads && !pads->empty() ? std::string("EXPLICIT") : call.attr<std::string>("padding"));
  if (pads && !pads->empty()) attrs.set("explicit_paddings", *pads);
  const Tensor sums = call1(depthwise ? "DepthwiseConv2dNative" : "Conv2D",
                            {wrap(levels_in(call, 0)), wrap(levels_in(call, 1))}, attrs);
  return finished(call, fused_sums(call, "input", "filter", at::round(dense(sums))), true);
}

Tensors fused_product(const Call& call) {
  at::Tensor a = levels_in(call, 0), b = levels_in(call, 1);
  if (a.dim() != 2 || b.dim() != 2) throw_invalid_argument("a and b must be matrices");
  if (call.attr<bool>("transpose_a")) a = a.t();
  if (call.attr<bool>("transpose_b")) b = b.t();
  if (a.size(1) != b.size(0)) throw_invalid_argument("a and b have incompatible shapes");
  return finished(call, fused_sums(call, "a", "b", at::mm(a, b)), false);
}

}  // namespace

void register_quantized_fused(Table& table) {
  for (const char* what : {"PerChannel", "AndRelu", "AndRequantize", "AndReluAndRequantize", "WithBias",
                           "WithBiasAndRelu", "WithBiasAndRequantize", "WithBiasAndReluAndRequantize"})
    table.add(fmt::format("QuantizedConv2D{}", what), nullptr, fused_convolution);
  for (const char* what : {"", "WithBias", "WithBiasAndRelu", "WithBiasAndReluAndRequantize"})
    table.add(fmt::format("QuantizedDepthwiseConv2D{}", what), nullptr, fused_convolution);
  for (const char* what : {"", "AndDequantize", "AndRelu", "AndReluAndRequantize", "AndRequantize"})
    table.add(fmt::format("QuantizedMatMulWithBias{}", what), nullptr, fused_product);
}

}  // namespace lockstep::ops
