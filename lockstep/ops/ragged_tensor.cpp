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
#include "lockstep/ops/ragged_functions.h"
#include "lockstep/ops/ragged_rows_internal.h"
#include "lockstep/ops/string_functions.h"
#include "lockstep/tensor/print_internal.h"

namespace lockstep {

using ops::Ints;

namespace {

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
  // Those of traced functions are not checked.
  if (row_splits.is_symbolic() && values.ragged_rank() == 0)
    return RaggedTensor({}, values.values_, {ops::cast(row_splits, DType::kInt64)});
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
  Ints uniform = {kUnknownDim};
  uniform.insert(uniform.end(), values.uniform_.begin(), values.uniform_.end());
  return RaggedTensor({}, values.values_, std::move(all), std::move(uniform));
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
RaggedTensor RaggedTensor::from_row_starts(const RaggedTensor& values, const Tensor& row_starts) {
  Ints splits = read(row_starts);
  splits.push_back(values.ragged_rank() > 0 ? values.nrows() : values.values_.dim(0));
  return from_row_splits(values, ints(splits));
}
RaggedTensor RaggedTensor::from_row_limits(const RaggedTensor& values, const Tensor& row_limits) {
  Ints splits = read(row_limits);
  splits.insert(splits.begin(), 0);
  return from_row_splits(values, ints(splits));
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
  RaggedTensor out = from_row_splits(values, row_splits());
  out.uniform_[0] = uniform(0);
  return out;
}
RaggedRow RaggedTensor::values() const {
  const Tensors splits(nested_row_splits().begin() + 1, splits_.end());
  return RaggedRow(
      RaggedTensor({}, values_, splits, uniform_.empty() ? Ints{} : Ints(uniform_.begin() + 1, uniform_.end())));
}
std::int64_t RaggedTensor::nrows() const { return row_splits().dim(0) - 1; }
Tensor RaggedTensor::row_starts() const { return ops::slice_axis(row_splits(), 0, 0, -1); }
Tensor RaggedTensor::row_limits() const { return ops::slice_axis(row_splits(), 0, 1, std::nullopt); }
Tensor RaggedTensor::row_lengths() const { return row_limits() - row_starts(); }
RaggedRow RaggedTensor::row_lengths(int axis) const {
  if (axis < 1 || axis > ragged_rank())
    throw_invalid_argument(
        fmt::format("row_lengths: axis {} is not one of the ragged axes 1 to {}", axis, ragged_rank()));
  if (axis == 1) return RaggedRow(row_lengths());
  return RaggedRow(with_values(values().row_lengths(axis - 1)));
}
Tensors RaggedTensor::nested_row_lengths() const {
  Tensors lengths;
  for (const Tensor& splits : nested_row_splits())
    lengths.push_back(ops::slice_axis(splits, 0, 1, std::nullopt) - ops::slice_axis(splits, 0, 0, -1));
  return lengths;
}
Tensor RaggedTensor::value_rowids() const { return ragged::row_splits_to_segment_ids(row_splits()); }
Shape RaggedTensor::shape() const {
  if (splits_.empty()) return values_.shape();
  std::vector<std::int64_t> dims = {nrows()};
  for (std::size_t level = 0; level < splits_.size(); ++level) dims.push_back(uniform(level));
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
    throw_out_of_range(fmt::format("RaggedTensor: row {} is out of range: there are {} rows", index, rows));
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
      throw_out_of_range(fmt::format("RaggedTensor: row {} is out of range: there are {} rows", row, nrows()));
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
    throw_invalid_argument(
        "RaggedTensor: a single index is not supported on a ragged axis, because some rows may be too short");
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
      throw_invalid_argument("RaggedTensor: an index of a ragged tensor must consist of integers and slices");
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
  const Tensor made = ops::call1(
      "RaggedTensorToTensor", inputs,
      {{"row_partition_types", kinds}, {"num_row_partition_tensors", static_cast<std::int64_t>(kinds.size())}});
  if (!made.is_symbolic() || made.shape().known_rank()) return made;
  Ints dims(kinds.size() + 1, kUnknownDim);
  dims.insert(dims.end(), values_.shape().begin() + 1, values_.shape().end());
  return ops::ensure_shape(made, Shape(std::move(dims)));
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
          fmt::format("RaggedTensor.from_sparse: the values of row {} are not left-aligned", places[i]));
    }
  }
  return from_row_lengths(RaggedTensor(st_input.values()), ints(lengths));
}
RaggedTensor RaggedTensor::with_flat_values(const Tensor& values) const {
  if (values.rank() < 1 || values.dim(0) != values_.dim(0)) {
    throw_invalid_argument(fmt::format("RaggedTensor: invalid values: found shape {}, expected {} rows",
                                       values.shape().to_string(), values_.dim(0)));
  }
  return RaggedTensor({}, values, splits_, uniform_);
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
  if (!ragged.flat_values().is_value())
    return out << "tf.RaggedTensor(values=" << ragged.values() << ", row_splits=" << ragged.row_splits() << ")";
  return out << "<tf.RaggedTensor " << ragged_text(ragged.nested_row_splits(), ragged.flat_values()) << ">";
}

namespace ragged {

RaggedTensor constant(const Values& values, const ConstantKeywords& o) {
  const RaggedTensor all = RaggedTensor::constant(values, o.dtype);
  if (!o.ragged_rank || *o.ragged_rank == all.ragged_rank()) return all;
  if (*o.ragged_rank < 0 || *o.ragged_rank > all.ragged_rank()) {
    throw_invalid_argument(fmt::format("ragged.constant: invalid ragged_rank: found {}, the lists have {} axes",
                                       *o.ragged_rank, all.ragged_rank() + 1));
  }
  Tensors splits = all.nested_row_splits();
  Tensor flat = all.flat_values();
  while (static_cast<int>(splits.size()) > *o.ragged_rank) {
    const Ints ends = read(splits.back());
    const std::int64_t length = ends.size() > 1 ? ends[1] : 0;
    for (std::size_t row = 0; row + 1 < ends.size(); ++row) {
      if (ends[row + 1] - ends[row] == length) continue;
      throw_invalid_argument(fmt::format("ragged.constant: rows behind axis {} differ in length: found {} and {}",
                                         *o.ragged_rank, length, ends[row + 1] - ends[row]));
    }
    Ints dims = {static_cast<std::int64_t>(ends.size()) - 1, length};
    dims.insert(dims.end(), flat.shape().begin() + 1, flat.shape().end());
    flat = ops::reshape(flat, Shape(dims));
    splits.pop_back();
  }
  return RaggedTensor::from_nested_row_splits(flat, splits);
}
RaggedTensor map_flat_values(const std::function<Tensor(const Tensor&, const Tensor&)>& fn, const RaggedTensor& a,
                             const RaggedTensor& b) {
  return ragged_elementwise("map_flat_values", a, b, fn);
}
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
RaggedTensor stack(const std::vector<RaggedTensor>& values, int axis) {
  if (axis != 0) {
    std::vector<RaggedTensor> parts;
    for (const RaggedTensor& each : values) parts.push_back(ops::expand_ragged_dims(each, axis));
    return ops::concat_ragged(parts, axis);
  }
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

RaggedTensor expand_ragged_dims(const RaggedTensor& ragged, int axis) {
  const int rank = ragged.shape().rank(), at = axis < 0 ? axis + rank + 1 : axis;
  if (at < 0 || at > rank) {
    throw_invalid_argument(fmt::format("expand_dims: invalid axis {} of a ragged tensor of rank {}", axis, rank));
  }
  const int ragged_rank = ragged.ragged_rank();
  if (ragged_rank == 0) return RaggedTensor(expand_dims(ragged.flat_values(), at));
  if (at > ragged_rank) return ragged.with_flat_values(expand_dims(ragged.flat_values(), at - ragged_rank));
  if (at > 1) return ragged.with_values(expand_ragged_dims(ragged.values(), at - 1));
  return RaggedTensor::from_row_lengths(
      ragged, ints(at == 0 ? Ints{ragged.nrows()} : Ints(static_cast<std::size_t>(ragged.nrows()), 1)));
}

namespace {

RaggedTensor reverse_axis(const RaggedTensor& ragged, int axis) {
  const int ragged_rank = ragged.ragged_rank();
  if (ragged_rank == 0) return RaggedTensor(reverse(ragged.flat_values(), {axis}));
  if (axis > ragged_rank) return ragged.with_flat_values(reverse(ragged.flat_values(), {axis - ragged_rank}));
  if (axis > 1) return ragged.with_values(reverse_axis(ragged.values(), axis - 1));
  const Ints splits = read(ragged.row_splits());
  Ints places;
  if (axis == 0) {
    for (std::int64_t row = ragged.nrows() - 1; row >= 0; --row) places.push_back(row);
    return ragged.rows(places);
  }
  for (std::size_t row = 0; row + 1 < splits.size(); ++row) {
    for (std::int64_t place = splits[row + 1] - 1; place >= splits[row]; --place) places.push_back(place);
  }
  return ragged.with_values(ragged.values().rows(places));
}

}  // namespace

RaggedTensor reverse_ragged(const RaggedTensor& ragged, const Axes& axes) {
  RaggedTensor out = ragged;
  const int rank = ragged.shape().rank();
  for (const std::int64_t axis : axes ? *axes : Ints()) {
    const auto at = static_cast<int>(axis < 0 ? axis + rank : axis);
    if (at < 0 || at >= rank) {
      throw_invalid_argument(fmt::format("reverse: invalid axis {} of a ragged tensor of rank {}", axis, rank));
    }
    out = reverse_axis(out, at);
  }
  return out;
}

}  // namespace ops

Tensor Tensor::to_tensor() const { return ops::holds_ragged(*this) ? ops::ragged_in(*this).to_tensor() : *this; }
Json Tensor::to_list() const { return RaggedTensor(Nested<Tensor>(*this)).to_list(); }

}  // namespace lockstep
