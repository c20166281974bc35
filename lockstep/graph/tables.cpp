#include "lockstep/graph/tables_internal.h"

#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"

namespace lockstep::graph {
namespace {

constexpr std::uint64_t kMaxVocabulary = std::uint64_t{1} << 30;  // bytes of a text file

// One string for each element: itself, or the bytes of a number.
std::vector<std::string> cells(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return tensor.string_values();
  const formats::TensorData data = tensor.to_data();
  const std::size_t size = dtype_size(tensor.dtype());
  std::vector<std::string> out;
  for (std::size_t at = 0; at + size <= data.bytes.size(); at += size) {
    out.emplace_back(reinterpret_cast<const char*>(data.bytes.data()) + at, size);
  }
  return out;
}

Tensor from_cells(std::vector<std::string> values, DType dtype, const Shape& shape) {
  if (dtype == DType::kString) return Tensor::strings(std::move(values), shape);
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

Tensors make_table(const Step& step, const Tensors&, RunContext& context) {
  const auto make = [&]() -> std::shared_ptr<Resource> {
    return std::make_shared<TableResource>(step.node->name, step.attr<DType>("key_dtype"),
                                           step.attr<DType>("value_dtype"));
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
  table_of(inputs[0]).clear();
  table_of(inputs[0]).insert(inputs[1], inputs[2], false);
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
  table.insert(from_cells(std::move(keys), table.key_dtype(), shape),
               from_cells(std::move(values), table.value_dtype(), shape), true);
  return {};
}

}  // namespace

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
  if (!(keys.shape() == values.shape())) {
    throw_invalid_argument(fmt::format("table '{}': keys have shape {}, values {}", name_, keys.shape().to_string(),
                                       values.shape().to_string()));
  }
  const std::vector<std::string> new_keys = cells(keys);
  std::vector<std::string> new_values = cells(values);
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
  for (const std::string& key : cells(keys)) {
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
  if (default_value.num_elements() != 1)
    throw_invalid_argument(fmt::format("table '{}': the default must be a scalar", name_));
  const std::string missing = cells(default_value)[0];
  std::vector<std::string> out;
  const std::lock_guard lock(mutex_);
  for (const std::string& key : cells(keys)) {
    const auto entry = index_.find(key);
    out.push_back(entry == index_.end() ? missing : values_[entry->second]);
  }
  return from_cells(std::move(out), value_, keys.shape());
}

Tensors TableResource::export_all() const {
  const std::lock_guard lock(mutex_);
  const Shape shape{static_cast<std::int64_t>(keys_.size())};
  return {from_cells(keys_, key_, shape), from_cells(values_, value_, shape)};
}

Special find_table_operation(std::string_view op) {
  static const std::unordered_map<std::string_view, Special> table = {
      {"HashTableV2", make_table},
      {"HashTable", make_table},
      {"MutableHashTableV2", make_table},
      {"MutableHashTable", make_table},
      {"AnonymousHashTable", make_table},
      {"AnonymousMutableHashTable", make_table},
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
