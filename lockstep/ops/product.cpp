#include "lockstep/ops/product_internal.h"

#include <algorithm>
#include <numeric>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/ops/conv_direct_internal.h"
#include "lockstep/ops/direct_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kWorthAThread = 1 << 20;  // multiplications
constexpr std::int64_t kRowBlock = 48;           // rows for which packing a panel pays

// A row-major matrix, maybe stored the other way round: nothing is copied for a transposed view.
struct Stored {
  at::Tensor matrix;
  bool transposed;
};
Stored stored(const at::Tensor& x, bool transposed) {
  if (x.stride(-1) == 1 && x.stride(-2) >= x.size(-1)) return {x, transposed};
  if (x.stride(-2) == 1 && x.stride(-1) >= x.size(-2)) return {x.transpose(-1, -2), !transposed};
  return {x.contiguous(), transposed};
}

// Where the matrices of a stack begin, in floats.
std::vector<std::int64_t> places_of(const at::Tensor& stack) {
  std::vector<std::int64_t> places{0};
  for (std::int64_t axis = 0; axis < stack.dim() - 2; ++axis) {
    std::vector<std::int64_t> next;
    for (const std::int64_t place : places) {
      for (std::int64_t i = 0; i < stack.size(axis); ++i) next.push_back(place + i * stack.stride(axis));
    }
    places = std::move(next);
  }
  return places;
}

// The parts of a result that threads compute. Each reads all of its part of A and of B, so the longer side is cut; the
// other one too where there would be too few parts, rows into parts for which packing a panel pays.
struct ProductParts {
  std::int64_t panels, rows = 1, columns = 1;
  ProductParts(const Product& p, std::int64_t panel) : panels((p.columns + panel - 1) / panel) {
    const std::int64_t wanted =
        std::clamp<std::int64_t>(p.rows * p.depth * p.columns / kWorthAThread, 1, 4 * parallel_threads());
    const std::int64_t most = std::max<std::int64_t>(1, p.rows / kRowBlock);
    if (p.rows >= p.columns) {
      rows = std::min(wanted, most);
      columns = std::clamp<std::int64_t>(wanted / rows, 1, panels);
    } else {
      columns = std::min(wanted, panels);
      rows = std::clamp<std::int64_t>(wanted / columns, 1, most);
    }
  }
  std::int64_t count() const { return rows * columns; }
};

// Long sums of few elements, as the gradients of weights are, in parts of this depth: the matrices are read once.
constexpr std::int64_t kDepthOfPart = 4096, kMostOfDepthParts = 1 << 20;  // floats of all parts

std::int64_t depth_parts(const Product& p) {
  const std::int64_t parts = p.depth / kDepthOfPart;
  return p.bias || p.relu || parts * p.rows * p.columns > kMostOfDepthParts ? 1 : std::max<std::int64_t>(1, parts);
}

at::Tensor compute_in_depth(const Product& p, std::int64_t parts, const at::TensorOptions& options) {
  const at::Tensor sums = at::empty({parts, p.rows, p.columns}, options);
  float* const to = sums.mutable_data_ptr<float>();
  parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * p.depth / parts;
      Product part = p;
      part.depth = (i + 1) * p.depth / parts - first;
      part.a += p.transpose_a ? first * p.a_stride : first;
      part.b += p.transpose_b ? first : first * p.b_stride;
      part.c = to + i * p.rows * p.columns;
      direct_kernels().matrix_product(part, 0, p.rows, 0, p.columns);
    }
  });
  return total_of(sums);
}

at::Tensor compute(const at::Tensor& left, bool transpose_a, const at::Tensor& right, bool transpose_b,
                   const at::Tensor& offset, bool relu) {
  const Stored a = stored(left, transpose_a), b = stored(right, transpose_b);
  const at::Tensor bias = offset.defined() ? offset.contiguous() : offset;
  Product p;
  p.rows = a.matrix.size(a.transposed ? 1 : 0), p.depth = a.matrix.size(a.transposed ? 0 : 1);
  p.columns = b.matrix.size(b.transposed ? 0 : 1);
  p.a = a.matrix.const_data_ptr<float>(), p.a_stride = a.matrix.stride(0), p.transpose_a = a.transposed;
  p.b = b.matrix.const_data_ptr<float>(), p.b_stride = b.matrix.stride(0), p.transpose_b = b.transposed;
  if (bias.defined()) p.bias = bias.const_data_ptr<float>();
  p.relu = relu, p.c_stride = p.columns;
  if (const std::int64_t parts = depth_parts(p); parts > 1) return compute_in_depth(p, parts, left.options());
  at::Tensor c = at::empty({p.rows, p.columns}, left.options());
  p.c = c.mutable_data_ptr<float>();

  const DirectKernels& loops = direct_kernels();
  const ProductParts parts(p, loops.panel);
  const std::int64_t work = std::max<std::int64_t>(1, p.rows * p.depth * p.columns / parts.count());
  parallel_for(0, parts.count(), std::max<std::int64_t>(1, kWorthAThread / work),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t unit = begin; unit < end; ++unit) {
                   const std::int64_t panel = unit / parts.rows, part = unit % parts.rows;
                   loops.matrix_product(p, part * p.rows / parts.rows, (part + 1) * p.rows / parts.rows,
                                        panel * parts.panels / parts.columns * loops.panel,
                                        std::min(p.columns, (panel + 1) * parts.panels / parts.columns * loops.panel));
                 }
               });
  return c;
}

// One product after the other; a stack is divided among the threads. The axes of the result are `order` in memory.
at::Tensor compute_batch(const at::Tensor& left, bool transpose_a, const at::Tensor& right, bool transpose_b,
                         at::IntArrayRef order) {
  const Stored a = stored(left, transpose_a), b = stored(right, transpose_b);
  Product p;
  p.rows = a.matrix.size(a.transposed ? -1 : -2), p.depth = a.matrix.size(a.transposed ? -2 : -1),
  p.columns = b.matrix.size(b.transposed ? -2 : -1);
  p.a_stride = a.matrix.stride(-2), p.transpose_a = a.transposed, p.b_stride = b.matrix.stride(-2),
  p.transpose_b = b.transposed;
  std::vector<std::int64_t> shape = left.sizes().vec();
  shape[shape.size() - 2] = p.rows, shape.back() = p.columns;
  at::Tensor c = order.empty() ? at::empty(shape, left.options()) : at::empty_permuted(shape, order, left.options());
  p.c_stride = c.stride(-2);
  const float *from_a = a.matrix.const_data_ptr<float>(), *from_b = b.matrix.const_data_ptr<float>();
  float* const to = c.mutable_data_ptr<float>();
  const std::vector<std::int64_t> in_a = places_of(a.matrix), in_b = places_of(b.matrix), in_c = places_of(c);
  const auto count = static_cast<std::int64_t>(in_c.size());
  const std::int64_t work = p.rows * p.columns * p.depth;
  parallel_for(0, count, std::max<std::int64_t>(1, kWorthAThread / work), [&](std::int64_t begin, std::int64_t end) {
    Product one = p;
    for (auto n = static_cast<std::size_t>(begin); n < static_cast<std::size_t>(end); ++n) {
      one.a = from_a + in_a[n], one.b = from_b + in_b[n], one.c = to + in_c[n];
      direct_kernels().matrix_product(one, 0, p.rows, 0, p.columns);
    }
  });
  return c;
}

// The order in memory of the axes of a stack of matrices, where the last one is the last; else empty, the usual one.
std::vector<std::int64_t> order_of(const at::Tensor& x) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.dim()));
  std::iota(order.begin(), order.end(), 0);
  if (x.stride(-1) != 1 || !x.is_non_overlapping_and_dense()) return {};
  std::stable_sort(order.begin(), order.end() - 1,
                   [&](std::int64_t i, std::int64_t j) { return x.stride(i) > x.stride(j); });
  return order;
}

struct BatchProductNode : torch::autograd::Function<BatchProductNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& a, bool transpose_a,
                            const at::Tensor& b, bool transpose_b, at::IntArrayRef order) {
    context->save_for_backward({a, b});
    context->saved_data["transpose_a"] = transpose_a;
    context->saved_data["transpose_b"] = transpose_b;
    return compute_batch(a, transpose_a, b, transpose_b, order);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list dys) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &a = saved[0], &b = saved[1], &dc = dys[0];
    const bool ta = context->saved_data["transpose_a"].toBool(), tb = context->saved_data["transpose_b"].toBool();
    at::Tensor da, db;
    if (context->needs_input_grad(0)) {
      const auto order = order_of(a);
      da = ta ? batch_product(b, tb, dc, true, order) : batch_product(dc, false, b, !tb, order);
    }
    if (context->needs_input_grad(1)) {
      const auto order = order_of(b);
      db = tb ? batch_product(dc, true, a, ta, order) : batch_product(a, !ta, dc, false, order);
    }
    return {da, at::Tensor(), db, at::Tensor(), at::Tensor()};
  }
};

// The rows of long narrow matrices are images of single pixels: all gradients of one are computed while it is in the
// cache. Nothing for others.
std::optional<Gradients> backward_in_blocks(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                                            const at::Tensor& dc, Wanted wanted) {
  constexpr std::int64_t kFewWeights = 1 << 14, kLongRows = 1 << 20;  // floats
  const std::int64_t rows = a.size(0), in = b.size(0), out = b.size(1);
  if (in * out > kFewWeights || rows * (in + out) < kLongRows || !a.is_contiguous()) return std::nullopt;
  std::int64_t block = 1024;
  while (block > 256 && rows % block != 0) block /= 2;
  if (rows % block != 0) return std::nullopt;
  ConvWindow w;
  w.strides = w.dilations = w.kernel = {1, 1}, w.before = w.after = {0, 0}, w.input = w.output = {1, block};
  const auto images = [&](const at::Tensor& x) {
    return x.defined() ? x.contiguous().view({rows / block, 1, block, x.size(1)}) : x;
  };
  Gradients all =
      direct_backward(images(a), b.contiguous().view({1, 1, in, out}), images(c), images(dc), w, nullptr, wanted);
  if (all.images.defined()) all.images = all.images.view({rows, in});
  if (all.kernel.defined()) all.kernel = all.kernel.view({in, out});
  return all;
}

struct ProductNode : torch::autograd::Function<ProductNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& a, bool transpose_a,
                            const at::Tensor& b, bool transpose_b, const std::optional<at::Tensor>& bias, bool relu) {
    at::Tensor c = compute(a, transpose_a, b, transpose_b, bias.value_or(at::Tensor()), relu);
    context->save_for_backward({a, b, relu ? c : at::Tensor()});
    context->saved_data["transpose_a"] = transpose_a;
    context->saved_data["transpose_b"] = transpose_b;
    context->saved_data["bias"] = bias.has_value();
    return c;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list dys) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &a = saved[0], &b = saved[1], &c = saved[2];
    const bool ta = context->saved_data["transpose_a"].toBool(), tb = context->saved_data["transpose_b"].toBool();
    const bool wants_bias = context->saved_data["bias"].toBool() && context->needs_input_grad(2);
    if (!at::GradMode::is_enabled() && !ta && !tb) {
      const Wanted wanted{context->needs_input_grad(0), context->needs_input_grad(1), wants_bias};
      if (auto all = backward_in_blocks(a, b, c, dys[0], wanted))
        return {all->images, at::Tensor(), all->kernel, at::Tensor(), all->bias, at::Tensor()};
    }
    ReluGradient out;
    if (at::GradMode::is_enabled()) {
      out.dz = c.defined() ? dys[0] * (c > 0).to(dys[0].scalar_type()) : dys[0];
      if (wants_bias) out.db = out.dz.sum(0);
    } else {
      out = relu_bias_gradient(c, dys[0], wants_bias);
    }
    at::Tensor da, db;
    if (context->needs_input_grad(0)) da = ta ? product(b, tb, out.dz, true) : product(out.dz, false, b, !tb);
    if (context->needs_input_grad(1)) db = tb ? product(out.dz, true, a, ta) : product(a, !ta, out.dz, false);
    return {da, at::Tensor(), db, at::Tensor(), out.db, at::Tensor()};
  }
};

}  // namespace

bool has_product(const at::Tensor& a, const at::Tensor& b) {
  const auto fits = [](const at::Tensor& x) {
    return x.scalar_type() == at::kFloat && x.dim() == 2 && x.is_cpu() && x.numel() > 0;
  };
  return fits(a) && fits(b) && a.size(0) >= 4;
}

at::Tensor product(const at::Tensor& a, bool transpose_a, const at::Tensor& b, bool transpose_b, const at::Tensor& bias,
                   bool relu) {
  const bool tracked = at::GradMode::is_enabled() &&
                       (a.requires_grad() || b.requires_grad() || (bias.defined() && bias.requires_grad()));
  if (!tracked) return compute(a, transpose_a, b, transpose_b, bias, relu);
  return ProductNode::apply(a, transpose_a, b, transpose_b, bias.defined() ? std::optional(bias) : std::nullopt, relu);
}

at::Tensor gram_matrix(const at::Tensor& x) {
  const at::Tensor rows = x.contiguous();
  Product p;
  p.rows = p.columns = rows.size(0), p.depth = rows.size(1);
  p.a = p.b = rows.const_data_ptr<float>(), p.a_stride = p.b_stride = p.depth, p.transpose_b = true;
  at::Tensor c = at::empty({p.rows, p.rows}, rows.options());
  float* const to = c.mutable_data_ptr<float>();
  p.c = to, p.c_stride = p.rows;
  const std::int64_t panel = direct_kernels().panel, panels = (p.rows + panel - 1) / panel;
  const auto for_panels = [&](std::int64_t work, const auto& each) {
    parallel_for(0, panels, std::max<std::int64_t>(1, kWorthAThread / work), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = panels - begin; n-- > panels - end;)  // the longest first
        each(n * panel, std::min(p.rows, (n + 1) * panel));
    });
  };
  for_panels(p.rows * p.depth * panel / 2 + 1,
             [&](std::int64_t begin, std::int64_t end) { direct_kernels().matrix_product(p, 0, end, begin, end); });
  for_panels(p.rows * panel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < begin; ++i) {
      for (std::int64_t j = begin; j < end; ++j) to[j * p.rows + i] = to[i * p.rows + j];
    }
  });
  return c;
}

bool has_batch_product(const at::Tensor& a, const at::Tensor& b) {
  const auto fits = [](const at::Tensor& x) {
    return x.scalar_type() == at::kFloat && x.dim() > 2 && x.is_cpu() && x.size(-1) * x.size(-2) >= 16;
  };
  return fits(a) && fits(b) && a.numel() > 0 && a.dim() == b.dim() &&
         a.sizes().slice(0, a.dim() - 2) == b.sizes().slice(0, b.dim() - 2);
}

at::Tensor batch_product(const at::Tensor& a, bool transpose_a, const at::Tensor& b, bool transpose_b,
                         at::IntArrayRef order) {
  if (at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad()))
    return BatchProductNode::apply(a, transpose_a, b, transpose_b, order);
  return compute_batch(a, transpose_a, b, transpose_b, order);
}

ReluGradient relu_bias_gradient(const at::Tensor& y, const at::Tensor& dy, bool wants_bias) {
  const at::Tensor d = dy.contiguous();
  if (!y.defined() && !wants_bias) return {d, {}};
  const std::int64_t channels = d.size(-1), rows = channels == 0 ? 0 : d.numel() / channels;
  // Rows are summed in fixed groups, so the result does not depend on the number of threads.
  const std::int64_t per_chunk = std::max<std::int64_t>(64, 65536 / std::max<std::int64_t>(channels, 1));
  const std::int64_t chunks = std::max<std::int64_t>(1, (rows + per_chunk - 1) / per_chunk);
  at::Tensor dz = y.defined() ? at::empty_like(d) : d;
  at::Tensor parts = wants_bias ? at::zeros({chunks, channels}, d.options()) : at::Tensor();
  const float *from = d.const_data_ptr<float>(), *output = y.defined() ? y.const_data_ptr<float>() : nullptr;
  float* to = y.defined() ? dz.mutable_data_ptr<float>() : nullptr;
  float* sums = wants_bias ? parts.mutable_data_ptr<float>() : nullptr;
  parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const std::int64_t first = chunk * per_chunk, n = std::min(per_chunk, rows - first), at = first * channels;
      direct_kernels().relu_bias_gradient(n, channels, output ? output + at : nullptr, from + at,
                                          to ? to + at : nullptr, sums ? sums + chunk * channels : nullptr);
    }
  });
  return {dz, !wants_bias ? at::Tensor() : chunks == 1 ? parts[0] : parts.sum(0)};
}

}  // namespace lockstep::ops
