// Parts of tensors by number, unique rows, searches, and other operations that move elements.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

// The axes of x from `first` on.
Ints inner_axes(const Tensor& x, int first) { return Ints(x.shape().dims().begin() + first, x.shape().dims().end()); }
Tensor reshaped(const Tensor& x, const Ints& shape) {
  if (x.dtype() == DType::kString) return Tensor::strings(x.string_values(), Shape(shape));
  return wrap(dense(x).reshape(shape));
}
// x with its first `count` axes made one.
Tensor with_rows(const Tensor& x, int count) {
  Ints shape = inner_axes(x, count);
  std::int64_t rows = 1;
  for (int i = 0; i < count; ++i) rows *= x.dim(i);
  shape.insert(shape.begin(), rows);
  return reshaped(x, shape);
}

// ---- DynamicPartition, DynamicStitch
// ---------------------------------------------------------------------------------
Tensors dynamic_partition(const Call& call) {
  const Tensor &data = call.input(0), &partitions = call.input(1);
  const auto count = static_cast<std::size_t>(call.attr<std::int64_t>("num_partitions"));
  const int rank = partitions.rank();
  if (rank > data.rank() ||
      !std::equal(partitions.shape().dims().begin(), partitions.shape().dims().end(), data.shape().dims().begin()))
    throw_invalid_argument(fmt::format("the shape of data {} must begin with that of partitions {}",
                                       data.shape().to_string(), partitions.shape().to_string()));
  element_count({static_cast<std::int64_t>(count)}, sizeof(Ints));
  std::vector<Ints> parts(count);
  const Ints numbers = ints_in(call, 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0 || numbers[i] >= static_cast<std::int64_t>(count))
      throw_invalid_argument(fmt::format("partition {} is not in [0, {})", numbers[i], count));
    parts[static_cast<std::size_t>(numbers[i])].push_back(static_cast<std::int64_t>(i));
  }
  const Tensor rows = with_rows(data, rank);
  Tensors out;
  for (const Ints& part : parts) out.push_back(take_rows(rows, part));
  return out;
}

Shapes partition_shape(const Call& call) {
  const Shape &data = call.input(0).shape(), &numbers = call.input(1).shape();
  const auto count = static_cast<std::size_t>(
      std::min<std::int64_t>(call.attr<std::int64_t>("num_partitions"), std::int64_t{1} << 20));
  if (!data.known_rank() || !numbers.known_rank() || numbers.rank() > data.rank())
    return Shapes(count, Shape::unknown_rank());
  Shape out{kUnknownDim};
  for (int i = numbers.rank(); i < data.rank(); ++i) out.push_back(data[i]);
  return Shapes(count, out);
}

// The values of `stitched`. In TensorFlow the gradient of a row goes to all that were given for it, also to those that
// later ones have replaced.
Tensor with_gradients_of_all(const Tensor& stitched, const Tensors& parts, const std::vector<Ints>& indices) {
  at::Tensor out = dense(stitched).detach();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto rows_of = [places = indices[i]](const Tensor& dy) { return take_rows(dy, places); };
    out = out + dense(with_adjoint(parts[i], wrap(at::zeros_like(out)), rows_of));
  }
  return wrap(out);
}

Tensors dynamic_stitch(const Call& call) {
  const auto n = static_cast<int>(call.attr<std::int64_t>("N"));
  Tensors parts;
  std::vector<Ints> indices;
  std::int64_t size = 0;
  for (int i = 0; i < n; ++i) {
    const Tensor &index = call.input(i), &data = call.input(n + i);
    if (index.rank() > data.rank() ||
        !std::equal(index.shape().dims().begin(), index.shape().dims().end(), data.shape().dims().begin()))
      throw_invalid_argument(fmt::format("the shape of data {} must begin with that of its indices {}",
                                         data.shape().to_string(), index.shape().to_string()));
    parts.push_back(with_rows(data, index.rank()));
    if (inner_axes(parts.back(), 1) != inner_axes(parts[0], 1))
      throw_invalid_argument("the parts differ in the shape of their rows");
    indices.push_back(ints_in(call, i));
    for (const std::int64_t at : indices.back()) {
      if (at < 0) throw_invalid_argument(fmt::format("index {} must not be negative", at));
      size = std::max(size, at + 1);
    }
  }
  // Rows that no index names are 0.
  Ints row = inner_axes(parts[0], 1), shape = row;
  shape.insert(shape.begin(), size);
  element_count(shape, parts[0].dtype() == DType::kString ? sizeof(std::string) : dtype_size(parts[0].dtype()));
  element_count({size}, sizeof(std::int64_t));
  row.insert(row.begin(), 1);
  std::int64_t total = 0;
  for (const Tensor& part : parts) total += part.dim(0);
  parts.push_back(
      parts[0].dtype() == DType::kString
          ? Tensor::strings(std::vector<std::string>(static_cast<std::size_t>(element_count(row, sizeof(std::string)))),
                            Shape(row))
          : Tensor::zeros(Shape(row), parts[0].dtype()));
  Ints from(static_cast<std::size_t>(size), total);
  std::int64_t next = 0;
  bool replaced = false;  // a row by a later one
  for (const Ints& part : indices) {
    for (const std::int64_t at : part) {
      replaced |= from[static_cast<std::size_t>(at)] != total;
      from[static_cast<std::size_t>(at)] = next++;
    }
  }
  const Tensor rows = take_rows(concat_rows(parts), from);
  return {replaced && requires_grad(rows) ? with_gradients_of_all(rows, parts, indices) : rows};
}

// ---- unique rows, differences
// ----------------------------------------------------------------------------------------- A key for each row of the
// first axis: equal exactly where all elements are.
std::vector<std::string> row_keys(const Tensor& x) {
  element_count({x.dim(0)}, sizeof(std::string));
  std::vector<std::string> keys(static_cast<std::size_t>(x.dim(0)));
  const std::int64_t width = x.dim(0) == 0 ? 0 : x.num_elements() / x.dim(0);
  if (x.dtype() == DType::kString) {
    for (std::size_t row = 0; row < keys.size(); ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        const std::string& text =
            x.string_values()[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)];
        keys[row] += fmt::format("{}:", text.size()) + text;
      }
    }
    return keys;
  }
  at::Tensor values = dense(x).detach().contiguous();
  if (is_float(values)) values = values + 0;  // -0 is 0
  const auto* bytes = static_cast<const char*>(values.const_data_ptr());
  const std::size_t size = static_cast<std::size_t>(width) * values.element_size();
  at::Tensor odd;  // a NaN equals nothing
  if (is_float(values) && width > 0) odd = at::isnan(values).reshape({x.dim(0), -1}).any(1).contiguous();
  for (std::size_t row = 0; row < keys.size(); ++row) {
    keys[row].assign(bytes + row * size, size);
    if (odd.defined() && odd.const_data_ptr<bool>()[row]) keys[row] += fmt::format("#{}", row);
  }
  return keys;
}

Tensors unique_rows(const Call& call) {
  const Tensor& x = call.input(0);
  const Ints axes = ints_in(call, 1);
  if (axes.size() > 1 || (axes.empty() && x.rank() != 1))
    throw_invalid_argument("axis must have one number, or none for a vector");
  const std::int64_t axis = axes.empty() ? 0 : whole_axis(axes[0], x.rank());
  Ints swapped(static_cast<std::size_t>(x.rank()));
  std::iota(swapped.begin(), swapped.end(), 0);
  if (axis != 0) std::swap(swapped[0], swapped[static_cast<std::size_t>(axis)]);
  const auto swap_axes = [&](const Tensor& y) {
    return axis == 0 ? y : call1("Transpose", {y, wrap(int64_tensor(swapped))});
  };
  const Tensor front = swap_axes(x);
  const std::vector<std::string> keys = row_keys(front);
  std::unordered_map<std::string_view, std::int64_t> seen;
  Ints first, which, counts;
  for (std::size_t row = 0; row < keys.size(); ++row) {
    const auto [entry, fresh] = seen.try_emplace(keys[row], static_cast<std::int64_t>(first.size()));
    if (fresh) first.push_back(static_cast<std::int64_t>(row)), counts.push_back(0);
    which.push_back(entry->second);
    ++counts[static_cast<std::size_t>(entry->second)];
  }
  const at::ScalarType type = to_scalar_type(call.attr<DType>("out_idx"));
  Tensors out = {swap_axes(take_rows(front, first)), wrap(int64_tensor(which).to(type))};
  if (call.name() == "UniqueWithCountsV2") out.push_back(wrap(int64_tensor(counts).to(type)));
  return out;
}

Tensors list_difference(const Call& call) {
  const std::vector<std::string> x = row_keys(call.input(0)), y = row_keys(call.input(1));
  std::unordered_map<std::string_view, bool> gone;
  for (const std::string& key : y) gone[key] = true;
  Ints kept;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!gone.contains(x[i])) kept.push_back(static_cast<std::int64_t>(i));
  }
  return {take_rows(call.input(0), kept), wrap(int64_tensor(kept).to(to_scalar_type(call.attr<DType>("out_idx"))))};
}

Tensors search_sorted(const Call& call, bool upper) {
  const at::Tensor &sorted = in(call, 0), &values = in(call, 1);
  if (sorted.size(0) != values.size(0)) throw_invalid_argument("sorted_inputs and values differ in their rows");
  at::Tensor found = at::searchsorted(ordered(sorted).contiguous(), ordered(values).contiguous(), false, upper);
  // No number is smaller than a NaN, nor larger.
  if (at::isFloatingType(values.scalar_type()))
    found = found.masked_fill(at::isnan(values), upper ? sorted.size(1) : 0);
  return one(found.to(to_scalar_type(call.attr<DType>("out_type"))));
}

// ---- shapes and positions
// ---------------------------------------------------------------------------------------------
Tensors broadcast_args(const Call& call) {
  Ints a = ints_in(call, 0), b = ints_in(call, 1);
  if (a.size() < b.size()) std::swap(a, b);
  const std::size_t shift = a.size() - b.size();
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a[shift + i] == 1) {
      a[shift + i] = b[i];
    } else if (b[i] != 1 && b[i] != a[shift + i]) {
      throw_invalid_argument(
          fmt::format("shapes {} and {} cannot be broadcast", Shape(a).to_string(), Shape(b).to_string()));
    }
  }
  return one(int64_tensor(a).to(in(call, 0).scalar_type()));
}

Tensors unravel_index(const Call& call) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() > 1) throw_invalid_argument("indices must be a scalar or a vector");
  const Ints dims = ints_in(call, 1), indices = ints_in(call, 0);
  std::int64_t size = 1;
  for (const std::int64_t extent : dims) {
    if (extent < 1 || __builtin_mul_overflow(size, extent, &size))
      throw_invalid_argument(fmt::format("invalid dims {}", Shape(dims).to_string()));
  }
  const std::size_t count = indices.size();
  Ints out(static_cast<std::size_t>(
      element_count({static_cast<std::int64_t>(count), static_cast<std::int64_t>(dims.size())}, 8)));
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t rest = indices[i];
    if (rest < 0 || rest >= size)
      throw_invalid_argument(fmt::format("index {} is out of bounds of dims {}", rest, Shape(dims).to_string()));
    for (std::size_t axis = dims.size(); axis-- > 0; rest /= dims[axis]) out[axis * count + i] = rest % dims[axis];
  }
  Ints shape = {static_cast<std::int64_t>(dims.size())};
  if (x.dim() == 1) shape.push_back(static_cast<std::int64_t>(count));
  return one(int64_tensor(out, shape).to(x.scalar_type()));
}

Tensors permute_formats(const Call& call, bool vector) {
  const std::string &from = call.attr<std::string>("src_format"), &to = call.attr<std::string>("dst_format");
  if (from.size() != to.size() || from.size() < 4 || from.size() > 5 ||
      !std::is_permutation(from.begin(), from.end(), to.begin()))
    throw_invalid_argument(
        fmt::format("invalid formats '{}' and '{}': expected two orders of the same letters", from, to));
  Ints order;  // entry i of the result is entry order[i]
  for (const char letter : to) order.push_back(static_cast<std::int64_t>(from.find(letter)));
  const at::Tensor& x = in(call, 0);
  if (!vector) {
    Ints places;  // an axis of the first format in the second
    for (const char letter : from) places.push_back(static_cast<std::int64_t>(to.find(letter)));
    const auto rank = static_cast<std::int64_t>(from.size());
    Ints out;
    for (const std::int64_t axis : ints_of(x))
      out.push_back(places[static_cast<std::size_t>((axis % rank + rank) % rank)]);
    return one(int64_tensor(out, x.sizes().vec()).to(x.scalar_type()));
  }
  if (x.dim() < 1 || x.dim() > 2 || (x.dim() == 2 && x.size(1) != 2))
    throw_invalid_argument("x must be a vector or have two columns");
  if (x.size(0) != static_cast<std::int64_t>(from.size())) {
    if (x.size(0) + 2 != static_cast<std::int64_t>(from.size()))
      throw_invalid_argument(fmt::format("x must have {} rows", from.size()));
    // Spatial axes alone: their order among each other.
    Ints spatial;
    const auto is_spatial = [](char letter) { return letter != 'N' && letter != 'C'; };
    std::string rest;
    for (const char letter : from) rest += is_spatial(letter) ? std::string(1, letter) : std::string();
    for (const char letter : to) {
      if (is_spatial(letter)) spatial.push_back(static_cast<std::int64_t>(rest.find(letter)));
    }
    order = std::move(spatial);
  }
  return one(x.index_select(0, int64_tensor(order)));
}

// ---- the rest -----------------------------------------------------------------------------------------------------
Tensors check_numerics(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const bool nan = at::isnan(x).any().item<bool>(), inf = at::isinf(x).any().item<bool>();
  if (nan || inf) {
    throw_invalid_argument(fmt::format("{}: the tensor has {} values", call.attr<std::string>("message"),
                                       nan && inf ? "infinite and NaN"
                                       : nan      ? "NaN"
                                                  : "infinite"));
  }
  return {call.input(0)};
}

enum class InPlace { kUpdate, kAdd, kSub };
Tensors change_rows(const Call& call, InPlace how) {
  const at::Tensor &x = in(call, 0), &given = in(call, 2);
  if (x.dim() < 1) throw_invalid_argument("x must have at least one axis");
  Ints rows = ints_in(call, 1);
  const at::Tensor v = in(call, 1).dim() == 0 && given.dim() + 1 == x.dim() ? given.unsqueeze(0) : given;
  if (v.dim() != x.dim() || v.size(0) != static_cast<std::int64_t>(rows.size()) ||
      v.sizes().slice(1) != x.sizes().slice(1))
    throw_invalid_argument("x, i and v have incompatible shapes");
  for (std::int64_t& row : rows) {
    if (x.size(0) == 0) throw_invalid_argument("x has no rows");
    row = ((row % x.size(0)) + x.size(0)) % x.size(0);
  }
  if (how == InPlace::kUpdate)
    return one(narrow_to(widen(x).index_copy(0, int64_tensor(rows), widen(v)), x.scalar_type()));
  return one(narrow_to(add_rows(widen(x), int64_tensor(rows), widen(v), how != InPlace::kAdd), x.scalar_type()));
}

Tensors nth_element(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const std::int64_t n = int_in(call, 1);
  if (n < 0 || n >= x.size(-1))
    throw_invalid_argument(fmt::format("n is {}, the last axis has {} elements", n, x.size(-1)));
  const std::int64_t k = call.attr<bool>("reverse") ? x.size(-1) - n : n + 1;
  const Tensor y = wrap(from_ordered(std::get<0>(at::kthvalue(ordered(x.detach()), k, -1)), x.scalar_type()));
  // All elements that equal the chosen one share its gradient.
  const auto adjoint = [chosen = is_float(x) ? x.detach() == dense(y).unsqueeze(-1) : at::Tensor()](const Tensor& dy) {
    const at::Tensor places = chosen.to(dense(dy).scalar_type());
    return wrap(places * dense(dy).unsqueeze(-1) / places.sum(-1, true));
  };
  return {with_adjoint(call.input(0), y, adjoint)};
}

Tensors reverse_by_flags(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const Ints flags = ints_in(call, 1);
  if (x.dim() == 0) return {call.input(0)};
  if (static_cast<std::int64_t>(flags.size()) != x.dim()) throw_invalid_argument("dims needs a flag for each axis");
  Ints axes;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) axes.push_back(static_cast<std::int64_t>(i));
  }
  return one(axes.empty() ? x.clone() : x.flip(axes));
}

Tensors conjugate_transpose(const Call& call) {
  const Tensor turned = call1("Transpose", {call.input(0), call.input(1)});
  if (!is_complex(turned.dtype())) return {turned};
  return one(at::conj(dense(turned)).resolve_conj());
}

Tensors through_blocks(const Call& call, const char* name) {
  const auto size = static_cast<std::int32_t>(std::min<std::int64_t>(call.attr<std::int64_t>("block_size"), 1 << 30));
  const Tensor block = Tensor::from_vector(std::vector<std::int32_t>{size, size});
  return {call1(name, {call.input(0), block, call.input(1)})};
}

Tensors empty_tensor(const Call& call) {
  const Ints shape = ints_in(call, 0);
  const DType dtype = call.attr<DType>("dtype");
  const std::int64_t count = element_count(shape, dtype == DType::kString ? sizeof(std::string) : dtype_size(dtype));
  if (dtype == DType::kString)
    return {Tensor::strings(std::vector<std::string>(static_cast<std::size_t>(count)), Shape(shape))};
  return {Tensor::zeros(Shape(shape), dtype)};
}

// Each row as the nearest one that does not ascend: neighbors that do are merged into their mean.
Tensors isotonic_regression(const Call& call) {
  const at::Tensor x = in(call, 0).detach().to(at::kDouble).contiguous();
  const std::int64_t width = x.dim() == 0 ? 1 : x.size(-1);
  at::Tensor y = at::empty_like(x), segments = at::empty(x.sizes(), at::kInt);
  struct Segment {
    double sum;
    std::int64_t count;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Segment> found;
  for (std::int64_t start = 0; start < x.numel(); start += width) {
    found.clear();
    for (std::int64_t i = start; i < start + width; ++i) {
      Segment last{x.const_data_ptr<double>()[i], 1};
      while (!found.empty() && found.back().mean() < last.mean()) {
        last = {found.back().sum + last.sum, found.back().count + last.count};
        found.pop_back();
      }
      found.push_back(last);
    }
    std::int64_t at = start;
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (const std::int64_t end = at + found[k].count; at < end; ++at) {
        y.mutable_data_ptr<double>()[at] = found[k].mean();
        segments.mutable_data_ptr<std::int32_t>()[at] = static_cast<std::int32_t>(k);
      }
    }
  }
  y = y.to(to_scalar_type(call.attr<DType>("output_dtype")));
  if (!in(call, 0).requires_grad()) return {wrap(y), wrap(segments)};
  // The mean of a segment depends on each of its elements alike.
  const auto adjoint = [segments, width, type = in(call, 0).scalar_type()](const Tensor& dy) {
    const at::Tensor slopes = dense(dy).to(at::kDouble).flatten();
    const at::Tensor rows = at::arange(slopes.numel() / std::max<std::int64_t>(width, 1)).repeat_interleave(width);
    const at::Tensor owner = rows * width + segments.flatten();
    const at::Tensor none = at::zeros_like(slopes);
    const at::Tensor sums = none.index_add(0, owner, slopes), counts = none.index_add(0, owner, at::ones_like(slopes));
    return wrap((sums / counts).index_select(0, owner).view(segments.sizes()).to(type));
  };
  return {with_adjoint(call.input(0), wrap(y), adjoint), wrap(segments)};
}

// Exact on a CPU, where TensorFlow has it for the largest elements of the last axis only.
Tensors approximate_top_k(const Call& call) {
  const auto axis = call.attr<std::int64_t>("reduction_dimension");
  if (!call.attr<bool>("is_max_k") || (axis != -1 && axis != call.input(0).rank() - 1))
    throw_unimplemented("ApproxTopK of the smallest elements, or of another axis than the last one");
  return ops::call("TopKV2", {call.input(0), Tensor::scalar(static_cast<std::int32_t>(call.attr<std::int64_t>("k")))});
}

}  // namespace

void register_partition(Table& table) {
  table.add("DynamicPartition", partition_shape, dynamic_partition);
  for (auto name : {"DynamicStitch", "ParallelDynamicStitch"}) table.add(name, nullptr, dynamic_stitch);
  for (auto name : {"UniqueV2", "UniqueWithCountsV2"}) table.add(name, nullptr, unique_rows);
  table.add(
      "ListDiff",
      [](const Call&) {
        return Shapes{Shape{kUnknownDim}, Shape{kUnknownDim}};
      },
      list_difference);
  const ShapeRule like_values = [](const Call& call) { return Shapes{call.input(1).shape()}; };
  table.add("LowerBound", like_values, [](const Call& call) { return search_sorted(call, false); });
  table.add("UpperBound", like_values, [](const Call& call) { return search_sorted(call, true); });
  table.add("BroadcastArgs", nullptr, broadcast_args);
  table.add("UnravelIndex", nullptr, unravel_index);
  table.add("DataFormatDimMap", same_shape, [](const Call& call) { return permute_formats(call, false); });
  table.add("DataFormatVecPermute", same_shape, [](const Call& call) { return permute_formats(call, true); });
  for (auto name : {"CheckNumerics", "CheckNumericsV2"}) table.add(name, same_shape, check_numerics);
  table.add("InplaceUpdate", same_shape, [](const Call& call) { return change_rows(call, InPlace::kUpdate); });
  table.add("InplaceAdd", same_shape, [](const Call& call) { return change_rows(call, InPlace::kAdd); });
  table.add("InplaceSub", same_shape, [](const Call& call) { return change_rows(call, InPlace::kSub); });
  table.add("NthElement", nullptr, nth_element);
  table.add("Reverse", same_shape, for_strings_too(reverse_by_flags));
  table.add("ConjugateTranspose", nullptr, conjugate_transpose);
  table.add("SpaceToBatch", nullptr, [](const Call& call) { return through_blocks(call, "SpaceToBatchND"); });
  table.add("BatchToSpace", nullptr, [](const Call& call) { return through_blocks(call, "BatchToSpaceND"); });
  table.add("IsotonicRegression", same_shape, isotonic_regression);
  table.add("ApproxTopK", nullptr, approximate_top_k);
  table.add("Empty", shape_of_input(0), empty_tensor);
  table.add("GuaranteeConst", same_shape, [](const Call& call) { return Tensors{call.input(0)}; });
}

}  // namespace lockstep::ops
