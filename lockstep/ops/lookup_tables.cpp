#include "lockstep/ops/lookup_tables.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/image_functions.h"
#include "lockstep/ops/string_functions.h"
#include "lockstep/ops/table_internal.h"
#include "lockstep/ops/table_resource_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::lookup {
namespace {

// Keys in the table's width.
Tensor keys_of(const Tensor& keys, DType dtype) {
  if (!keys.defined()) throw_invalid_argument("a lookup table requires keys; found None");
  if (keys.dtype() == dtype) return keys;
  if (is_integer(dtype) && (keys.dtype() == DType::kInt64 || keys.dtype() == DType::kInt32))
    return ops::cast(keys, dtype);
  throw_invalid_argument(fmt::format("invalid keys of a lookup table: found {}, expected {}", dtype_name(keys.dtype()),
                                     dtype_name(dtype)));
}

Tensor known_keys(const Tensor& keys, DType dtype) {
  if (keys.defined() && !keys.is_value())
    throw_invalid_argument("a lookup table changes by keys whose values are known; found a symbolic tensor");
  return keys_of(keys, dtype);
}

Tensor as_dtype(const Tensor& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  if (value.dtype() == DType::kString || dtype == DType::kString) {
    throw_invalid_argument(fmt::format("invalid value of a lookup table: found {}, expected {}",
                                       dtype_name(value.dtype()), dtype_name(dtype)));
  }
  return ops::cast(value, dtype);
}

// A column of all lines as one tensor.
Tensor column_of(const std::string& file, const std::vector<std::string>& lines, std::int64_t index,
                 const std::string& delimiter, DType dtype) {
  const auto count = static_cast<std::int64_t>(lines.size());
  if (index == TextFileIndex::LINE_NUMBER) {
    std::vector<std::int64_t> numbers(lines.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    return ops::cast(Tensor::from_vector(numbers), dtype);
  }
  if (index < TextFileIndex::WHOLE_LINE)
    throw_invalid_argument(fmt::format("TextFileInitializer: invalid index {}: expected -2 or more", index));
  std::vector<std::string> values;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    std::string_view rest = lines[line];
    for (std::int64_t column = 0; column < index; ++column) {
      const std::size_t at = rest.find(delimiter);
      if (at == std::string_view::npos)
        throw_invalid_argument(
            fmt::format("{}: line {} has no column {} (the delimiter is '{}')", file, line + 1, index, delimiter));
      rest.remove_prefix(at + delimiter.size());
    }
    values.emplace_back(index < 0 ? rest : rest.substr(0, rest.find(delimiter)));
  }
  const Tensor texts = Tensor::strings(std::move(values), {count});
  return dtype == DType::kString ? texts : strings::to_number(texts, dtype);
}

}  // namespace

struct HashTable::State {
  State(DType key, DType value) : table(std::make_shared<ops::TableResource>("lookup_table", key, value)) {}
  std::shared_ptr<ops::TableResource> table;
  Tensor default_value;
};

KeyValueTensorInitializer TextFileInitializer(const std::string& filename, const TextFileKeywords& keywords) {
  if (keywords.delimiter.empty()) throw_invalid_argument("TextFileInitializer: the delimiter is empty");
  const std::string text(io::read_file(filename));
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    begin = end + 1;
  }
  return {column_of(filename, lines, keywords.key_index, keywords.delimiter, keywords.key_dtype),
          column_of(filename, lines, keywords.value_index, keywords.delimiter, keywords.value_dtype)};
}

HashTable::HashTable(DType key_dtype, DType value_dtype, const Tensor& default_value)
    : state_(std::make_shared<State>(key_dtype, value_dtype)) {
  if (key_dtype != DType::kString && key_dtype != DType::kInt64 && key_dtype != DType::kInt32) {
    throw_invalid_argument(fmt::format("invalid keys of a lookup table: found {}, expected string, int64 or int32",
                                       dtype_name(key_dtype)));
  }
  const Tensor none = value_dtype == DType::kString ? Tensor::strings({""}, {}) : Tensor::scalar(0);
  const Tensor value = as_dtype(default_value.defined() ? default_value : none, value_dtype);
  if (value.num_elements() != 1) throw_invalid_argument("default_value of a lookup table must be one value");
  state_->default_value = ops::reshape(value, Shape{});
}

HashTable::State& HashTable::state() const {
  if (!state_) {
    throw_failed_precondition(
        "a lookup table was used before it was made: assign StaticHashTable(initializer, default_value) to it");
  }
  return *state_;
}

// Of symbols the operation is recorded, with the table as it will be when the graph is written.
Tensor HashTable::lookup(const Tensor& keys) const {
  const Tensor known = keys_of(keys, key_dtype());
  if (known.is_value()) return state().table->find(known, state().default_value);
  const ops::Op& op = *ops::Table::instance().find("LookupTableFindV2");  // which only graphs run
  const Tensors inputs = {Tensor::resource(state().table), known, state().default_value};
  return known.symbol_value()->recorder().record(op, inputs, ops::complete_attrs(*op.signature, inputs, {}))[0];
}
std::int64_t HashTable::size() const { return state().table->size(); }
DType HashTable::key_dtype() const { return state().table->key_dtype(); }
DType HashTable::value_dtype() const { return state().table->value_dtype(); }

void HashTable::put(const Tensor& keys, const Tensor& values, bool unique) {
  const Tensor known = known_keys(keys, key_dtype()), rows = as_dtype(values, value_dtype());
  if (rows.num_elements() != known.num_elements()) {
    throw_invalid_argument(fmt::format("a lookup table requires a value for each key; found {} and {}",
                                       rows.num_elements(), known.num_elements()));
  }
  state().table->insert(known, ops::reshape(rows, known.shape()), unique);
}
void HashTable::erase(const Tensor& keys) { state().table->remove(known_keys(keys, key_dtype())); }
std::pair<Tensor, Tensor> HashTable::all() const {
  const Tensors entries = state().table->export_all();
  return {entries[0], entries[1]};
}

StaticHashTable::StaticHashTable(const KeyValueTensorInitializer& initializer, const FillValue& default_value)
    : HashTable(initializer.keys.dtype(), initializer.values.dtype(), default_value) {
  put(initializer.keys, initializer.values, true);
}

StaticVocabularyTable::StaticVocabularyTable(const KeyValueTensorInitializer& initializer, std::int64_t num_oov_buckets)
    : table_(initializer, FillValue(std::int64_t{-1})), num_oov_buckets_(num_oov_buckets) {
  if (table_.value_dtype() != DType::kInt64) {
    throw_invalid_argument(fmt::format("invalid values of a StaticVocabularyTable: found {}, expected int64",
                                       dtype_name(table_.value_dtype())));
  }
  if (num_oov_buckets < 0) throw_invalid_argument("num_oov_buckets must not be negative");
}

Tensor StaticVocabularyTable::lookup(const Tensor& keys) const {
  const Tensor ids = table_.lookup(keys);
  if (num_oov_buckets_ == 0) return ids;
  const Tensor words = keys.dtype() == DType::kString ? keys : strings::as_string(keys);
  return ops::where(ops::less(ids, 0), strings::to_hash_bucket_fast(words, num_oov_buckets_) + table_.size(), ids);
}

}  // namespace lockstep::lookup
