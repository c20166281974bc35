#include "lockstep/ops/table_resource_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"

namespace lockstep::ops {
namespace {

// One string for each `width` elements: their bytes; a string itself, several with the length of each in front.
std::vector<std::string> cells(const Tensor& tensor, std::int64_t width) {
  std::vector<std::string> out;
  if (tensor.dtype() == DType::kString) {
    const std::vector<std::string>& texts = tensor.string_values();
    if (width == 1) return texts;
    for (std::size_t at = 0; width > 0 && at < texts.size(); ++at) {
      if (at % static_cast<std::size_t>(width) == 0) out.emplace_back();
      const std::uint64_t size = texts[at].size();
      out.back().append(reinterpret_cast<const char*>(&size), sizeof(size)).append(texts[at]);
    }
    return out;
  }
  const formats::TensorData data = tensor.to_data();
  const std::size_t size = dtype_size(tensor.dtype()) * static_cast<std::size_t>(width);
  for (std::size_t at = 0; size > 0 && at + size <= data.bytes.size(); at += size) {
    out.emplace_back(reinterpret_cast<const char*>(data.bytes.data()) + at, size);
  }
  return out;
}

Tensor from_cells(std::vector<std::string> values, DType dtype, const Shape& shape, std::int64_t width) {
  if (dtype == DType::kString && width == 1) return Tensor::strings(std::move(values), shape);
  if (dtype == DType::kString) {
    std::vector<std::string> texts;
    for (const std::string& cell : values) {
      for (std::size_t at = 0; at < cell.size();) {
        std::uint64_t size = 0;
        cell.copy(reinterpret_cast<char*>(&size), sizeof(size), at);
        texts.push_back(cell.substr(at + sizeof(size), size));
        at += sizeof(size) + size;
      }
    }
    return Tensor::strings(std::move(texts), shape);
  }
  std::string bytes;
  for (const std::string& value : values) bytes += value;
  return Tensor::from_data(formats::TensorData::copy_of(dtype, shape, io::as_bytes(bytes)));
}

}  // namespace

std::string TableResource::who() const { return name_.empty() ? "a lookup table" : fmt::format("table '{}'", name_); }

std::string TableResource::key_text(const std::string& cell) const {
  if (key_ == DType::kString || key_width_ != 1) return key_ == DType::kString ? cell : "…";
  if (!is_integer(key_)) return "…";
  return std::to_string(from_cells({cell}, key_, Shape{}, 1).item<std::int64_t>());
}

TableResource::TableResource(std::string name, DType key, DType value, Shape key_shape, Shape value_shape,
                             const Tensors& absent)
    : name_(std::move(name)),
      key_(key),
      value_(value),
      key_shape_(std::move(key_shape)),
      value_shape_(std::move(value_shape)),
      key_width_(key_shape_.num_elements().value_or(1)),
      value_width_(value_shape_.num_elements().value_or(1)) {
  if (key_width_ < 1 || value_width_ < 1 || value_width_ > (std::int64_t{1} << 28))
    throw_invalid_argument(fmt::format("{}: a key or a value has no elements, or too many", who()));
  for (const Tensor& each : absent) {
    for (std::string& cell : cells(each, key_width_)) absent_.push_back(std::move(cell));
  }
}

void TableResource::restore(const Tensor& keys, const Tensor& values) {
  check(keys, values);
  std::vector<std::string> new_keys = cells(keys, key_width_), new_values = cells(values, value_width_);
  if (new_keys.size() != new_values.size()) {
    throw_invalid_argument(
        fmt::format("{}: {} keys and {} values are restored", who(), new_keys.size(), new_values.size()));
  }
  const std::lock_guard lock(mutex_);
  has_values_ = true;
  keys_.clear();
  values_.clear();
  index_.clear();
  for (std::size_t i = 0; i < new_keys.size(); ++i) {
    if (std::ranges::find(absent_, new_keys[i]) != absent_.end()) continue;
    if (!index_.try_emplace(new_keys[i], keys_.size()).second) continue;
    keys_.push_back(std::move(new_keys[i]));
    values_.push_back(std::move(new_values[i]));
  }
}

std::vector<std::int64_t> TableResource::outer_shape(const Tensor& keys) const {
  const std::vector<std::int64_t>& dims = keys.shape().dims();
  const std::vector<std::int64_t>& inner = key_shape_.dims();
  if (dims.size() < inner.size() || !std::equal(inner.rbegin(), inner.rend(), dims.rbegin())) {
    throw_invalid_argument(fmt::format("{}: keys have shape {}, each key has {}", who(), keys.shape().to_string(),
                                       key_shape_.to_string()));
  }
  return {dims.begin(), dims.end() - static_cast<std::ptrdiff_t>(inner.size())};
}

Tensor TableResource::values_of(std::vector<std::string> cells, std::vector<std::int64_t> outer) const {
  outer.insert(outer.end(), value_shape_.dims().begin(), value_shape_.dims().end());
  return from_cells(std::move(cells), value_, Shape(outer), value_width_);
}

void TableResource::check(const Tensor& keys, const Tensor& values) const {
  if (keys.dtype() != key_ || (values.defined() && values.dtype() != value_)) {
    throw_invalid_argument(fmt::format("{} maps {} to {}, found {}{}", who(), dtype_name(key_), dtype_name(value_),
                                       dtype_name(keys.dtype()),
                                       values.defined() ? fmt::format(" and {}", dtype_name(values.dtype())) : ""));
  }
}

void TableResource::require_values() {
  const std::lock_guard lock(mutex_);
  has_values_ = false;
}

void TableResource::check_values() const {
  if (!has_values_)
    throw_failed_precondition(fmt::format("{} has no values: the graph's table initializer has not run", who()));
}

std::int64_t TableResource::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(index_.size());
}

void TableResource::insert(const Tensor& keys, const Tensor& values, bool unique) {
  check(keys, values);
  std::vector<std::int64_t> expected = outer_shape(keys);
  expected.insert(expected.end(), value_shape_.dims().begin(), value_shape_.dims().end());
  if (!(values.shape() == Shape(expected))) {
    throw_invalid_argument(
        fmt::format("{}: keys have shape {}, values {}", who(), keys.shape().to_string(), values.shape().to_string()));
  }
  insert_cells(cells(keys, key_width_), cells(values, value_width_), unique);
}

void TableResource::insert_cells(const std::vector<std::string>& new_keys, std::vector<std::string> new_values,
                                 bool unique) {
  const std::lock_guard lock(mutex_);
  has_values_ = true;
  for (std::size_t i = 0; i < new_keys.size(); ++i) {
    const auto [entry, fresh] = index_.try_emplace(new_keys[i], keys_.size());
    if (fresh) {
      keys_.push_back(new_keys[i]);
      values_.push_back(std::move(new_values[i]));
    } else if (unique && values_[entry->second] != new_values[i]) {
      throw_failed_precondition(fmt::format("{} has two values for key '{}'", who(), key_text(new_keys[i])));
    } else {
      values_[entry->second] = std::move(new_values[i]);
    }
  }
}

void TableResource::clear() {
  const std::lock_guard lock(mutex_);
  keys_.clear();
  values_.clear();
  index_.clear();
}

void TableResource::remove(const Tensor& keys) {
  check(keys, Tensor());
  const std::lock_guard lock(mutex_);
  for (const std::string& key : cells(keys, key_width_)) {
    const auto entry = index_.find(key);
    if (entry == index_.end()) continue;
    const std::size_t at = entry->second;
    index_.erase(entry);
    if (at + 1 != keys_.size()) {
      keys_[at] = std::move(keys_.back());
      values_[at] = std::move(values_.back());
      index_[keys_[at]] = at;
    }
    keys_.pop_back();
    values_.pop_back();
  }
}

Tensor TableResource::find(const Tensor& keys, const Tensor& default_value) const {
  check(keys, default_value);
  if (default_value.num_elements() != value_width_) {
    throw_invalid_argument(fmt::format("{}: the default has shape {}, expected {}", who(),
                                       default_value.shape().to_string(), value_shape_.to_string()));
  }
  const std::string missing = cells(default_value, value_width_)[0];
  std::vector<std::string> out;
  const std::lock_guard lock(mutex_);
  check_values();
  for (const std::string& key : cells(keys, key_width_)) {
    const auto entry = index_.find(key);
    out.push_back(entry == index_.end() ? missing : values_[entry->second]);
  }
  return values_of(std::move(out), outer_shape(keys));
}

Tensors TableResource::export_all() const {
  const std::lock_guard lock(mutex_);
  check_values();
  const auto count = static_cast<std::int64_t>(keys_.size());
  std::vector<std::int64_t> dims{count};
  dims.insert(dims.end(), key_shape_.dims().begin(), key_shape_.dims().end());
  return {from_cells(keys_, key_, Shape(dims), key_width_), values_of(values_, {count})};
}

}  // namespace lockstep::ops
