// Lookup tables: the resource of HashTableV2, MutableHashTableV2 and their like, and of lookup::HashTable.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// The table of lookup operations: keys to values of the table's types: scalars, or tensors of one shape each.
// Thread-safe.
class TableResource : public Resource {
 public:
  // `absent`: keys that no entry has; a dense table marks its free places with them.
  TableResource(std::string name, DType key, DType value, Shape key_shape = {}, Shape value_shape = {},
                const Tensors& absent = {});

  std::string resource_name() const override { return name_; }
  DType key_dtype() const { return key_; }
  DType value_dtype() const { return value_; }

  // Until values are given, lookups are a FailedPrecondition.
  void require_values();

  std::int64_t size() const;
  // `keys` is a tensor of keys, `values` one of as many values. With `unique`, a key that is there with another value
  // is a FailedPrecondition.
  void insert(const Tensor& keys, const Tensor& values, bool unique);
  // The same of cells: the bytes of each key and value.
  void insert_cells(const std::vector<std::string>& keys, std::vector<std::string> values, bool unique);
  // Replaces all entries by those that were exported; those of absent keys are left out.
  void restore(const Tensor& keys, const Tensor& values);
  void clear();
  void remove(const Tensor& keys);
  Tensor find(const Tensor& keys, const Tensor& default_value) const;
  Tensors export_all() const;  // keys, values in the order of insertion

 private:
  void check(const Tensor& keys, const Tensor& values) const;
  // The shape of as many keys: the axes of `keys` in front of those of a key.
  std::vector<std::int64_t> outer_shape(const Tensor& keys) const;
  Tensor values_of(std::vector<std::string> cells, std::vector<std::int64_t> outer) const;

  void check_values() const;

  // For errors.
  std::string who() const;
  std::string key_text(const std::string& cell) const;

  std::string name_;  // may be empty
  DType key_, value_;
  Shape key_shape_, value_shape_;
  std::int64_t key_width_, value_width_;  // elements of each
  mutable std::mutex mutex_;
  bool has_values_ = true;
  std::vector<std::string> absent_;
  std::vector<std::string> keys_, values_;  // cells: the bytes of each
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace lockstep::ops
