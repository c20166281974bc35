// Activations, softmax, losses, bias, normalization, and the gradient operations that exported graphs contain.
#include <cmath>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

using Unary = at::Tensor (*)(const at::Tensor&);
void add_unary(Table& table, std::string_view name, Unary f) {
  table.add(name, same_shape, [f](const Call& call) { return one(f(in(call, 0))); });
}
using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
void add_gradient(Table& table, std::string_view name, Binary f) {
  table.add(name, same_shape, [f](const Call& call) {
    const at::Tensor &a = in(call, 0), &b = in(call, 1);
    if (a.sizes() != b.sizes()) throw_invalid_argument("the inputs must have the same shape");
    return one(f(a, b).resolve_conj());
  });
}

// Of y and dy, which may differ in shape if they have the same number of elements.
void add_gradient_of_value(Table& table, std::string_view name, Binary f) {
  table.add(name, same_shape, [f](const Call& call) {
    const at::Tensor &y = in(call, 0), &dy = in(call, 1);
    if (y.numel() != dy.numel()) throw_invalid_argument("the inputs must have the same number of elements");
    return one(f(y, dy.reshape(y.sizes())).resolve_conj());
  });
}

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

// exp(x) - 1 and not expm1, as the original rounds it; the exponential must not overflow where it is not used.
at::Tensor below_zero(const at::Tensor& x) { return at::exp(at::clamp_max(x, 0)) - 1; }
at::Tensor elu(const at::Tensor& x) { return at::where(x < 0, below_zero(x), x); }
at::Tensor selu(const at::Tensor& x) { return at::where(x < 0, below_zero(x) * kSeluScaleAlpha, x * kSeluScale); }
at::Tensor relu6(const at::Tensor& x) { return is_float(x) ? at::hardtanh(x, 0, 6) : at::clamp(x, 0, 6); }
at::Tensor softplus(const at::Tensor& x) { return at::softplus(x, 1, x.scalar_type() == at::kDouble ? 34 : 13.94); }

// An activation of try_unary's; large tensors by its loop on several threads.
void add_activation(Table& table, std::string_view name, const char* loop, at::Tensor (*plain)(const at::Tensor&)) {
  table.add(name, same_shape, [loop, plain](const Call& call) {
    const at::Tensor& x = in(call, 0);
    if (is_large_float(x)) {
      if (auto made = try_unary(loop, call.input(0))) return Tensors{*made};
    }
    return one(plain(x));
  });
}
Tensors leaky_relu(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const auto alpha = static_cast<double>(call.attr<float>("alpha"));
  if (is_large_float(x)) {
    if (auto made = try_unary("leaky_relu", call.input(0), alpha)) return {*made};
  }
  return one(at::leaky_relu(x, alpha));
}

Tensors softmax(const Call& call, bool log) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() < 1) throw_invalid_argument("logits must have at least one axis");
  if (log) return one(at::log_softmax(x, -1));
  if (auto own = try_softmax(x)) return one(*std::move(own));
  return one(at::softmax(x, -1));
}

// ---- losses ----------------------------------------------------------------------------------------------
Shapes cross_entropy_shape(const Call& call) {
  const Shape x = broadcast_shape(call.input(0).shape(), call.input(1).shape());
  if (!x.known_rank()) return {Shape{kUnknownDim}, Shape{kUnknownDim, kUnknownDim}};
  if (x.rank() != 2) throw_invalid_argument("logits and labels must be matrices");
  return {Shape{x[0]}, x};
}
Tensors cross_entropy(const Call& call) {
  cross_entropy_shape(call);
  const CrossEntropy out = softmax_cross_entropy(in(call, 0), in(call, 1));
  return {wrap(out.loss), wrap(out.backprop)};
}
Shapes sparse_cross_entropy_shape(const Call& call) {
  const Shape &x = call.input(0).shape(), &labels = call.input(1).shape();
  if (x.known_rank() && x.rank() != 2)
    throw_invalid_argument(fmt::format("logits must be a matrix, they have shape {}", x.to_string()));
  if (labels.known_rank() && labels.rank() != 1)
    throw_invalid_argument(fmt::format("labels must be a vector, they have shape {}", labels.to_string()));
  const Shape rows = merge_shapes(x.known_rank() ? Shape{x[0]} : Shape{kUnknownDim},
                                  labels.known_rank() ? labels : Shape{kUnknownDim});
  return {rows, x.known_rank() ? Shape{rows[0], x[1]} : Shape{rows[0], kUnknownDim}};
}
Tensors sparse_cross_entropy(const Call& call) {
  sparse_cross_entropy_shape(call);
  const CrossEntropy out = sparse_softmax_cross_entropy(in(call, 0), in(call, 1));
  return {wrap(out.loss), wrap(out.backprop)};
}

// ---- bias ------------------------------------------------------------------------------------------------
std::int64_t bias_axis(const Call& call, std::int64_t rank) {
  if (rank < 2) throw_invalid_argument("the input must have at least two axes");
  const auto* format = call.find_attr<std::string>("data_format");
  return format && *format == "NCHW" ? 1 : rank - 1;
}
Shapes bias_add_shape(const Call& call) {
  Shape x = call.input(0).shape();
  const Shape& bias = call.input(1).shape();
  if (bias.known_rank() && bias.rank() != 1) throw_invalid_argument("the bias must be a vector");
  if (!x.known_rank()) return {x};
  std::int64_t& channels = x[static_cast<int>(bias_axis(call, x.rank()))];
  if (bias.known_rank()) channels = merge_shapes(Shape{channels}, bias)[0];
  return {x};
}
Tensors bias_add(const Call& call) {
  const Shape shape = bias_add_shape(call)[0];
  const at::Tensor& x = in(call, 0);
  const std::int64_t axis = bias_axis(call, x.dim());
  if (axis == x.dim() - 1) return one(narrow_to(widen(x) + widen(in(call, 1)), x.scalar_type()));
  Ints view(static_cast<std::size_t>(x.dim()), 1);
  view[static_cast<std::size_t>(axis)] = in(call, 1).size(0);
  return one(narrow_to(widen(x) + widen(in(call, 1)).reshape(view), x.scalar_type()));
}
Tensors bias_add_grad(const Call& call) {
  const at::Tensor& dy = in(call, 0);
  const std::int64_t axis = bias_axis(call, dy.dim());
  Ints rest;
  for (std::int64_t i = 0; i < dy.dim(); ++i) {
    if (i != axis) rest.push_back(i);
  }
  const at::Tensor wide = widen(dy);
  return one(narrow_to(wide.sum(rest, false, wide.scalar_type()), dy.scalar_type()));
}
Shapes bias_add_grad_shape(const Call& call) {
  const Shape& dy = call.input(0).shape();
  return {dy.known_rank() ? Shape{dy[static_cast<int>(bias_axis(call, dy.rank()))]} : Shape{kUnknownDim}};
}

// ---- batch normalization -----------------------------------------------------------------------------------
std::int64_t channel_axis(const Call& call, std::int64_t rank) {
  return call.attr<std::string>("data_format").starts_with("NC") ? 1 : rank - 1;
}
at::Tensor along(const at::Tensor& vector, std::int64_t axis, std::int64_t rank) {
  Ints view(static_cast<std::size_t>(rank), 1);
  view[static_cast<std::size_t>(axis)] = vector.size(0);
  return vector.reshape(view);
}
Ints other_axes(std::int64_t axis, std::int64_t rank) {
  Ints rest;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (i != axis) rest.push_back(i);
  }
  return rest;
}
Shapes batch_norm_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  Shape channels = call.input(1).shape();
  if (!channels.known_rank() && x.known_rank()) channels = Shape{x[static_cast<int>(channel_axis(call, x.rank()))]};
  Shapes out = {x, channels, channels, channels, channels};
  if (call.signature().outputs.size() > 5) out.push_back(Shape{0});
  return out;
}
// Scale, offset, mean and variance have one entry for each channel; a mean and variance that are not read may be empty.
void check_channels(const Call& call, int x, int first, int last, bool reads_moments) {
  const std::int64_t channels = in(call, x).size(channel_axis(call, in(call, x).dim()));
  for (int i = first; i <= last; ++i) {
    const bool optional = x == 0 && i >= 3 && !reads_moments;
    const std::int64_t count = in(call, i).dim() == 1 ? in(call, i).size(0) : -1;
    if (count == channels || (optional && count == 0)) continue;
    throw_invalid_argument(
        fmt::format("input {} has shape {}, expected {} channels", i, call.input(i).shape().to_string(), channels));
  }
}
Tensors batch_norm(const Call& call) {
  const at::Tensor &raw = in(call, 0), &scale = in(call, 1), &offset = in(call, 2);
  const at::ScalarType type = raw.scalar_type();
  const at::Tensor x = type == at::kHalf || type == at::kBFloat16 ? raw.to(at::kFloat) : raw;
  const std::int64_t rank = x.dim(), axis = channel_axis(call, rank);
  const double epsilon = static_cast<double>(call.attr<float>("epsilon"));
  const auto* factor_attr = call.find_attr<float>("exponential_avg_factor");
  const double factor = factor_attr ? static_cast<double>(*factor_attr) : 1.0;
  check_channels(call, 0, 1, 4, !call.attr<bool>("is_training") || factor != 1.0);
  at::Tensor y, mean, variance, batch_mean, batch_variance, reserve_mean, reserve_variance;
  if (call.attr<bool>("is_training")) {
    const Ints axes = other_axes(axis, rank);
    const std::int64_t count = x.size(axis) == 0 ? 0 : x.numel() / x.size(axis);
    mean = x.mean(axes);
    const at::Tensor centered = x - along(mean, axis, rank);
    variance = at::square(centered).mean(axes);
    y = centered * along(at::rsqrt(variance + epsilon) * scale, axis, rank) + along(offset, axis, rank);
    batch_mean = mean.detach();
    batch_variance =
        variance.detach() * (count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1.0);
    reserve_mean = count == 0 ? at::zeros_like(batch_mean) : batch_mean;
    reserve_variance = count == 0 ? at::zeros_like(batch_mean) : variance.detach();
    if (factor != 1.0) {
      batch_mean = in(call, 3) * (1 - factor) + batch_mean * factor;
      batch_variance = in(call, 4) * (1 - factor) + batch_variance * factor;
    }
  } else {
    mean = in(call, 3).detach(), variance = in(call, 4).detach();  // TensorFlow gives them no gradient
    y = (x - along(mean, axis, rank)) * along(at::rsqrt(variance + epsilon) * scale, axis, rank) +
        along(offset, axis, rank);
    batch_mean = reserve_mean = mean, batch_variance = reserve_variance = variance;
  }
  Tensors out = {wrap(narrow_to(y, type)), wrap(batch_mean), wrap(batch_variance), wrap(reserve_mean),
                 wrap(reserve_variance)};
  if (call.signature().outputs.size() > 5) out.push_back(wrap(at::empty({0}, at::kFloat)));
  return out;
}
Tensors batch_norm_grad(const Call& call) {
  const at::ScalarType type = in(call, 0).scalar_type();
  const at::Tensor dy = in(call, 0).to(at::kFloat), x = in(call, 1).to(at::kFloat);
  check_channels(call, 1, 2, 4, true);
  const at::Tensor& scale = in(call, 2);
  at::Tensor mean = in(call, 3).detach(), variance = in(call, 4).detach();
  const std::int64_t rank = x.dim(), axis = channel_axis(call, rank);
  const Ints axes = other_axes(axis, rank);
  if (call.attr<bool>("is_training") && x.requires_grad() && grad_enabled()) {
    // The given moments, with a gradient that follows those of x.
    const at::Tensor center = x.mean(axes), spread = at::square(x - along(center, axis, rank)).mean(axes);
    mean = mean + (center - center.detach());
    variance = variance + (spread - spread.detach());
  }
  const at::Tensor inverse = at::rsqrt(variance + static_cast<double>(call.attr<float>("epsilon")));
  const at::Tensor normal = (x - along(mean, axis, rank)) * along(inverse, axis, rank);
  const at::Tensor d_scale = (dy * normal).sum(axes), d_offset = dy.sum(axes);
  at::Tensor dx = dy;
  if (call.attr<bool>("is_training")) {
    const double count = static_cast<double>(x.numel()) / static_cast<double>(std::max<std::int64_t>(1, x.size(axis)));
    dx = dy - along(d_offset / count, axis, rank) - normal * along(d_scale / count, axis, rank);
  }
  dx = dx * along(scale * inverse, axis, rank);
  return {wrap(narrow_to(dx, type)), wrap(d_scale), wrap(d_offset), wrap(at::empty({0}, at::kFloat)),
          wrap(at::empty({0}, at::kFloat))};
}

// ---- local response, blocks ----------------------------------------------------------------------------------
Tensors lrn(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const std::int64_t depth = x.size(-1);
  const std::int64_t radius = std::min(call.attr<std::int64_t>("depth_radius"), depth);  // beyond that there is nothing
  const at::Tensor squares = at::constant_pad_nd(at::square(x), {radius, radius});
  at::Tensor sum = at::zeros_like(x);
  for (std::int64_t i = 0; i <= 2 * radius; ++i) sum = sum + squares.slice(-1, i, i + depth);
  const at::Tensor base =
      sum * static_cast<double>(call.attr<float>("alpha")) + static_cast<double>(call.attr<float>("bias"));
  return one(x * at::pow(base, -static_cast<double>(call.attr<float>("beta"))));
}

Shapes depth_space_shape(const Call& call, bool to_space) {
  const Shape& x = call.input(0).shape();
  const std::int64_t b = call.attr<std::int64_t>("block_size");
  if (!x.known_rank()) return {Shape{kUnknownDim, kUnknownDim, kUnknownDim, kUnknownDim}};
  if (x.rank() != 4) throw_invalid_argument("the input must have rank 4");
  std::int64_t cells = 0;
  if (b < 2 || __builtin_mul_overflow(b, b, &cells))
    throw_invalid_argument(fmt::format("invalid block_size: found {}, expected at least 2", b));
  if (call.attr<std::string>("data_format") != "NHWC")
    throw_unimplemented(fmt::format("{} with data_format {}", call.name(), call.attr<std::string>("data_format")));
  const auto shrink = [](std::int64_t dim, std::int64_t by) {
    if (dim != kUnknownDim && dim % by != 0) throw_invalid_argument(fmt::format("{} is not divisible by {}", dim, by));
    return dim == kUnknownDim ? dim : dim / by;
  };
  if (to_space) return {Shape{x[0], mul_dims(x[1], b), mul_dims(x[2], b), shrink(x[3], cells)}};
  return {Shape{x[0], shrink(x[1], b), shrink(x[2], b), mul_dims(x[3], cells)}};
}
Tensors depth_to_space(const Call& call) {
  const Ints out = depth_space_shape(call, true)[0].dims();
  const at::Tensor& x = in(call, 0);
  const std::int64_t b = call.attr<std::int64_t>("block_size");
  return one(x.reshape({x.size(0), x.size(1), x.size(2), b, b, out[3]}).permute({0, 1, 3, 2, 4, 5}).reshape(out));
}
Tensors space_to_depth(const Call& call) {
  const Ints out = depth_space_shape(call, false)[0].dims();
  const at::Tensor& x = in(call, 0);
  const std::int64_t b = call.attr<std::int64_t>("block_size");
  return one(x.reshape({out[0], out[1], b, out[2], b, x.size(3)}).permute({0, 1, 3, 2, 4, 5}).reshape(out));
}
// Number of cells of a block. One block size for each axis after the first, two amounts for each block size.
std::int64_t block_cells(const Ints& block, const Ints& amounts, int rank) {
  if (static_cast<std::int64_t>(block.size()) >= rank || amounts.size() != 2 * block.size()) {
    throw_invalid_argument(fmt::format("block_shape with {} and {} paddings or crops do not fit an input of rank {}",
                                       block.size(), amounts.size() / 2, rank));
  }
  std::int64_t cells = 1;
  for (auto b : block) {
    if (b < 1 || __builtin_mul_overflow(cells, b, &cells))
      throw_invalid_argument(fmt::format("invalid block_shape: a block of {} cells", b));
  }
  for (auto amount : amounts) {
    if (amount < 0) throw_invalid_argument(fmt::format("paddings and crops must not be negative: {}", amount));
  }
  return cells;
}
Shapes batch_space_shape(const Call& call, bool to_batch) {
  Shape x = call.input(0).shape();
  const auto block = known_ints(call, 1), amounts = known_ints(call, 2);
  if (!x.known_rank()) return {x};
  if (!block || !amounts) return {Shape(Ints(x.dims().size(), kUnknownDim))};
  const std::int64_t cells = block_cells(*block, *amounts, x.rank());
  x[0] = to_batch ? mul_dims(x[0], cells) : (x[0] == kUnknownDim ? x[0] : x[0] / cells);
  for (std::size_t i = 0; i < block->size(); ++i) {
    std::int64_t& dim = x[static_cast<int>(i + 1)];
    if (dim == kUnknownDim) continue;
    const std::int64_t sum = (*amounts)[2 * i] + (*amounts)[2 * i + 1];
    if (to_batch && (dim + sum) % (*block)[i] != 0)
      throw_invalid_argument(fmt::format("padded extent {} is not divisible by block {}", dim + sum, (*block)[i]));
    dim = to_batch ? (dim + sum) / (*block)[i] : dim * (*block)[i] - sum;
  }
  return {x};
}
Tensors space_to_batch(const Call& call) {
  const Shape out = batch_space_shape(call, true)[0];
  const Ints block = ints_in(call, 1), paddings = ints_in(call, 2);
  const at::Tensor& x = in(call, 0);
  const auto n = static_cast<std::int64_t>(block.size());
  Ints amounts;
  for (std::int64_t i = x.dim() - 1; i >= 0; --i) {
    const bool spatial = i >= 1 && i <= n;
    amounts.push_back(spatial ? paddings[static_cast<std::size_t>(2 * (i - 1))] : 0);
    amounts.push_back(spatial ? paddings[static_cast<std::size_t>(2 * (i - 1) + 1)] : 0);
  }
  const at::Tensor padded = at::constant_pad_nd(x, amounts);
  Ints shape = {x.size(0)}, order;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t b = block[static_cast<std::size_t>(i)];
    shape.push_back(padded.size(i + 1) / b), shape.push_back(b);
    order.push_back(2 * i + 2);
  }
  order.push_back(0);
  for (std::int64_t i = 0; i < n; ++i) order.push_back(2 * i + 1);
  for (std::int64_t i = n + 1; i < x.dim(); ++i) shape.push_back(x.size(i)), order.push_back(n + i);
  return one(padded.reshape(shape).permute(order).reshape(out.dims()));
}
Tensors batch_to_space(const Call& call) {
  const Ints block = ints_in(call, 1), crops = ints_in(call, 2);
  const at::Tensor& x = in(call, 0);
  const auto n = static_cast<std::int64_t>(block.size());
  const std::int64_t cells = block_cells(block, crops, static_cast<int>(x.dim()));
  if (x.size(0) % cells != 0) throw_invalid_argument(fmt::format("batch {} is not divisible by {}", x.size(0), cells));
  Ints shape = block, order = {n}, merged = {x.size(0) / cells};
  for (std::int64_t i = 0; i < x.dim(); ++i) shape.push_back(i == 0 ? x.size(0) / cells : x.size(i));
  for (std::int64_t i = 0; i < n; ++i) {
    order.push_back(n + 1 + i), order.push_back(i);
    merged.push_back(x.size(i + 1) * block[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t i = n + 1; i < x.dim(); ++i) order.push_back(n + i), merged.push_back(x.size(i));
  at::Tensor y = x.reshape(shape).permute(order).reshape(merged);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t before = crops[static_cast<std::size_t>(2 * i)],
                       after = crops[static_cast<std::size_t>(2 * i + 1)], extent = y.size(i + 1);
    if (before > extent || after > extent - before)
      throw_invalid_argument(
          fmt::format("crops {} and {} exceed the extent {} of axis {}", before, after, extent, i + 1));
    y = y.slice(i + 1, before, y.size(i + 1) - after);
  }
  return one(y);
}

}  // namespace

void register_nn(Table& table) {
  add_activation(table, "Relu", "relu", [](const at::Tensor& x) { return at::relu(x); });
  add_unary(table, "Relu6", relu6);
  add_activation(table, "Elu", "elu", elu);
  add_activation(table, "Selu", "selu", selu);
  add_unary(table, "Softplus", softplus);
  add_unary(table, "Softsign", [](const at::Tensor& x) { return x / (at::abs(x) + 1); });
  add_activation(table, "Sigmoid", "sigmoid", [](const at::Tensor& x) {
    if (!has_complex(x)) return at::sigmoid(x);
    const at::Tensor below = at::real(x.detach()) < 0, size = at::exp(at::where(below, x, -x));  // never infinite
    return at::where(below, size, at::ones({}, x.options())) / (size + 1);
  });
  add_activation(table, "Tanh", "tanh", [](const at::Tensor& x) { return at::tanh(x); });
  table.add("LeakyRelu", same_shape, leaky_relu);
  table.add("Softmax", same_shape, [](const Call& call) { return softmax(call, false); });
  table.add("LogSoftmax", same_shape, [](const Call& call) { return softmax(call, true); });
  table.add("SoftmaxCrossEntropyWithLogits", cross_entropy_shape, cross_entropy);
  table.add("SparseSoftmaxCrossEntropyWithLogits", sparse_cross_entropy_shape, sparse_cross_entropy);
  table.add("L2Loss", scalar_rule, [](const Call& call) { return one(at::square(in(call, 0)).sum() * 0.5); });
  for (auto name : {"BiasAdd", "BiasAddV1"}) table.add(name, bias_add_shape, bias_add);
  table.add("BiasAddGrad", bias_add_grad_shape, bias_add_grad);
  for (auto name : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
    table.add(name, batch_norm_shape, batch_norm);
  table.add("FusedBatchNormGradV3", nullptr, batch_norm_grad);
  table.add("LRN", same_shape, lrn);
  table.add(
      "DepthToSpace", [](const Call& call) { return depth_space_shape(call, true); }, for_strings_too(depth_to_space));
  table.add(
      "SpaceToDepth", [](const Call& call) { return depth_space_shape(call, false); }, for_strings_too(space_to_depth));
  table.add(
      "SpaceToBatchND", [](const Call& call) { return batch_space_shape(call, true); },
      for_strings_too(space_to_batch));
  table.add(
      "BatchToSpaceND", [](const Call& call) { return batch_space_shape(call, false); },
      for_strings_too(batch_to_space));
  add_gradient_of_value(table, "SigmoidGrad",
                        [](const at::Tensor& y, const at::Tensor& dy) { return dy * (y * (1 - y)); });
  add_gradient_of_value(table, "TanhGrad", [](const at::Tensor& y, const at::Tensor& dy) { return dy * (1 - y * y); });
  add_gradient_of_value(table, "SqrtGrad", [](const at::Tensor& y, const at::Tensor& dy) {
    return zero_where_dy_is(dy, dy * half_of_inverse(y));
  });
  add_gradient_of_value(table, "RsqrtGrad", [](const at::Tensor& y, const at::Tensor& dy) {
    return zero_where_dy_is(dy, dy * at::conj(y) * -0.5 * at::conj(y * y));
  });
  // Products, so that slopes that are not finite give NaN where the function is flat, as in TensorFlow.
  add_gradient(table, "ReluGrad", [](const at::Tensor& dy, const at::Tensor& x) {
    return dy * (ordered(x) > ordered(at::zeros({}, x.options()))).to(dy.scalar_type());
  });
  add_gradient(table, "Relu6Grad", [](const at::Tensor& dy, const at::Tensor& x) {
    const at::Tensor value = ordered(x), low = ordered(at::zeros({}, x.options())),
                     high = ordered(at::full({}, 6, x.options()));
    return dy * at::logical_and(value > low, value < high).to(dy.scalar_type());
  });
  add_gradient(table, "EluGrad",
               [](const at::Tensor& dy, const at::Tensor& y) { return below_zero_slope(dy, y, 1, 1); });
  add_gradient(table, "SoftplusGrad", [](const at::Tensor& dy, const at::Tensor& x) { return dy * at::sigmoid(x); });
  add_gradient(table, "SoftsignGrad",
               [](const at::Tensor& dy, const at::Tensor& x) { return dy / at::square(at::abs(x) + 1); });
}

}  // namespace lockstep::ops
