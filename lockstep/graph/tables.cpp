#include "lockstep/graph/tables_internal.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"

namespace lockstep::graph {
namespace {

constexpr std::uint64_t kMaxVocabulary = std::uint64_t{1} << 30;  // bytes of a text file

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

TableResource& table_of(const Tensor& handle) {
  auto* table = handle.dtype() == DType::kResource && !handle.is_symbolic()
                    ? dynamic_cast<TableResource*>(handle.resource_value().get())
                    : nullptr;
  if (!table) throw_invalid_argument("the handle of a lookup operation is not a table");
  return *table;
}

std::string number_cell(std::string_view text, DType dtype, std::string_view what) {
  const auto parse = [&](auto value) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || rest != text.data() + text.size()) {
      throw_invalid_argument(fmt::format("{}: '{}' is not of type {}", what, text, dtype_name(dtype)));
    }
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  switch (dtype) {
    case DType::kString: return std::string(text);
    case DType::kInt32: return parse(std::int32_t{});
    case DType::kInt64: return parse(std::int64_t{});
    case DType::kFloat32: return parse(float{});
    case DType::kFloat64: return parse(double{});
    default: throw_unimplemented(fmt::format("{}: a table of {}", what, dtype_name(dtype)));
  }
}

// -2: the whole line; -1: the line's number; else a column.
std::string field_of(std::string_view line, std::int64_t number, std::int64_t index, char delimiter, DType dtype,
                     std::string_view what) {
  if (index == -2) return number_cell(line, dtype, what);
  if (index == -1) return number_cell(std::to_string(number), dtype, what);
  for (std::int64_t column = 0;; ++column) {
    const std::size_t end = line.find(delimiter);
    if (column == index) return number_cell(line.substr(0, end), dtype, what);
    if (end == std::string_view::npos) {
      throw_invalid_argument(fmt::format("{}: line {} has no column {}", what, number + 1, index));
    }
    line.remove_prefix(end + 1);
  }
}

// Files outside of the model's own assets are never opened.
std::string asset_path(const std::string& path, const RunContext& context) {
  const std::string& folder = context.resources.asset_directory;
  const std::string name = io::base_name(path);
  if (folder.empty() || name == ".." || name == "." || io::join_path(folder, name) != path) {
    throw_invalid_argument(fmt::format("the graph reads the file '{}', which is not among the model's assets", path));
  }
  return path;
}

// A dense table's inputs are two keys that no entry has.
Tensors make_table(const Step& step, const Tensors& inputs, RunContext& context) {
  const auto make = [&]() -> std::shared_ptr<Resource> {
    const Shape value_shape = step.attrs.find("value_shape") ? step.attr<Shape>("value_shape") : Shape{};
    if (!value_shape.fully_known()) {
      throw_invalid_argument(
          fmt::format("the values of a table must have a full shape, found {}", value_shape.to_string()));
    }
    return std::make_shared<TableResource>(step.node->name, step.attr<DType>("key_dtype"),
                                           step.attr<DType>("value_dtype"),
                                           inputs.empty() ? Shape{} : inputs[0].shape(), value_shape, inputs);
  };
  if (!step.attrs.find("shared_name")) return {Tensor::resource(make())};  // anonymous
  const std::string& shared = step.attr<std::string>("shared_name");
  const std::string name =
      fmt::format("{}/{}", step.attr<std::string>("container"), shared.empty() ? step.node->name : shared);
  return {Tensor::resource(context.resources.find_or_put("table", name, make))};
}

Tensors find(const Step&, const Tensors& inputs, RunContext&) {
  return {table_of(inputs[0]).find(inputs[1], inputs[2])};
}

Tensors initialize(const Step&, const Tensors& inputs, RunContext&) {
  table_of(inputs[0]).insert(inputs[1], inputs[2], true);
  return {};
}

Tensors import(const Step&, const Tensors& inputs, RunContext&) {
  table_of(inputs[0]).restore(inputs[1], inputs[2]);
  return {};
}

Tensors insert(const Step&, const Tensors& inputs, RunContext&) {
  table_of(inputs[0]).insert(inputs[1], inputs[2], false);
  return {};
}

Tensors remove(const Step&, const Tensors& inputs, RunContext&) {
  table_of(inputs[0]).remove(inputs[1]);
  return {};
}

Tensors size(const Step&, const Tensors& inputs, RunContext&) { return {Tensor::scalar(table_of(inputs[0]).size())}; }
Tensors export_all(const Step&, const Tensors& inputs, RunContext&) { return table_of(inputs[0]).export_all(); }

Tensors read_asset(const Step&, const Tensors& inputs, RunContext& context) {
  const std::string path = asset_path(inputs[0].string_values().at(0), context);
  return {Tensor::strings({io::read_text(io::posix_file_system(), path, kMaxVocabulary)}, Shape{})};
}

Tensors read_file(const Step& step, const Tensors& inputs, RunContext& context) {
  TableResource& table = table_of(inputs[0]);
  const std::string path = asset_path(inputs[1].string_values().at(0), context);
  const std::string text = io::read_text(io::posix_file_system(), path, kMaxVocabulary);
  const std::string delimiter = step.attr<std::string>("delimiter");
  const std::int64_t key_index = step.attr<std::int64_t>("key_index");
  const std::int64_t value_index = step.attr<std::int64_t>("value_index");
  const std::int64_t limit = step.attr<std::int64_t>("vocab_size");
  const std::int64_t offset = step.attr<std::int64_t>("offset");
  std::vector<std::string> keys, values;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size() && (limit < 0 || number - offset < limit); ++number) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string_view line(text.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    if (number < offset) continue;
    const char separator = delimiter.empty() ? '\t' : delimiter[0];
    keys.push_back(field_of(line, number - offset, key_index, separator, table.key_dtype(), path));
    values.push_back(field_of(line, number - offset, value_index, separator, table.value_dtype(), path));
  }
  if (limit >= 0 && static_cast<std::int64_t>(keys.size()) < limit) {
    throw_invalid_argument(fmt::format("{} has {} lines, the table wants {}", path, keys.size(), limit));
  }
  const Shape shape{static_cast<std::int64_t>(keys.size())};
  table.insert(from_cells(std::move(keys), table.key_dtype(), shape, 1),
               from_cells(std::move(values), table.value_dtype(), shape, 1), true);
  return {};
}

}  // namespace

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
    throw_invalid_argument(fmt::format("table '{}': a key or a value has no elements, or too many", name_));
  for (const Tensor& each : absent) {
    for (std::string& cell : cells(each, key_width_)) absent_.push_back(std::move(cell));
  }
}

void TableResource::restore(const Tensor& keys, const Tensor& values) {
  check(keys, values);
  std::vector<std::string> new_keys = cells(keys, key_width_), new_values = cells(values, value_width_);
  if (new_keys.size() != new_values.size()) {
    throw_invalid_argument(
        fmt::format("table '{}': {} keys and {} values are restored", name_, new_keys.size(), new_values.size()));
  }
  const std::lock_guard lock(mutex_);
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
    throw_invalid_argument(fmt::format("table '{}': keys have shape {}, each key has {}", name_,
                                       keys.shape().to_string(), key_shape_.to_string()));
  }
  return {dims.begin(), dims.end() - static_cast<std::ptrdiff_t>(inner.size())};
}

Tensor TableResource::values_of(std::vector<std::string> cells, std::vector<std::int64_t> outer) const {
  outer.insert(outer.end(), value_shape_.dims().begin(), value_shape_.dims().end());
  return from_cells(std::move(cells), value_, Shape(outer), value_width_);
}

void TableResource::check(const Tensor& keys, const Tensor& values) const {
  if (keys.dtype() != key_ || (values.defined() && values.dtype() != value_)) {
    throw_invalid_argument(fmt::format("table '{}' maps {} to {}", name_, dtype_name(key_), dtype_name(value_)));
  }
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
    throw_invalid_argument(fmt::format("table '{}': keys have shape {}, values {}", name_, keys.shape().to_string(),
                                       values.shape().to_string()));
  }
  const std::vector<std::string> new_keys = cells(keys, key_width_);
  std::vector<std::string> new_values = cells(values, value_width_);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < new_keys.size(); ++i) {
    const auto [entry, fresh] = index_.try_emplace(new_keys[i], keys_.size());
    if (fresh) {
      keys_.push_back(new_keys[i]);
      values_.push_back(std::move(new_values[i]));
    } else if (unique && values_[entry->second] != new_values[i]) {
      throw_failed_precondition(fmt::format("table '{}' has two values for one key", name_));
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
    throw_invalid_argument(fmt::format("table '{}': the default has shape {}, expected {}", name_,
                                       default_value.shape().to_string(), value_shape_.to_string()));
  }
  const std::string missing = cells(default_value, value_width_)[0];
  std::vector<std::string> out;
  const std::lock_guard lock(mutex_);
  for (const std::string& key : cells(keys, key_width_)) {
    const auto entry = index_.find(key);
    out.push_back(entry == index_.end() ? missing : values_[entry->second]);
  }
  return values_of(std::move(out), outer_shape(keys));
}

Tensors TableResource::export_all() const {
  const std::lock_guard lock(mutex_);
  const auto count = static_cast<std::int64_t>(keys_.size());
  std::vector<std::int64_t> dims{count};
  dims.insert(dims.end(), key_shape_.dims().begin(), key_shape_.dims().end());
  return {from_cells(keys_, key_, Shape(dims), key_width_), values_of(values_, {count})};
}

ExecutorOp find_table_operation(std::string_view op) {
  static const std::unordered_map<std::string_view, ExecutorOp> table = {
      {"HashTableV2", make_table},
      {"HashTable", make_table},
      {"MutableHashTableV2", make_table},
      {"MutableHashTable", make_table},
      {"AnonymousHashTable", make_table},
      {"AnonymousMutableHashTable", make_table},
      {"MutableHashTableOfTensors", make_table},
      {"MutableHashTableOfTensorsV2", make_table},
      {"AnonymousMutableHashTableOfTensors", make_table},
      {"MutableDenseHashTable", make_table},
      {"MutableDenseHashTableV2", make_table},
      {"AnonymousMutableDenseHashTable", make_table},
      {"LookupTableFindV2", find},
      {"LookupTableFind", find},
      {"InitializeTableV2", initialize},
      {"InitializeTable", initialize},
      {"LookupTableImportV2", import},
      {"LookupTableImport", import},
      {"LookupTableInsertV2", insert},
      {"LookupTableInsert", insert},
      {"LookupTableRemoveV2", remove},
      {"LookupTableSizeV2", size},
      {"LookupTableSize", size},
      {"LookupTableExportV2", export_all},
      {"LookupTableExport", export_all},
      {"InitializeTableFromTextFileV2", read_file},
      {"InitializeTableFromTextFile", read_file},
      {"ReadFile", read_asset},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::graph
