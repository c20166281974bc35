// Slices, gathers and scatters.
#include <algorithm>
#include <bit>
#include <unordered_map>

#include <ATen/core/grad_mode.h>

#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/ops/slice_gradients_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::ops {
namespace {

// ---- StridedSlice --------------------------------------------------------------------------------------
struct Cut {
  enum { kSlice, kIndex, kNewAxis } kind = kSlice;
  int axis = 0;
  std::int64_t begin = 0, stride = 1, count = kUnknownDim;
};

struct Masks {
  std::int64_t begin, end, ellipsis, new_axis, shrink;
};

std::int64_t clamp_index(std::int64_t index, std::int64_t size, std::int64_t stride) {
  if (index < 0) index += size;
  return std::clamp<std::int64_t>(index, stride > 0 ? 0 : -1, stride > 0 ? size : size - 1);
}

Cut range_cut(int axis, std::int64_t size, std::int64_t begin, std::int64_t end, std::int64_t stride, bool first,
              bool last) {
  if (stride == 0) throw_invalid_argument(fmt::format("strides[{}] must not be 0", axis));
  Cut cut{Cut::kSlice, axis, 0, stride, kUnknownDim};
  if (size == kUnknownDim) {
    if (first && last && stride == 1) return cut;
    return cut;
  }
  const std::int64_t from = first ? (stride > 0 ? 0 : size - 1) : clamp_index(begin, size, stride);
  const std::int64_t to = last ? (stride > 0 ? size : -1) : clamp_index(end, size, stride);
  cut.begin = from;
  // A longer step than the axis takes the first entry only; the sums below then cannot overflow.
  cut.stride = stride = std::clamp(stride, -size - 1, size + 1);
  cut.count = stride > 0 ? std::max<std::int64_t>(0, (to - from + stride - 1) / stride)
                         : std::max<std::int64_t>(0, (from - to - stride - 1) / -stride);
  return cut;
}

Cut index_cut(int axis, std::int64_t size, std::int64_t begin, std::int64_t stride) {
  if (stride <= 0) throw_invalid_argument("only stride 1 is allowed where an axis is indexed");
  const std::int64_t at = begin < 0 && size != kUnknownDim ? begin + size : begin;
  if (size != kUnknownDim && (at < 0 || at >= size)) {
    throw_invalid_argument(fmt::format("slice index {} of dimension {} out of bounds", begin, axis));
  }
  return {Cut::kIndex, axis, at, 1, 1};
}

// Without places that are known, axes that a slice does not take as a whole have unknown extents.
std::vector<Cut> plan_cuts(const Shape& x, const Ints& begin, const Ints& end, const Ints& strides, const Masks& masks,
                           bool places_are_known = true) {
  const int specs = static_cast<int>(begin.size());
  if (end.size() != begin.size() || strides.size() != begin.size())
    throw_invalid_argument("begin, end and strides differ in length");
  const auto bit = [](std::int64_t mask, int i) { return (mask >> i & 1) != 0; };
  int ellipses = 0, eaten = 0;
  for (int i = 0; i < specs; ++i) {
    if (bit(masks.ellipsis, i)) {
      ++ellipses;
    } else if (!bit(masks.new_axis, i)) {
      ++eaten;
    }
  }
  if (ellipses > 1 || std::popcount(static_cast<std::uint64_t>(masks.ellipsis)) > 1)
    throw_invalid_argument("multiple ellipses in a slice");
  if (eaten > x.rank())
    throw_invalid_argument(fmt::format("index out of range: {} slices of a tensor of rank {}", eaten, x.rank()));
  std::vector<Cut> cuts;
  int axis = 0;
  for (int i = 0; i < specs; ++i) {
    const auto n = static_cast<std::size_t>(i);
    if (bit(masks.ellipsis, i)) {
      for (int whole = x.rank() - eaten; whole > 0; --whole, ++axis)
        cuts.push_back(range_cut(axis, x[axis], 0, 0, 1, true, true));
    } else if (bit(masks.new_axis, i)) {
      cuts.push_back({Cut::kNewAxis, axis, 0, 1, 1});
    } else if (bit(masks.shrink, i)) {
      cuts.push_back(index_cut(axis, places_are_known ? x[axis] : kUnknownDim, begin[n], strides[n]));
      ++axis;
    } else {
      const bool whole = bit(masks.begin, i) && bit(masks.end, i);
      cuts.push_back(range_cut(axis, places_are_known || whole ? x[axis] : kUnknownDim, begin[n], end[n], strides[n],
                               bit(masks.begin, i), bit(masks.end, i)));
      ++axis;
    }
  }
  for (; axis < x.rank(); ++axis) cuts.push_back(range_cut(axis, x[axis], 0, 0, 1, true, true));
  return cuts;
}

Masks masks_of(const Call& call) {
  return {call.attr<std::int64_t>("begin_mask"), call.attr<std::int64_t>("end_mask"),
          call.attr<std::int64_t>("ellipsis_mask"), call.attr<std::int64_t>("new_axis_mask"),
          call.attr<std::int64_t>("shrink_axis_mask")};
}

Shapes strided_slice_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  if (!x.known_rank()) return {Shape::unknown_rank()};
  auto begin = known_ints(call, 1), end = known_ints(call, 2);
  const auto strides = known_ints(call, 3);
  const Shape& specs = call.input(1).shape();
  if (!strides || !specs.known_rank() || specs.rank() != 1 || specs[0] < 0) return {Shape::unknown_rank()};
  const bool exact = begin && end;
  Masks masks = masks_of(call);
  const Ints nothing(static_cast<std::size_t>(specs[0]), 0);
  Shape out;
  const auto cuts = plan_cuts(x, begin.value_or(nothing), end.value_or(nothing), *strides, masks, exact);
  for (const Cut& cut : cuts) {
    if (cut.kind == Cut::kIndex) continue;
    out.push_back(cut.kind == Cut::kNewAxis ? 1 : cut.count);
  }
  return {out};
}

at::Tensor apply_cuts(at::Tensor x, const std::vector<Cut>& cuts) {
  std::int64_t axis = 0;
  for (const Cut& cut : cuts) {
    if (cut.kind == Cut::kNewAxis) {
      x = x.unsqueeze(axis++);
    } else if (cut.kind == Cut::kIndex) {
      x = x.select(axis, cut.begin);
    } else {
      if (cut.count == 0) {
        x = x.slice(axis, 0, 0);
      } else if (cut.stride > 0) {
        const bool whole = cut.begin == 0 && cut.stride == 1 && cut.count == x.size(axis);
        if (!whole) x = x.slice(axis, cut.begin, cut.begin + (cut.count - 1) * cut.stride + 1, cut.stride);
      } else {
        const std::int64_t lowest = cut.begin + (cut.count - 1) * cut.stride;
        x = x.slice(axis, lowest, cut.begin + 1, -cut.stride).flip(axis);
      }
      ++axis;
    }
  }
  return x;
}

Tensors strided_slice(const Call& call) {
  const auto cuts =
      plan_cuts(call.input(0).shape(), ints_in(call, 1), ints_in(call, 2), ints_in(call, 3), masks_of(call));
  return one(apply_cuts(in(call, 0), cuts));
}

// The gradient of StridedSlice: dy put where the slice was, zeros elsewhere.
Tensors strided_slice_grad(const Call& call) {
  const Shape shape(ints_in(call, 0));
  const auto cuts = plan_cuts(shape, ints_in(call, 1), ints_in(call, 2), ints_in(call, 3), masks_of(call));
  const at::Tensor dy = widen(in(call, 4));
  at::Tensor flat = at::zeros({*shape.num_elements()}, dy.options());
  const at::Tensor order = apply_cuts(at::arange(flat.numel()).view(shape.dims()), cuts);
  if (dy.sizes() != order.sizes())
    throw_invalid_argument(fmt::format("dy has shape {}, expected that of the slice, {}",
                                       call.input(4).shape().to_string(), Shape(order.sizes().vec()).to_string()));
  const at::Tensor dx = flat.index_put({order.reshape({-1})}, dy.reshape({-1})).view(shape.dims());
  return one(narrow_to(dx, in(call, 4).scalar_type()));
}

// ---- Slice ---------------------------------------------------------------------------------------------
Shapes slice_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  const auto begin = known_ints(call, 1);
  const auto size = constant_value_as_shape(call.input(2));
  const auto exact = known_ints(call, 2);
  if (!x.known_rank())
    return {size && size->known_rank() ? Shape(Ints(size->dims().size(), kUnknownDim)) : Shape::unknown_rank()};
  Shape out(Ints(x.dims().size(), kUnknownDim));
  if (begin && static_cast<int>(begin->size()) != x.rank())
    throw_invalid_argument(fmt::format("begin and size need {} entries", x.rank()));
  if (!size || !size->known_rank() || size->rank() != x.rank()) return {out};
  for (int i = 0; i < x.rank(); ++i) {
    if ((*size)[i] >= 0) {
      out[i] = (*size)[i];
    } else if (exact && begin && x[i] != kUnknownDim) {
      out[i] = x[i] - (*begin)[static_cast<std::size_t>(i)];
    }
  }
  return {out};
}
Tensors slice(const Call& call) {
  const Ints begin = ints_in(call, 1);
  Ints size = ints_in(call, 2);
  const Shape& shape = call.input(0).shape();
  if (static_cast<int>(begin.size()) != shape.rank() || size.size() != begin.size()) {
    throw_invalid_argument(fmt::format("begin and size need {} entries", shape.rank()));
  }
  for (std::size_t i = 0; i < size.size(); ++i) {
    const std::int64_t dim = shape[static_cast<int>(i)];
    if (size[i] == -1) size[i] = dim - begin[i];
    if (begin[i] < 0 || begin[i] > dim || size[i] < 0 || begin[i] + size[i] > dim) {
      throw_invalid_argument(
          fmt::format("begin {} and size {} do not fit axis {} of {} entries", begin[i], size[i], i, dim));
    }
  }
  at::Tensor x = in(call, 0);
  for (std::size_t i = 0; i < size.size(); ++i) x = x.slice(static_cast<std::int64_t>(i), begin[i], begin[i] + size[i]);
  return one(x);
}

// ---- Gather --------------------------------------------------------------------------------------------
void check_indices(const at::Tensor& indices, std::int64_t size) {
  const at::Tensor flat = indices.reshape({-1}).contiguous();
  const auto* data = flat.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    if (data[i] < 0 || data[i] >= size)
      throw_invalid_argument(fmt::format("indices[{}] = {} is not in [0, {})", i, data[i], size));
  }
}

at::Tensor gather_along(const at::Tensor& params, const at::Tensor& indices, std::int64_t axis, std::int64_t batch) {
  Ints out(params.sizes().begin(), params.sizes().begin() + axis);
  out.insert(out.end(), indices.sizes().begin() + batch, indices.sizes().end());
  out.insert(out.end(), params.sizes().begin() + axis + 1, params.sizes().end());
  const bool nothing = params.numel() == 0 && params.size(axis) != 0;
  if (nothing) return at::zeros(out, params.options());
  check_indices(indices, params.size(axis));
  const bool variable =
      axis == 0 && batch == 0 && at::GradMode::is_enabled() && params.requires_grad() && params.is_leaf();
  if (variable) return gather_rows(params, indices.reshape({-1})).reshape(out);
  if (batch == 0) return at::index_select(params, axis, indices.reshape({-1})).reshape(out);
  // Batch axes become part of the row number: rows of [batch * extent of the axis].
  std::int64_t batches = 1, outer = 1, inner = 1;
  for (std::int64_t i = 0; i < batch; ++i) batches *= params.size(i);
  for (std::int64_t i = batch; i < axis; ++i) outer *= params.size(i);
  for (std::int64_t i = axis + 1; i < params.dim(); ++i) inner *= params.size(i);
  const std::int64_t n = params.size(axis), picks = batches == 0 ? 0 : indices.numel() / batches;
  const at::Tensor rows =
      params.reshape({batches, outer, n, inner}).permute({0, 2, 1, 3}).reshape({batches * n, outer * inner});
  const at::Tensor index =
      (indices.reshape({batches, picks}) + at::arange(batches, at::kLong).unsqueeze(1) * n).reshape({-1});
  return at::index_select(rows, 0, index).reshape({batches, picks, outer, inner}).permute({0, 2, 1, 3}).reshape(out);
}

Shapes gather_v2_shape(const Call& call) {
  const Shape &params = call.input(0).shape(), &indices = call.input(1).shape();
  const auto axis = known_int(call, 2);
  if (!params.known_rank() || !indices.known_rank()) return {Shape::unknown_rank()};
  std::int64_t batch = call.attr<std::int64_t>("batch_dims");
  if (batch < 0) batch += indices.rank();
  if (batch < 0 || batch > indices.rank()) throw_invalid_argument("batch_dims is out of range");
  const auto rank = static_cast<std::size_t>(params.rank() - 1 + indices.rank() - batch);
  if (!axis) return {Shape(Ints(rank, kUnknownDim))};
  const std::int64_t at = whole_axis(*axis, params.rank());
  Shape out;
  for (int i = 0; i < at; ++i) out.push_back(params[i]);
  for (int i = static_cast<int>(batch); i < indices.rank(); ++i) out.push_back(indices[i]);
  for (int i = static_cast<int>(at) + 1; i < params.rank(); ++i) out.push_back(params[i]);
  return {out};
}
Tensors gather_v2(const Call& call) {
  const at::Tensor indices = in(call, 1).to(at::kLong);
  const std::int64_t axis = whole_axis(call.num_inputs() > 2 ? int_in(call, 2) : 0, call.input(0).rank());
  std::int64_t batch = call.attrs().find("batch_dims") ? call.attr<std::int64_t>("batch_dims") : 0;
  if (batch < 0) batch += indices.dim();
  if (batch < 0 || batch > indices.dim() || batch > axis) throw_invalid_argument("batch_dims is out of range");
  return one(gather_along(in(call, 0), indices, axis, batch));
}

// Row numbers of coordinate tuples [..., depth] in a tensor of shape `dims`; -1 for bad ones when allowed.
at::Tensor flat_rows(const at::Tensor& indices, at::IntArrayRef dims, bool ignore) {
  const std::int64_t depth = indices.size(-1);
  if (depth > static_cast<std::int64_t>(dims.size()))
    throw_invalid_argument(fmt::format("index depth {} for rank {}", depth, dims.size()));
  std::int64_t count = 1;
  for (std::int64_t i = 0; i < indices.dim() - 1; ++i) count *= indices.size(i);
  const at::Tensor flat = indices.to(at::kLong).reshape({count, depth}).contiguous();
  at::Tensor rows = at::zeros({count}, at::kLong);
  const auto* from = flat.const_data_ptr<std::int64_t>();
  auto* to = rows.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; depth > 0 && i < count; ++i) {
    std::int64_t row = 0;
    for (std::int64_t d = 0; d < depth; ++d) {
      const std::int64_t at = from[i * depth + d], size = dims[static_cast<std::size_t>(d)];
      if (at < 0 || at >= size) {
        if (!ignore)
          throw_invalid_argument(fmt::format("indices[{}] = {} does not index into shape {}", i, at,
                                             Shape(Ints(dims.begin(), dims.end())).to_string()));
        row = -1;
        break;
      }
      row = row * size + at;
    }
    to[i] = row;
  }
  return rows;
}
bool ignores_bad(const Call& call) {
  const auto* policy = call.find_attr<std::string>("bad_indices_policy");
  return policy && *policy == "IGNORE";
}

Shapes gather_nd_shape(const Call& call) {
  const Shape &params = call.input(0).shape(), &indices = call.input(1).shape();
  if (!params.known_rank() || !indices.known_rank() || indices.rank() < 1 || indices[-1] == kUnknownDim)
    return {Shape::unknown_rank()};
  if (indices[-1] > params.rank())
    throw_invalid_argument(fmt::format("index depth {} for rank {}", indices[-1], params.rank()));
  Shape out(Ints(indices.dims().begin(), indices.dims().end() - 1));
  for (int i = static_cast<int>(indices[-1]); i < params.rank(); ++i) out.push_back(params[i]);
  return {out};
}
Tensors gather_nd(const Call& call) {
  const at::Tensor &x = in(call, 0), &indices = in(call, 1);
  const Ints out = gather_nd_shape(call)[0].dims();
  const bool ignore = ignores_bad(call);
  const at::Tensor rows = flat_rows(indices, x.sizes(), ignore);
  std::int64_t inner = 1, outer = 1;
  for (std::int64_t i = 0; i < x.dim(); ++i) (i < indices.size(-1) ? outer : inner) *= x.size(i);
  const at::Tensor picked = at::index_select(x.reshape({outer, inner}), 0, at::clamp_min(rows, 0));
  return one(
      (ignore ? at::where((rows < 0).unsqueeze(1), at::zeros({}, picked.options()), picked) : picked).reshape(out));
}
// The extrema of x and of the values for its rows; those that equal one share its gradient.
at::Tensor with_extrema(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& values, bool highest) {
  if (!is_float(x) || !at::isnan(x.detach()).any().logical_or(at::isnan(values.detach()).any()).item<bool>())
    return x.scatter_reduce(0, rows.unsqueeze(1).expand_as(values), values, highest ? "amax" : "amin");
  const at::Tensor y = extrema_in_order(values.detach(), rows, x.detach(), highest,
                                        Ints(static_cast<std::size_t>(x.size(0)), x.size(1)));
  const auto gradient = [rows](const Tensors& dys, const Tensors& captured) {
    const at::Tensor &y = dense(captured[2]), &dy = dense(dys[0]);
    const at::Tensor of_x = (dense(captured[0]) == y).to(dy.scalar_type());
    const at::Tensor of_values = (dense(captured[1]) == y.index_select(0, rows)).to(dy.scalar_type());
    const at::Tensor count = of_x.index_add(0, rows, of_values);
    return Tensors{wrap(dy * of_x / count), wrap((dy / count).index_select(0, rows) * of_values)};
  };
  const Tensors inputs = {wrap(x), wrap(values)};
  return dense(with_gradients(inputs, {wrap(y)}, {inputs[0], inputs[1], wrap(y)}, gradient)[0]);
}

// ---- Scatter -------------------------------------------------------------------------------------------
enum class Update { kAssign, kAdd, kSub, kMax, kMin };

at::Tensor scatter_rows(const at::Tensor& base, const at::Tensor& indices, const at::Tensor& updates, Update how,
                        bool ignore) {
  Ints expected(indices.sizes().begin(), indices.sizes().end() - 1);
  expected.insert(expected.end(), base.sizes().begin() + indices.size(-1), base.sizes().end());
  if (updates.sizes() != at::IntArrayRef(expected))
    throw_invalid_argument(fmt::format("invalid updates: found shape {}, expected {}",
                                       Shape(updates.sizes().vec()).to_string(), Shape(expected).to_string()));
  at::Tensor rows = flat_rows(indices, base.sizes(), ignore);
  std::int64_t outer = 1, inner = 1;
  for (std::int64_t i = 0; i < base.dim(); ++i) (i < indices.size(-1) ? outer : inner) *= base.size(i);
  at::Tensor values = updates.reshape({rows.size(0), inner});
  if (rows.numel() > 0 && base.numel() == 0 && inner > 0) throw_invalid_argument("updates of an empty tensor");
  at::Tensor flat = base.reshape({outer, inner});
  if (ignore) {
    const at::Tensor good = at::nonzero(rows >= 0).reshape({-1});
    rows = rows.index_select(0, good);
    values = values.index_select(0, good);
  }
  switch (how) {
    case Update::kAdd: return add_rows(flat, rows, values).view(base.sizes());
    case Update::kSub: return add_rows(flat, rows, values, true).view(base.sizes());
    case Update::kMax: return with_extrema(flat, rows, values, true).view(base.sizes());
    case Update::kMin: return with_extrema(flat, rows, values, false).view(base.sizes());
    case Update::kAssign: break;
  }
  // The last of repeated rows wins: keep only that one.
  std::unordered_map<std::int64_t, std::int64_t> last;
  const Ints order = ints_of(rows);
  for (std::size_t i = 0; i < order.size(); ++i) last[order[i]] = static_cast<std::int64_t>(i);
  Ints keep;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (last[order[i]] == static_cast<std::int64_t>(i)) keep.push_back(static_cast<std::int64_t>(i));
  }
  const at::Tensor kept = at::tensor(at::IntArrayRef(keep), at::kLong);
  return flat.index_put({rows.index_select(0, kept)}, values.index_select(0, kept)).view(base.sizes());
}

Tensors scatter_strings(const Call& call) {
  const Ints shape = ints_in(call, 2);
  element_count(shape, sizeof(std::string));
  std::vector<std::string> out(static_cast<std::size_t>(element_count(shape)));
  const std::vector<std::string>& updates = strings_in(call, 1);
  const at::Tensor& indices = in(call, 0);
  const at::Tensor rows = flat_rows(indices, shape, ignores_bad(call));
  std::int64_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(indices.size(-1)); i < shape.size(); ++i) inner *= shape[i];
  if (static_cast<std::int64_t>(updates.size()) != rows.numel() * inner)
    throw_invalid_argument(
        fmt::format("invalid updates: found {} elements, expected {}", updates.size(), rows.numel() * inner));
  std::size_t next = 0;
  for (const std::int64_t row : ints_of(rows)) {
    for (std::int64_t i = 0; i < inner; ++i, ++next) {
      if (row >= 0) out[static_cast<std::size_t>(row * inner + i)] += updates[next];
    }
  }
  return {Tensor::strings(std::move(out), Shape(shape))};
}
Tensors scatter_nd(const Call& call) {
  if (call.input(1).dtype() == DType::kString) return scatter_strings(call);
  const Ints shape = ints_in(call, 2);
  for (auto dim : shape) {
    if (dim < 0) throw_invalid_argument("the shape must not be negative");
  }
  const at::Tensor& updates = in(call, 1);
  const at::Tensor base = at::zeros(shape, widen(updates).options());
  return one(narrow_to(scatter_rows(base, in(call, 0), widen(updates), Update::kAdd, ignores_bad(call)),
                       updates.scalar_type()));
}
void add_tensor_scatter(Table& table, std::string_view name, Update how) {
  const Kernel kernel = [how](const Call& call) {
    const at::Tensor& x = in(call, 0);
    if (in(call, 1).numel() == 0 && in(call, 1).size(-1) != 0) return Tensors{call.input(0)};
    return one(
        narrow_to(scatter_rows(widen(x), in(call, 1), widen(in(call, 2)), how, ignores_bad(call)), x.scalar_type()));
  };
  table.add(name, same_shape, how == Update::kAssign ? for_strings_too(kernel) : kernel);
}

}  // namespace

void register_indexing(Table& table) {
  table.add("StridedSlice", strided_slice_shape, for_strings_too(strided_slice));
  table.add("StridedSliceGrad", shape_of_input(0), strided_slice_grad);
  table.add("Slice", slice_shape, for_strings_too(slice));
  table.add("GatherV2", gather_v2_shape, for_strings_too(gather_v2));
  table.add(
      "Gather",
      [](const Call& call) -> Shapes {
        const Shape &params = call.input(0).shape(), &indices = call.input(1).shape();
        if (!params.known_rank() || !indices.known_rank()) return {Shape::unknown_rank()};
        Shape out = indices;
        for (int i = 1; i < params.rank(); ++i) out.push_back(params[i]);
        return {out};
      },
      for_strings_too(gather_v2));
  table.add("GatherNd", gather_nd_shape, for_strings_too(gather_nd));
  table.add("ScatterNd", shape_of_input(2), scatter_nd);
  add_tensor_scatter(table, "TensorScatterUpdate", Update::kAssign);
  add_tensor_scatter(table, "TensorScatterAdd", Update::kAdd);
  add_tensor_scatter(table, "ScatterNdNonAliasingAdd", Update::kAdd);
  add_tensor_scatter(table, "TensorScatterSub", Update::kSub);
  add_tensor_scatter(table, "TensorScatterMax", Update::kMax);
  add_tensor_scatter(table, "TensorScatterMin", Update::kMin);
}

}  // namespace lockstep::ops
