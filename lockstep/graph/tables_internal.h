// Lookup tables: HashTableV2, MutableHashTableV2 and what works on them. Internal to lockstep/graph.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/graph/plan_internal.h"

namespace lockstep::graph {

// Keys to values, each a scalar of the table's types. Thread-safe.
class TableResource : public Resource {
 public:
  TableResource(std::string name, DType key, DType value) : name_(std::move(name)), key_(key), value_(value) {}

  std::string resource_name() const override { return name_; }
  DType key_dtype() const { return key_; }
  DType value_dtype() const { return value_; }

  std::int64_t size() const;
  // `keys` and `values` have equal shapes. With `unique`, a key that is there with another value is an error.
  void insert(const Tensor& keys, const Tensor& values, bool unique);
  void clear();
  void remove(const Tensor& keys);
  Tensor find(const Tensor& keys, const Tensor& default_value) const;
  Tensors export_all() const;  // keys, values in the order of insertion

 private:
  void check(const Tensor& keys, const Tensor& values) const;

  std::string name_;
  DType key_, value_;
  mutable std::mutex mutex_;
  std::vector<std::string> keys_, values_;  // cells; see tables.cpp
  std::unordered_map<std::string, std::size_t> index_;
};

// Null for other operations.
Special find_table_operation(std::string_view op);

}  // namespace lockstep::graph
