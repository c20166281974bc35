// Writes HDF5 files as h5py and Keras do, front to back in one pass: the places of all metadata and
// data are planned first, so that nothing but metadata is ever held in memory, and the same content always
// gives the same bytes. Superblock 0, symbol-table groups, contiguous datasets: what every libhdf5
// since 1.8 reads. Source of the layout: "HDF5 File Format Specification", versions 1.1 and 3.0.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/formats/tensor_data.h"

namespace lockstep::formats {

// Takes the next bytes of a file that is written in order.
using ByteSink = std::function<void(std::span<const std::byte>)>;

// Gives a tensor when its bytes are about to be written; they may go away after the call's result is dropped.
using TensorSource = std::function<TensorData()>;

enum class Hdf5Charset { kAscii = 0, kUtf8 = 1 };

class Hdf5Writer {
 public:
  Hdf5Writer();
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  // Paths are "a/b/c" below the root, "" is the root; missing parents are created. All calls throw
  // InvalidArgument for an empty, "." or ".." part or a NUL, and AlreadyExists where an object of the other kind
  // exists.

  // Fine when the group is there.
  void add_group(std::string_view path);

  // Numbers, booleans (HDF5's enum of h5py) and bfloat16 (2-byte opaque and an attribute `dtype`, as Keras has it).
  // Throws InvalidArgument for other dtypes and for a shape that is not fully known.
  void add_dataset(std::string_view path, DType dtype, const Shape& shape, TensorSource source);
  void add_dataset(std::string_view path, TensorData tensor);

  // A scalar variable-length string, as h5py writes Python text (UTF-8) and bytes (ASCII).
  void set_attribute(std::string_view path, std::string_view name, std::string_view text,
                     Hdf5Charset charset = Hdf5Charset::kUtf8);
  // A one-dimensional array of variable-length strings; an empty one is a float64 array of length 0,
  // as numpy makes it. At most 4032 strings.
  void set_attribute(std::string_view path, std::string_view name, const std::vector<std::string>& texts,
                     Hdf5Charset charset = Hdf5Charset::kAscii);

  // The size of the file in bytes. Adding is over after the first call.
  std::uint64_t size();

  // Writes the file, exactly size() bytes in order. Throws InvalidArgument when a source gives a tensor of
  // another dtype or shape than it was added with.
  void write(const ByteSink& sink);

 private:
  struct Node;
  struct Plan;
  Node& node_at(std::string_view path, bool create);
  Node& new_node(std::string_view path);
  void build();

  std::unique_ptr<Node> root_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace lockstep::formats
