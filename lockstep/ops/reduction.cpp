// Reductions, arg-reductions, scans, counts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include <ATen/Dispatch.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/number_range_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

using Reduce = at::Tensor (*)(const at::Tensor& x, const Ints& axes, bool keep);

Shapes reduction_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  const bool keep = call.attr<bool>("keep_dims");
  if (!x.known_rank()) return {Shape::unknown_rank()};
  const auto axes = known_ints(call, 1);
  if (!axes) return {keep ? Shape(std::vector<std::int64_t>(x.dims().size(), kUnknownDim)) : Shape::unknown_rank()};
  const Ints whole = whole_axes(*axes, x.rank());
  Shape out;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = std::find(whole.begin(), whole.end(), i) != whole.end();
    if (!reduced) out.push_back(x[i]);
    if (reduced && keep) out.push_back(1);
  }
  return {out};
}

void add_reduction(Table& table, std::string_view name, Reduce reduce) {
  table.add(name, reduction_shape, [reduce](const Call& call) -> Tensors {
    const at::Tensor& x = in(call, 0);
    const Ints axes = whole_axes(ints_in(call, 1), x.dim());
    if (axes.empty()) return {call.input(0)};
    return one(narrow_to(reduce(widen(x), axes, call.attr<bool>("keep_dims")), x.scalar_type()));
  });
}
bool is_int(const at::Tensor& x) { return at::isIntegralType(x.scalar_type(), false); }

// Without axes the magnitude of each value.
Tensors euclidean_norm(const Call& call) {
  const at::Tensor x = widen(in(call, 0)), squares = has_complex(x) ? x * at::conj(x) : x * x;
  const Ints axes = whole_axes(ints_in(call, 1), x.dim());
  at::Tensor total = axes.empty() ? squares : squares.sum(axes, call.attr<bool>("keep_dims"), x.scalar_type());
  // The sum of unsigned integers overflows in their own type, as in TensorFlow.
  if (in(call, 0).scalar_type() != x.scalar_type() && is_int(x)) total = widen(total.to(in(call, 0).scalar_type()));
  if (in(call, 0).scalar_type() == at::kUInt64) {
    const at::Tensor number = total.to(at::kDouble);
    total = at::where(total < 0, number + 0x1p64, number);
  }
  return one(narrow_to(at::sqrt(total), in(call, 0).scalar_type()));
}
// A reduction that chooses one of the values.
void add_choice(Table& table, std::string_view name, Reduce reduce) {
  table.add(name, reduction_shape, [reduce](const Call& call) -> Tensors {
    const at::Tensor& x = in(call, 0);
    const Ints axes = whole_axes(ints_in(call, 1), x.dim());
    if (axes.empty()) return {call.input(0)};
    return one(from_ordered(reduce(ordered(x), axes, call.attr<bool>("keep_dims")), x.scalar_type()));
  });
}

at::Tensor sum(const at::Tensor& x, const Ints& axes, bool keep) { return x.sum(axes, keep, x.scalar_type()); }

at::Tensor mean(const at::Tensor& x, const Ints& axes, bool keep) {
  if (auto own = try_position_mean(x, axes, keep)) return *std::move(own);
  std::int64_t count = 1;
  for (auto axis : axes) count *= x.size(axis);
  if (!is_int(x)) {
    // The mean of no complex numbers is 0, that of no real numbers NaN.
    return has_complex(x) && count == 0 ? x.sum(axes, keep) : x.mean(axes, keep);
  }
  const at::Tensor total = x.to(at::kLong).sum(axes, keep);
  return count == 0 ? at::zeros_like(total) : at::div(total, count, "trunc");
}

at::Tensor product(const at::Tensor& x, const Ints& axes, bool keep) {
  Ints order = axes;
  std::sort(order.rbegin(), order.rend());
  at::Tensor out = x;
  for (auto axis : order) out = out.prod(axis, keep, x.scalar_type());
  return out;
}

// The extremum of nothing is the identity of the comparison.
at::Tensor extremum(const at::Tensor& x, const Ints& axes, bool keep, bool highest) {
  bool empty = false;
  for (auto axis : axes) empty = empty || x.size(axis) == 0;
  if (!empty) {
    if (auto own = try_extremum(x, axes, keep, highest)) return *std::move(own);
  }
  if (!empty) return highest ? x.amax(axes, keep) : x.amin(axes, keep);
  const at::Tensor like = x.sum(axes, keep, x.scalar_type());
  if (is_float(x)) return at::full_like(like, highest ? -INFINITY : INFINITY);
  const int bits = static_cast<int>(x.element_size()) * 8;
  const bool is_signed = x.scalar_type() != at::kByte;
  const std::int64_t top = is_signed ? static_cast<std::int64_t>((~std::uint64_t{0}) >> (65 - bits)) : 255;
  return at::full_like(like, highest ? (is_signed ? -top - 1 : 0) : top);
}

at::Tensor any_all(const at::Tensor& x, Ints axes, bool keep, bool any) {
  std::sort(axes.rbegin(), axes.rend());
  at::Tensor out = x;
  for (auto axis : axes) out = any ? out.any(axis, keep) : out.all(axis, keep);
  return out;
}

Shapes arg_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  const auto axis = known_int(call, 1);
  if (!x.known_rank()) return {Shape::unknown_rank()};
  if (!axis)
    return {Shape(std::vector<std::int64_t>(static_cast<std::size_t>(std::max(0, x.rank() - 1)), kUnknownDim))};
  Ints dims = x.dims();
  dims.erase(dims.begin() + whole_axis(*axis, x.rank()));
  return {Shape(dims)};
}

Tensors arg_extremum(const Call& call, bool highest) {
  at::Tensor x = ordered(in(call, 0)).detach();
  const std::int64_t axis = whole_axis(int_in(call, 1), x.dim());
  if (x.size(axis) == 0) throw_invalid_argument("reduction over an empty axis");
  if (is_float(x)) {  // NaN never wins
    x = at::where(at::isnan(x), at::full({}, highest ? -INFINITY : INFINITY, x.options()), x);
  }
  if (x.scalar_type() == at::kBool) x = x.to(at::kByte);
  const at::Tensor best = highest ? x.argmax(axis) : x.argmin(axis);
  return one(best.to(to_scalar_type(call.attr<DType>("output_type"))));
}

Tensors scan(const Call& call, at::Tensor (*f)(const at::Tensor&, std::int64_t), double start) {
  const at::Tensor& original = in(call, 0);
  at::Tensor x = widen(original);
  const std::int64_t axis = whole_axis(int_in(call, 1), x.dim());
  const bool reverse = call.attr<bool>("reverse");
  if (reverse) x = x.flip(axis);
  if (call.attr<bool>("exclusive") && x.size(axis) > 0) {
    Ints first = x.sizes().vec();
    first[static_cast<std::size_t>(axis)] = 1;
    x = at::cat({at::full(first, start, x.options()), x.slice(axis, 0, x.size(axis) - 1)}, axis);
  }
  x = f(x, axis);
  if (reverse) x = x.flip(axis);
  return one(narrow_to(x, original.scalar_type()));
}

// Its gradient is 0 where the input is, and not conjugated, as in TensorFlow.
Tensors cumulative_product(const Call& call) {
  const auto products = [](const at::Tensor& x, std::int64_t axis) { return x.cumprod(axis, x.scalar_type()); };
  const Tensor& x = call.input(0);
  if (!grad_enabled() || !requires_grad(x)) return scan(call, products, 1);
  const Tensor axis = call.input(1);
  const Attrs attrs{{"exclusive", call.attr<bool>("exclusive")}, {"reverse", call.attr<bool>("reverse")}};
  const Attrs back{{"exclusive", call.attr<bool>("exclusive")}, {"reverse", !call.attr<bool>("reverse")}};
  const auto gradient = [axis, attrs, back](const Tensors& dys, const Tensors& captured) {
    const Tensor y = call1("Cumprod", {captured[0], axis}, attrs);
    return Tensors{call1("DivNoNan", {call1("Cumsum", {call1("Mul", {y, dys[0]}), axis}, back), captured[0]})};
  };
  return with_gradients({x}, {detach(scan(call, products, 1)[0])}, {x}, gradient);
}

Shapes bincount_shape(const Call& call) {
  Shape out;
  const Shape& x = call.input(0).shape();
  if (!x.known_rank()) return {Shape::unknown_rank()};
  if (x.rank() == 2) out.push_back(x[0]);
  out.push_back(known_int(call, 1).value_or(kUnknownDim));
  return {out};
}

Tensors dense_bincount(const Call& call) {
  const bool binary = call.attr<bool>("binary_output");
  const std::int64_t size = int_in(call, 1);
  const at::Tensor x = in(call, 0).to(at::kLong), weights = in(call, 2);
  if (size < 0) throw_invalid_argument("size must not be negative");
  if (x.numel() > 0 && x.lt(0).any().item<bool>()) throw_invalid_argument("input must be non-negative");
  const at::Tensor rows = x.dim() == 2 ? x : x.reshape({1, x.numel()});
  const at::Tensor valid = rows < size;
  at::Tensor add =
      weights.numel() > 0 && !binary ? weights.reshape(rows.sizes()) : at::ones(rows.sizes(), weights.options());
  add = at::where(valid, add, at::zeros({}, add.options()));
  at::Tensor out = at::zeros({rows.size(0), size + 1}, weights.options());
  out.scatter_add_(1, at::where(valid, rows, at::full({}, size, rows.options())), add);
  out = out.slice(1, 0, size).contiguous();
  if (binary) out = out.ne(0).to(weights.scalar_type());
  return one(x.dim() == 2 ? out : out.squeeze(0));
}

Shapes ragged_bincount_shape(const Call& call) {
  const Shape& splits = call.input(0).shape();
  const bool known = splits.known_rank() && splits.rank() == 1 && splits[0] != kUnknownDim;
  return {Shape{known ? splits[0] - 1 : kUnknownDim, known_int(call, 2).value_or(kUnknownDim)}};
}

// How often each number below `size` is among the values of each row.
at::Tensor counted_rows(const at::Tensor& row, std::int64_t rows, const at::Tensor& values, const at::Tensor& weights,
                        std::int64_t size, bool binary) {
  if (values.numel() > 0 && values.lt(0).any().item<bool>()) throw_invalid_argument("input must be non-negative");
  if (weights.numel() > 0 && weights.numel() != values.numel())
    throw_invalid_argument("there must be as many weights as values");
  element_count({rows, size + 1});
  at::Tensor out = at::zeros({rows * (size + 1)}, weights.options());
  const at::Tensor add =
      weights.numel() > 0 && !binary ? weights.reshape({-1}) : at::ones(values.sizes(), weights.options());
  out.scatter_add_(0, row * (size + 1) + at::clamp_max(values, size), add);
  out = out.reshape({rows, size + 1}).slice(1, 0, size).contiguous();
  return binary ? out.ne(0).to(weights.scalar_type()) : out;
}

// Each row counted by itself.
Tensors ragged_bincount(const Call& call) {
  const at::Tensor splits = in(call, 0).to(at::kLong), values = in(call, 1).to(at::kLong).reshape({-1}),
                   weights = in(call, 3);
  const std::int64_t size = int_in(call, 2);
  const bool binary = call.attr<bool>("binary_output");
  if (size < 0) throw_invalid_argument("size must not be negative");
  if (splits.dim() != 1 || splits.numel() < 1)
    throw_invalid_argument("splits must be a vector of one element at least");
  const at::Tensor lengths = splits.diff();
  if (splits[0].item<std::int64_t>() != 0 || splits[-1].item<std::int64_t>() != values.numel() ||
      lengths.lt(0).any().item<bool>()) {
    throw_invalid_argument(
        fmt::format("splits must go from 0 to the number of values ({}) and never back", values.numel()));
  }
  const at::Tensor row = at::repeat_interleave(at::arange(lengths.numel(), at::kLong), lengths);
  return one(counted_rows(row, lengths.numel(), values, weights, size, binary));
}

// Of a sparse vector, or of each row of a sparse matrix.
Tensors sparse_bincount(const Call& call) {
  const at::Tensor indices = in(call, 0).to(at::kLong), values = in(call, 1).to(at::kLong).reshape({-1});
  const Ints shape = ints_in(call, 2);
  const std::int64_t size = int_in(call, 3);
  if (size < 0) throw_invalid_argument("size must not be negative");
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (rank != 1 && rank != 2) throw_invalid_argument("dense_shape must have one or two numbers");
  if (indices.dim() != 2 || indices.size(0) != values.numel() || indices.size(1) != rank)
    throw_invalid_argument("indices must have a row for each value and a column for each axis");
  const std::int64_t rows = rank == 2 ? shape[0] : 1;
  const at::Tensor row = rank == 2 ? indices.select(1, 0) : at::zeros_like(values);
  if (row.numel() > 0 && (row.lt(0).any().item<bool>() || row.ge(rows).any().item<bool>()))
    throw_invalid_argument("an index is outside of dense_shape");
  const at::Tensor out = counted_rows(row, rows, values, in(call, 4), size, call.attr<bool>("binary_output"));
  return one(rank == 2 ? out : out.squeeze(0));
}

Shapes sparse_bincount_shape(const Call& call) {
  const auto dense = known_ints(call, 2);
  if (!dense) return {Shape::unknown_rank()};
  Shape out;
  if (dense->size() == 2) out.push_back((*dense)[0]);
  out.push_back(known_int(call, 3).value_or(kUnknownDim));
  return {out};
}

Tensors bincount(const Call& call) {
  const std::int64_t size = int_in(call, 1);
  const at::Tensor x = in(call, 0).to(at::kLong).reshape({-1}), weights = in(call, 2).reshape({-1});
  if (x.numel() > 0 && x.lt(0).any().item<bool>()) throw_invalid_argument("input must be non-negative");
  if (weights.numel() != 0 && weights.numel() != x.numel())
    throw_invalid_argument(fmt::format("{} weights for {} numbers", weights.numel(), x.numel()));
  at::Tensor out = at::zeros({element_count({size}) + 1}, weights.options());
  const at::Tensor add = weights.numel() > 0 ? weights : at::ones(x.sizes(), weights.options());
  out.scatter_add_(0, at::clamp(x, 0, size), add);
  return one(out.slice(0, 0, size).contiguous());
}

Tensors bucketize(const Call& call) {
  const auto& bounds = call.attr<std::vector<float>>("boundaries");
  if (!std::is_sorted(bounds.begin(), bounds.end())) throw_invalid_argument("boundaries must be sorted");
  const at::Tensor edges = at::tensor(at::ArrayRef<float>(bounds), at::kFloat);
  const at::Tensor& x = in(call, 0);
  return one(
      at::searchsorted(edges.to(at::kDouble), x.to(at::kDouble).contiguous(), /*out_int32=*/true, /*right=*/true));
}

constexpr std::int64_t kScanGrain = 4096;  // elements for which a thread is worth waking

// Step by step in the tensor's own type, as TensorFlow.
at::Tensor log_sums(const at::Tensor& x, std::int64_t axis) {
  at::Tensor rows = x.movedim(axis, -1).contiguous().clone();
  const std::int64_t columns = rows.size(-1), count = columns == 0 ? 0 : rows.numel() / columns;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "CumulativeLogsumexp", [&] {
    using T = scalar_t;
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    T* const values = rows.mutable_data_ptr<T>();
    parallel_for(0, count, kScanGrain / (columns + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        T so_far = -std::numeric_limits<T>::infinity();
        for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
          const T value = values[i];
          const T low = value < so_far ? value : so_far, high = so_far < value ? value : so_far;
          const T share = static_cast<T>(std::exp(static_cast<Wide>(static_cast<T>(low - high))));
          const bool is_finite = !(high < std::numeric_limits<T>::lowest());
          so_far = is_finite ? static_cast<T>(static_cast<T>(std::log1p(static_cast<Wide>(share))) + high) : high;
          values[i] = so_far;
        }
      }
    });
  });
  return rows.movedim(-1, axis).contiguous();
}

// The gradient is a sum of logarithms too: of the positive and of the negative part of dy.
Tensors cumulative_log_sum(const Call& call) {
  const Tensor& x = call.input(0);
  if (!grad_enabled() || !requires_grad(x)) return scan(call, log_sums, -INFINITY);
  const Tensor axis = call.input(1);
  const Attrs back{{"exclusive", call.attr<bool>("exclusive")}, {"reverse", !call.attr<bool>("reverse")}};
  const auto gradient = [axis, back](const Tensors& dys, const Tensors& captured) {
    const at::Tensor &dy = dense(dys[0]), &values = dense(captured[0]), &sums = dense(captured[1]);
    const auto part = [&](const at::Tensor& size) {
      const at::Tensor counts = size.detach() > 0;
      const at::Tensor logarithm =
          at::where(counts, at::log(at::where(counts, size, at::ones({}, size.options()))),
                    at::full({}, number_range(from_scalar_type(size.scalar_type()))->low, size.options()));
      return at::exp(dense(call1("CumulativeLogsumexp", {wrap(logarithm - sums), axis}, back)) + values);
    };
    return Tensors{wrap(part(dy) - part(-dy))};
  };
  Tensor value;
  {
    const GradientsOff off;
    value = scan(call, log_sums, -INFINITY)[0];
  }
  return with_gradients({x}, {value}, {x, value}, gradient);
}

}  // namespace

void register_reduction(Table& table) {
  add_reduction(table, "Sum", sum);
  add_reduction(table, "Mean", mean);
  add_reduction(table, "Prod", product);
  add_choice(table, "Max", [](const at::Tensor& x, const Ints& a, bool k) { return extremum(x, a, k, true); });
  add_choice(table, "Min", [](const at::Tensor& x, const Ints& a, bool k) { return extremum(x, a, k, false); });
  add_reduction(table, "Any", [](const at::Tensor& x, const Ints& a, bool k) { return any_all(x, a, k, true); });
  add_reduction(table, "All", [](const at::Tensor& x, const Ints& a, bool k) { return any_all(x, a, k, false); });
  table.add("EuclideanNorm", reduction_shape, euclidean_norm);
  table.add("ArgMax", arg_shape, [](const Call& call) { return arg_extremum(call, true); });
  table.add("ArgMin", arg_shape, [](const Call& call) { return arg_extremum(call, false); });
  table.add("Cumsum", same_shape, [](const Call& call) {
    return scan(
        call, [](const at::Tensor& x, std::int64_t axis) { return x.cumsum(axis, x.scalar_type()); }, 0);
  });
  table.add("Cumprod", same_shape, cumulative_product);
  table.add("CumulativeLogsumexp", same_shape, cumulative_log_sum);
  table.add("DenseBincount", bincount_shape, dense_bincount);
  table.add("RaggedBincount", ragged_bincount_shape, ragged_bincount);
  table.add("SparseBincount", sparse_bincount_shape, sparse_bincount);
  table.add(
      "Bincount", [](const Call& call) { return Shapes{Shape{known_int(call, 1).value_or(kUnknownDim)}}; }, bincount);
  table.add("Bucketize", same_shape, bucketize);
}

}  // namespace lockstep::ops
