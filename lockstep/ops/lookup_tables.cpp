#include "lockstep/ops/lookup_tables.h"

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/string_functions.h"

namespace lockstep::lookup {
namespace {

// Keys as texts: integers in decimal.
std::vector<std::string> cells_of(const Tensor& keys, DType dtype) {
  if (!keys.defined() || !keys.is_value()) {
    throw_invalid_argument("a lookup table requires keys whose values are known; found a symbolic tensor");
  }
  const bool integers = dtype == DType::kInt64 || dtype == DType::kInt32;
  const bool fits = integers ? keys.dtype() == DType::kInt64 || keys.dtype() == DType::kInt32 : keys.dtype() == dtype;
  if (!fits) {
    throw_invalid_argument(fmt::format("invalid keys of a lookup table: found {}, expected {}",
                                       dtype_name(keys.dtype()), dtype_name(dtype)));
  }
  if (!integers) return keys.string_values();
  std::vector<std::string> cells;
  for (const std::int64_t key : ops::cast(keys, DType::kInt64).to_vector<std::int64_t>())
    cells.push_back(std::to_string(key));
  return cells;
}

Tensor vector_of(const Tensor& values) { return ops::reshape(values, {-1}); }

Tensor as_dtype(const Tensor& value, DType dtype) {
  if (value.dtype() == dtype) return value;
  if (value.dtype() == DType::kString || dtype == DType::kString) {
    throw_invalid_argument(fmt::format("invalid value of a lookup table: found {}, expected {}",
                                       dtype_name(value.dtype()), dtype_name(dtype)));
  }
  return ops::cast(value, dtype);
}

}  // namespace

struct HashTable::State {
  DType key_dtype, value_dtype;
  mutable std::mutex mutex;
  std::vector<std::string> keys;  // of each row
  std::unordered_map<std::string, std::int64_t> rows;
  Tensor values;  // of each row; the default value behind them
};

HashTable::HashTable(DType key_dtype, DType value_dtype, const Tensor& default_value)
    : state_(std::make_shared<State>()) {
  if (key_dtype != DType::kString && key_dtype != DType::kInt64 && key_dtype != DType::kInt32) {
    throw_invalid_argument(fmt::format("invalid keys of a lookup table: found {}, expected string, int64 or int32",
                                       dtype_name(key_dtype)));
  }
  state_->key_dtype = key_dtype;
  state_->value_dtype = value_dtype;
  const Tensor none =
      value_dtype == DType::kString ? Tensor::strings({""}, {1}) : ops::cast(Tensor::zeros({1}), value_dtype);
  state_->values = default_value.defined() ? vector_of(as_dtype(default_value, value_dtype)) : none;
  if (state_->values.num_elements() != 1) throw_invalid_argument("default_value of a lookup table must be one value");
}

Tensor HashTable::lookup(const Tensor& keys) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::int64_t> places;
  const std::int64_t last = state_->values.num_elements() - 1;
  for (const std::string& key : cells_of(keys, state_->key_dtype)) {
    const auto found = state_->rows.find(key);
    places.push_back(found == state_->rows.end() ? last : found->second);
  }
  return ops::gather(state_->values, Tensor::from_vector(places, keys.shape()));
}

std::int64_t HashTable::size() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<std::int64_t>(state_->rows.size());
}
DType HashTable::key_dtype() const { return state_->key_dtype; }
DType HashTable::value_dtype() const { return state_->value_dtype; }

void HashTable::put(const Tensor& keys, const Tensor& values, bool unique) {
  const std::vector<std::string> cells = cells_of(keys, state_->key_dtype);
  const Tensor rows = vector_of(as_dtype(values, state_->value_dtype));
  if (rows.num_elements() != static_cast<std::int64_t>(cells.size())) {
    throw_invalid_argument(fmt::format("a lookup table requires a value for each key; found {} and {}",
                                       rows.num_elements(), cells.size()));
  }
  const std::lock_guard lock(state_->mutex);
  const std::int64_t before = state_->values.num_elements() - 1;
  const Tensor with_default = ops::concat({rows, state_->values[{before, std::nullopt}]}, 0);
  const Tensor all = ops::concat({state_->values[{0, before}], with_default}, 0);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::int64_t row = before + static_cast<std::int64_t>(i);
    const auto [place, added] = state_->rows.emplace(cells[i], row);
    if (!added && unique && !ops::equal(all[place->second], all[row]).item<bool>()) {
      throw_invalid_argument(fmt::format("a lookup table has two values for key '{}'", cells[i]));
    }
    if (!unique) place->second = row;
    state_->keys.push_back(cells[i]);
  }
  state_->values = all;
}

void HashTable::erase(const Tensor& keys) {
  const std::lock_guard lock(state_->mutex);
  for (const std::string& key : cells_of(keys, state_->key_dtype)) state_->rows.erase(key);
}

std::pair<Tensor, Tensor> HashTable::all() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> texts;
  std::vector<std::int64_t> numbers, places;
  for (std::size_t i = 0; i < state_->keys.size(); ++i) {
    const auto found = state_->rows.find(state_->keys[i]);
    if (found == state_->rows.end() || found->second != static_cast<std::int64_t>(i)) continue;
    places.push_back(found->second);
    if (state_->key_dtype == DType::kString) {
      texts.push_back(state_->keys[i]);
    } else {
      numbers.push_back(std::stoll(state_->keys[i]));
    }
  }
  const Shape shape{static_cast<std::int64_t>(places.size())};
  const Tensor keys = state_->key_dtype == DType::kString
                          ? Tensor::strings(texts, shape)
                          : ops::cast(Tensor::from_vector(numbers, shape), state_->key_dtype);
  return {keys, ops::gather(state_->values, Tensor::from_vector(places, shape))};
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
