// numpy.load, numpy.save and numpy.savez.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/list.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::np {

// The arrays of a file, in its order.
//
//   auto data = np::load("data.npz");
//   Tensor x = data["x"];
//   Tensor y = np::load("y.npy");
class Arrays {
 public:
  using Entry = std::pair<std::string, Tensor>;
  explicit Arrays(std::vector<Entry> entries, bool single = false) : entries_(std::move(entries)), single_(single) {}

  // Throws NotFound, naming those that exist.
  const Tensor& operator[](std::string_view name) const;
  bool contains(std::string_view name) const;
  List<std::string> files() const;  // the names
  List<std::string> keys() const { return files(); }
  std::size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  // The array of an .npy. Throws FailedPrecondition for an .npz.
  operator Tensor() const;

 private:
  std::vector<Entry> entries_;
  bool single_;
};

// Reads an .npy or .npz with the dtypes of its arrays. Throws NotFound without a file, InvalidArgument for another
// format, DataLoss for damage, Unimplemented for arrays of objects and records.
Arrays load(const std::string& path);

// The names get the suffix .npy or .npz where they have none. Files are replaced in one step. Throw InvalidArgument for
// dtypes that NumPy has not (bfloat16).
void save(const std::string& path, const Tensor& array);
// By name, or "arr_0", "arr_1", …
void savez(const std::string& path, std::initializer_list<Arrays::Entry> arrays);
void savez(const std::string& path, const std::vector<Tensor>& arrays);

}  // namespace lockstep::np
