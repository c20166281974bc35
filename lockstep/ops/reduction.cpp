// Reductions, arg-reductions, scans, top-k, counts, segments.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"
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
  if (!is_int(x)) return x.mean(axes, keep);
  std::int64_t count = 1;
  for (auto axis : axes) count *= x.size(axis);
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

Shapes top_k_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  if (!x.known_rank()) return {Shape::unknown_rank(), Shape::unknown_rank()};
  if (x.rank() < 1) throw_invalid_argument("the input must have at least one axis");
  Shape out = x;
  out[-1] = call.num_inputs() > 1 ? known_int(call, 1).value_or(kUnknownDim) : call.attr<std::int64_t>("k");
  if (out[-1] > x[-1] && x[-1] != kUnknownDim) {
    throw_invalid_argument(fmt::format("input must have at least k ({}) columns, it has {}", out[-1], x[-1]));
  }
  return {out, out};
}

constexpr std::int64_t kSortedShare = 8;    // of a row: for more of it sorting is faster
constexpr std::int64_t kTopKGrain = 16384;  // elements for which a thread is worth waking

// A number in the order of floats, equal ones by their index, the lower one first; NaN is the largest, as for at::sort.
std::uint64_t ranked(float value, std::uint32_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(value == 0 ? 0.0f : value);
  const std::uint32_t order = std::isnan(value) ? ~0u : bits >> 31 ? ~bits : bits | 1u << 31;
  return std::uint64_t{order} << 32 | static_cast<std::uint32_t>(~index);
}

// The places of the k largest floats of each row of x, the largest first, without sorting the row.
at::Tensor largest_places(const at::Tensor& x, std::int64_t k) {
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  Ints shape = x.sizes().vec();
  shape.back() = k;
  at::Tensor index = at::empty(shape, at::kLong);
  const float* const from = x.const_data_ptr<float>();
  std::int64_t* const to = index.mutable_data_ptr<std::int64_t>();
  parallel_for(0, rows, kTopKGrain / columns + 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint64_t> best(static_cast<std::size_t>(k));  // a heap whose first is the smallest
    for (std::int64_t row = begin; row < end; ++row) {
      const float* const values = from + row * columns;
      for (std::int64_t i = 0; i < k; ++i)
        best[static_cast<std::size_t>(i)] = ranked(values[i], static_cast<std::uint32_t>(i));
      std::make_heap(best.begin(), best.end(), std::greater());
      for (std::int64_t i = k; i < columns; ++i) {
        const std::uint64_t next = ranked(values[i], static_cast<std::uint32_t>(i));
        if (next < best.front()) continue;
        std::pop_heap(best.begin(), best.end(), std::greater());
        best.back() = next;
        std::push_heap(best.begin(), best.end(), std::greater());
      }
      std::sort_heap(best.begin(), best.end(), std::greater());
      for (std::int64_t i = 0; i < k; ++i)
        to[row * k + i] = static_cast<std::uint32_t>(~best[static_cast<std::size_t>(i)]);
    }
  });
  return index;
}

Tensors top_k(const Call& call) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() < 1) throw_invalid_argument("the input must have at least one axis");
  const std::int64_t k = call.num_inputs() > 1 ? int_in(call, 1) : call.attr<std::int64_t>("k");
  if (k < 0 || k > x.size(-1)) {
    throw_invalid_argument(fmt::format("input must have at least k ({}) columns, it has {}", k, x.size(-1)));
  }
  const auto* type = call.find_attr<DType>("index_type");
  const auto results = [&](const at::Tensor& best, const at::Tensor& index) -> Tensors {
    return {wrap(best), wrap(index.to(type ? to_scalar_type(*type) : at::kInt))};
  };
  if (x.scalar_type() == at::kFloat && x.is_cpu() && k > 0 && k <= x.size(-1) / kSortedShare) {
    const at::Tensor index = largest_places(x.contiguous(), k);
    return results(x.gather(-1, index), index);
  }
  // Ties keep the lower index: a stable descending sort does that.
  const auto [values, order] = at::sort(ordered(x), /*stable=*/true, -1, /*descending=*/true);
  const at::Tensor index = order.slice(-1, 0, k).contiguous();
  return results(
      x.requires_grad() ? x.gather(-1, index) : from_ordered(values.slice(-1, 0, k).contiguous(), x.scalar_type()),
      index);
}

Tensors in_top_k(const Call& call) {
  const at::Tensor x = in(call, 0).to(at::kFloat);
  const at::Tensor targets = in(call, 1).to(at::kLong);
  const std::int64_t k = call.num_inputs() > 2 ? int_in(call, 2) : call.attr<std::int64_t>("k");
  const std::int64_t classes = x.size(1);
  if (targets.size(0) != x.size(0))
    throw_invalid_argument(fmt::format("{} rows of predictions and {} targets", x.size(0), targets.size(0)));
  const at::Tensor valid = at::logical_and(targets >= 0, targets < classes);
  if (classes == 0) return one(at::zeros_like(valid));
  const at::Tensor index = at::where(valid, targets, at::zeros_like(targets)).unsqueeze(1);
  const at::Tensor own = x.gather(1, index);
  const at::Tensor higher = x.gt(own).sum(1);
  const at::Tensor finite = at::isfinite(x).all(1);
  return one(at::logical_and(at::logical_and(valid, finite), higher < k));
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

Shapes segment_shape(const Call& call) {
  const Shape &data = call.input(0).shape(), &ids = call.input(1).shape();
  if (!data.known_rank() || !ids.known_rank()) return {Shape::unknown_rank()};
  Shape out{call.num_inputs() > 2 ? known_int(call, 2).value_or(kUnknownDim) : kUnknownDim};
  for (int i = ids.rank(); i < data.rank(); ++i) out.push_back(data[i]);
  return {out};
}

// The largest finite number of a floating-point tensor's dtype, where it is exact.
double largest(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kHalf: return 65504;
    case at::kBFloat16: return 0x1.fep127;
    case at::kFloat: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

at::Tensor segments(const at::Tensor& values, const at::Tensor& ids, std::int64_t num, const std::string& kind,
                    bool finite_gap) {
  if (ids.dim() > values.dim())
    throw_invalid_argument(fmt::format("segment ids have rank {}, the data has {}", ids.dim(), values.dim()));
  const bool choice = kind == "amax" || kind == "amin";
  const at::Tensor data = choice ? ordered(values) : widen(values);
  const std::int64_t n = ids.numel();
  Ints inner(data.sizes().begin() + ids.dim(), data.sizes().end());
  Ints flat = {n}, shape = {num + 1};
  flat.insert(flat.end(), inner.begin(), inner.end());
  shape.insert(shape.end(), inner.begin(), inner.end());
  element_count(shape);
  const at::Tensor rows = data.reshape(flat);
  const at::Tensor index = at::where(ids.reshape({n}) < 0, at::full({}, num, ids.options()), ids.reshape({n}));
  at::Tensor out;
  if (kind == "sum") {
    out = at::zeros(shape, rows.options()).index_add(0, index, rows);
  } else if (kind == "mean" && has_complex(rows)) {
    Ints view(flat.size(), 1);
    view[0] = num + 1;
    const at::Tensor counts = at::zeros({num + 1}, at::kLong).index_add(0, index, at::ones({n}, at::kLong));
    out = at::zeros(shape, rows.options()).index_add(0, index, rows) / counts.clamp_min(1).view(view);
  } else {
    Ints view(flat.size(), 1);
    view[0] = n;
    const at::Tensor wide = index.view(view).expand_as(rows);
    at::Tensor start = at::zeros(shape, values.options());
    start = choice ? ordered(start) : widen(start);
    if (kind == "prod") start = at::ones(shape, rows.options());
    if (finite_gap && kind != "prod") {
      const bool highest = kind == "amax";
      start = is_float(rows) ? at::full(shape, highest ? -largest(rows) : largest(rows), rows.options())
                             : extremum(at::empty({0}, rows.options()), {0}, false, highest).expand(shape).contiguous();
    }
    out = at::scatter_reduce(start, 0, wide, rows, kind, /*include_self=*/false);
  }
  out = out.slice(0, 0, num);
  return choice ? from_ordered(out, values.scalar_type()) : narrow_to(out, values.scalar_type());
}

Tensors unsorted_segment(const Call& call, const std::string& kind) {
  const std::int64_t num = int_in(call, 2);
  const at::Tensor &data = in(call, 0), ids = in(call, 1).to(at::kLong);
  if (num < 0) throw_invalid_argument("num_segments must not be negative");
  if (ids.numel() > 0 && ids.ge(num).any().item<bool>()) {
    throw_invalid_argument(fmt::format("segment id {} is out of range [0, {})", ids.max().item<std::int64_t>(), num));
  }
  return one(segments(data, ids, num, kind, true));
}

// The gradient divides the product by each element, or leaves out the one that is 0, and does not conjugate.
Tensors unsorted_product(const Call& call) {
  if (!grad_enabled() || !requires_grad(call.input(0))) return unsorted_segment(call, "prod");
  const Tensor &x = call.input(0), ids = call.input(1), count = call.input(2);
  const auto gradient = [ids, count](const Tensors& dys, const Tensors& captured) {
    const at::Tensor& data = dense(captured[0]);
    const at::Tensor zero = data == 0, places = dense(ids).to(at::kLong), flat = places.clamp_min(0).reshape({-1});
    const auto spread = [&](const Tensor& segments) { return dense(segments).index_select(0, flat).view_as(data); };
    const auto reduced = [&](const char* name, const at::Tensor& values) {
      return call1(name, {wrap(values), ids, count});
    };
    const at::Tensor zeros = spread(reduced("UnsortedSegmentSum", zero.to(at::kInt)));
    const at::Tensor others =
        spread(reduced("UnsortedSegmentProd", at::where(zero, at::ones({}, data.options()), data)));
    const at::Tensor partial = at::where(zero, others, spread(reduced("UnsortedSegmentProd", data)) / data);
    Ints shape = places.sizes().vec();
    shape.resize(static_cast<std::size_t>(data.dim()), 1);
    const at::Tensor none = at::logical_or(zeros > 1, (places < 0).view(shape));
    return Tensors{wrap(at::where(none, at::zeros({}, data.options()), spread(dys[0])) * partial)};
  };
  Tensor value;
  {
    const GradientsOff off;
    value = unsorted_segment(call, "prod")[0];
  }
  return with_gradients({x}, {value}, {x}, gradient);
}

Tensors sorted_segment(const Call& call, const std::string& kind) {
  const at::Tensor &data = in(call, 0), ids = in(call, 1).to(at::kLong);
  const Ints values = ints_of(ids);
  if (!std::is_sorted(values.begin(), values.end()) || (!values.empty() && values[0] < 0)) {
    throw_invalid_argument("segment ids must be sorted and not negative");
  }
  const std::int64_t num = values.empty() ? 0 : element_count({values.back()}) + 1;
  if (kind == "mean" && at::isIntegralType(data.scalar_type(), false)) {  // LibTorch's mean rounds down
    const at::Tensor counts = at::clamp_min(segments(at::ones_like(ids), ids, num, "sum", false), 1);
    Ints view(static_cast<std::size_t>(data.dim()), 1);
    view[0] = num;
    const at::Tensor sums = widen(segments(data, ids, num, "sum", false));
    return one(narrow_to(at::div(sums, counts.view(view), "trunc"), data.scalar_type()));
  }
  return one(segments(data, ids, num, kind, false));
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
  table.add("CumulativeLogsumexp", same_shape, [](const Call& call) {
    return scan(
        call, [](const at::Tensor& x, std::int64_t axis) { return x.logcumsumexp(axis); }, -INFINITY);
  });
  for (auto name : {"TopKV2", "TopK"}) table.add(name, top_k_shape, top_k);
  const ShapeRule of_targets = [](const Call& call) { return Shapes{call.input(1).shape()}; };
  for (auto name : {"InTopKV2", "InTopK"}) table.add(name, of_targets, in_top_k);
  table.add("DenseBincount", bincount_shape, dense_bincount);
  table.add("RaggedBincount", ragged_bincount_shape, ragged_bincount);
  table.add("SparseBincount", sparse_bincount_shape, sparse_bincount);
  table.add(
      "Bincount", [](const Call& call) { return Shapes{Shape{known_int(call, 1).value_or(kUnknownDim)}}; }, bincount);
  table.add("Bucketize", same_shape, bucketize);
  for (const auto& [suffix, kind] : {std::pair{"Sum", "sum"}, {"Prod", "prod"}, {"Max", "amax"}, {"Min", "amin"}}) {
    const std::string how = kind;
    table.add(fmt::format("UnsortedSegment{}", suffix), segment_shape,
              [how](const Call& call) { return how == "prod" ? unsorted_product(call) : unsorted_segment(call, how); });
    table.add(fmt::format("Segment{}", suffix), segment_shape,
              [how](const Call& call) { return sorted_segment(call, how); });
  }
  table.add("SegmentMean", segment_shape, [](const Call& call) { return sorted_segment(call, "mean"); });
}

}  // namespace lockstep::ops
