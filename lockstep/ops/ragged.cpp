// Ragged tensors, which are values and the splits of their rows; and sums of gathered rows by segments.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

at::ScalarType splits_type(const Call& call) { return to_scalar_type(call.attr<DType>("Tsplits")); }

// Splits that begin with 0, never descend and end with `values` (not checked where it is negative).
Ints splits_of(const at::Tensor& given, std::int64_t values) {
  const Ints splits = ints_of(given);
  if (splits.empty() || splits[0] != 0 || !std::is_sorted(splits.begin(), splits.end()) ||
      (values >= 0 && splits.back() != values)) {
    throw_invalid_argument(fmt::format("invalid row splits: expected to go from 0{} and never back",
                                       values < 0 ? std::string() : fmt::format(" to {}", values)));
  }
  return splits;
}

// ---- RaggedRange -------------------------------------------------------------------------------------------------
template <typename T>
Tensors fill_ranges(const Call& call, std::int64_t rows) {
  const auto input = [&](int i) {
    at::Tensor x = in(call, i);
    if (x.scalar_type() == at::kBFloat16) x = x.to(at::kFloat);
    x = x.reshape({-1}).expand({x.dim() == 0 ? rows : x.size(0)}).contiguous();
    return std::vector<T>(x.const_data_ptr<T>(), x.const_data_ptr<T>() + x.numel());
  };
  const std::vector<T> starts = input(0), limits = input(1), deltas = input(2);
  Ints splits = {0};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (deltas[i] == 0) throw_invalid_argument("deltas must not be 0");
    std::int64_t count = 0;
    if (deltas[i] > 0 ? starts[i] < limits[i] : starts[i] > limits[i]) {
      if constexpr (std::is_integral_v<T>) {
        const auto wide = [](T x) { return static_cast<__int128>(x); };
        const __int128 length = wide(limits[i]) - wide(starts[i]), step = wide(deltas[i]);
        const __int128 exact = (length + step - (step > 0 ? 1 : -1)) / step;
        count = static_cast<std::int64_t>(std::min<__int128>(exact, std::numeric_limits<std::int64_t>::max() / 4));
      } else {
        const double exact = std::ceil(std::abs((static_cast<double>(limits[i]) - static_cast<double>(starts[i])) /
                                                static_cast<double>(deltas[i])));
        if (!(exact < 1e15)) throw_invalid_argument("a range has too many values");
        count = static_cast<std::int64_t>(exact);
      }
    } else if (std::isnan(static_cast<double>(starts[i])) || std::isnan(static_cast<double>(limits[i])) ||
               std::isnan(static_cast<double>(deltas[i]))) {
      throw_invalid_argument("a range must not be given by NaN");
    }
    std::int64_t total = 0;
    if (__builtin_add_overflow(splits.back(), count, &total)) throw_invalid_argument("the ranges have too many values");
    splits.push_back(total);
  }
  element_count({splits.back()}, sizeof(T));
  at::Tensor values = at::empty({splits.back()}, c10::CppTypeToScalarType<T>::value);
  T* out = values.mutable_data_ptr<T>();
  for (std::size_t i = 0; i < starts.size(); ++i) {
    T value = starts[i];
    for (std::int64_t at = splits[i]; at < splits[i + 1]; ++at) {
      out[at] = value;
      if (at + 1 < splits[i + 1]) value = static_cast<T>(value + deltas[i]);
    }
  }
  return {wrap(int64_tensor(splits).to(splits_type(call))), wrap(values.to(in(call, 0).scalar_type()))};
}

Tensors ragged_range(const Call& call) {
  std::int64_t rows = 1;
  bool known = false;
  for (int i = 0; i < 3; ++i) {
    if (in(call, i).dim() == 0) continue;
    if (known && rows != in(call, i).size(0)) throw_invalid_argument("starts, limits and deltas differ in length");
    rows = in(call, i).size(0), known = true;
  }
  switch (in(call, 0).scalar_type()) {
    case at::kInt: return fill_ranges<std::int32_t>(call, rows);
    case at::kLong: return fill_ranges<std::int64_t>(call, rows);
    case at::kDouble: return fill_ranges<double>(call, rows);
    default: return fill_ranges<float>(call, rows);
  }
}

// ---- rows of rows ------------------------------------------------------------------------------------------------
Tensors ragged_gather(const Call& call) {
  const auto levels = static_cast<int>(call.attr<std::int64_t>("PARAMS_RAGGED_RANK"));
  if (call.attr<std::int64_t>("OUTPUT_RAGGED_RANK") != levels)
    throw_invalid_argument("OUTPUT_RAGGED_RANK must be PARAMS_RAGGED_RANK where indices are a vector");
  const Tensor& values = call.input(levels);
  std::vector<Ints> splits;
  for (int i = 0; i < levels; ++i) splits.push_back(splits_of(in(call, i), -1));
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const std::int64_t next =
        i + 1 < splits.size() ? static_cast<std::int64_t>(splits[i + 1].size()) - 1 : values.dim(0);
    if (splits[i].back() > next)
      throw_invalid_argument(fmt::format("row splits end with {}, expected {}", splits[i].back(), next));
  }
  Ints rows = ints_in(call, levels + 1);
  const auto count = static_cast<std::int64_t>(splits[0].size()) - 1;
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= count) throw_invalid_argument(fmt::format("index {} is not in [0, {})", row, count));
  }
  Tensors out;
  for (const Ints& level : splits) {
    Ints next, cut = {0};
    std::int64_t total = 0;
    for (const std::int64_t row : rows)
      total += level[static_cast<std::size_t>(row) + 1] - level[static_cast<std::size_t>(row)];
    element_count({total}, sizeof(std::int64_t));
    for (const std::int64_t row : rows) {
      for (std::int64_t at = level[static_cast<std::size_t>(row)]; at < level[static_cast<std::size_t>(row) + 1]; ++at)
        next.push_back(at);
      cut.push_back(static_cast<std::int64_t>(next.size()));
    }
    out.push_back(wrap(int64_tensor(cut).to(splits_type(call))));
    rows = std::move(next);
  }
  out.push_back(take_rows(values, rows));
  return out;
}

Tensors ragged_to_sparse(const Call& call) {
  const auto levels = static_cast<int>(call.attr<std::int64_t>("RAGGED_RANK"));
  const Tensor& values = call.input(levels);
  // Row numbers of each value along the ragged axes, level by level.
  std::vector<Ints> columns;
  Ints shape;
  std::int64_t count = -1;
  for (int i = 0; i < levels; ++i) {
    const at::Tensor& given = in(call, i);
    if (count >= 0 && given.numel() != count + 1) throw_invalid_argument("the row splits do not fit the level above");
    const Ints splits = splits_of(given, i + 1 == levels ? values.dim(0) : -1);
    const auto rows = static_cast<std::int64_t>(splits.size()) - 1;
    if (i == 0) shape.push_back(rows), columns.emplace_back(static_cast<std::size_t>(rows));
    if (i == 0) std::iota(columns[0].begin(), columns[0].end(), 0);
    element_count({splits.back(), i + 2}, sizeof(std::int64_t));
    std::vector<Ints> next(columns.size() + 1);
    std::int64_t longest = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t length = splits[static_cast<std::size_t>(row) + 1] - splits[static_cast<std::size_t>(row)];
      longest = std::max(longest, length);
      for (std::int64_t at = 0; at < length; ++at) {
        for (std::size_t k = 0; k < columns.size(); ++k) next[k].push_back(columns[k][static_cast<std::size_t>(row)]);
        next.back().push_back(at);
      }
    }
    shape.push_back(longest);
    columns = std::move(next);
    count = splits.back();
  }
  // The axes of the values themselves.
  std::int64_t inner = 1;
  for (int axis = 1; axis < values.rank(); ++axis) shape.push_back(values.dim(axis)), inner *= values.dim(axis);
  Ints indices;
  element_count({count, inner, static_cast<std::int64_t>(shape.size())}, sizeof(std::int64_t));
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t at = 0; at < inner; ++at) {
      for (const Ints& column : columns) indices.push_back(column[static_cast<std::size_t>(i)]);
      const std::size_t first = indices.size();
      std::int64_t rest = at;
      for (int axis = values.rank() - 1; axis >= 1; rest /= values.dim(axis--))
        indices.insert(indices.begin() + static_cast<std::ptrdiff_t>(first), rest % values.dim(axis));
    }
  }
  Tensor flat = values;
  if (values.rank() > 1) {
    flat = values.dtype() == DType::kString ? Tensor::strings(values.string_values(), Shape{count * inner})
                                            : wrap(dense(values).reshape({-1}));
  }
  return {wrap(int64_tensor(indices, {count * inner, static_cast<std::int64_t>(shape.size())})), flat,
          wrap(int64_tensor(shape))};
}

// Rows without a value get the default.
Tensors ragged_fill_empty_rows(const Call& call) {
  const Ints ids = ints_in(call, 0);
  const std::int64_t rows = int_in(call, 2);
  element_count({std::max<std::int64_t>(rows, 0)}, sizeof(Ints));
  if (rows < 0) throw_invalid_argument("nrows must not be negative");
  std::vector<Ints> entries(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= rows) throw_invalid_argument(fmt::format("row id {} is not in [0, {})", ids[i], rows));
    entries[static_cast<std::size_t>(ids[i])].push_back(static_cast<std::int64_t>(i));
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  Ints out_ids, from, places(ids.size());
  at::Tensor empty = at::zeros({rows}, at::kBool);
  for (std::int64_t row = 0; row < rows; ++row) {
    Ints own = entries[static_cast<std::size_t>(row)];
    empty.mutable_data_ptr<bool>()[row] = own.empty();
    if (own.empty()) own.push_back(count);
    for (const std::int64_t i : own) {
      if (i < count) places[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(from.size());
      from.push_back(i), out_ids.push_back(row);
    }
  }
  Tensor standard = call.input(3);
  standard = standard.dtype() == DType::kString ? Tensor::strings(standard.string_values(), Shape{1})
                                                : wrap(dense(standard).reshape({1}));
  return {wrap(int64_tensor(out_ids)), take_rows(concat_rows({call.input(1), standard}), from), wrap(empty),
          wrap(int64_tensor(places))};
}

// ---- sums of gathered rows by segments ---------------------------------------------------------------------------
enum class Scale { kSum, kMean, kSqrtN };

Ints segment_ids(const Call& call) {
  const Ints ids = ints_in(call, 2);
  if (!std::is_sorted(ids.begin(), ids.end()) || (!ids.empty() && ids[0] < 0))
    throw_invalid_argument("segment ids must be sorted and not negative");
  return ids;
}

// One factor for each id: 1, or one over the size of its segment or the root of that.
at::Tensor scales_of(const Ints& ids, Scale scale, const at::Tensor& like, std::int64_t rank) {
  std::unordered_map<std::int64_t, double> sizes;
  for (const std::int64_t id : ids) ++sizes[id];
  std::vector<double> factors(ids.size(), 1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double size = sizes[ids[i]];
    factors[i] = scale == Scale::kSum ? 1 : 1 / (scale == Scale::kMean ? size : std::sqrt(size));
  }
  Ints view(static_cast<std::size_t>(rank), 1);
  view[0] = static_cast<std::int64_t>(ids.size());
  return at::tensor(at::ArrayRef<double>(factors), at::kDouble).to(like.scalar_type()).view(view);
}

void check_rows(const Ints& rows, std::int64_t count) {
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= count) throw_invalid_argument(fmt::format("index {} is not in [0, {})", row, count));
  }
}

// TensorFlow adds numbers of 16 bits in float32.
at::Tensor as_summed(const at::Tensor& x) {
  return at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : widen(x);
}

Tensors gathered_segments(const Call& call, Scale scale) {
  const at::Tensor& data = in(call, 0);
  const Ints rows = ints_in(call, 1), ids = segment_ids(call);
  check_rows(rows, data.size(0));
  std::int64_t count = ids.empty() ? 0 : ids.back() + 1;
  if (call.num_inputs() > 3) {
    const std::int64_t given = int_in(call, 3);
    if (given < count)
      throw_invalid_argument(fmt::format("num_segments is {}, the last segment id {}", given, count - 1));
    count = given;
  }
  Ints shape = data.sizes().vec();
  shape[0] = count;
  element_count(shape, static_cast<std::int64_t>(data.element_size()));
  at::Tensor taken = as_summed(data).index_select(0, int64_tensor(rows));
  if (scale != Scale::kSum) taken = taken * scales_of(ids, scale, taken, taken.dim());
  return one(narrow_to(add_rows(at::zeros(shape, taken.options()), int64_tensor(ids), taken), data.scalar_type()));
}

Tensors gathered_segments_grad(const Call& call, Scale scale, bool compact) {
  const at::Tensor& gradient = in(call, 0);
  Ints rows = ints_in(call, 1);
  const Ints ids = ints_in(call, 2);  // in any order
  const std::int64_t count = int_in(call, 3);
  if (count < 0) throw_invalid_argument("the first extent of the result must not be negative");
  if (count == 0 && !compact) {  // TensorFlow does not look at the indices then
    Ints none = gradient.sizes().vec();
    none.at(0) = 0;
    return one(at::zeros(none, gradient.options()));
  }
  check_rows(rows, count);
  check_rows(ids, gradient.size(0));
  at::Tensor taken = as_summed(gradient).index_select(0, int64_tensor(ids));
  if (scale != Scale::kSum) taken = taken * scales_of(ids, scale, taken, taken.dim());
  Ints shape = gradient.sizes().vec(), unique = rows;
  shape[0] = count;
  if (compact) {
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    for (std::int64_t& row : rows) row = std::lower_bound(unique.begin(), unique.end(), row) - unique.begin();
    shape[0] = static_cast<std::int64_t>(unique.size());
  }
  element_count(shape, static_cast<std::int64_t>(gradient.element_size()));
  Tensors out =
      one(narrow_to(add_rows(at::zeros(shape, taken.options()), int64_tensor(rows), taken), gradient.scalar_type()));
  if (compact) out.push_back(wrap(int64_tensor(unique).to(in(call, 1).scalar_type())));
  return out;
}

Shapes gathered_rule(const Call& call) {
  Shape out = call.input(0).shape();
  if (!out.known_rank()) return {out};
  out[0] = call.num_inputs() > 3 ? known_int(call, 3).value_or(kUnknownDim) : kUnknownDim;
  return {out};
}

}  // namespace

void register_ragged(Table& table) {
  table.add("RaggedRange", nullptr, ragged_range);
  table.add("RaggedGather", nullptr, ragged_gather);
  table.add("RaggedTensorToSparse", nullptr, ragged_to_sparse);
  table.add("RaggedFillEmptyRows", nullptr, ragged_fill_empty_rows);
  for (const auto& [name, scale] : {std::pair{"Sum", Scale::kSum}, {"Mean", Scale::kMean}, {"SqrtN", Scale::kSqrtN}}) {
    const std::string whole = fmt::format("SparseSegment{}", name);
    const Scale how = scale;
    for (const char* suffix : {"", "WithNumSegments"})
      table.add(whole + suffix, gathered_rule, [how](const Call& call) { return gathered_segments(call, how); });
    table.add(whole + "Grad", nullptr, [how](const Call& call) { return gathered_segments_grad(call, how, false); });
    table.add(whole + "GradV2", nullptr, [how](const Call& call) { return gathered_segments_grad(call, how, true); });
  }
}

}  // namespace lockstep::ops
