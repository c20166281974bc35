#include "lockstep/formats/idx.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/inflate_internal.h"

namespace lockstep::formats {
namespace {

// file     0 u8 | 0 u8 | type u8 | rank u8 | dimension u32 big-endian* | elements big-endian
DType type_of(unsigned code) {
  switch (code) {
    case 0x08: return DType::kUInt8;
    case 0x09: return DType::kInt8;
    case 0x0B: return DType::kInt16;
    case 0x0C: return DType::kInt32;
    case 0x0D: return DType::kFloat32;
    case 0x0E: return DType::kFloat64;
    default: return DType::kInvalid;
  }
}

// Of the first four bytes; the dtype is kInvalid where they are those of another format.
struct Magic {
  DType dtype;
  std::size_t rank;
};

Magic magic_of(std::span<const std::byte> bytes) {
  const auto magic = io::load_le<std::uint32_t>(bytes, 0).value_or(1);
  return {(magic & 0xFFFF) == 0 ? type_of((magic >> 16) & 0xFF) : DType::kInvalid, magic >> 24};
}

}  // namespace

bool looks_like_idx(std::span<const std::byte> bytes) { return magic_of(bytes).dtype != DType::kInvalid; }

TensorData read_idx(const std::string& path, io::FileSystem& files) {
  const auto file = files.map(path);
  auto bytes = file->bytes();
  std::string plain;
  if (io::looks_like_gzip(bytes)) {
    plain = io::inflate_file(bytes, io::Deflate::kGzip, path);
    bytes = io::as_bytes(plain);
  }
  const auto [dtype, rank] = magic_of(bytes);
  if (dtype == DType::kInvalid || bytes.size() < 4 + 4 * rank) {
    throw_data_loss(fmt::format("{}: not an IDX file (bad magic or cut short)", path));
  }
  Shape shape;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    shape.push_back(__builtin_bswap32(*io::load_le<std::uint32_t>(bytes, 4 + 4 * axis)));
  }
  const auto data = bytes.subspan(4 + 4 * rank);
  const std::size_t width = dtype_size(dtype);
  const auto count = shape.num_elements();
  if (!count || data.size() % width != 0 || static_cast<std::size_t>(*count) != data.size() / width) {
    throw_data_loss(fmt::format("{}: {} bytes do not fit shape {} of {} (truncated?)", path, data.size(),
                                shape.to_string(), dtype_name(dtype)));
  }
  std::span<std::byte> target;
  TensorData tensor = TensorData::allocate(dtype, shape, target);
  std::copy(data.begin(), data.end(), target.begin());
  io::swap_bytes(target, width);
  return tensor;
}

}  // namespace lockstep::formats
