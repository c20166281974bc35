// Reads HDF5 files as h5py and Keras write them, without libhdf5: no number of the file is believed before
// it is checked against the file's size, nothing outside the file is opened, and contiguous data is used
// where it lies. Superblocks 0 to 3, object headers 1 and 2, groups with symbol tables or with links in
// their header, datasets stored contiguously, compactly or in chunks (version-1 B-trees, single chunks, implicit
// and fixed-array indexes) with deflate, shuffle, fletcher32 and lzf, attributes of numbers and strings.
// Soft and external links, external storage and virtual datasets are listed but never followed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/formats/tensor_data.h"

namespace lockstep::formats {

struct Hdf5Attribute {
  std::string name;
  TensorData value;  // kString for strings; kInvalid for a type we do not read
};

// A group or a dataset of the file's tree. A dataset that is reached by several hard links is there several times.
struct Hdf5Node {
  enum class Kind { kGroup, kDataset, kLink };
  std::string name;
  Kind kind = Kind::kGroup;
  std::vector<Hdf5Node> children;         // sorted by name (bytes)
  std::vector<Hdf5Attribute> attributes;  // in the order of the file
  DType dtype = DType::kInvalid;          // of a dataset; kInvalid when its values cannot be read
  Shape shape;
  std::string unreadable_reason;  // why a dataset or a link cannot be read; empty when it can
  bool external = false;          // its values, or the target of the link, are in another file
  std::uint64_t storage = 0;      // the reader's own index of the dataset

  const Hdf5Node* child(std::string_view child_name) const;
  const Hdf5Attribute* attribute(std::string_view attribute_name) const;
};

class Hdf5File {
 public:
  // Parses all metadata of `image`, which `owner` keeps alive; `what` names it in errors.
  // Throws DataLoss for damaged bytes, Unimplemented for rare features of the format.
  Hdf5File(std::span<const std::byte> image, std::shared_ptr<const void> owner, std::string what);
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;

  // True when the bytes begin as an HDF5 file does.
  static bool recognise(std::span<const std::byte> image);
  // Whether the root group has an attribute of this name. Reads the root's header only.
  static bool has_root_attribute(std::span<const std::byte> image, std::string_view name, std::string what);

  const Hdf5Node& root() const;
  // "a/b/c" below the root. Null when it is not there.
  const Hdf5Node* find(std::string_view path) const;

  // The values of a dataset in the machine's byte order. Contiguous little-endian data that is aligned to its
  // element size is not copied. Throws InvalidArgument for a node that cannot be read (with its unreadable_reason).
  TensorData read(const Hdf5Node& dataset) const;
  // The same into memory of the caller's, of exactly the size of the tensor.
  void read_into(const Hdf5Node& dataset, std::span<std::byte> target) const;

  const std::string& what() const;

 private:
  class Parser;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::formats
