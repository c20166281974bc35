// Kernels of small programs that rearrange elements.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/ops/attributes_internal.h"
#include "lockstep/ops/small_values_internal.h"

namespace lockstep::ops {
namespace {

bool is_dense(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBool || is_index_type(dtype);
}
void write_number(void* data, DType dtype, std::int64_t i, std::int64_t value) {
  if (dtype == DType::kInt32)
    static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value);
  else
    static_cast<std::int64_t*>(data)[i] = value;
}
std::int64_t product(const SmallValue& x, int begin, int end) {
  std::int64_t total = 1;
  for (int i = begin; i < end; ++i) total *= x.dims[static_cast<std::size_t>(i)];
  return total;
}

// The elements of `x` in the order that `dims` and the steps between elements of `x` give.
bool gather(const SmallValue& x, std::int64_t first, const SmallDims& steps, SmallValue& out, SmallFrame& frame) {
  out.dtype = x.dtype;
  auto* to = static_cast<std::byte*>(frame.allocate(out));
  if (!to) return false;
  const std::size_t size = dtype_size(x.dtype);
  const auto* from = static_cast<const std::byte*>(x.data);
  SmallDims at{};
  std::int64_t place = first;
  for (std::int64_t i = 0; i < out.count; ++i) {
    std::memcpy(to + static_cast<std::size_t>(i) * size, from + static_cast<std::size_t>(place) * size, size);
    for (int axis = out.rank - 1; axis >= 0; --axis) {
      const auto n = static_cast<std::size_t>(axis);
      place += steps[n];
      if (++at[n] < out.dims[n]) break;
      place -= steps[n] * out.dims[n];
      at[n] = 0;
    }
  }
  return true;
}

SmallDims steps_of(const SmallValue& x) {
  SmallDims steps{};
  std::int64_t step = 1;
  for (int i = x.rank - 1; i >= 0; --i) {
    steps[static_cast<std::size_t>(i)] = step;
    step *= x.dims[static_cast<std::size_t>(i)];
  }
  return steps;
}

// ---- shapes ----------------------------------------------------------------------------------------------------
bool run_shape(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue& x = instruction.in(frame, 0);
  SmallValue& out = frame.result(instruction.output);
  out.dtype = instruction.dtype;
  out.rank = 1;
  out.dims[0] = x.rank;
  void* to = frame.allocate(out);
  for (int i = 0; i < x.rank; ++i) write_number(to, out.dtype, i, x.dims[static_cast<std::size_t>(i)]);
  return true;
}

// Size (numbers[0] = 0) and Rank.
bool run_extent(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue& x = instruction.in(frame, 0);
  SmallValue& out = frame.result(instruction.output);
  const std::int64_t value = instruction.numbers[0] == 0 ? x.count : x.rank;
  out.dtype = instruction.dtype;
  out.rank = 0;
  write_number(frame.allocate(out), out.dtype, 0, value);
  return true;
}

// `x` with other axes.
bool with_shape(const SmallValue& x, std::span<const std::int64_t> dims, SmallValue& out) {
  if (!x.data || dims.size() > kSmallRank) return false;
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  if (count != x.count) return false;
  out = x;
  out.rank = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), out.dims.begin());
  return true;
}

bool run_reshape(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &x = instruction.in(frame, 0), &shape = instruction.in(frame, 1);
  SmallDims dims{};
  if (!read_small_numbers(shape, dims) || shape.rank != 1) return false;
  std::int64_t known = 1, unknown = -1;
  for (std::int64_t i = 0; i < shape.count; ++i) {
    const std::int64_t dim = dims[static_cast<std::size_t>(i)];
    if (dim < -1 || dim > kSmallElements || (dim == -1 && unknown >= 0)) return false;
    if (dim == -1)
      unknown = i;
    else if ((known *= dim) > kSmallElements)
      return false;
  }
  if (unknown >= 0) {
    if (known == 0 || x.count % known != 0) return false;
    dims[static_cast<std::size_t>(unknown)] = x.count / known;
  }
  return with_shape(x, {dims.data(), static_cast<std::size_t>(shape.count)}, frame.result(instruction.output));
}

bool run_expand_dims(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &x = instruction.in(frame, 0), &where = instruction.in(frame, 1);
  if (!where.data || where.count != 1 || x.rank == kSmallRank) return false;
  std::int64_t axis = small_number_at(where, 0);
  if (!take_whole_axis(axis, x.rank + 1)) return false;
  SmallDims dims{};
  for (int i = 0, from = 0; i <= x.rank; ++i) {
    dims[static_cast<std::size_t>(i)] = i == axis ? 1 : x.dims[static_cast<std::size_t>(from++)];
  }
  return with_shape(x, {dims.data(), static_cast<std::size_t>(x.rank + 1)}, frame.result(instruction.output));
}

bool run_squeeze(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue& x = instruction.in(frame, 0);
  std::array<bool, kSmallRank> dropped{};
  for (std::int64_t axis : instruction.numbers) {
    if (!take_whole_axis(axis, x.rank) || x.dims[static_cast<std::size_t>(axis)] != 1) return false;
    dropped[static_cast<std::size_t>(axis)] = true;
  }
  SmallDims dims{};
  std::size_t rank = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.rank); ++i) {
    if (instruction.numbers.empty() ? x.dims[i] != 1 : !dropped[i]) dims[rank++] = x.dims[i];
  }
  return with_shape(x, {dims.data(), rank}, frame.result(instruction.output));
}

bool run_fill(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &shape = instruction.in(frame, 0), &value = instruction.in(frame, 1);
  SmallValue& out = frame.result(instruction.output);
  SmallDims dims{};
  if (!value.data || value.rank != 0 || shape.rank != 1 || !read_small_numbers(shape, dims)) return false;
  out.rank = static_cast<int>(shape.count);
  out.dims = dims;
  return gather(value, 0, SmallDims{}, out, frame);
}

bool run_range(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &begin = instruction.in(frame, 0), &end = instruction.in(frame, 1), &by = instruction.in(frame, 2);
  SmallValue& out = frame.result(instruction.output);
  if (!begin.data || !end.data || !by.data || begin.rank + end.rank + by.rank != 0) return false;
  const std::int64_t from = small_number_at(begin, 0), to = small_number_at(end, 0), step = small_number_at(by, 0);
  constexpr std::int64_t kFar = std::int64_t{1} << 40;  // nothing overflows below
  if (step == 0 || std::max({std::abs(from), std::abs(to), std::abs(step)}) > kFar) return false;
  out.dtype = begin.dtype;
  out.rank = 1;
  out.dims[0] = std::max<std::int64_t>(0, step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step);
  void* data = frame.allocate(out);
  if (!data || (step > 0 ? to < from : to > from)) return false;
  for (std::int64_t i = 0; i < out.count; ++i) write_number(data, out.dtype, i, from + i * step);
  return true;
}

// ---- rearrangements --------------------------------------------------------------------------------------------
bool run_transpose(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &x = instruction.in(frame, 0), &order = instruction.in(frame, 1);
  SmallValue& out = frame.result(instruction.output);
  SmallDims axes{}, steps{};
  if (!x.data || !read_small_numbers(order, axes) || order.count != x.rank) return false;
  const SmallDims of_x = steps_of(x);
  unsigned seen = 0;
  out.rank = x.rank;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.rank); ++i) {
    if (!take_whole_axis(axes[i], x.rank)) return false;
    seen |= 1U << axes[i];
    out.dims[i] = x.dims[static_cast<std::size_t>(axes[i])];
    steps[i] = of_x[static_cast<std::size_t>(axes[i])];
  }
  return seen + 1 == 1U << x.rank && gather(x, 0, steps, out, frame);
}

// Without an ellipsis and new axes; numbers: begin_mask, end_mask, shrink_axis_mask.
bool run_strided_slice(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &x = instruction.in(frame, 0), &begins = instruction.in(frame, 1);
  const SmallValue &ends = instruction.in(frame, 2), &by = instruction.in(frame, 3);
  SmallValue& out = frame.result(instruction.output);
  SmallDims begin{}, end{}, stride{}, steps{};
  if (!x.data || !read_small_numbers(begins, begin) || !read_small_numbers(ends, end) ||
      !read_small_numbers(by, stride))
    return false;
  if (begins.count > x.rank || ends.count != begins.count || by.count != begins.count) return false;
  const SmallDims of_x = steps_of(x);
  std::int64_t first = 0;
  out.rank = 0;
  for (int axis = 0; axis < x.rank; ++axis) {
    const auto n = static_cast<std::size_t>(axis);
    const std::int64_t size = x.dims[n], bit = std::int64_t{1} << axis;
    std::int64_t from = 0, count = size, step = 1;
    if (axis < begins.count) {
      step = stride[n];
      if (step == 0 || std::abs(step) > kSmallElements) return false;
      const auto inside = [&](std::int64_t place) {
        return std::clamp<std::int64_t>(place < 0 ? place + size : place, step > 0 ? 0 : -1,
                                        step > 0 ? size : size - 1);
      };
      if ((instruction.numbers[2] & bit) != 0) {
        const std::int64_t place = begin[n] < 0 ? begin[n] + size : begin[n];
        if (place < 0 || place >= size || step < 0) return false;
        first += place * of_x[n];
        continue;
      }
      from = (instruction.numbers[0] & bit) != 0 ? (step > 0 ? 0 : size - 1) : inside(begin[n]);
      const std::int64_t to = (instruction.numbers[1] & bit) != 0 ? (step > 0 ? size : -1) : inside(end[n]);
      count = std::max<std::int64_t>(0, step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step);
    }
    if (count > 0) first += from * of_x[n];
    out.dims[static_cast<std::size_t>(out.rank)] = count;
    steps[static_cast<std::size_t>(out.rank++)] = step * of_x[n];
  }
  return gather(x, first, steps, out, frame);
}

bool run_slice(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &x = instruction.in(frame, 0), &begins = instruction.in(frame, 1), &sizes = instruction.in(frame, 2);
  SmallValue& out = frame.result(instruction.output);
  SmallDims begin{}, size{};
  if (!x.data || !read_small_numbers(begins, begin) || !read_small_numbers(sizes, size)) return false;
  if (begins.count != x.rank || sizes.count != x.rank) return false;
  const SmallDims steps = steps_of(x);
  std::int64_t first = 0;
  out.rank = x.rank;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.rank); ++i) {
    if (begin[i] < 0 || begin[i] > x.dims[i]) return false;
    if (size[i] == -1) size[i] = x.dims[i] - begin[i];
    if (size[i] < 0 || size[i] > x.dims[i] - begin[i]) return false;
    first += begin[i] * steps[i];
    out.dims[i] = size[i];
  }
  return gather(x, first, steps, out, frame);
}

// Joins operands begin … end - 1, whose axes before and after `axis` are equal.
bool join(const SmallInstruction& instruction, SmallFrame& frame, std::size_t begin, std::size_t end, std::int64_t axis,
          SmallValue& out) {
  auto* to = static_cast<std::byte*>(frame.allocate(out));
  if (!to) return false;
  const std::size_t size = dtype_size(out.dtype);
  const std::int64_t outer = product(out, 0, static_cast<int>(axis));
  for (std::int64_t row = 0; row < outer; ++row) {
    for (std::size_t i = begin; i < end; ++i) {
      const SmallValue& part = instruction.in(frame, i);
      const std::size_t bytes = static_cast<std::size_t>(part.count / outer) * size;
      std::memcpy(to, static_cast<const std::byte*>(part.data) + static_cast<std::size_t>(row) * bytes, bytes);
      to += bytes;
    }
  }
  return true;
}

bool run_concat(const SmallInstruction& instruction, SmallFrame& frame) {
  const std::size_t parts = instruction.operands.size() - 1;
  const SmallValue &first = instruction.in(frame, 0), &where = instruction.in(frame, parts);
  SmallValue& out = frame.result(instruction.output);
  if (!where.data || where.count != 1) return false;
  std::int64_t axis = small_number_at(where, 0);
  if (!take_whole_axis(axis, first.rank)) return false;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const SmallValue& part = instruction.in(frame, i);
    if (!part.data || part.rank != first.rank) return false;
    for (int n = 0; n < part.rank; ++n) {
      if (n != axis && part.dims[static_cast<std::size_t>(n)] != first.dims[static_cast<std::size_t>(n)]) return false;
    }
    total += part.dims[static_cast<std::size_t>(axis)];
  }
  out.dtype = first.dtype;
  out.rank = first.rank;
  out.dims = first.dims;
  out.dims[static_cast<std::size_t>(axis)] = total;
  return join(instruction, frame, 0, parts, axis, out);
}

bool run_pack(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue& first = instruction.in(frame, 0);
  SmallValue& out = frame.result(instruction.output);
  std::int64_t axis = instruction.numbers[0];
  if (first.rank == kSmallRank || !take_whole_axis(axis, first.rank + 1)) return false;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const SmallValue& part = instruction.in(frame, i);
    if (!part.data || !std::ranges::equal(part.shape(), first.shape())) return false;
  }
  out.dtype = first.dtype;
  out.rank = first.rank + 1;
  for (int i = 0, from = 0; i < out.rank; ++i) {
    out.dims[static_cast<std::size_t>(i)] = i == axis ? static_cast<std::int64_t>(instruction.operands.size())
                                                      : first.dims[static_cast<std::size_t>(from++)];
  }
  return join(instruction, frame, 0, instruction.operands.size(), axis, out);
}

// Equal parts along an axis, which Unpack drops.
bool cut(const SmallInstruction& instruction, SmallFrame& frame, const SmallValue& x, std::int64_t axis, bool drop) {
  if (!x.data || !take_whole_axis(axis, x.rank) || instruction.num_outputs < 1) return false;
  const auto n = static_cast<std::size_t>(axis);
  if (drop ? x.dims[n] != instruction.num_outputs : x.dims[n] % instruction.num_outputs != 0) return false;
  const std::int64_t extent = x.dims[n] / instruction.num_outputs;
  const SmallDims of_x = steps_of(x);
  for (int i = 0; i < instruction.num_outputs; ++i) {
    SmallValue& out = frame.result(instruction.output + i);
    SmallDims steps{};
    out.rank = 0;
    for (std::size_t from = 0; from < static_cast<std::size_t>(x.rank); ++from) {
      if (drop && from == n) continue;
      out.dims[static_cast<std::size_t>(out.rank)] = from == n ? extent : x.dims[from];
      steps[static_cast<std::size_t>(out.rank++)] = of_x[from];
    }
    if (!gather(x, i * extent * of_x[n], steps, out, frame)) return false;
  }
  return true;
}

bool run_unpack(const SmallInstruction& instruction, SmallFrame& frame) {
  return cut(instruction, frame, instruction.in(frame, 0), instruction.numbers[0], true);
}
bool run_split(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue& where = instruction.in(frame, 0);
  return where.data && where.count == 1 &&
         cut(instruction, frame, instruction.in(frame, 1), small_number_at(where, 0), false);
}

bool run_gather(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &x = instruction.in(frame, 0), &indices = instruction.in(frame, 1);
  SmallValue& out = frame.result(instruction.output);
  std::int64_t axis = 0;
  if (instruction.operands.size() > 2) {
    const SmallValue& where = instruction.in(frame, 2);
    if (!where.data || where.count != 1) return false;
    axis = small_number_at(where, 0);
  }
  if (!x.data || !indices.data || !take_whole_axis(axis, x.rank) || x.rank - 1 + indices.rank > kSmallRank)
    return false;
  const int at = static_cast<int>(axis);
  const std::int64_t extent = x.dims[static_cast<std::size_t>(axis)];
  const std::int64_t outer = product(x, 0, at), inner = product(x, at + 1, x.rank);
  out.dtype = x.dtype;
  out.rank = 0;
  const auto push = [&](std::int64_t dim) { out.dims[static_cast<std::size_t>(out.rank++)] = dim; };
  for (int i = 0; i < at; ++i) push(x.dims[static_cast<std::size_t>(i)]);
  for (const std::int64_t dim : indices.shape()) push(dim);
  for (int i = at + 1; i < x.rank; ++i) push(x.dims[static_cast<std::size_t>(i)]);
  auto* to = static_cast<std::byte*>(frame.allocate(out));
  if (!to) return false;
  const std::size_t bytes = static_cast<std::size_t>(inner) * dtype_size(x.dtype);
  for (std::int64_t row = 0; row < outer; ++row) {
    for (std::int64_t i = 0; i < indices.count; ++i) {
      const std::int64_t index = small_number_at(indices, i);
      if (index < 0 || index >= extent) return false;
      std::memcpy(to, static_cast<const std::byte*>(x.data) + static_cast<std::size_t>(row * extent + index) * bytes,
                  bytes);
      to += bytes;
    }
  }
  return true;
}

// ---- builders --------------------------------------------------------------------------------------------------
using Kept = bool (*)(const Attrs& attrs, SmallInstruction& instruction);
bool keep_nothing(const Attrs&, SmallInstruction&) { return true; }

// All inputs are dense arrays; numbers at `first_index` and later are indices.
template <SmallKernel kernel, std::size_t first_index, Kept keep = keep_nothing>
bool build(const Attrs& attrs, std::span<const DType> types, SmallInstruction& instruction) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!(i >= first_index ? is_index_type(types[i]) : is_dense(types[i]))) return false;
  }
  instruction.kernel = kernel;
  return !types.empty() && keep(attrs, instruction);
}

// The types of a concatenation: its axis is the last input.
bool build_concat(const Attrs&, std::span<const DType> types, SmallInstruction& instruction) {
  instruction.kernel = run_concat;
  return types.size() > 1 && is_dense(types[0]) && is_index_type(types.back());
}
bool build_split(const Attrs&, std::span<const DType> types, SmallInstruction& instruction) {
  instruction.kernel = run_split;
  return is_dense(types[1]);
}
bool build_fill(const Attrs&, std::span<const DType> types, SmallInstruction& instruction) {
  instruction.kernel = run_fill;
  return is_index_type(types[0]) && is_dense(types[1]);
}

bool keep_out_type(const Attrs& attrs, SmallInstruction& instruction) {
  const auto* type = find_attribute<DType>(attrs, "out_type");
  instruction.dtype = type ? *type : DType::kInt32;
  instruction.numbers = {0};
  return true;
}
bool keep_rank(const Attrs&, SmallInstruction& instruction) {
  instruction.dtype = DType::kInt32;
  instruction.numbers = {1};
  return true;
}
bool keep_squeezed(const Attrs& attrs, SmallInstruction& instruction) {
  if (const auto* axes = find_attribute<std::vector<std::int64_t>>(attrs, "squeeze_dims")) instruction.numbers = *axes;
  return true;
}
bool keep_axis(const Attrs& attrs, SmallInstruction& instruction) {
  const auto* axis = find_attribute<std::int64_t>(attrs, "axis");
  instruction.numbers = {axis ? *axis : 0};
  return true;
}
bool keep_masks(const Attrs& attrs, SmallInstruction& instruction) {
  const auto mask = [&](std::string_view name) {
    const auto* bits = find_attribute<std::int64_t>(attrs, name);
    return bits ? *bits : 0;
  };
  instruction.numbers = {mask("begin_mask"), mask("end_mask"), mask("shrink_axis_mask")};
  return mask("ellipsis_mask") == 0 && mask("new_axis_mask") == 0;
}
bool without_batch_dims(const Attrs& attrs, SmallInstruction&) {
  const auto* batch = find_attribute<std::int64_t>(attrs, "batch_dims");
  return !batch || *batch == 0;
}

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

}  // namespace

SmallBuilder find_small_array(std::string_view op) {
  static const std::unordered_map<std::string_view, SmallBuilder> table = {
      {"Shape", build<run_shape, kNone, keep_out_type>},
      {"Size", build<run_extent, kNone, keep_out_type>},
      {"Rank", build<run_extent, kNone, keep_rank>},
      {"Reshape", build<run_reshape, 1>},
      {"ExpandDims", build<run_expand_dims, 1>},
      {"Squeeze", build<run_squeeze, kNone, keep_squeezed>},
      {"Fill", build_fill},
      {"Range", build<run_range, 0>},
      {"Transpose", build<run_transpose, 1>},
      {"StridedSlice", build<run_strided_slice, 1, keep_masks>},
      {"Slice", build<run_slice, 1>},
      {"ConcatV2", build_concat},
      {"Pack", build<run_pack, kNone, keep_axis>},
      {"Unpack", build<run_unpack, kNone, keep_axis>},
      {"Split", build_split},
      {"GatherV2", build<run_gather, 1, without_batch_dims>},
      {"Gather", build<run_gather, 1>},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::ops
