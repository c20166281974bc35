// The largest values of rows and their indices.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <ATen/Dispatch.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

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

// A number in the order of floats, equal ones by their index, the lower one first.
std::uint64_t ranked(float value, std::uint32_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(value == 0 ? 0.0f : value);
  const std::uint32_t order = bits >> 31 ? ~bits : bits | 1u << 31;
  return std::uint64_t{order} << 32 | static_cast<std::uint32_t>(~index);
}

// The places of the k largest floats of each row of x, the largest first, without sorting the row. Undefined for NaN.
at::Tensor largest_places(const at::Tensor& x, std::int64_t k) {
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  Ints shape = x.sizes().vec();
  shape.back() = k;
  at::Tensor index = at::empty(shape, at::kLong);
  const float* const from = x.const_data_ptr<float>();
  std::int64_t* const to = index.mutable_data_ptr<std::int64_t>();
  std::atomic<bool> has_nan = false;
  parallel_for(0, rows, kTopKGrain / columns + 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint64_t> best(static_cast<std::size_t>(k));  // a heap whose first is the smallest
    for (std::int64_t row = begin; row < end; ++row) {
      const float* const values = from + row * columns;
      bool found_nan = false;
      for (std::int64_t i = 0; i < columns; ++i) found_nan |= std::isnan(values[i]);
      if (found_nan) has_nan = true;
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
  return has_nan ? at::Tensor() : index;
}

// TensorFlow's algorithm, step by step: if a row contains NaN, which is neither above nor below another value, or if
// the indices may have any order, its results depend on the order of its comparisons.
template <typename T>
struct RowOrder {
  const T* values;
  std::int64_t columns;  // places from here on are sentinels, before and after which nothing comes
  bool inside(std::int64_t a, std::int64_t b) const { return a < columns && b < columns; }
  bool higher(std::int64_t a, std::int64_t b) const { return inside(a, b) && values[b] < values[a]; }
  bool higher_or_first(std::int64_t a, std::int64_t b) const {
    if (higher(a, b)) return true;
    return inside(a, b) && !(values[b] > values[a]) && a < b;
  }
};

// Its maximum ignores NaN in whole vectors of `lanes` numbers; in the rest of a row NaN remains until the next number.
template <typename T>
std::int64_t place_of_maximum(const T* values, std::int64_t columns, std::int64_t lanes) {
  T best = -std::numeric_limits<T>::infinity(), rest = best;
  const T *const whole = values + columns / lanes * lanes, *const end = values + columns;
  for (const T* at = values; at != whole; ++at) best = best < *at ? *at : best;
  for (const T* at = whole; at != end; ++at) rest = *at < rest ? rest : *at;
  if (!(rest < best)) best = rest;
  const T* const found = std::find(values, end, best);
  return found == end ? 0 : found - values;
}

template <typename T>
void rank_all(const RowOrder<T>& order, std::int64_t* places) {
  std::vector<std::int64_t> sorted(static_cast<std::size_t>(order.columns) + 2, order.columns);
  const auto begin = sorted.begin() + 1, end = sorted.end() - 1;
  std::iota(begin, end, 0);
  std::sort(begin, end, [&](std::int64_t a, std::int64_t b) { return order.higher(a, b); });
  for (auto run = begin; run != end;) {
    auto stop = run + 1;
    while (stop != end && order.values[*run] == order.values[*stop]) ++stop;
    std::sort(run, stop);
    run = stop;
  }
  std::copy(begin, end, places);
}

template <typename T>
void rank_some(const RowOrder<T>& order, std::int64_t k, bool sorted, std::int64_t* places) {
  const auto before = [&](std::int64_t a, std::int64_t b) { return order.higher_or_first(a, b); };
  std::vector<std::int64_t> best(static_cast<std::size_t>(std::min(k + 1, order.columns)));  // the lowest first
  std::iota(best.begin(), best.end(), 0);
  std::make_heap(best.begin(), best.end(), before);
  std::pop_heap(best.begin(), best.end(), before);
  best.resize(static_cast<std::size_t>(k));
  for (std::int64_t column = k + 1; column < order.columns; ++column) {
    if (!before(column, best.front())) continue;
    std::pop_heap(best.begin(), best.end(), before);
    best.back() = column;
    std::push_heap(best.begin(), best.end(), before);
  }
  if (sorted) std::sort_heap(best.begin(), best.end(), before);
  std::copy(best.begin(), best.end(), places);
}

at::Tensor places_like_tf(const at::Tensor& x, std::int64_t k, bool sorted) {
  const std::int64_t columns = x.size(-1), rows = x.numel() / columns;
  Ints shape = x.sizes().vec();
  shape.back() = k;
  at::Tensor index = at::empty(shape, at::kLong);
  std::int64_t* const to = index.mutable_data_ptr<std::int64_t>();
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "TopK", [&] {
    const scalar_t* const from = x.const_data_ptr<scalar_t>();
    for (std::int64_t row = 0; row < rows; ++row) {
      const RowOrder<scalar_t> order{from + row * columns, columns};
      if (k == columns && k > 1) {
        rank_all(order, to + row * k);
      } else if (k == 1 && !std::numeric_limits<scalar_t>::is_integer) {
        to[row] = place_of_maximum(order.values, columns, sizeof(scalar_t) == 8 ? 4 : 8);
      } else {
        rank_some(order, k, sorted, to + row * k);
      }
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
  const bool sorted = call.attr<bool>("sorted"), any_order = !sorted && k > 1 && k < x.size(-1);
  if (k > 0 && !any_order && x.scalar_type() == at::kFloat && k <= x.size(-1) / kSortedShare) {
    const at::Tensor index = largest_places(x.contiguous(), k);
    if (index.defined()) return results(x.gather(-1, index), index);
  }
  if (x.numel() > 0 && k > 0 && (any_order || (is_float(x) && at::isnan(x.detach()).any().item<bool>()))) {
    const at::Tensor index = places_like_tf(ordered(x.detach()).contiguous(), k, sorted);
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
    throw_invalid_argument(fmt::format("found {} rows of predictions and {} targets", x.size(0), targets.size(0)));
  const at::Tensor valid = at::logical_and(targets >= 0, targets < classes);
  if (classes == 0) return one(at::zeros_like(valid));
  const at::Tensor index = at::where(valid, targets, at::zeros_like(targets)).unsqueeze(1);
  const at::Tensor own = x.gather(1, index);
  const at::Tensor higher = x.gt(own).sum(1);
  const at::Tensor finite = at::isfinite(x).all(1);
  return one(at::logical_and(at::logical_and(valid, finite), higher < k));
}

}  // namespace

void register_top_k(Table& table) {
  for (auto name : {"TopKV2", "TopK"}) table.add(name, top_k_shape, top_k);
  const ShapeRule of_targets = [](const Call& call) { return Shapes{call.input(1).shape()}; };
  for (auto name : {"InTopKV2", "InTopK"}) table.add(name, of_targets, in_top_k);
}

}  // namespace lockstep::ops
