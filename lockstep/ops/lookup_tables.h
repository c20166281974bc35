// tf.lookup: tables from keys to values.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/ragged_tensor.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::lookup {

// The entries of a table: keys and as many values.
struct KeyValueTensorInitializer {
  struct Arguments {
    FieldNamesOnly names_only = {};
    Tensor keys = {};
    Tensor values = {};
    DTypeLike key_dtype = DType::kInvalid;  // default: those of the tensors
    DTypeLike value_dtype = DType::kInvalid;
  };
  KeyValueTensorInitializer(const Tensor& keys, const Tensor& values) : keys(keys), values(values) {}
  // tf.int64 of {0, 1}: KeyValueTensorInitializer(words, {0, 1}, string, int64).
  KeyValueTensorInitializer(const Tensor& keys, const Tensor& values, DTypeLike key_dtype, DTypeLike value_dtype)
      : keys(of_dtype(keys, key_dtype)), values(of_dtype(values, value_dtype)) {}
  KeyValueTensorInitializer(const Arguments& o)
      : KeyValueTensorInitializer(o.keys, o.values, o.key_dtype, o.value_dtype) {}
  Tensor keys, values;

 private:
  static Tensor of_dtype(const Tensor& x, DTypeLike dtype) {
    return dtype == DType::kInvalid || dtype == x.dtype() ? x : x.astype(static_cast<DType>(dtype));
  }
};
// The columns of a text file.
struct TextFileIndex {
  static constexpr std::int64_t WHOLE_LINE = -2;
  static constexpr std::int64_t LINE_NUMBER = -1;
};
struct TextFileKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike key_dtype = DType::kString;
  std::int64_t key_index = TextFileIndex::WHOLE_LINE;
  DTypeLike value_dtype = DType::kInt64;
  std::int64_t value_index = TextFileIndex::LINE_NUMBER;
  std::string delimiter = "\t";
};
// tf.lookup.TextFileInitializer: an entry for each line. Throws InvalidArgument for a line without such a column or
// with text where a number is expected; NotFound without a file.
KeyValueTensorInitializer TextFileInitializer(const std::string& filename, const TextFileKeywords& keywords = {});
inline KeyValueTensorInitializer TextFileInitializer(const std::string& filename, DTypeLike key_dtype,
                                                     std::int64_t key_index, DTypeLike value_dtype,
                                                     std::int64_t value_index, const TextFileKeywords& keywords = {}) {
  return TextFileInitializer(filename, {{}, key_dtype, key_index, value_dtype, value_index, keywords.delimiter});
}
struct DefaultValueKeywords {
  FieldNamesOnly names_only = {};
  FillValue default_value = {};
};

// Keys are strings or integers, values scalars of any dtype. Copies share the entries. Throw InvalidArgument for keys
// of another dtype. In functions that are traced, lookup() of symbols is recorded; a SavedModel then has the entries.
class HashTable {
 public:
  HashTable() = default;  // a member that is made later; until then its use throws FailedPrecondition
  // The values in the shape of the keys; the default value for unknown keys.
  Tensor lookup(const Tensor& keys) const;
  RaggedTensor lookup(const RaggedTensor& keys) const { return keys.with_flat_values(lookup(keys.flat_values())); }
  // Of a structure that is one tensor: the inputs of a layer's call().
  template <std::same_as<Nested<Tensor>> Keys>
  Tensor lookup(const Keys& keys) const {
    return lookup(keys.leaf());
  }
  template <typename Keys>
  requires std::is_convertible_v<const Keys&, Tensor> Tensor operator[](const Keys& keys) const { return lookup(keys); }
  std::int64_t size() const;
  DType key_dtype() const;
  DType value_dtype() const;
  // The same address for all copies.
  const void* entries() const { return state_.get(); }

 protected:
  HashTable(DType key_dtype, DType value_dtype, const Tensor& default_value);
  // A key that is there with another value is an error if `unique`, else it gets the new value.
  void put(const Tensor& keys, const Tensor& values, bool unique);
  void erase(const Tensor& keys);
  std::pair<Tensor, Tensor> all() const;

 private:
  struct State;
  State& state() const;
  std::shared_ptr<State> state_;
};

// Throws FailedPrecondition for a key with two values, InvalidArgument for numbers of keys and values that differ.
class StaticHashTable : public HashTable {
 public:
  StaticHashTable() = default;
  StaticHashTable(const KeyValueTensorInitializer& initializer, const FillValue& default_value);
  StaticHashTable(const KeyValueTensorInitializer& initializer, const DefaultValueKeywords& keywords)
      : StaticHashTable(initializer, keywords.default_value) {}
};

class MutableHashTable : public HashTable {
 public:
  struct Arguments {
    FieldNamesOnly names_only = {};
    DTypeLike key_dtype = DType::kString;
    DTypeLike value_dtype = DType::kInt64;
    FillValue default_value = {};
  };
  MutableHashTable() = default;
  MutableHashTable(const Arguments& o) : HashTable(o.key_dtype, o.value_dtype, o.default_value) {}
  MutableHashTable(DType key_dtype, DType value_dtype, const FillValue& default_value)
      : HashTable(key_dtype, value_dtype, default_value) {}
  void insert(const Tensor& keys, const Tensor& values) { put(keys, values, false); }
  void remove(const Tensor& keys) { erase(keys); }
  // The keys and their values, which tf.lookup calls export().
  std::pair<Tensor, Tensor> export_all() const { return all(); }
  // These instead of all entries.
  void import_all(const Tensor& keys, const Tensor& values) {
    remove(all().first);
    insert(keys, values);
  }
};
namespace experimental {
using lookup::MutableHashTable;
}

struct BucketsKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num_oov_buckets = 0;
};
// Ids of words; unknown ones get an id behind them by their hash. Without buckets: -1.
class StaticVocabularyTable {
 public:
  StaticVocabularyTable() = default;
  StaticVocabularyTable(const KeyValueTensorInitializer& initializer, std::int64_t num_oov_buckets);
  StaticVocabularyTable(const KeyValueTensorInitializer& initializer, const BucketsKeywords& keywords)
      : StaticVocabularyTable(initializer, keywords.num_oov_buckets) {}
  Tensor lookup(const Tensor& keys) const;
  RaggedTensor lookup(const RaggedTensor& keys) const { return keys.with_flat_values(lookup(keys.flat_values())); }
  template <std::same_as<Nested<Tensor>> Keys>
  Tensor lookup(const Keys& keys) const {
    return lookup(keys.leaf());
  }
  template <typename Keys>
  requires std::is_convertible_v<const Keys&, Tensor> Tensor operator[](const Keys& keys) const { return lookup(keys); }
  std::int64_t size() const { return table_.size() + num_oov_buckets_; }

 private:
  StaticHashTable table_;
  std::int64_t num_oov_buckets_ = 0;
};

template <typename T>
concept Table = std::derived_from<T, HashTable> || std::same_as<T, StaticVocabularyTable>;

}  // namespace lockstep::lookup
