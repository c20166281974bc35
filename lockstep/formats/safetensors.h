// safetensors files: a JSON header, then the bytes of the tensors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// Reads strictly: header of at most 100 MB, every byte after it covered by exactly one tensor, sizes
// that fit dtype and shape. Throws DataLoss otherwise. Tensors come sorted by name and are not copied when aligned.
class SafetensorsReader final : public TensorReader {
 public:
  explicit SafetensorsReader(const std::string& path, io::FileSystem& files = io::posix_file_system());
  const std::vector<TensorInfo>& list() const override { return list_; }
  TensorData read(const std::string& name) const override;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  struct Place {
    std::size_t info;
    std::size_t begin;
    std::size_t end;
  };
  std::string path_;
  std::shared_ptr<const io::FileBytes> file_;
  std::vector<TensorInfo> list_;
  std::unordered_map<std::string, Place> places_;
  std::map<std::string, std::string> metadata_;
};

// Same tensors and metadata, same bytes, in any order of add(): by dtype, then by name, laid out
// as the format's own writer does. Holds a reference to each tensor's bytes until finish().
// Throws InvalidArgument for strings and complex numbers, which the format has not.
class SafetensorsWriter final : public TensorWriter {
 public:
  explicit SafetensorsWriter(std::string path, std::map<std::string, std::string> metadata = {},
                             io::FileSystem& files = io::posix_file_system());
  void add(const std::string& name, const TensorData& tensor) override;
  void finish() override;

 private:
  std::string path_;
  std::map<std::string, std::string> metadata_;
  io::FileSystem& files_;
  std::map<std::string, TensorData> tensors_;
};

}  // namespace lockstep::formats
