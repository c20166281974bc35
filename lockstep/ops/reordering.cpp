// Elements that are found, counted or put in another order: OneHot, Where, Unique, Reverse, Roll; places and shapes as
// values.
#include <algorithm>
#include <unordered_map>

#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

Shapes one_hot_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  if (!x.known_rank()) return {Shape::unknown_rank()};
  const std::int64_t axis = whole_axis(call.attr<std::int64_t>("axis"), x.rank() + 1);
  Ints dims = x.dims();
  dims.insert(dims.begin() + axis, known_int(call, 1).value_or(kUnknownDim));
  return {Shape(dims)};
}
Tensors one_hot(const Call& call) {
  const at::Tensor x = in(call, 0).to(at::kLong);
  const std::int64_t depth = int_in(call, 1), axis = whole_axis(call.attr<std::int64_t>("axis"), x.dim() + 1);
  if (depth < 0) throw_invalid_argument(fmt::format("depth must not be negative: {}", depth));
  if (in(call, 2).dim() != 0 || in(call, 3).dim() != 0)
    throw_invalid_argument("on_value and off_value must be scalars");
  Ints view(static_cast<std::size_t>(x.dim() + 1), 1);
  view[static_cast<std::size_t>(axis)] = depth;
  return one(at::where(x.unsqueeze(axis) == at::arange(depth, at::kLong).view(view), in(call, 2), in(call, 3)));
}

template <typename T>
void find_unique(const std::vector<T>& values, Ints& firsts, Ints& index, Ints& counts) {
  std::unordered_map<T, std::int64_t> seen;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [at, fresh] = seen.try_emplace(values[i], static_cast<std::int64_t>(firsts.size()));
    if (fresh) {
      firsts.push_back(static_cast<std::int64_t>(i));
      counts.push_back(0);
    }
    index.push_back(at->second);
    ++counts[static_cast<std::size_t>(at->second)];
  }
}
Tensors unique(const Call& call) {
  const Tensor& x = call.input(0);
  if (x.rank() != 1) throw_invalid_argument("the input must be a vector");
  Ints firsts, index, counts;
  if (x.dtype() == DType::kString) {
    find_unique(x.string_values(), firsts, index, counts);
  } else if (is_float(dense(x))) {
    const Tensor wide = wrap(dense(x).to(at::kDouble));
    find_unique(wide.to_vector<double>(), firsts, index, counts);
  } else {
    find_unique(ints_of(dense(x)), firsts, index, counts);
  }
  const at::ScalarType type = to_scalar_type(call.attr<DType>("out_idx"));
  Tensors out = {take_rows(x, firsts)};
  out.push_back(wrap(at::tensor(at::IntArrayRef(index), at::kLong).to(type)));
  if (call.signature().outputs.size() > 2) out.push_back(wrap(at::tensor(at::IntArrayRef(counts), at::kLong).to(type)));
  return out;
}
Shapes unique_shape(const Call& call) {
  Shapes out = {Shape{kUnknownDim}, call.input(0).shape()};
  if (call.signature().outputs.size() > 2) out.push_back(Shape{kUnknownDim});
  return out;
}
Shapes where_shape(const Call& call) {
  const Shape& x = call.input(0).shape();
  return {Shape{kUnknownDim, x.known_rank() ? x.rank() : kUnknownDim}};
}
Tensors where_kernel(const Call& call) {
  if (call.input(0).rank() == 0) throw_invalid_argument("the condition must not be a scalar");
  return one(at::nonzero(widen(in(call, 0))).contiguous());
}
Tensors reverse_v2(const Call& call) {
  if (call.input(0).rank() == 0) return {call.input(0)};  // whatever the axes are, as in TensorFlow
  const Ints axes = whole_axes(ints_in(call, 1), call.input(0).rank());
  return one(in(call, 0).flip(axes));
}
Tensors roll(const Call& call) {
  const Ints shifts = ints_in(call, 1);
  Ints axes = ints_in(call, 2);
  for (auto& axis : axes) axis = whole_axis(axis, call.input(0).rank());
  const at::Tensor& x = in(call, 0);
  return one(x.numel() == 0 || axes.empty() ? x : x.roll(shifts, axes));
}
Tensors reverse_sequence(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const std::int64_t seq = whole_axis(call.attr<std::int64_t>("seq_dim"), x.dim()),
                     batch = whole_axis(call.attr<std::int64_t>("batch_dim"), x.dim());
  if (seq == batch) throw_invalid_argument("seq_dim and batch_dim must differ");
  const at::Tensor lengths = in(call, 1).to(at::kLong);
  if (lengths.numel() != x.size(batch)) throw_invalid_argument("seq_lengths must have one entry for each example");
  const std::int64_t n = x.size(seq);
  for (auto length : ints_of(lengths)) {
    if (length < 0 || length > n) throw_invalid_argument(fmt::format("sequence length {} outside [0, {}]", length, n));
  }
  const at::Tensor at = at::arange(n, at::kLong).unsqueeze(0), len = lengths.unsqueeze(1);
  const at::Tensor index = at::where(at < len, len - 1 - at, at);  // [batch, n]
  Ints view(static_cast<std::size_t>(x.dim()), 1);
  view[static_cast<std::size_t>(batch)] = x.size(batch), view[static_cast<std::size_t>(seq)] = n;
  return one(x.gather(seq, (batch < seq ? index : index.t()).reshape(view).expand(x.sizes())));
}
Tensors invert_permutation(const Call& call) {
  const Ints p = ints_in(call, 0);
  Ints inverse(p.size(), -1);
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] < 0 || p[i] >= static_cast<std::int64_t>(p.size()))
      throw_invalid_argument(fmt::format("{} is not between 0 and {}", p[i], p.size()));
    if (inverse[static_cast<std::size_t>(p[i])] != -1)
      throw_invalid_argument(fmt::format("{} is duplicated in the input", p[i]));
    inverse[static_cast<std::size_t>(p[i])] = static_cast<std::int64_t>(i);
  }
  return one(at::tensor(at::IntArrayRef(inverse), at::kLong).to(in(call, 0).scalar_type()));
}
Tensors concat_offset(const Call& call) {
  const std::int64_t axis = int_in(call, 0);
  Tensors out;
  std::int64_t offset = 0;
  for (int i = 1; i < call.num_inputs(); ++i) {
    if (call.input(i).rank() != 1 || call.input(i).num_elements() != call.input(1).num_elements())
      throw_invalid_argument("the shapes must be vectors of one length");
    const Ints shape = ints_in(call, i);
    Ints begin(shape.size(), 0);
    const auto at = static_cast<std::size_t>(whole_axis(axis, static_cast<std::int64_t>(shape.size())));
    begin[at] = offset;
    if (__builtin_add_overflow(offset, shape[at], &offset)) throw_invalid_argument("the extents are too large");
    out.push_back(wrap(at::tensor(at::IntArrayRef(begin), at::kLong).to(in(call, i).scalar_type())));
  }
  return out;
}
Tensors broadcast_gradient_args(const Call& call) {
  const Ints a = ints_in(call, 0), b = ints_in(call, 1);
  const std::size_t rank = std::max(a.size(), b.size());
  Ints reduce_a, reduce_b;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = i + a.size() >= rank ? a[i + a.size() - rank] : 1,
                       y = i + b.size() >= rank ? b[i + b.size() - rank] : 1;
    if (x != y && x != 1 && y != 1)
      throw_invalid_argument(fmt::format("incompatible shapes {} and {}", Shape(a).to_string(), Shape(b).to_string()));
    if (x == 1) reduce_a.push_back(static_cast<std::int64_t>(i));
    if (y == 1) reduce_b.push_back(static_cast<std::int64_t>(i));
  }
  const auto type = in(call, 0).scalar_type();
  return {wrap(at::tensor(at::IntArrayRef(reduce_a), at::kLong).to(type)),
          wrap(at::tensor(at::IntArrayRef(reduce_b), at::kLong).to(type))};
}
Tensors ensure_shape(const Call& call) {
  const Shape& wanted = call.attr<Shape>("shape");
  if (!call.input(0).shape().compatible_with(wanted)) {
    throw_invalid_argument(
        fmt::format("the shape is {}, expected {}", call.input(0).shape().to_string(), wanted.to_string()));
  }
  return {call.input(0)};
}
Tensors matrix_band_part(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const std::int64_t lower = int_in(call, 1), upper = int_in(call, 2);
  // Negative numbers keep all.
  if (lower > x.size(-2) || upper > x.size(-1))
    throw_invalid_argument(fmt::format("invalid num_lower {} or num_upper {}: matrices have {} rows and {} columns",
                                       lower, upper, x.size(-2), x.size(-1)));
  const at::Tensor rows = at::arange(x.size(-2)).unsqueeze(1), columns = at::arange(x.size(-1)).unsqueeze(0);
  const at::Tensor below = rows - columns;
  at::Tensor keep = at::ones(below.sizes(), at::kBool);
  if (lower >= 0) keep = at::logical_and(keep, below <= lower);
  if (upper >= 0) keep = at::logical_and(keep, below >= -upper);
  return one(at::where(keep, x, at::zeros({}, x.options())));
}

}  // namespace

void register_reordering(Table& table) {
  table.add("OneHot", one_hot_shape, for_strings_too(one_hot));
  table.add("Where", where_shape, where_kernel);
  table.add("Unique", unique_shape, unique);
  table.add("UniqueWithCounts", unique_shape, unique);
  table.add("ReverseV2", same_shape, for_strings_too(reverse_v2));
  table.add("Roll", same_shape, for_strings_too(roll));
  table.add("ReverseSequence", same_shape, for_strings_too(reverse_sequence));
  table.add("InvertPermutation", same_shape, invert_permutation);
  table.add(
      "ConcatOffset",
      [](const Call& call) {
        Shapes out;
        for (const Tensor& x : call.inputs().subspan(1)) out.push_back(x.shape());
        return out;
      },
      concat_offset);
  table.add("BroadcastGradientArgs", nullptr, broadcast_gradient_args);
  table.add(
      "EnsureShape",
      [](const Call& call) { return Shapes{merge_shapes(call.input(0).shape(), call.attr<Shape>("shape"))}; },
      ensure_shape);
  for (auto name : {"MatrixBandPart", "BatchMatrixBandPart"}) table.add(name, same_shape, matrix_band_part);
}

}  // namespace lockstep::ops
