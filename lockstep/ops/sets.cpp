// Sets along the last axis, counts of values as sparse tensors, histograms.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <type_traits>

#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

// ---- sets --------------------------------------------------------------------------------------------------------
// The elements of sets by the coordinates of all axes but the last.
template <typename T>
struct SetGroups {
  std::map<Ints, std::set<T>> sets;
  Ints shape;  // of the groups
};

template <typename T>
std::vector<T> elements_of(const Tensor& x) {
  if constexpr (std::is_same_v<T, std::string>) {
    return x.string_values();
  } else {
    return ints_of(dense(x));
  }
}

template <typename T>
SetGroups<T> dense_sets(const Call& call, int i) {
  const Tensor& x = call.input(i);
  const std::vector<T> values = elements_of<T>(x);
  SetGroups<T> out;
  out.shape.assign(x.shape().dims().begin(), x.shape().dims().end() - 1);
  const std::int64_t width = x.dim(-1);
  if (values.empty()) return out;
  for (std::size_t at = 0; at < values.size(); ++at) {
    std::int64_t rest = static_cast<std::int64_t>(at) / width;
    Ints key(out.shape.size());
    for (std::size_t axis = key.size(); axis-- > 0; rest /= out.shape[axis]) key[axis] = rest % out.shape[axis];
    out.sets[key].insert(values[at]);
  }
  return out;
}

template <typename T>
SetGroups<T> sparse_sets(const Call& call, int i) {
  const Sparse x = sparse_in(call, i, i + 1, i + 2);
  if (x.rank < 2) throw_invalid_argument("sets need at least two axes");
  if (call.attr<bool>("validate_indices")) {
    for (std::int64_t k = 1; k < x.count; ++k) {
      if (!std::lexicographical_compare(x.row(k - 1), x.row(k - 1) + x.rank, x.row(k), x.row(k) + x.rank))
        throw_invalid_argument("the indices must be in order and not repeated");
    }
  }
  const std::vector<T> values = elements_of<T>(x.values);
  SetGroups<T> out;
  out.shape.assign(x.shape.begin(), x.shape.end() - 1);
  for (std::int64_t k = 0; k < x.count; ++k)
    out.sets[Ints(x.row(k), x.row(k) + x.rank - 1)].insert(values[static_cast<std::size_t>(k)]);
  return out;
}

template <typename T>
Tensors combine_sets(const Call& call, SetGroups<T> a, const SetGroups<T>& b) {
  const std::string& how = call.attr<std::string>("set_operation");
  if (how != "a-b" && how != "b-a" && how != "intersection" && how != "union") {
    throw_invalid_argument(
        fmt::format("invalid set_operation: found '{}', expected a-b, b-a, intersection or union", how));
  }
  if (a.shape != b.shape) throw_invalid_argument("the sets must have the same shape in all axes but the last");
  for (const auto& [key, set] : b.sets) a.sets[key];
  Ints indices, shape = a.shape;
  std::vector<T> values;
  std::int64_t largest = 0;
  for (const auto& [key, left] : a.sets) {
    const auto found = b.sets.find(key);
    const std::set<T>& right = found == b.sets.end() ? std::set<T>() : found->second;
    std::vector<T> result;
    const auto out = std::back_inserter(result);
    if (how == "a-b") {
      std::set_difference(left.begin(), left.end(), right.begin(), right.end(), out);
    } else if (how == "b-a") {
      std::set_difference(right.begin(), right.end(), left.begin(), left.end(), out);
    } else if (how == "intersection") {
      std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), out);
    } else {
      std::set_union(left.begin(), left.end(), right.begin(), right.end(), out);
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      indices.insert(indices.end(), key.begin(), key.end());
      indices.push_back(static_cast<std::int64_t>(i));
    }
    largest = std::max(largest, static_cast<std::int64_t>(result.size()));
    values.insert(values.end(), result.begin(), result.end());
  }
  shape.push_back(largest);
  const auto count = static_cast<std::int64_t>(values.size());
  Tensor made;
  if constexpr (std::is_same_v<T, std::string>) {
    made = Tensor::strings(std::move(values), Shape{count});
  } else {
    made = wrap(int64_tensor(values).to(to_scalar_type(call.attr<DType>("T"))));
  }
  return {wrap(int64_tensor(indices, {count, static_cast<std::int64_t>(shape.size())})), made,
          wrap(int64_tensor(shape))};
}

template <typename T>
Tensors set_operation(const Call& call) {
  const bool dense_a = !call.name().starts_with("SparseTo"), dense_b = call.name().starts_with("DenseToDense");
  return combine_sets<T>(call, dense_a ? dense_sets<T>(call, 0) : sparse_sets<T>(call, 0),
                         dense_b ? dense_sets<T>(call, 1) : sparse_sets<T>(call, dense_a ? 1 : 3));
}

template <typename T>
Tensors set_sizes(const Call& call) {
  const SetGroups<T> groups = sparse_sets<T>(call, 0);
  const at::Tensor out = at::zeros({element_count(groups.shape, 4)}, at::kInt);
  for (const auto& [key, set] : groups.sets) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < key.size(); ++axis) at = at * groups.shape[axis] + key[axis];
    out.mutable_data_ptr<std::int32_t>()[at] = static_cast<std::int32_t>(set.size());
  }
  return one(out.reshape(groups.shape));
}

// ---- counts ------------------------------------------------------------------------------------------------------
// Value i of row `rows[i]`, counted or weighted; the sparse result has a row for each of `batch`, or none (-1).
Tensors count_values(const Call& call, const at::Tensor& given, const at::Tensor& weights, const Ints& rows,
                     std::int64_t batch) {
  const Ints values = ints_of(given);
  const std::int64_t shortest = call.attr<std::int64_t>("minlength"), longest = call.attr<std::int64_t>("maxlength");
  const bool binary = call.attr<bool>("binary_output");
  if (weights.numel() > 0 && weights.numel() != given.numel())
    throw_invalid_argument(fmt::format("{} weights for {} values", weights.numel(), given.numel()));
  std::map<std::pair<std::int64_t, std::int64_t>, Ints> cells;  // row and value: where they stand
  std::int64_t highest = 0;                                     // without values there is one column, as in TensorFlow
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) throw_invalid_argument("values must not be negative");
    if (longest >= 0 && values[i] >= longest) continue;
    cells[{rows.empty() ? 0 : rows[i], values[i]}].push_back(static_cast<std::int64_t>(i));
    highest = std::max(highest, values[i]);
  }
  if (highest == std::numeric_limits<std::int64_t>::max()) throw_invalid_argument("a value is too large");
  Ints indices, group(values.size(), static_cast<std::int64_t>(cells.size()));
  std::int64_t next = 0;
  for (const auto& [cell, places] : cells) {
    if (batch >= 0) indices.push_back(cell.first);
    indices.push_back(cell.second);
    for (const std::int64_t at : places) group[static_cast<std::size_t>(at)] = next;
    ++next;
  }
  const at::Tensor each = weights.numel() > 0 ? weights.reshape({-1}) : at::ones({given.numel()}, weights.options());
  at::Tensor counts =
      at::zeros({next + 1}, weights.options()).index_add(0, int64_tensor(group), each).slice(0, 0, next);
  if (binary) counts = at::ones_like(counts);
  const std::int64_t size = longest >= 0 ? longest : std::max(highest + 1, shortest);
  Ints shape = {size};
  if (batch >= 0) shape.insert(shape.begin(), batch);
  return {wrap(int64_tensor(indices, {next, static_cast<std::int64_t>(shape.size())})), wrap(counts.contiguous()),
          wrap(int64_tensor(shape))};
}

Tensors dense_count(const Call& call) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() < 1 || x.dim() > 2) throw_invalid_argument("values must be a vector or a matrix");
  if (in(call, 1).numel() > 0 && in(call, 1).sizes() != x.sizes())
    throw_invalid_argument("weights and values must have the same shape");
  Ints rows;
  for (std::int64_t i = 0; x.dim() == 2 && i < x.numel(); ++i) rows.push_back(i / x.size(1));
  return count_values(call, x, in(call, 1), rows, x.dim() == 2 ? x.size(0) : -1);
}

Tensors sparse_count(const Call& call) {
  const Sparse x = sparse_in(call, 0, 1, 2);
  if (x.rank < 1 || x.rank > 2) throw_invalid_argument("dense_shape must have one or two axes");
  Ints rows;
  for (std::int64_t i = 0; x.rank == 2 && i < x.count; ++i) rows.push_back(x.row(i)[0]);
  return count_values(call, dense(x.values), in(call, 3), rows, x.rank == 2 ? x.shape[0] : -1);
}

Tensors ragged_count(const Call& call) {
  const Ints splits = ints_in(call, 0);
  const at::Tensor& x = in(call, 1);
  if (splits.empty() || splits[0] != 0 || splits.back() != x.numel() || !std::is_sorted(splits.begin(), splits.end()))
    throw_invalid_argument(fmt::format("splits must go from 0 to the number of values ({}) and never back", x.numel()));
  Ints rows;
  for (std::size_t row = 0; row + 1 < splits.size(); ++row)
    rows.insert(rows.end(), static_cast<std::size_t>(splits[row + 1] - splits[row]), static_cast<std::int64_t>(row));
  return count_values(call, x, in(call, 2), rows, static_cast<std::int64_t>(splits.size()) - 1);
}

Tensors histogram(const Call& call) {
  const at::Tensor range = in(call, 1).to(at::kDouble).contiguous();
  const std::int64_t bins = int_in(call, 2);
  if (range.numel() != 2) throw_invalid_argument("value_range must have two numbers");
  const double low = range.const_data_ptr<double>()[0], high = range.const_data_ptr<double>()[1];
  if (!(low < high)) throw_invalid_argument(fmt::format("value_range must ascend, found {} and {}", low, high));
  if (bins < 1) throw_invalid_argument(fmt::format("nbins must be positive, found {}", bins));
  element_count({bins}, sizeof(std::int64_t));
  const double step = (high - low) / static_cast<double>(bins);
  const at::Tensor x = in(call, 0).to(at::kDouble).contiguous().reshape({-1});
  Ints counts(static_cast<std::size_t>(bins));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double place = (x.const_data_ptr<double>()[i] - low) / step;
    if (std::isnan(place)) continue;
    ++counts[static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(bins - 1)))];
  }
  return one(int64_tensor(counts).to(to_scalar_type(call.attr<DType>("dtype"))));
}

}  // namespace

void register_sets(Table& table) {
  for (auto name : {"DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation"}) {
    table.add(name, nullptr, [](const Call& call) {
      return call.attr<DType>("T") == DType::kString ? set_operation<std::string>(call)
                                                     : set_operation<std::int64_t>(call);
    });
  }
  table.add("SetSize", nullptr, [](const Call& call) {
    return call.attr<DType>("T") == DType::kString ? set_sizes<std::string>(call) : set_sizes<std::int64_t>(call);
  });
  table.add("DenseCountSparseOutput", nullptr, dense_count);
  table.add("SparseCountSparseOutput", nullptr, sparse_count);
  table.add("RaggedCountSparseOutput", nullptr, ragged_count);
  table.add(
      "HistogramFixedWidth", [](const Call& call) { return Shapes{Shape{known_int(call, 2).value_or(kUnknownDim)}}; },
      histogram);
}

}  // namespace lockstep::ops
