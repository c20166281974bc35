// A tensor as formats exchange it: a dtype, a shape, and bytes in host memory. No LibTorch.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/base/shape.h"

namespace lockstep::formats {

// Dense little-endian row-major elements, or a list of byte strings when dtype is kString.
// Copies share the bytes; `owner` keeps the memory (a buffer or a file mapping) alive.
struct TensorData {
  DType dtype = DType::kInvalid;
  Shape shape;                       // fully known
  std::span<const std::byte> bytes;  // empty when dtype is kString
  std::vector<std::string> strings;  // row-major, only when dtype is kString
  std::shared_ptr<const void> owner;

  // A tensor over freshly allocated, uninitialised memory that `mutable_bytes` gives access to.
  static TensorData allocate(DType dtype, Shape shape, std::span<std::byte>& mutable_bytes);
  // A tensor over a copy of `bytes`.
  static TensorData copy_of(DType dtype, Shape shape, std::span<const std::byte> bytes);
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape shape;
};

// Tensors in the order in which they are written.
using NamedTensors = std::vector<std::pair<std::string, TensorData>>;

// The reader interface of all formats: a list of names, and one tensor at a time.
class TensorReader {
 public:
  virtual ~TensorReader() = default;
  // In the order of the file (sorted by name where the format sorts).
  virtual const std::vector<TensorInfo>& list() const = 0;
  // Reads or maps one tensor, and checks its checksum where the format has one.
  // Throws NotFound for an unknown name, DataLoss for damaged bytes.
  virtual TensorData read(const std::string& name) const = 0;
};

// The writer interface of all formats. Nothing is visible at the target before finish() returns;
// a writer that is destroyed unfinished leaves no trace.
class TensorWriter {
 public:
  virtual ~TensorWriter() = default;
  // Throws AlreadyExists for a name that was added before, InvalidArgument for a dtype the format lacks.
  virtual void add(const std::string& name, const TensorData& tensor) = 0;
  // Commits: data synced, then renamed, then the folder synced.
  virtual void finish() = 0;
};

}  // namespace lockstep::formats
