#include "lockstep/ops/ragged_tensor.h"

#include <algorithm>
#include <ostream>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/operators.h"
#include "lockstep/ops/ragged_elements_internal.h"
#include "lockstep/ops/string_functions.h"

namespace lockstep {
namespace {

using Ints = ops::Ints;

Tensor ints(const Ints& values) { return ops::constant_ints(values, DType::kInt64); }
Ints read(const Tensor& vector) { return ops::cast(vector, DType::kInt64).to_vector<std::int64_t>(); }

Ints running_total(const Ints& lengths) {
  Ints splits = {0};
  for (const std::int64_t length : lengths) {
    if (length < 0) throw_invalid_argument(fmt::format("RaggedTensor: invalid row length: found {}", length));
    splits.push_back(splits.back() + length);
  }
  return splits;
}

Tensor rows_of(const Tensor& x, std::int64_t begin, std::int64_t end) { return ops::slice_axis(x, 0, begin, end); }

Json lists_of(const Tensor& values) {
  if (values.rank() > 0) {
    Json out = Json::array();
    for (std::int64_t row = 0; row < values.shape()[0]; ++row) out.push_back(lists_of(values[row]));
    return out;
  }
  if (values.dtype() == DType::kString) return Json(values.item<std::string>());
  if (values.dtype() == DType::kBool) return Json(values.item<bool>());
  return is_floating(values.dtype()) ? Json(values.item<double>()) : Json(values.item<std::int64_t>());
}

}  // namespace

RaggedTensor::RaggedTensor(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> all;
  Ints lengths;
  for (const auto& row : rows) {
    all.insert(all.end(), row.begin(), row.end());
    lengths.push_back(static_cast<std::int64_t>(row.size()));
  }
  const auto count = static_cast<std::int64_t>(all.size());
  *this = from_row_lengths(Tensor::strings(std::move(all), {count}), ints(lengths));
}

RaggedTensor RaggedTensor::constant(const Values& values, DTypeLike dtype) {
  // Level by level: the lists of each become those of the next, until there are values only.
  using Kind = Values::Kind;
  const auto is_list = [](const Values& v) { return v.kind_ == Kind::kList; };
  if (!is_list(values)) return RaggedTensor(ops::constant(values, dtype));
  std::vector<Values> level = values.items_;
  Tensors splits;
  while (std::any_of(level.begin(), level.end(), is_list)) {
    Ints lengths;
    std::vector<Values> next;
    for (const Values& each : level) {
      if (!is_list(each)) throw_invalid_argument("ragged.constant: found values next to lists, expected one depth");
      lengths.push_back(static_cast<std::int64_t>(each.items_.size()));
      next.insert(next.end(), each.items_.begin(), each.items_.end());
    }
    splits.push_back(ints(running_total(lengths)));
    level = std::move(next);
  }
  if (level.empty())
    return RaggedTensor({}, Tensor::zeros({0}, dtype == DType::kInvalid ? DTypeLike(DType::kFloat32) : dtype), splits);
  return RaggedTensor({}, ops::constant(Values(level), dtype), std::move(splits));
}

RaggedTensor RaggedTensor::from_row_splits(const RaggedTensor& values, const Tensor& row_splits) {
  const Ints splits = read(row_splits);
  const std::int64_t count = values.ragged_rank() > 0 ? values.nrows() : values.values_.dim(0);
  if (splits.empty() || splits.front() != 0 || splits.back() != count ||
      !std::is_sorted(splits.begin(), splits.end())) {
    throw_invalid_argument(
        fmt::format("RaggedTensor: invalid row_splits: expected numbers that begin at 0, do not decrease, and end at "
                    "{}, the number of values",
                    count));
  }
  Tensors all = {ints(splits)};
  all.insert(all.end(), values.splits_.begin(), values.splits_.end());
  return RaggedTensor({}, values.values_, std::move(all));
}
RaggedTensor RaggedTensor::from_nested_row_splits(const Tensor& flat_values, const Tensors& nested_row_splits) {
  RaggedTensor out = flat_values;
  for (auto splits = nested_row_splits.rbegin(); splits != nested_row_splits.rend(); ++splits)
    out = from_row_splits(out, *splits);
  return out;
}
RaggedTensor RaggedTensor::from_row_lengths(const RaggedTensor& values, const Tensor& row_lengths) {
  return from_row_splits(values, ints(running_total(read(row_lengths))));
}
RaggedTensor RaggedTensor::from_value_rowids(const RaggedTensor& values, const Tensor& value_rowids,
                                             std::optional<std::int64_t> nrows) {
  const Ints ids = read(value_rowids);
  const std::int64_t rows = nrows.value_or(ids.empty() ? 0 : ids.back() + 1);
  Ints lengths(static_cast<std::size_t>(std::max<std::int64_t>(rows, 0)), 0);
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= rows) {
      throw_invalid_argument(
          fmt::format("RaggedTensor: invalid value_rowids: found {}, expected 0 to {}", id, rows - 1));
    }
    ++lengths[static_cast<std::size_t>(id)];
  }
  if (!std::is_sorted(ids.begin(), ids.end())) throw_invalid_argument("RaggedTensor: value_rowids must be sorted");
  return from_row_lengths(values, ints(lengths));
}
RaggedTensor RaggedTensor::from_tensor(const Tensor& tensor, const RaggedFromTensorKeywords& keywords) {
  const std::int64_t rows = tensor.dim(0), columns = tensor.dim(1);
  Ints lengths(static_cast<std::size_t>(rows), columns);
  if (keywords.lengths.defined()) lengths = read(keywords.lengths);
  if (keywords.padding.defined()) {
    const Tensor padding =
        tensor.dtype() == DType::kString ? Tensor(keywords.padding) : ops::cast(keywords.padding, tensor.dtype());
    const std::vector<bool> padded = ops::equal(tensor, padding).to_vector<bool>();
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t& length = lengths[static_cast<std::size_t>(row)];
      while (length > 0 && padded[static_cast<std::size_t>(row * columns + length - 1)]) --length;
    }
  }
  if (static_cast<std::int64_t>(lengths.size()) != rows) {
    throw_invalid_argument(
        fmt::format("RaggedTensor.from_tensor: found {} lengths, expected {}", lengths.size(), rows));
  }
  const Tensor kept = ops::sequence_mask(ints(lengths), columns);
  return from_row_lengths(ops::boolean_mask(tensor, kept), ints(lengths));
}

const Tensors& RaggedTensor::nested_row_splits() const {
  if (splits_.empty()) throw_failed_precondition("RaggedTensor: the tensor has no ragged axis");
  return splits_;
}
RaggedTensor RaggedTensor::with_values(const RaggedTensor& values) const {
  return from_row_splits(values, row_splits());
}
RaggedTensor RaggedTensor::values() const {
  return RaggedTensor({}, values_, Tensors(nested_row_splits().begin() + 1, splits_.end()));
}
std::int64_t RaggedTensor::nrows() const { return row_splits().dim(0) - 1; }
Tensor RaggedTensor::row_starts() const { return ops::slice_axis(row_splits(), 0, 0, -1); }
Tensor RaggedTensor::row_lengths() const { return ops::slice_axis(row_splits(), 0, 1, std::nullopt) - row_starts(); }
Tensors RaggedTensor::nested_row_lengths() const {
  Tensors lengths;
  for (const Tensor& splits : nested_row_splits())
    lengths.push_back(ops::slice_axis(splits, 0, 1, std::nullopt) - ops::slice_axis(splits, 0, 0, -1));
  return lengths;
}
Tensor RaggedTensor::value_rowids() const {
  return ops::repeat(ops::range(nrows(), DType::kInt64), read(row_lengths()));
}
Shape RaggedTensor::shape() const {
  if (splits_.empty()) return values_.shape();
  std::vector<std::int64_t> dims = {nrows()};
  dims.insert(dims.end(), splits_.size(), kUnknownDim);
  dims.insert(dims.end(), values_.shape().begin() + 1, values_.shape().end());
  return Shape(std::move(dims));
}
Tensor RaggedTensor::bounding_shape() const {
  Ints dims = {nrows()};
  for (const Tensor& splits : splits_) {
    const Ints ends = read(splits);
    std::int64_t longest = 0;
    for (std::size_t i = 1; i < ends.size(); ++i) longest = std::max(longest, ends[i] - ends[i - 1]);
    dims.push_back(longest);
  }
  dims.insert(dims.end(), values_.shape().begin() + 1, values_.shape().end());
  return ints(dims);
}

RaggedRow RaggedTensor::operator[](std::int64_t index) const {
  if (splits_.empty()) return RaggedRow(values_[index]);
  const std::int64_t rows = nrows(), at = index < 0 ? index + rows : index;
  if (at < 0 || at >= rows) {
    throw_out_of_range(fmt::format("RaggedTensor: row {} was asked for, there are {} rows", index, rows));
  }
  Ints splits = read(splits_[0]);
  std::int64_t begin = splits[static_cast<std::size_t>(at)], end = splits[static_cast<std::size_t>(at) + 1];
  Tensors inner;
  for (std::size_t level = 1; level < splits_.size(); ++level) {
    splits = read(splits_[level]);
    Ints part(splits.begin() + begin, splits.begin() + end + 1);
    begin = part.front(), end = part.back();
    for (std::int64_t& split : part) split -= begin;
    inner.push_back(ints(part));
  }
  return RaggedRow(RaggedTensor({}, rows_of(values_, begin, end), std::move(inner)));
}

RaggedTensor RaggedTensor::from_uniform_rows(const Tensor& tensor) {
  if (tensor.rank() < 2)
    throw_invalid_argument(
        fmt::format("RaggedTensor: invalid rows: found shape {}, expected two axes", tensor.shape().to_string()));
  const std::int64_t rows = tensor.dim(0), columns = tensor.dim(1);
  Ints shape(tensor.shape().begin() + 1, tensor.shape().end());
  shape[0] *= rows;
  return from_row_lengths(ops::reshape(tensor, Shape(shape)), ints(Ints(static_cast<std::size_t>(rows), columns)));
}

RaggedTensor RaggedTensor::rows(const std::vector<std::int64_t>& numbers) const {
  if (splits_.empty()) return RaggedTensor(ops::gather(values_, ints(numbers)));
  const Ints splits = read(splits_[0]);
  Ints lengths, places;
  for (const std::int64_t row : numbers) {
    if (row < 0 || row >= nrows())
      throw_out_of_range(fmt::format("RaggedTensor: row {} was asked for, there are {} rows", row, nrows()));
    const std::int64_t begin = splits[static_cast<std::size_t>(row)], end = splits[static_cast<std::size_t>(row) + 1];
    lengths.push_back(end - begin);
    for (std::int64_t place = begin; place < end; ++place) places.push_back(place);
  }
  return from_row_lengths(values().rows(places), ints(lengths));
}

namespace {

std::optional<std::int64_t> number(const Place& place) {
  if (!place.has_value()) return std::nullopt;
  return place.number() ? *place.number() : place.tensor().item<std::int64_t>();
}
// The places begin:end:stride of a row of this length, as Python's slices take them.
Ints places_in(const ops::SliceSpec& spec, std::int64_t length) {
  const std::int64_t step = spec.stride;
  if (step == 0) throw_invalid_argument("RaggedTensor: the step of a slice is 0");
  const std::int64_t first = step > 0 ? 0 : -1, last = step > 0 ? length : length - 1;
  const auto bounded = [&](std::optional<std::int64_t> place, std::int64_t missing) {
    if (!place) return missing;
    return std::clamp(*place < 0 ? *place + length : *place, first, last);
  };
  const std::int64_t begin = bounded(number(spec.begin), step > 0 ? first : last),
                     end = bounded(number(spec.end), step > 0 ? last : first);
  Ints places;
  for (std::int64_t place = begin; step > 0 ? place < end : place > end; place += step) places.push_back(place);
  return places;
}

// Slices of the axes behind the first one.
RaggedTensor sliced_rows(const RaggedTensor& ragged, std::span<const ops::SliceSpec> entries) {
  if (entries.empty()) return ragged;
  if (ragged.ragged_rank() == 0) {
    std::vector<ops::SliceSpec> all = {ops::SliceSpec::all()};
    all.insert(all.end(), entries.begin(), entries.end());
    return RaggedTensor(ops::strided_slice(ragged.flat_values(), all));
  }
  if (entries[0].kind == ops::SliceSpec::Kind::kIndex)
    throw_invalid_argument("RaggedTensor: a single place in a ragged axis: not all of its rows need have it");
  const Ints splits = read(ragged.row_splits());
  Ints lengths, places;
  for (std::size_t row = 0; row + 1 < splits.size(); ++row) {
    const Ints chosen = places_in(entries[0], splits[row + 1] - splits[row]);
    lengths.push_back(static_cast<std::int64_t>(chosen.size()));
    for (const std::int64_t place : chosen) places.push_back(splits[row] + place);
  }
  return RaggedTensor::from_row_lengths(sliced_rows(ragged.values().rows(places), entries.subspan(1)), ints(lengths));
}

RaggedTensor indexed(const RaggedTensor& ragged, std::span<const ops::SliceSpec> entries) {
  if (entries.empty()) return ragged;
  for (const ops::SliceSpec& entry : entries) {
    if (entry.kind == ops::SliceSpec::Kind::kNewAxis || entry.kind == ops::SliceSpec::Kind::kEllipsis)
      throw_invalid_argument("RaggedTensor: an index of a ragged tensor has places and slices only");
  }
  if (ragged.ragged_rank() == 0)
    return RaggedTensor(ops::strided_slice(ragged.flat_values(), {entries.begin(), entries.end()}));
  if (entries[0].kind == ops::SliceSpec::Kind::kIndex)
    return indexed(ragged[*number(entries[0].begin)], entries.subspan(1));
  return sliced_rows(ragged.rows(places_in(entries[0], ragged.nrows())), entries.subspan(1));
}

}  // namespace

RaggedRow RaggedTensor::index(std::initializer_list<ops::SliceSpec> entries) const {
  return RaggedRow(indexed(*this, {entries.begin(), entries.size()}));
}
RaggedTensor RaggedTensor::operator[](const Range& rows) const {
  return index({ops::SliceSpec::range(rows.begin, rows.end, rows.step)});
}

RaggedTensor::operator Tensor() const {
  if (!splits_.empty()) {
    throw_failed_precondition(fmt::format(
        "RaggedTensor of shape {}: rows of different lengths are not a tensor; use to_tensor()", shape().to_string()));
  }
  return values_;
}

RaggedRow::operator Tensor() const {
  if (ragged_rank() > 0) {
    const auto uniform = [](const Tensor& lengths) {
      const Ints all = read(lengths);
      return std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) == all.end();
    };
    const Tensors levels = nested_row_lengths();
    if (std::all_of(levels.begin(), levels.end(), uniform)) return to_tensor();
  }
  return static_cast<const RaggedTensor&>(*this).operator Tensor();
}

RaggedTensor::operator Nested<Tensor>() const { return splits_.empty() ? values_ : ops::variant_of_ragged(*this); }
RaggedTensor RaggedTensor::of_element(const Nested<Tensor>& element) {
  const Tensor& leaf = element.leaf();
  return ops::holds_ragged(leaf) ? ops::ragged_in(leaf) : RaggedTensor(leaf);
}

Tensor RaggedTensor::to_tensor(const RaggedToTensorKeywords& keywords) const {
  const bool text = dtype() == DType::kString;
  Tensor other = keywords.default_value;
  if (!other.defined()) other = text ? Tensor::strings({""}, {}) : Tensor::scalar(0.0, dtype());
  if (!text) other = ops::cast(other, dtype());
  const Tensor shape = keywords.shape.known_rank() ? ints(keywords.shape.dims()) : Tensor::scalar(std::int64_t{-1});
  Tensors inputs = {shape, values_, other};
  std::vector<std::string> kinds;
  for (const Tensor& splits : nested_row_splits()) {
    inputs.push_back(splits);
    kinds.emplace_back("ROW_SPLITS");
  }
  return ops::call1(
      "RaggedTensorToTensor", inputs,
      {{"row_partition_types", kinds}, {"num_row_partition_tensors", static_cast<std::int64_t>(kinds.size())}});
}
SparseTensor RaggedTensor::to_sparse() const {
  Tensors inputs = nested_row_splits();
  inputs.push_back(values_);
  const Tensors made =
      ops::call("RaggedTensorToSparse", inputs, {{"RAGGED_RANK", static_cast<std::int64_t>(splits_.size())}});
  return {made[0], made[1], made[2]};
}
RaggedTensor RaggedTensor::from_sparse(const SparseTensor& st_input) {
  if (st_input.dense_shape().dim(0) != 2) {
    throw_invalid_argument(fmt::format("RaggedTensor.from_sparse: invalid st_input: found shape {}, expected two axes",
                                       st_input.shape().to_string()));
  }
  const Ints places = read(st_input.indices());
  Ints lengths(static_cast<std::size_t>(st_input.shape()[0]));
  for (std::size_t i = 0; i < places.size(); i += 2) {
    if (places[i + 1] != lengths[static_cast<std::size_t>(places[i])]++) {
      throw_invalid_argument(
          fmt::format("RaggedTensor.from_sparse: the values of row {} are not at its first places", places[i]));
    }
  }
  return from_row_lengths(RaggedTensor(st_input.values()), ints(lengths));
}
RaggedTensor RaggedTensor::with_flat_values(const Tensor& values) const {
  if (values.rank() < 1 || values.dim(0) != values_.dim(0)) {
    throw_invalid_argument(fmt::format("RaggedTensor: invalid values: found shape {}, expected {} rows",
                                       values.shape().to_string(), values_.dim(0)));
  }
  return RaggedTensor({}, values, splits_);
}

Json RaggedTensor::to_list() const {
  if (splits_.empty()) return lists_of(values_);
  Json out = Json::array();
  for (std::int64_t row = 0; row < nrows(); ++row) out.push_back((*this)[row].to_list());
  return out;
}

namespace {

// Python's list of the elements.
std::string list_text(const Tensor& values) {
  if (values.rank() == 0) {
    const std::string text = values.to_string();  // tf.Tensor(…, shape=…
    const std::size_t begin = text.find('(') + 1;
    return text.substr(begin, text.rfind(", shape=") - begin);
  }
  std::string out = "[";
  for (std::int64_t row = 0; row < values.dim(0); ++row) out += (row ? ", " : "") + list_text(values[row]);
  return out + "]";
}

}  // namespace

std::string RaggedTensor::to_string() const {
  if (splits_.empty()) return list_text(values_);
  std::string out = "[";
  for (std::int64_t row = 0; row < nrows(); ++row) out += (row ? ", " : "") + (*this)[row].to_string();
  return out + "]";
}
std::ostream& operator<<(std::ostream& out, const RaggedTensor& ragged) {
  if (ragged.ragged_rank() == 0) return out << ragged.flat_values();
  return out << "<tf.RaggedTensor " << ragged.to_string() << ">";
}

namespace ragged {

RaggedTensor map_flat_values(const std::function<Tensor(const Tensor&)>& fn, const RaggedTensor& ragged) {
  return ragged.with_flat_values(fn(ragged.flat_values()));
}
RaggedTensor range(const Tensor& limits) { return range(Tensor::scalar(0), limits); }
RaggedTensor range(const Tensor& starts, const Tensor& limits, const Tensor& deltas) {
  const Tensors made =
      ops::call("RaggedRange", {ops::cast(starts, limits.dtype()), limits, ops::cast(deltas, limits.dtype())});
  return RaggedTensor::from_row_splits(made[1], made[0]);
}
RaggedTensor boolean_mask(const RaggedTensor& data, const RaggedTensor& mask) {
  if (mask.ragged_rank() == 0) {
    Ints kept;
    const std::vector<bool> values = mask.flat_values().to_vector<bool>();
    for (std::size_t row = 0; row < values.size(); ++row) {
      if (values[row]) kept.push_back(static_cast<std::int64_t>(row));
    }
    return data.rows(kept);
  }
  if (data.ragged_rank() == 0 || read(data.row_splits()) != read(mask.row_splits())) {
    throw_invalid_argument(fmt::format("ragged.boolean_mask requires rows of equal lengths: found shapes {} and {}",
                                       data.shape().to_string(), mask.shape().to_string()));
  }
  if (mask.ragged_rank() > 1)
    return RaggedTensor::from_row_splits(boolean_mask(data.values(), mask.values()), data.row_splits());
  const Tensor kept = ops::cast(mask.flat_values(), DType::kInt64);
  const Tensor lengths = ops::call1("UnsortedSegmentSum", {kept, mask.value_rowids(), Tensor::scalar(mask.nrows())});
  return RaggedTensor::from_row_lengths(boolean_mask(data.values(), mask.values()), lengths);
}
RaggedTensor stack(const std::vector<RaggedTensor>& values) {
  Ints lengths;
  for (const RaggedTensor& each : values)
    lengths.push_back(each.ragged_rank() > 0 ? each.nrows() : each.flat_values().dim(0));
  return RaggedTensor::from_row_lengths(ops::concat_ragged(values, 0), ints(lengths));
}

}  // namespace ragged

namespace ops {

RaggedTensor concat_ragged(const std::vector<RaggedTensor>& values, int axis) {
  if (values.empty()) throw_invalid_argument("concat: found no ragged tensors");
  int rank = 0;
  for (const RaggedTensor& each : values) rank = std::max(rank, each.ragged_rank());
  if (rank == 1 && std::any_of(values.begin(), values.end(), [](const auto& v) { return v.ragged_rank() == 0; })) {
    std::vector<RaggedTensor> all;
    for (const RaggedTensor& each : values)
      all.push_back(each.ragged_rank() > 0 ? each : RaggedTensor::from_uniform_rows(each.flat_values()));
    return concat_ragged(all, axis);
  }
  for (const RaggedTensor& each : values) {
    if (each.ragged_rank() == rank) continue;
    throw_invalid_argument(fmt::format(
        "concat of ragged tensors requires equal numbers of ragged axes: found {} and {}", rank, each.ragged_rank()));
  }
  Tensors flat;
  if (rank == 0) {
    for (const RaggedTensor& each : values) flat.push_back(Tensor(each));
    return RaggedTensor(concat(flat, axis));
  }
  if (axis == 0) {
    Ints lengths;
    std::vector<RaggedTensor> parts;
    for (const RaggedTensor& each : values) {
      for (const std::int64_t length : read(each.row_lengths())) lengths.push_back(length);
      parts.push_back(each.values());
    }
    return RaggedTensor::from_row_lengths(concat_ragged(parts, 0), ints(lengths));
  }
  if (axis != 1) throw_unimplemented(fmt::format("concat of ragged tensors along axis {}", axis));
  std::vector<RaggedTensor> rows;
  Ints lengths;
  for (std::int64_t row = 0; row < values[0].nrows(); ++row) {
    std::int64_t length = 0;
    for (const RaggedTensor& each : values) {
      rows.push_back(each[row]);
      length += read(each.row_lengths())[static_cast<std::size_t>(row)];
    }
    lengths.push_back(length);
  }
  if (rows.empty()) return values[0];
  return RaggedTensor::from_row_lengths(concat_ragged(rows, 0), ints(lengths));
}

namespace {

constexpr std::string_view kJoin = "Join";

// One tensor for each group of the values along axis 0; `group_of` has the group of each.
Tensor reduce_groups(const Tensor& values, std::string_view how, const Tensor& group_of, std::int64_t groups) {
  const auto segments = [&](const char* op, const Tensor& x) {
    return call1(op, {x, group_of, Tensor::scalar(groups)});
  };
  if (how == "Any") return segments("UnsortedSegmentMax", cast(values, DType::kInt32)) > 0;
  if (how == "All") return segments("UnsortedSegmentMin", cast(values, DType::kInt32)) > 0;
  if (how.starts_with(kJoin)) {
    return call("UnsortedSegmentJoin", {values, group_of, Tensor::scalar(groups)},
                {{"separator", std::string(how.substr(kJoin.size()))}})[0];
  }
  return segments(how == "Max"    ? "UnsortedSegmentMax"
                  : how == "Min"  ? "UnsortedSegmentMin"
                  : how == "Prod" ? "UnsortedSegmentProd"
                                  : "UnsortedSegmentSum",
                  values);
}

Tensor reduce_values(const Tensor& values, std::string_view how, const Axes& axes) {
  if (how.starts_with(kJoin)) {
    const std::string_view separator = how.substr(kJoin.size());
    return axes ? strings::reduce_join(values, static_cast<int>((*axes)[0]), false, separator)
                : strings::reduce_join(values, separator);
  }
  return how == "Max"    ? reduce_max(values, axes)
         : how == "Min"  ? reduce_min(values, axes)
         : how == "Prod" ? reduce_prod(values, axes)
         : how == "Any"  ? reduce_any(values, axes)
         : how == "All"  ? reduce_all(values, axes)
                         : reduce_sum(values, axes);
}

RaggedTensor reduce_one_axis(const RaggedTensor& ragged, std::string_view how, int axis) {
  const int ragged_rank = ragged.ragged_rank();
  const Tensor& values = ragged.flat_values();
  if (ragged_rank == 0) return RaggedTensor(reduce_values(values, how, axis));
  if (axis > ragged_rank) {
    return ragged.with_flat_values(reduce_values(values, how, axis - ragged_rank));
  }
  const Tensors& nested = ragged.nested_row_splits();
  const auto level = [&](int i) { return nested[static_cast<std::size_t>(i)]; };
  // Parts of the axis merge: what is at the same place of parts with one parent is one group, level by level.
  Ints group_of(static_cast<std::size_t>(ragged.nrows()), 0);
  std::int64_t groups = 1;
  if (axis > 0) {
    const Ints parents = read(level(axis - 1));
    groups = static_cast<std::int64_t>(parents.size()) - 1;
    group_of.clear();
    for (std::size_t i = 0; i + 1 < parents.size(); ++i) {
      group_of.insert(group_of.end(), static_cast<std::size_t>(parents[i + 1] - parents[i]),
                      static_cast<std::int64_t>(i));
    }
  }
  Tensors splits(nested.begin(), nested.begin() + std::max(axis - 1, 0));
  for (int i = axis; i < ragged_rank; ++i) {
    const Ints own = read(level(i));
    Ints lengths(static_cast<std::size_t>(groups), 0);
    for (std::size_t part = 0; part < group_of.size(); ++part) {
      std::int64_t& longest = lengths[static_cast<std::size_t>(group_of[part])];
      longest = std::max(longest, own[part + 1] - own[part]);
    }
    const Ints merged = running_total(lengths);
    Ints below;
    for (std::size_t part = 0; part < group_of.size(); ++part) {
      const std::int64_t first = merged[static_cast<std::size_t>(group_of[part])];
      for (std::int64_t place = 0; place < own[part + 1] - own[part]; ++place) below.push_back(first + place);
    }
    if (i > 0) splits.push_back(ints(merged));
    group_of = std::move(below);
    groups = merged.back();
  }
  RaggedTensor out(reduce_groups(values, how, ints(group_of), groups));
  for (auto each = splits.rbegin(); each != splits.rend(); ++each) out = RaggedTensor::from_row_splits(out, *each);
  return out;
}

RaggedTensor reduce_axes(RaggedTensor ragged, std::string_view how, const Axes& axes) {
  if (!axes) return RaggedTensor(reduce_values(ragged.flat_values(), how, std::nullopt));
  const int rank = ragged.shape().rank();
  Ints along;
  for (const std::int64_t axis : *axes) {
    along.push_back(axis < 0 ? axis + rank : axis);
    if (along.back() < 0 || along.back() >= rank) {
      throw_invalid_argument(fmt::format("invalid axis {} of a ragged tensor of rank {}", axis, rank));
    }
  }
  std::sort(along.rbegin(), along.rend());
  for (const std::int64_t axis : along) ragged = reduce_one_axis(ragged, how, static_cast<int>(axis));
  return ragged;
}

}  // namespace

RaggedRow reduce_ragged(const RaggedTensor& ragged, std::string_view how, const Axes& axes) {
  if (how != "Mean") return RaggedRow(reduce_axes(ragged, how, axes));
  if (ragged.ragged_rank() == 0) return RaggedRow(RaggedTensor(reduce_mean(ragged.flat_values(), axes)));
  const RaggedTensor sums = reduce_axes(ragged, "Sum", axes);
  const RaggedTensor counts = reduce_axes(ragged.with_flat_values(ones_like(ragged.flat_values())), "Sum", axes);
  const DType dtype = is_floating(sums.dtype()) ? sums.dtype() : DType::kFloat64;
  const Tensor means = div(cast(sums.flat_values(), dtype), cast(counts.flat_values(), dtype));
  return RaggedRow(sums.ragged_rank() > 0 ? sums.with_flat_values(means) : RaggedTensor(means));
}

}  // namespace ops
}  // namespace lockstep
