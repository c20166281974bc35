// IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// One tensor of uint8, int8, int16, int32, float32 or float64. Throws DataLoss when damaged,
// truncated or not IDX.
TensorData read_idx(const std::string& path, io::FileSystem& files = io::posix_file_system());

// Whether `bytes`, unpacked, begin as such a file does.
bool looks_like_idx(std::span<const std::byte> bytes);

}  // namespace lockstep::formats
