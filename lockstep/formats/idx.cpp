#include "lockstep/formats/idx.h"

#include <zlib.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/bytes_internal.h"

namespace lockstep::formats {
namespace {

// file     0 u8 | 0 u8 | type u8 | rank u8 | dimension u32 big-endian* | elements big-endian
constexpr std::uint16_t kGzipMagic = 0x8B1F;
constexpr std::uint64_t kInflateRatio = 1100;  // deflate cannot do better

std::string gunzip(std::span<const std::byte> in, const std::string& path) {
  // The last four bytes say the size, modulo 4 GiB; they are a hint, not a promise.
  const std::uint64_t hint =
      io::load_le<std::uint32_t>(in, in.size() - std::min<std::size_t>(4, in.size())).value_or(0);
  const std::uint64_t limit = kInflateRatio * in.size() + 4096;
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
    throw_resource_exhausted(fmt::format("{}: no memory to inflate", path));
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closing(&stream, inflateEnd);
  std::string out(std::min(hint, limit) + 1, '\0');
  std::size_t produced = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (produced == out.size()) {
      if (out.size() > limit) break;
      out.resize(out.size() * 2);
    }
    const auto part = std::min<std::size_t>(in.size(), UINT_MAX);
    const auto room = std::min<std::size_t>(out.size() - produced, UINT_MAX);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = static_cast<uInt>(part);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + produced);
    stream.avail_out = static_cast<uInt>(room);
    status = inflate(&stream, Z_NO_FLUSH);
    in = in.subspan(part - stream.avail_in);
    produced += room - stream.avail_out;
  }
  if (status != Z_STREAM_END || !in.empty()) throw_data_loss(fmt::format("{}: a damaged or truncated gzip file", path));
  out.resize(produced);
  return out;
}

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

}  // namespace

TensorData read_idx(const std::string& path, io::FileSystem& files) {
  const auto file = files.map(path);
  auto bytes = file->bytes();
  std::string plain;
  if (io::load_le<std::uint16_t>(bytes, 0) == kGzipMagic) {
    plain = gunzip(bytes, path);
    bytes = io::as_bytes(plain);
  }
  const auto magic = io::load_le<std::uint32_t>(bytes, 0).value_or(1);
  const DType dtype = type_of((magic >> 16) & 0xFF);
  const std::size_t rank = magic >> 24;
  if ((magic & 0xFFFF) != 0 || dtype == DType::kInvalid || bytes.size() < 4 + 4 * rank) {
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
  for (auto rest = target; width > 1 && !rest.empty(); rest = rest.subspan(width)) {
    std::reverse(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(width));
  }
  return tensor;
}

}  // namespace lockstep::formats
