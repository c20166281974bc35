#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/fused_loss_internal.h"

namespace lockstep::ops {
namespace {

Tensor rows_of_classes(const Tensor& x) {
  if (x.rank() == 0)
    throw_invalid_argument("softmax_cross_entropy_with_logits: logits and labels require an axis of classes");
  const std::int64_t classes = x.dim(-1);
  return reshape(x, {Extent(-1), classes != kUnknownDim ? Extent(classes) : Extent(dim_of(x, x.rank() - 1))});
}

bool channels_first(std::string_view data_format) { return data_format.starts_with("NC"); }

// One entry per axis of the tensor from one per spatial axis: 1 for batch and channels.
Ints per_axis(const Ints& spatial, std::string_view data_format) {
  Ints all = {1};
  if (channels_first(data_format)) all.push_back(1);
  all.insert(all.end(), spatial.begin(), spatial.end());
  if (!channels_first(data_format)) all.push_back(1);
  return all;
}

Attrs conv_attrs(const ConvOptions& options) {
  Attrs attrs = {{"strides", per_axis(options.strides, options.data_format)},
                 {"padding", std::string(options.padding)},
                 {"data_format", std::string(options.data_format)},
                 {"dilations", per_axis(options.dilations, options.data_format)}};
  if (options.padding == "EXPLICIT") {
    Ints paddings = {0, 0};
    if (channels_first(options.data_format)) paddings.insert(paddings.end(), {0, 0});
    paddings.insert(paddings.end(), options.explicit_paddings.begin(), options.explicit_paddings.end());
    if (!channels_first(options.data_format)) paddings.insert(paddings.end(), {0, 0});
    attrs.set("explicit_paddings", std::move(paddings));
  }
  return attrs;
}

Attrs pool_attrs(const PoolOptions& options) {
  return {{"ksize", per_axis(options.size, options.data_format)},
          {"strides", per_axis(options.strides, options.data_format)},
          {"padding", std::string(options.padding)},
          {"data_format", std::string(options.data_format)}};
}

// Moves `axis` to the end, applies the op there, and moves it back.
Tensor along_last(std::string_view name, const Tensor& x, int axis) {
  if (axis == -1 || axis == x.rank() - 1) return call1(name, {x});
  if (axis < -x.rank() || axis >= x.rank()) {
    throw_invalid_argument(fmt::format("{}: axis {} is not among the axes of {}", name, axis, x.shape().to_string()));
  }
  if (axis < 0) axis += x.rank();
  Ints permutation(static_cast<std::size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[static_cast<std::size_t>(axis)], permutation.back());
  return transpose(call1(name, {transpose(x, permutation)}), permutation);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  if (a.rank() == 2 && b.rank() == 2) {
    return call1("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
  }
  return call1("BatchMatMulV2", {a, b}, {{"adj_x", transpose_a}, {"adj_y", transpose_b}});
}

namespace {

// The output of an equation without one: the ellipsis and the labels that come once, sorted.
std::string implicit_output(std::string_view inputs) {
  std::map<char, int> counts;
  for (const char label : inputs) {
    if (std::isalpha(static_cast<unsigned char>(label))) ++counts[label];
  }
  std::string output = inputs.find("...") == std::string_view::npos ? "" : "...";
  for (const auto& [label, count] : counts) {
    if (count == 1) output += label;
  }
  return output;
}

}  // namespace

Tensor einsum(std::string_view equation, const Tensors& operands) {
  std::string compact(equation);
  std::erase(compact, ' ');
  if (compact.find("->") == std::string::npos) compact += "->" + implicit_output(compact);
  return call1("Einsum", operands, {{"equation", std::move(compact)}});
}

Tensor tensordot_last(const Tensor& a, const Tensor& b) {
  if (a.rank() == 2 && b.rank() == 2) return matmul(a, b);
  if (!a.shape().known_rank() || !b.shape().fully_known()) {
    throw_invalid_argument("tensordot: the rank of the first and the shape of the second operand must be known");
  }
  const std::int64_t inner = b.dim(0);
  Ints rest(b.shape().dims().begin() + 1, b.shape().dims().end());
  std::int64_t columns = 1;
  for (auto dim : rest) columns *= dim;
  const Tensor product = matmul(reshape(a, Ints{-1, inner}), reshape(b, Ints{inner, columns}));
  Ints leading(a.shape().dims().begin(), a.shape().dims().end() - 1);
  if (std::count(leading.begin(), leading.end(), kUnknownDim) <= 1) {
    leading.insert(leading.end(), rest.begin(), rest.end());
    return reshape(product, leading);
  }
  Tensors dims;
  for (int i = 0; i + 1 < a.rank(); ++i) dims.push_back(dim_of(a, i));
  for (auto dim : rest) dims.push_back(constant(static_cast<double>(dim), DType::kInt32));
  return reshape(product, stack(dims));
}

Tensor bias_add(const Tensor& x, const Tensor& bias, std::string_view data_format) {
  return call1("BiasAdd", {x, bias}, {{"data_format", std::string(channels_first(data_format) ? "NCHW" : "NHWC")}});
}

Tensor relu(const Tensor& x) { return call1("Relu", {x}); }
Tensor relu6(const Tensor& x) { return call1("Relu6", {x}); }
Tensor leaky_relu(const Tensor& x, double alpha) {
  return call1("LeakyRelu", {x}, {{"alpha", static_cast<float>(alpha)}});
}
Tensor elu(const Tensor& x) { return call1("Elu", {x}); }
Tensor selu(const Tensor& x) { return call1("Selu", {x}); }
Tensor softplus(const Tensor& x) { return call1("Softplus", {x}); }
Tensor softsign(const Tensor& x) { return call1("Softsign", {x}); }
Tensor sigmoid(const Tensor& x) { return call1("Sigmoid", {x}); }
Tensor tanh(const Tensor& x) { return call1("Tanh", {x}); }
Tensor softmax(const Tensor& x, int axis) { return along_last("Softmax", x, axis); }
Tensor log_softmax(const Tensor& x, int axis) { return along_last("LogSoftmax", x, axis); }

// The operations take matrices. As in TensorFlow the leading axes are one for them.
Tensor sparse_softmax_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels) {
  if (logits.shape().known_rank() && logits.rank() != 2) {
    const Tensor rows = reshape(labels, {-1});
    return reshape(sparse_softmax_cross_entropy_with_logits(rows_of_classes(logits), rows), shape(labels));
  }
  if (auto fused = try_softmax_cross_entropy(logits, labels)) return *fused;
  return call("SparseSoftmaxCrossEntropyWithLogits", {logits, labels})[0];
}
Tensor softmax_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels) {
  if (logits.shape().known_rank() && logits.rank() != 2) {
    const Tensor losses = softmax_cross_entropy_with_logits(rows_of_classes(logits), rows_of_classes(labels));
    return reshape(losses, slice_axis(shape(logits), 0, 0, -1));
  }
  if (auto fused = try_softmax_cross_entropy(logits, labels)) return *fused;
  return call("SoftmaxCrossEntropyWithLogits", {logits, labels})[0];
}
Tensor sigmoid_cross_entropy_with_logits(const Tensor& logits, const Tensor& labels) {
  const Tensor zeros = zeros_like(logits);
  const Tensor positive = greater_equal(logits, zeros);
  const Tensor clipped = where(positive, logits, zeros);
  const Tensor negative_abs = where(positive, neg(logits), logits);
  return add(sub(clipped, mul(logits, labels)), log1p(exp(negative_abs)));
}

Tensor conv2d(const Tensor& x, const Tensor& kernel, const ConvOptions& options) {
  return call1("Conv2D", {x, kernel}, conv_attrs(options));
}
Tensor depthwise_conv2d(const Tensor& x, const Tensor& kernel, const ConvOptions& options) {
  return call1("DepthwiseConv2dNative", {x, kernel}, conv_attrs(options));
}
Tensor conv2d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& output_shape, const ConvOptions& options) {
  return call1("Conv2DBackpropInput", {output_shape, kernel, x}, conv_attrs(options));
}
Tensor conv2d_transpose_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& output_shape, const Tensor& bias,
                                 bool relu, const ConvOptions& options) {
  if (auto fused = try_conv2d_transpose_bias_act(x, kernel, output_shape, bias, relu, conv_attrs(options)))
    return *fused;
  Tensor y = conv2d_transpose(x, kernel, output_shape, options);
  if (bias.defined()) y = add(y, bias);
  return relu ? ops::relu(y) : y;
}
Tensor conv3d(const Tensor& x, const Tensor& kernel, const ConvOptions& options) {
  return call1("Conv3D", {x, kernel}, conv_attrs(options));
}
Tensor max_pool(const Tensor& x, const PoolOptions& options) { return call1("MaxPool", {x}, pool_attrs(options)); }
Tensor avg_pool(const Tensor& x, const PoolOptions& options) { return call1("AvgPool", {x}, pool_attrs(options)); }
Tensor max_pool3d(const Tensor& x, const PoolOptions& options) { return call1("MaxPool3D", {x}, pool_attrs(options)); }
Tensor avg_pool3d(const Tensor& x, const PoolOptions& options) { return call1("AvgPool3D", {x}, pool_attrs(options)); }

BatchNorm fused_batch_norm(const Tensor& x, const Tensor& scale, const Tensor& offset, const Tensor& mean,
                           const Tensor& variance, double epsilon, bool training, std::string_view data_format) {
  Tensors out = call(
      "FusedBatchNormV3", {x, scale, offset, mean, variance},
      {{"epsilon", static_cast<float>(epsilon)}, {"is_training", training}, {"data_format", std::string(data_format)}});
  return {out[0], out[1], out[2]};
}

Tensor resize_bilinear(const Tensor& images, std::int64_t height, std::int64_t width) {
  return call1("ResizeBilinear", {images, constant_ints({height, width})}, {{"half_pixel_centers", true}});
}
Tensor resize_nearest(const Tensor& images, std::int64_t height, std::int64_t width) {
  return call1("ResizeNearestNeighbor", {images, constant_ints({height, width})}, {{"half_pixel_centers", true}});
}

Tensor activate(const Tensor& x, std::string_view activation) {
  if (activation.empty() || activation == "linear") return x;
  if (activation == "relu") return relu(x);
  if (activation == "relu6") return relu6(x);
  if (activation == "sigmoid") return sigmoid(x);
  if (activation == "tanh") return tanh(x);
  if (activation == "elu") return elu(x);
  if (activation == "selu") return selu(x);
  if (activation == "softplus") return softplus(x);
  if (activation == "softsign") return softsign(x);
  if (activation == "softmax") return softmax(x);
  if (activation == "log_softmax") return log_softmax(x);
  if (activation == "leaky_relu") return leaky_relu(x);
  if (activation == "exponential") return exp(x);
  throw_invalid_argument(fmt::format("unknown activation '{}'", activation));
}

Tensor conv2d_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, std::string_view activation,
                       const ConvOptions& options) {
  if (auto fused = try_conv2d_bias_act(x, kernel, bias, activation == "relu", conv_attrs(options))) {
    return activation == "relu" ? *fused : activate(*fused, activation);
  }
  Tensor y = conv2d(x, kernel, options);
  if (bias.defined()) y = bias_add(y, bias, options.data_format);
  return activate(y, activation);
}

Tensor dense_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, std::string_view activation) {
  if (auto fused = try_dense_bias_act(x, kernel, bias, activation == "relu")) {
    return activation == "relu" ? *fused : activate(*fused, activation);
  }
  Tensor y = tensordot_last(x, kernel);
  if (bias.defined()) y = y.rank() >= 2 ? bias_add(y, bias) : add(y, bias);
  return activate(y, activation);
}

Tensor read_variable(const Tensor& handle, DType dtype) {
  return call1("ReadVariableOp", {handle}, {{"dtype", dtype}});
}
void assign_variable(const Tensor& handle, const Tensor& value) { call("AssignVariableOp", {handle, value}); }
void assign_add_variable(const Tensor& handle, const Tensor& value) { call("AssignAddVariableOp", {handle, value}); }
void assign_sub_variable(const Tensor& handle, const Tensor& value) { call("AssignSubVariableOp", {handle, value}); }

Tensor stateless_random_uniform(const Tensor& shape, const Tensor& seed, DType dtype) {
  return call1("StatelessRandomUniform", {shape, seed}, {{"dtype", dtype}});
}
Tensor stateless_random_normal(const Tensor& shape, const Tensor& seed, DType dtype) {
  return call1("StatelessRandomNormal", {shape, seed}, {{"dtype", dtype}});
}
Tensor stateless_truncated_normal(const Tensor& shape, const Tensor& seed, DType dtype) {
  return call1("StatelessTruncatedNormal", {shape, seed}, {{"dtype", dtype}});
}
Tensor stateless_random_uniform_int(const Tensor& shape, const Tensor& seed, const Tensor& low, const Tensor& high) {
  return call1("StatelessRandomUniformInt", {shape, seed, low, high});
}
Tensor stateless_random_full_int(const Tensor& shape, const Tensor& seed, DType dtype) {
  const Tensors key = call("StatelessRandomGetKeyCounter", {seed});
  return call1("StatelessRandomUniformFullIntV2", {shape, key[0], key[1], constant(1, DType::kInt32)},
               {{"dtype", dtype}});
}

}  // namespace lockstep::ops
