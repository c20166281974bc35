// Operations that TensorFlow's graph optimizers put in the place of several ones: the remapper of grappler, and
// fuse_convolutions of the Graph Transform Tool. Each runs the operations that it was made of.
#include <cmath>

#include "lockstep/ops/call.h"
#include "lockstep/ops/call_attrs_internal.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

at::Tensor gelu(const at::Tensor& x, bool approximate) {
  if (!approximate) return 0.5 * x * at::erfc(-x * M_SQRT1_2);
  return 0.5 * x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// The operation `name` of an attribute fused_ops on x; it takes its other operands from input number `next` on.
Tensor applied(const Call& call, const std::string& name, const Tensor& x, int& next) {
  const auto operand = [&]() -> const Tensor& {
    if (next >= call.num_inputs()) throw_invalid_argument(fmt::format("there is no operand for {}", name));
    return call.input(next++);
  };
  if (name == "BiasAdd") {
    const auto* format = call.find_attr<std::string>("data_format");
    const bool channels_first = format && format->starts_with("NC");
    return call1("BiasAdd", {x, operand()}, {{"data_format", std::string(channels_first ? "NCHW" : "NHWC")}});
  }
  if (name == "Add") return call1("AddV2", {x, operand()});
  if (name == "FusedBatchNorm") {
    Tensors inputs{x};
    for (int i = 0; i < 4; ++i) inputs.push_back(operand());
    Attrs attrs = shared_attrs(call, "FusedBatchNormV3");
    attrs.set("is_training", false);
    return ops::call("FusedBatchNormV3", inputs, attrs)[0];
  }
  if (name == "LeakyRelu") return call1("LeakyRelu", {x}, {{"alpha", call.attr<float>("leakyrelu_alpha")}});
  if (name == "GeluExact" || name == "GeluApproximate") return wrap(gelu(dense(x), name == "GeluApproximate"));
  if (name == "_FusedHardSwish") return call1("Mul", {x, wrap(at::clamp(dense(x) + 3, 0, 6) / 6)});
  for (const char* known : {"Relu", "Relu6", "Elu", "Tanh", "Sigmoid"}) {
    if (name == known) return call1(name, {x});
  }
  throw_unimplemented(fmt::format("fused_ops has the operation '{}'", name));
}

// `name` on the first two inputs, then each of fused_ops.
Tensors fused(const Call& call, std::string_view name) {
  if (const auto* format = call.find_attr<std::string>("filter_format"); format && *format != "HWIO")
    throw_unimplemented(fmt::format("filter_format {}", *format));
  Tensor x = call1(name, {call.input(0), call.input(1)}, shared_attrs(call, name));
  int next = 2;
  for (const std::string& step : call.attr<std::vector<std::string>>("fused_ops")) x = applied(call, step, x, next);
  return {x};
}

Tensors fused_batch_norm(const Call& call) {
  Tensors out =
      ops::call("FusedBatchNormV3", call.inputs().first(5), shared_attrs(call, "FusedBatchNormV3", {"T", "U"}));
  if (call.num_inputs() > 5) out[0] = call1("AddV2", {out[0], call.input(5)});
  const auto& activation = call.attr<std::string>("activation_mode");
  if (activation == "Relu") {
    out[0] = call1("Relu", {out[0]});
  } else if (activation != "Identity") {
    throw_unimplemented(fmt::format("activation_mode {}", activation));
  }
  return out;
}

// A convolution of an image that is padded by mirroring, perhaps resized before.
Tensors padded_convolution(const Call& call, bool resized) {
  Tensor x = call.input(0);
  if (resized)
    x = call1("ResizeBilinear", {x, call.input(1)}, {{"align_corners", call.attr<bool>("resize_align_corners")}});
  x = call1("MirrorPad", {x, call.input(resized ? 2 : 1)}, {{"mode", call.attr<std::string>("mode")}});
  return {call1("Conv2D", {x, call.input(resized ? 3 : 2)}, shared_attrs(call, "Conv2D"))};
}

// Conv2D or Conv3D by the rank of the filter.
Tensors convolution(const Call& call) {
  const int rank = call.input(1).rank() - 2;
  if (rank != 2 && rank != 3) throw_unimplemented(fmt::format("a convolution along {} axes", rank));
  if (call.attr<std::int64_t>("batch_dims") != 1) throw_unimplemented("a convolution with several batch axes");
  if (call.attr<std::int64_t>("groups") != 1) throw_unimplemented("a convolution with groups");
  const bool first = call.attr<std::string>("data_format") == "CHANNELS_FIRST";
  auto dilations = call.attr<std::vector<std::int64_t>>("dilations");
  dilations.resize(dilations.empty() ? static_cast<std::size_t>(rank + 2) : dilations.size(), 1);
  Attrs attrs{{"strides", call.attr<std::vector<std::int64_t>>("strides")},
              {"padding", call.attr<std::string>("padding")},
              {"dilations", std::move(dilations)},
              {"data_format", std::string(rank == 2 ? (first ? "NCHW" : "NHWC") : (first ? "NCDHW" : "NDHWC"))}};
  if (rank == 2) attrs.set("explicit_paddings", call.attr<std::vector<std::int64_t>>("explicit_paddings"));
  return {call1(rank == 2 ? "Conv2D" : "Conv3D", {call.input(0), call.input(1)}, attrs)};
}

}  // namespace

void register_fused_nodes(Table& table) {
  for (const auto& [fused_name, name] :
       {std::pair{"_FusedConv2D", "Conv2D"}, std::pair{"_FusedConv3D", "Conv3D"},
        std::pair{"_FusedDepthwiseConv2dNative", "DepthwiseConv2dNative"}, std::pair{"_FusedMatMul", "MatMul"}}) {
    table.add(fused_name, nullptr, [name](const Call& call) { return fused(call, name); });
  }
  table.add("_FusedBatchNormEx", nullptr, fused_batch_norm);
  table.add("Conv", nullptr, convolution);
  table.add("FusedPadConv2D", nullptr, [](const Call& call) { return padded_convolution(call, false); });
  table.add("FusedResizeAndPadConv2D", nullptr, [](const Call& call) { return padded_convolution(call, true); });
}

}  // namespace lockstep::ops
