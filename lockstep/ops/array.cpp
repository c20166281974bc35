// Shapes, joining and splitting, padding and tiling.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "lockstep/ops/array_rows_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/ops/variants_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::ops {
namespace {

bool is_string(const Call& call, int i = 0) { return call.input(i).dtype() == DType::kString; }

// Applies an index operation to a string tensor: what `f` does to the numbers 0 … n-1 in the tensor's
// shape, it does to the strings. Entries of -1 become "".
template <typename F>
Tensor through_index(const Tensor& x, const F& f) {
  const at::Tensor order = f(at::arange(x.num_elements()).view(x.shape().dims())).contiguous();
  element_count({order.numel()}, sizeof(std::string));
  std::vector<std::string> out;
  for (std::int64_t i : ints_of(order))
    out.push_back(i < 0 ? std::string() : x.string_values()[static_cast<std::size_t>(i)]);
  return Tensor::strings(std::move(out), Shape(order.sizes().vec()));
}
template <typename F>
Tensors rearrange(const Call& call, int i, const F& f) {
  if (is_string(call, i)) return {through_index(call.input(i), f)};
  return one(f(in(call, i)));
}

// ---- Reshape -------------------------------------------------------------------------------------------
Ints resolve_reshape(const Ints& sizes, Ints shape) {
  std::int64_t known = 1, wild = -1, total = 1, counted = 1;
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (auto size : sizes) {
    total *= size;
    if (size != 0 || !empty) counted *= size;
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && wild < 0) {
      wild = static_cast<std::int64_t>(i);
    } else if (shape[i] < 0) {
      throw_invalid_argument(
          fmt::format("shape {} has more than one unknown or a negative dimension", Shape(shape).to_string()));
    } else if (shape[i] > 0 && __builtin_mul_overflow(known, shape[i], &known)) {
      throw_invalid_argument(fmt::format("shape {} has too many elements", Shape(shape).to_string()));
    }
  }
  // Like TensorFlow: extents of 0 count on neither side where the shape has one.
  if (wild >= 0) shape[static_cast<std::size_t>(wild)] = counted / known;
  std::int64_t wanted = 1;
  for (auto size : shape) wanted *= size;
  if (wanted != total) {
    throw_invalid_argument(
        fmt::format("a tensor with {} values cannot have shape {}", total, Shape(shape).to_string()));
  }
  return shape;
}

Shapes reshape_shape(const Call& call) {
  Shape shape = shape_from_input(call, 1);
  if (!shape.known_rank() || !call.input(1).shape().known_rank()) return {shape};
  const auto total = call.input(0).shape().num_elements();
  const auto exact = known_ints(call, 1);
  int unknown = 0, at = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == kUnknownDim) {
      ++unknown, at = i;
    } else if (shape[i] > 0 && __builtin_mul_overflow(known, shape[i], &known)) {
      throw_invalid_argument(fmt::format("shape {} has too many elements", shape.to_string()));
    } else if (shape[i] == 0) {
      known = 0;
    }
  }
  if (total && unknown == 1 && known > 0 && *total % known == 0) shape[at] = *total / known;
  if (total && exact && ((unknown == 0 && known != *total) || (unknown == 1 && known > 0 && *total % known != 0))) {
    throw_invalid_argument(
        fmt::format("a tensor of shape {} cannot have shape {}", call.input(0).shape().to_string(), shape.to_string()));
  }
  return {shape};
}

Tensors reshape(const Call& call) {
  const Ints shape = resolve_reshape(call.input(0).shape().dims(), ints_in(call, 1));
  if (is_string(call)) return {Tensor::strings(call.input(0).string_values(), Shape(shape))};
  return one(in(call, 0).reshape(shape));
}

// ---- Shape, Size, Rank ---------------------------------------------------------------------------------
Tensors shape_kernel(const Call& call) {
  Tensors out;
  const at::ScalarType type = to_scalar_type(call.attr<DType>("out_type"));
  for (const Tensor& x : call.inputs())
    out.push_back(wrap(at::tensor(at::IntArrayRef(x.shape().dims()), at::kLong).to(type)));
  return out;
}
Shapes shape_rule(const Call& call) {
  Shapes out;
  for (const Tensor& x : call.inputs()) out.push_back(Shape{x.shape().known_rank() ? x.shape().rank() : kUnknownDim});
  return out;
}

// ---- Transpose -----------------------------------------------------------------------------------------
Ints whole_permutation(const Ints& permutation, std::int64_t rank) {
  const Ints whole = whole_axes(permutation, rank);
  if (static_cast<std::int64_t>(whole.size()) != rank) {
    throw_invalid_argument(fmt::format("a permutation of {} axes for a tensor of rank {}", whole.size(), rank));
  }
  return whole;
}
Shapes transpose_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  const auto permutation = known_ints(call, 1);
  if (!x.known_rank()) return {Shape::unknown_rank()};
  if (!permutation) return {Shape(Ints(x.dims().size(), kUnknownDim))};
  Shape out;
  for (auto axis : whole_permutation(*permutation, x.rank())) out.push_back(x[static_cast<int>(axis)]);
  return {out};
}
Tensors transpose(const Call& call) {
  const Ints order = whole_permutation(ints_in(call, 1), call.input(0).rank());
  return rearrange(call, 0, [&](const at::Tensor& x) { return x.permute(order).contiguous(); });
}

// ---- ExpandDims, Squeeze -------------------------------------------------------------------------------
Shapes expand_dims_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  const auto axis = known_int(call, 1);
  if (!x.known_rank()) return {Shape::unknown_rank()};
  if (!axis) return {Shape(Ints(x.dims().size() + 1, kUnknownDim))};
  Ints dims = x.dims();
  dims.insert(dims.begin() + whole_axis(*axis, x.rank() + 1), 1);
  return {Shape(dims)};
}
Tensors expand_dims(const Call& call) {
  const std::int64_t axis = whole_axis(int_in(call, 1), call.input(0).rank() + 1);
  return rearrange(call, 0, [&](const at::Tensor& x) { return x.unsqueeze(axis); });
}
Shapes squeeze_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  if (!x.known_rank()) return {Shape::unknown_rank()};
  const Ints axes = whole_axes(call.attr<Ints>("squeeze_dims"), x.rank());
  Shape out;
  for (int i = 0; i < x.rank(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (named && x[i] != 1 && x[i] != kUnknownDim)
      throw_invalid_argument(fmt::format("axis {} has {} entries, not 1", i, x[i]));
    if (axes.empty() && x[i] == kUnknownDim) return {Shape::unknown_rank()};
    if (axes.empty() ? x[i] != 1 : !named) out.push_back(x[i]);
  }
  return {out};
}
Tensors squeeze(const Call& call) {
  const Ints shape = squeeze_shape(call)[0].dims();
  return rearrange(call, 0, [&](const at::Tensor& x) { return x.reshape(shape); });
}

// ---- Joining -------------------------------------------------------------------------------------------
Tensors join_strings(std::span<const Tensor> parts, std::int64_t axis, bool stack) {
  std::vector<std::string> all;
  std::vector<at::Tensor> order;
  for (const Tensor& part : parts) {
    const auto begin = static_cast<std::int64_t>(all.size());
    all.insert(all.end(), part.string_values().begin(), part.string_values().end());
    order.push_back(at::arange(begin, static_cast<std::int64_t>(all.size())).view(part.shape().dims()));
  }
  const at::Tensor index = (stack ? at::stack(order, axis) : at::cat(order, axis)).contiguous();
  std::vector<std::string> out;
  for (auto i : ints_of(index)) out.push_back(all[static_cast<std::size_t>(i)]);
  return {Tensor::strings(std::move(out), Shape(index.sizes().vec()))};
}
Shape concat_rule(std::span<const Tensor> parts, std::optional<std::int64_t> axis) {
  Shape out = Shape::unknown_rank();
  for (const Tensor& part : parts) {
    if (part.shape().known_rank()) out = part.shape();
  }
  if (!out.known_rank()) return out;
  if (out.rank() == 0) throw_invalid_argument("scalars cannot be concatenated; use Pack");
  if (!axis) return Shape(Ints(out.dims().size(), kUnknownDim));
  const int at = static_cast<int>(whole_axis(*axis, out.rank()));
  std::int64_t total = 0;
  for (const Tensor& part : parts) {
    Shape shape = part.shape();
    if (!shape.known_rank()) {
      total = kUnknownDim;
      continue;
    }
    if (shape.rank() != out.rank())
      throw_invalid_argument(fmt::format("ranks differ: {} and {}", out.to_string(), shape.to_string()));
    total = add_dims(total, shape[at]);
    shape[at] = out[at] = kUnknownDim;
    out = merge_shapes(out, shape);
  }
  out[at] = total;
  return out;
}
Shapes concat_v2_shape(const Call& call) {
  return {concat_rule(call.inputs().first(static_cast<std::size_t>(call.num_inputs() - 1)),
                      known_int(call, call.num_inputs() - 1))};
}
Tensors concat_parts(std::span<const Tensor> parts, std::int64_t axis) {
  concat_rule(parts, axis);
  axis = whole_axis(axis, parts[0].rank());
  if (parts[0].dtype() == DType::kString) return join_strings(parts, axis, false);
  std::vector<at::Tensor> values;
  for (const Tensor& part : parts) values.push_back(dense(part));
  // LibTorch's cat skips [0] tensors whatever their rank; the ranks were checked above.
  return one(at::cat(values, axis));
}
Shapes pack_shape(const Call& call) {
  Shape out = Shape::unknown_rank();
  for (const Tensor& part : call.inputs()) out = merge_shapes(out, part.shape());
  if (!out.known_rank()) return {out};
  Ints dims = out.dims();
  dims.insert(dims.begin() + whole_axis(call.attr<std::int64_t>("axis"), out.rank() + 1), call.num_inputs());
  return {Shape(dims)};
}
// Inputs of one row each, as the rows of `shape`.
Tensors rows_of_one(const Call& call) {
  for (int i = 0; i < call.num_inputs(); ++i) {
    if (call.input(i).rank() < 1 || call.input(i).dim(0) != 1) throw_invalid_argument("each value must have one row");
  }
  Tensors inputs(call.inputs().begin(), call.inputs().end());
  inputs.push_back(Tensor::scalar(std::int32_t{0}));
  const Tensor joined = call.num_inputs() == 1 ? call.input(0) : call1("ConcatV2", inputs);
  const Shape& shape = call.attr<Shape>("shape");
  if (!shape.compatible_with(joined.shape()))
    throw_invalid_argument(fmt::format("the values have the shape {} together, expected {}", joined.shape().to_string(),
                                       shape.to_string()));
  return {joined};
}
Tensors pack(const Call& call) {
  const std::int64_t axis = whole_axis(call.attr<std::int64_t>("axis"), call.input(0).rank() + 1);
  if (is_string(call)) return join_strings(call.inputs(), axis, true);
  if (call.input(0).dtype() == DType::kVariant && axis == 0)
    return {variants(Tensors(call.inputs().begin(), call.inputs().end()))};
  std::vector<at::Tensor> values;
  for (const Tensor& part : call.inputs()) values.push_back(dense(part));
  return one(at::stack(values, axis));
}
Shapes unpack_shape(const Call& call) {
  const auto num = call.attr<std::int64_t>("num");
  Shape x = call.input(0).shape();
  if (!x.known_rank()) return Shapes(static_cast<std::size_t>(num), Shape::unknown_rank());
  const std::int64_t axis = whole_axis(call.attr<std::int64_t>("axis"), x.rank());
  if (x[static_cast<int>(axis)] != kUnknownDim && x[static_cast<int>(axis)] != num) {
    throw_invalid_argument(fmt::format("axis {} has {} entries, not {}", axis, x[static_cast<int>(axis)], num));
  }
  Ints dims = x.dims();
  dims.erase(dims.begin() + axis);
  return Shapes(static_cast<std::size_t>(num), Shape(dims));
}
constexpr std::int64_t kBytesOfView = 512;  // of a tensor that shares its values

Tensors unpack(const Call& call) {
  unpack_shape(call);
  const std::int64_t axis = whole_axis(call.attr<std::int64_t>("axis"), call.input(0).rank());
  if (call.input(0).dtype() == DType::kVariant && axis == 0) return variants_in(call.input(0));
  MemoryLimit::check(call.attr<std::int64_t>("num"), kBytesOfView);
  Tensors out;
  for (std::int64_t i = 0; i < call.attr<std::int64_t>("num"); ++i) {
    out.push_back(rearrange(call, 0, [&](const at::Tensor& x) { return x.select(axis, i); })[0]);
  }
  return out;
}

// ---- Split ---------------------------------------------------------------------------------------------
Shapes split_shape(const Call& call) {
  const auto num = call.attr<std::int64_t>("num_split");
  Shape x = call.input(1).shape();
  const auto axis = known_int(call, 0);
  if (x.known_rank() && !axis) x = Shape(Ints(x.dims().size(), kUnknownDim));
  if (x.known_rank() && axis) {
    std::int64_t& size = x[static_cast<int>(whole_axis(*axis, x.rank()))];
    if (size != kUnknownDim && size % num != 0)
      throw_invalid_argument(fmt::format("{} entries cannot be split into {}", size, num));
    if (size != kUnknownDim) size /= num;
  }
  return Shapes(static_cast<std::size_t>(num), x);
}
Tensors split(const Call& call) {
  MemoryLimit::check(call.attr<std::int64_t>("num_split"), kBytesOfView);
  const Shape piece = split_shape(call)[0];
  const std::int64_t axis = whole_axis(int_in(call, 0), call.input(1).rank()), size = piece[static_cast<int>(axis)];
  Tensors out;
  for (std::int64_t i = 0; i < call.attr<std::int64_t>("num_split"); ++i) {
    out.push_back(rearrange(call, 1, [&](const at::Tensor& x) { return x.slice(axis, i * size, (i + 1) * size); })[0]);
  }
  return out;
}
Ints whole_sizes(Ints sizes, std::int64_t total) {
  std::int64_t known = 0, wild = -1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1 && wild < 0) {
      wild = static_cast<std::int64_t>(i);
    } else if (sizes[i] < 0) {
      throw_invalid_argument("split sizes must not be negative, but for one -1");
    } else if (__builtin_add_overflow(known, sizes[i], &known)) {
      throw_invalid_argument("the split sizes are too large");
    }
  }
  if (wild >= 0) sizes[static_cast<std::size_t>(wild)] = total - known;
  if ((wild < 0 && known != total) || known > total) {
    throw_invalid_argument(fmt::format("split sizes add up to {}, the axis has {} entries", known, total));
  }
  return sizes;
}
Shapes split_v_shape(const Call& call) {
  const auto num = static_cast<std::size_t>(call.attr<std::int64_t>("num_split"));
  const Shape& x = call.input(0).shape();
  const auto axis = known_int(call, 2);
  if (!x.known_rank()) return Shapes(num, Shape::unknown_rank());
  if (!axis) return Shapes(num, Shape(Ints(x.dims().size(), kUnknownDim)));
  const int at = static_cast<int>(whole_axis(*axis, x.rank()));
  Shapes out(num, x);
  auto sizes = known_ints(call, 1);
  if (num == 1) return out;
  if (sizes && x[at] != kUnknownDim) sizes = whole_sizes(*sizes, x[at]);
  for (std::size_t i = 0; i < num; ++i) out[i][at] = sizes && i < sizes->size() ? (*sizes)[i] : kUnknownDim;
  return out;
}
Tensors split_v(const Call& call) {
  const std::int64_t axis = whole_axis(int_in(call, 2), call.input(0).rank());
  // TensorFlow does not look at the only size.
  if (call.attr<std::int64_t>("num_split") == 1) return {call.input(0)};
  const Ints sizes = whole_sizes(ints_in(call, 1), call.input(0).dim(static_cast<int>(axis)));
  if (static_cast<std::int64_t>(sizes.size()) != call.attr<std::int64_t>("num_split"))
    throw_invalid_argument(
        fmt::format("{} split sizes are given, num_split is {}", sizes.size(), call.attr<std::int64_t>("num_split")));
  std::int64_t begin = 0;
  Tensors out;
  for (auto size : sizes) {
    out.push_back(rearrange(call, 0, [&](const at::Tensor& x) { return x.slice(axis, begin, begin + size); })[0]);
    begin += size;
  }
  return out;
}

// ---- Pad, Tile, BroadcastTo, Fill, Range ---------------------------------------------------------------
Shapes pad_shape(const Call& call) {
  Shape x = call.input(0).shape();
  const auto amounts = known_ints(call, 1);
  if (!x.known_rank() && amounts) x = Shape(Ints(amounts->size() / 2, kUnknownDim));
  for (int i = 0; x.known_rank() && i < x.rank(); ++i) {
    const auto at = static_cast<std::size_t>(2 * i);
    x[i] = amounts && at + 1 < amounts->size() ? add_dims(add_dims(x[i], (*amounts)[at]), (*amounts)[at + 1])
                                               : kUnknownDim;
  }
  return {x};
}
Ints pad_amounts(const Call& call, std::int64_t rank) {
  const at::Tensor& rows = in(call, 1);
  if (rows.dim() != 2 || rows.size(1) != 2) {
    throw_invalid_argument(fmt::format("paddings have shape {}, expected a row of two numbers for each axis",
                                       call.input(1).shape().to_string()));
  }
  const Ints amounts = ints_of(rows);
  if (static_cast<std::int64_t>(amounts.size()) != 2 * rank) {
    throw_invalid_argument(fmt::format("paddings for {} axes, the input has {}", amounts.size() / 2, rank));
  }
  for (auto amount : amounts) {
    if (amount < 0) throw_invalid_argument(fmt::format("paddings must not be negative: {}", amount));
  }
  return amounts;
}
Tensors pad(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const Ints amounts = pad_amounts(call, x.dim());
  Ints reversed;
  for (std::int64_t i = x.dim() - 1; i >= 0; --i) {
    reversed.push_back(amounts[static_cast<std::size_t>(2 * i)]);
    reversed.push_back(amounts[static_cast<std::size_t>(2 * i + 1)]);
  }
  const at::Scalar value = call.num_inputs() > 2 ? in(call, 2).item() : at::Scalar(0);
  if (value.equal(0)) {
    if (auto own = try_zero_padding(x, amounts)) return one(*std::move(own));
  }
  return one(narrow_to(at::constant_pad_nd(widen(x), reversed, value), x.scalar_type()));
}
Tensors mirror_pad(const Call& call) {
  at::Tensor x = in(call, 0);
  const Ints amounts = pad_amounts(call, x.dim());
  const std::int64_t skip = call.attr<std::string>("mode") == "REFLECT" ? 1 : 0;
  for (std::int64_t axis = 0; axis < x.dim(); ++axis) {
    const std::int64_t n = x.size(axis), before = amounts[static_cast<std::size_t>(2 * axis)],
                       after = amounts[static_cast<std::size_t>(2 * axis + 1)];
    if (before == 0 && after == 0) continue;
    if (std::max(before, after) > n - skip) {
      throw_invalid_argument(fmt::format("mirror padding {} of an axis with {} entries", std::max(before, after), n));
    }
    Ints order;
    for (std::int64_t i = before; i > 0; --i) order.push_back(i - 1 + skip);
    for (std::int64_t i = 0; i < n; ++i) order.push_back(i);
    for (std::int64_t i = 0; i < after; ++i) order.push_back(n - 1 - skip - i);
    x = x.index_select(axis, at::tensor(at::IntArrayRef(order), at::kLong));
  }
  return one(x);
}
Shapes tile_shape(const Call& call) {
  Shape x = call.input(0).shape();
  const auto times = constant_value_as_shape(call.input(1));
  const bool known = times && times->known_rank();
  if (known && x.known_rank() && times->rank() != x.rank())
    throw_invalid_argument("multiples must have one entry for each axis");
  for (int i = 0; x.known_rank() && i < x.rank(); ++i) x[i] = known ? mul_dims(x[i], (*times)[i]) : kUnknownDim;
  return {x};
}
Tensors tile(const Call& call) {
  const Ints times = ints_in(call, 1);
  if (static_cast<int>(times.size()) != call.input(0).rank())
    throw_invalid_argument("multiples must have one entry for each axis");
  for (auto n : times) {
    if (n < 0) throw_invalid_argument(fmt::format("multiples must not be negative: {}", n));
  }
  return rearrange(call, 0, [&](const at::Tensor& x) { return x.repeat(times); });
}
// The sum over the repeats.
Tensors tile_gradient(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const Ints times = ints_in(call, 1);
  if (static_cast<std::int64_t>(times.size()) != x.dim())
    throw_invalid_argument("multiples must have one entry for each axis");
  Ints shape, repeats;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::int64_t extent = x.size(static_cast<std::int64_t>(i));
    if (times[i] < 1 || extent % times[i] != 0)
      throw_invalid_argument(fmt::format("axis {} has {} elements, which are not {} equal parts", i, extent, times[i]));
    repeats.push_back(static_cast<std::int64_t>(shape.size()));
    shape.push_back(times[i]), shape.push_back(extent / times[i]);
  }
  return one(repeats.empty() ? x : widen(x).reshape(shape).sum(repeats).to(x.scalar_type()));
}
Tensors broadcast_to(const Call& call) {
  const Ints shape = ints_in(call, 1);
  element_count(shape);
  return rearrange(call, 0, [&](const at::Tensor& x) { return x.expand(shape); });
}
Tensors fill(const Call& call) {
  const Ints shape = ints_in(call, 0);
  element_count(shape);
  if (call.input(1).rank() != 0) throw_invalid_argument("the value must be a scalar");
  return rearrange(call, 1, [&](const at::Tensor& x) { return x.expand(shape).contiguous(); });
}
Shapes range_shape(const Call& call) {
  const auto start = known_int(call, 0), limit = known_int(call, 1), delta = known_int(call, 2);
  if (!start || !limit || !delta || *delta == 0) return {Shape{kUnknownDim}};
  const std::int64_t span = *limit - *start;
  return {Shape{std::max<std::int64_t>(0, (span + *delta - (*delta > 0 ? 1 : -1)) / *delta)}};
}
template <typename T>
at::Tensor range_of(T start, T limit, T delta, const at::TensorOptions& options) {
  if (delta == 0) throw_invalid_argument("delta must not be 0");
  if (delta > 0 ? start > limit : start < limit) throw_invalid_argument("start is past limit for the sign of delta");
  std::int64_t count;
  if constexpr (std::is_floating_point_v<T>) {
    count = static_cast<std::int64_t>(std::ceil(std::fabs((limit - start) / delta)));
  } else {
    count = (limit - start + delta - (delta > 0 ? 1 : -1)) / delta;
  }
  if (count > (std::int64_t{1} << 40)) throw_invalid_argument("the range is too long");
  at::Tensor out = at::empty({count}, options);
  T* data = out.mutable_data_ptr<T>();
  for (std::int64_t i = 0; i < count; ++i) {
    volatile T step = static_cast<T>(i) * delta;  // rounded on its own: no fused multiply-add
    data[i] = start + step;
  }
  return out;
}
Tensors range(const Call& call) {
  const at::Tensor &start = in(call, 0), &limit = in(call, 1), &delta = in(call, 2);
  const auto type = start.scalar_type();
  if (type == at::kFloat)
    return one(range_of(start.item<float>(), limit.item<float>(), delta.item<float>(), at::kFloat));
  if (is_float(start))
    return one(
        range_of(start.item().toDouble(), limit.item().toDouble(), delta.item().toDouble(), at::kDouble).to(type));
  return one(
      range_of<std::int64_t>(start.item().toLong(), limit.item().toLong(), delta.item().toLong(), at::kLong).to(type));
}
Tensors linspace(const Call& call) {
  const std::int64_t num = int_in(call, 2);
  if (num < 1) throw_invalid_argument("num must be positive");
  // TensorFlow gives the ends no gradient.
  const at::Tensor start = in(call, 0).detach().reshape({1}), stop = in(call, 1).detach().reshape({1});
  if (num == 1) return one(start);
  const at::Tensor inner = start + at::arange(1, num - 1, start.options()) * ((stop - start) / (num - 1));
  return one(at::cat({start, inner, stop}));
}

Tensors like(const Call& call, bool ones) {
  if (call.input(0).dtype() == DType::kVariant) {
    Tensors zeros;
    for (const Tensor& x : call.input(0).list_elements()) zeros.push_back(x.defined() ? call1(call.name(), {x}) : x);
    return {Tensor::list(std::move(zeros), call.input(0).list_element_shape(), call.input(0).list_element_dtype())};
  }
  if (is_string(call))
    return {Tensor::strings(std::vector<std::string>(call.input(0).string_values().size()), call.input(0).shape())};
  const at::Tensor x = in(call, 0).detach();
  return one(ones ? at::ones(x.sizes(), x.options()) : at::zeros(x.sizes(), x.options()));
}

Tensors stop_gradient(const Call& call) {
  if (is_string(call) || !call.input(0).impl()->value.defined()) return {call.input(0)};
  return one(in(call, 0).detach());
}
Tensors pass(const Call& call) { return Tensors(call.inputs().begin(), call.inputs().end()); }
Shapes pass_shapes(const Call& call) {
  Shapes out;
  for (const Tensor& x : call.inputs()) out.push_back(x.shape());
  return out;
}

}  // namespace

std::optional<Tensor> try_rows(const Tensor& x, std::int64_t begin, std::int64_t end) {
  if (!x.is_value() || x.dtype() == DType::kString) return std::nullopt;
  return wrap(dense(x).narrow(0, begin, end - begin));
}

void register_indexing(Table& table);
void register_reordering(Table& table);

void register_array(Table& table) {
  register_diagonals(table);
  register_indexing(table);
  register_reordering(table);
  table.add("Reshape", reshape_shape, reshape);
  table.add("Shape", shape_rule, shape_kernel);
  table.add("ShapeN", shape_rule, shape_kernel);
  table.add("Size", scalar_rule, [](const Call& call) {
    return one(at::scalar_tensor(*call.input(0).shape().num_elements(), at::kLong)
                   .to(to_scalar_type(call.attr<DType>("out_type"))));
  });
  table.add("Rank", scalar_rule,
            [](const Call& call) { return one(at::scalar_tensor(call.input(0).rank(), at::kInt)); });
  table.add("Transpose", transpose_shape, transpose);
  table.add("ExpandDims", expand_dims_shape, expand_dims);
  table.add("Squeeze", squeeze_shape, squeeze);
  table.add("ConcatV2", concat_v2_shape, [](const Call& call) {
    return concat_parts(call.inputs().first(static_cast<std::size_t>(call.num_inputs() - 1)),
                        int_in(call, call.num_inputs() - 1));
  });
  table.add(
      "Concat", [](const Call& call) { return Shapes{concat_rule(call.inputs().subspan(1), known_int(call, 0))}; },
      [](const Call& call) { return concat_parts(call.inputs().subspan(1), int_in(call, 0)); });
  table.add("Pack", pack_shape, pack);
  table.add(
      "ParallelConcat", [](const Call& call) { return Shapes{call.attr<Shape>("shape")}; }, rows_of_one);
  table.add("Timestamp", scalar_rule, [](const Call&) {
    using Seconds = std::chrono::duration<double>;
    return Tensors{Tensor::scalar(Seconds(std::chrono::system_clock::now().time_since_epoch()).count())};
  });
  table.add("Unpack", unpack_shape, unpack);
  table.add("Split", split_shape, split);
  table.add("SplitV", split_v_shape, split_v);
  table.add("Pad", pad_shape, for_strings_too(pad));
  table.add("PadV2", pad_shape, for_strings_too(pad));
  table.add("MirrorPad", pad_shape, for_strings_too(mirror_pad));
  table.add("Tile", tile_shape, tile);
  table.add("TileGrad", nullptr, tile_gradient);
  table.add("BroadcastTo", shape_of_input(1), broadcast_to);
  table.add("Fill", shape_of_input(0), fill);
  table.add("Range", range_shape, range);
  table.add(
      "LinSpace", [](const Call& call) { return Shapes{Shape{known_int(call, 2).value_or(kUnknownDim)}}; }, linspace);
  table.add("ZerosLike", same_shape, [](const Call& call) { return like(call, false); });
  table.add("OnesLike", same_shape, [](const Call& call) { return like(call, true); });
  table.add("StopGradient", same_shape, stop_gradient);
  for (auto name : {"Identity", "Snapshot", "DeepCopy", "PreventGradient"}) table.add(name, same_shape, pass);
  table.add("IdentityN", pass_shapes, pass);
}

}  // namespace lockstep::ops
