#include "lockstep/graph/tables_internal.h"

#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/table_resource_internal.h"

namespace lockstep::graph {
namespace {

using ops::TableResource;

constexpr std::uint64_t kMaxVocabulary = std::uint64_t{1} << 30;  // bytes of a text file

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
    auto table =
        std::make_shared<TableResource>(step.node->name, step.attr<DType>("key_dtype"), step.attr<DType>("value_dtype"),
                                        inputs.empty() ? Shape{} : inputs[0].shape(), value_shape, inputs);
    if (step.node->op.find("Mutable") == std::string::npos) table->require_values();
    return table;
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
  table.insert_cells(keys, std::move(values), true);
  return {};
}

}  // namespace

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
