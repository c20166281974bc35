// Sums, products, means and extrema of segments.
#include <algorithm>
#include <cmath>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/number_range_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

Shapes segment_shape(const Call& call) {
  const Shape &data = call.input(0).shape(), &ids = call.input(1).shape();
  if (!data.known_rank() || !ids.known_rank()) return {Shape::unknown_rank()};
  Shape out{call.num_inputs() > 2 ? known_int(call, 2).value_or(kUnknownDim) : kUnknownDim};
  for (int i = ids.rank(); i < data.rank(); ++i) out.push_back(data[i]);
  return {out};
}

at::Tensor extremum_of_nothing(const at::Tensor& like, bool highest) {
  return dense(call1(highest ? "Max" : "Min", {wrap(at::empty({0}, like.options())), Tensor::scalar<std::int32_t>(0)}));
}

// The number of columns that TensorFlow processes at once for segments of sorted ids, where NaN is never selected. A
// single row is copied.
Ints columns_at_once(const at::Tensor& rows, const at::Tensor& counts) {
  const std::int64_t packet = rows.scalar_type() == at::kDouble ? 4 : 8, columns = rows.numel() / rows.size(0);
  Ints strict = ints_of(counts);
  for (std::int64_t& count : strict) count = count > 1 ? columns - columns % packet : 0;
  return strict;
}

// The extremum of each segment of rows; those that equal it share its gradient. `start` counts if `with_start`.
at::Tensor chosen(const at::Tensor& rows, const at::Tensor& index, const at::Tensor& start, bool highest,
                  bool with_start) {
  Ints view(static_cast<std::size_t>(rows.dim()), 1);
  view[0] = rows.size(0);
  const at::Tensor wide = index.view(view).expand_as(rows), plain = rows.detach();
  at::Tensor out;
  if (at::isnan(plain).any().item<bool>()) {
    if (with_start) {
      out = extrema_in_order(plain, index, start, highest, Ints(static_cast<std::size_t>(start.size(0)), 0));
    } else {
      const at::Tensor counts = at::zeros({start.size(0)}, at::kLong).index_add(0, index, at::ones_like(index));
      out = extrema_in_order(plain, index, at::full_like(start, highest ? -INFINITY : INFINITY), highest,
                             columns_at_once(plain, counts));
      Ints places(static_cast<std::size_t>(rows.dim()), 1);
      places[0] = start.size(0);
      out = at::where(counts.view(places) == 0, start, out);
    }
  } else {
    out = at::scatter_reduce(start, 0, wide, plain, highest ? "amax" : "amin", with_start);
  }
  if (!rows.requires_grad()) return out;
  const auto gradient = [index](const Tensors& dys, const Tensors& captured) {
    const at::Tensor &x = dense(captured[0]), &y = dense(captured[1]), &dy = dense(dys[0]);
    const at::Tensor is_chosen = x.detach() == y.detach().index_select(0, index), zero = at::zeros({}, dy.options());
    const at::Tensor counts = at::zeros_like(y).index_add(0, index, is_chosen.to(y.scalar_type()));
    return Tensors{wrap(at::where(is_chosen, (dy / counts).index_select(0, index), zero))};
  };
  return dense(with_gradients({wrap(rows)}, {wrap(out)}, {wrap(plain), wrap(out)}, gradient)[0]);
}

at::Tensor segments(const at::Tensor& values, const at::Tensor& ids, std::int64_t num, const std::string& kind,
                    bool finite_gap) {
  if (ids.dim() > values.dim())
    throw_invalid_argument(fmt::format("segment ids have rank {}, the data has {}", ids.dim(), values.dim()));
  const bool choice = kind == "amax" || kind == "amin";
  const at::Tensor data = choice ? ordered(values) : widen(values);
  const std::int64_t n = ids.numel();
  Ints inner(data.sizes().begin() + ids.dim(), data.sizes().end());
  Ints flat = {n}, shape = {add_dims(num, 1)};
  flat.insert(flat.end(), inner.begin(), inner.end());
  shape.insert(shape.end(), inner.begin(), inner.end());
  element_count(shape);
  const at::Tensor rows = data.reshape(flat);
  const at::Tensor index = at::where(ids.reshape({n}) < 0, at::full({}, num, ids.options()), ids.reshape({n}));
  at::Tensor out;
  if (kind == "sum") {
    out = add_rows(at::zeros(shape, rows.options()), index, rows);
  } else if (kind == "mean" && has_complex(rows)) {
    Ints view(flat.size(), 1);
    view[0] = num + 1;
    const at::Tensor counts = at::zeros({num + 1}, at::kLong).index_add(0, index, at::ones({n}, at::kLong));
    out = add_rows(at::zeros(shape, rows.options()), index, rows) / counts.clamp_min(1).view(view);
  } else {
    Ints view(flat.size(), 1);
    view[0] = n;
    at::Tensor start = at::zeros(shape, values.options());
    start = choice ? ordered(start) : widen(start);
    if (kind == "prod") start = at::ones(shape, rows.options());
    const bool highest = kind == "amax";
    if (finite_gap && choice) {
      if (is_float(rows)) {
        const auto range = number_range(from_scalar_type(rows.scalar_type()));
        start = at::full(shape, highest ? range->low : range->high, rows.options());
      } else {
        start = extremum_of_nothing(rows, highest).expand(shape).contiguous();
      }
    }
    if (choice && is_float(rows)) {
      out = chosen(rows, index, start, highest, finite_gap);
    } else {
      out = at::scatter_reduce(start, 0, index.view(view).expand_as(rows), rows, kind, /*include_self=*/false);
    }
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

std::int64_t count_sorted(const at::Tensor& ids) {
  const Ints values = ints_of(ids);
  if (!std::is_sorted(values.begin(), values.end()) || (!values.empty() && values[0] < 0)) {
    throw_invalid_argument("segment ids must be sorted and not negative");
  }
  return values.empty() ? 0 : element_count({values.back()}) + 1;
}

Tensors sorted_segment(const Call& call, const std::string& kind) {
  const at::Tensor &data = in(call, 0), ids = in(call, 1).to(at::kLong);
  if (ids.numel() != data.size(0))
    throw_invalid_argument(fmt::format("{} segment ids of {} rows", ids.numel(), data.size(0)));
  const std::int64_t num = count_sorted(ids);
  if (kind == "mean" && at::isIntegralType(data.scalar_type(), false)) {  // LibTorch's mean rounds down
    const at::Tensor counts = at::clamp_min(segments(at::ones_like(ids), ids, num, "sum", false), 1);
    Ints view(static_cast<std::size_t>(data.dim()), 1);
    view[0] = num;
    const at::Tensor sums = widen(segments(data, ids, num, "sum", false));
    return one(narrow_to(at::div(sums, counts.view(view), "trunc"), data.scalar_type()));
  }
  return one(segments(data, ids, num, kind, false));
}

Tensors sorted_product(const Call& call) {
  if (!grad_enabled() || !requires_grad(call.input(0))) return sorted_segment(call, "prod");
  const std::int64_t num = count_sorted(in(call, 1).to(at::kLong));
  return {call1("UnsortedSegmentProd", {call.input(0), call.input(1), Tensor::scalar(num)})};
}

}  // namespace

void register_segments(Table& table) {
  for (const auto& [suffix, kind] : {std::pair{"Sum", "sum"}, {"Prod", "prod"}, {"Max", "amax"}, {"Min", "amin"}}) {
    const std::string how = kind;
    table.add(fmt::format("UnsortedSegment{}", suffix), segment_shape,
              [how](const Call& call) { return how == "prod" ? unsorted_product(call) : unsorted_segment(call, how); });
    table.add(fmt::format("Segment{}", suffix), segment_shape,
              [how](const Call& call) { return how == "prod" ? sorted_product(call) : sorted_segment(call, how); });
  }
  table.add("SegmentMean", segment_shape, [](const Call& call) { return sorted_segment(call, "mean"); });
}

}  // namespace lockstep::ops
