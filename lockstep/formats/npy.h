// NumPy's .npy and .npz files.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/zip.h"

namespace lockstep::formats {

// Parses a .npy image of version 1, 2 or 3: bool, integers, float16/32/64, complex, byte strings
// ("S", which become kString with trailing NULs dropped, as NumPy shows them) and text ("U", as UTF-8), of either
// byte order, C or Fortran order. Throws DataLoss when damaged or of another size than its header declares,
// Unimplemented for objects (pickles), records and other types. `what` names it in errors. Nothing is
// copied when the elements are aligned, little-endian and in C order; `owner` keeps `bytes` alive.
TensorData parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& what);

// Dtype and shape alone.
TensorInfo parse_npy_header(std::span<const std::byte> bytes, const std::string& what);

// The text before the elements, as NumPy writes it. Strings are padded to the longest ("S").
// Throws InvalidArgument for dtypes that NumPy has not (bfloat16, float8, quantized).
std::string npy_header(const TensorData& tensor);

TensorData read_npy(const std::string& path, io::FileSystem& files = io::posix_file_system());
void write_npy(const std::string& path, const TensorData& tensor, io::FileSystem& files = io::posix_file_system());

// True when the bytes begin as .npy does.
bool looks_like_npy(std::span<const std::byte> bytes);

// The arrays of an .npz, named without ".npy", in the order of the archive.
class NpzReader final : public TensorReader {
 public:
  explicit NpzReader(const std::string& path, io::FileSystem& files = io::posix_file_system());
  const std::vector<TensorInfo>& list() const override { return list_; }
  TensorData read(const std::string& name) const override;

 private:
  io::ZipReader zip_;
  std::vector<TensorInfo> list_;
};

// Writes as numpy.savez does: stored members, so that readers can map them.
class NpzWriter final : public TensorWriter {
 public:
  explicit NpzWriter(std::string path, io::FileSystem& files = io::posix_file_system());
  void add(const std::string& name, const TensorData& tensor) override;
  void finish() override;

 private:
  io::ZipWriter zip_;
};

}  // namespace lockstep::formats
