// The location of a dataset's values: the fill value and data layout messages (HDF5 File Format Specification,
// IV.A.2.f, i).
#include <algorithm>

#include "lockstep/formats/hdf5_image_internal.h"

namespace lockstep::formats::hdf5 {
namespace {

void parse_chunk_extents(const Image& image, Fields& fields, int rank, int width, Storage& storage) {
  storage.layout = Storage::Layout::kChunked;
  if (rank != static_cast<int>(storage.space.dims.size()) + 1 || rank < 2) {
    image.damaged(fields.offset(), "chunks of another rank than their dataset");
  }
  std::uint64_t size = storage.type.size;
  for (int i = 0; i + 1 < rank; ++i) {
    const std::uint64_t extent = fields.unsigned_field(width);
    if (extent == 0 || __builtin_mul_overflow(size, extent, &size) || size >> 32 != 0) {
      image.damaged(fields.offset(), "a chunk of no bytes or of 4 GiB and more");
    }
    storage.chunk.push_back(extent);
  }
  if (fields.unsigned_field(width) != storage.type.size)
    image.damaged(fields.offset(), "chunks of another element size");
}

std::string parse_chunked(const Image& image, Fields& fields, int version, Storage& storage) {
  if (version == 3) {
    const int rank = fields.u8();
    storage.address = fields.address();
    parse_chunk_extents(image, fields, rank, 4, storage);
    return "";
  }
  const int flags = fields.u8();
  const int rank = fields.u8();
  const int width = fields.u8();
  if (width < 1 || width > 8) image.damaged(fields.offset(), "chunk extents of a strange width");
  parse_chunk_extents(image, fields, rank, width, storage);
  storage.index = fields.u8();
  if (storage.index == 1) {
    if ((flags & 2) != 0) {
      storage.single_size = fields.length();
      storage.single_mask = fields.u32();
    }
  } else if (storage.index == 3) {
    fields.skip(1);
  } else if (storage.index != 2) {
    return "its chunks are indexed for growing (written with maxshape and libver='latest')";
  }
  storage.address = fields.address();
  return "";
}

}  // namespace

bool fill_is_zero(const Image& image, std::span<const std::byte> body) {
  Fields fields(image, body);
  const int version = fields.u8();
  if (version < 1 || version > 3) image.damaged(fields.offset(), fmt::format("a fill value of version {}", version));
  std::uint64_t size = 0;
  if (version < 3) {
    fields.skip(2);
    if (fields.u8() != 0 && fields.left() >= 4) size = fields.u32();
  } else {
    constexpr int kUndefined = 0x10, kGiven = 0x20, kUnknown = 0xc0;
    const int flags = fields.u8();
    if ((flags & kUnknown) != 0 || (flags & (kUndefined | kGiven)) == (kUndefined | kGiven))
      image.damaged(fields.offset(), fmt::format("a fill value with the flags {:#x}", flags));
    if ((flags & kGiven) != 0) size = fields.u32();
  }
  if (size > 0x7fffffff) size = 0;
  auto value = fields.take(size);
  return std::all_of(value.begin(), value.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::string parse_layout(const Image& image, std::span<const std::byte> body, Storage& storage) {
  Fields fields(image, body);
  const int version = fields.u8();
  if (version < 1 || version > 5) image.damaged(fields.offset(), fmt::format("a data layout of version {}", version));
  if (version < 3) {
    const int rank = fields.u8();
    const int kind = fields.u8();
    fields.skip(5);
    if (kind != 0) storage.address = fields.address();
    if (kind == 2) {
      parse_chunk_extents(image, fields, rank, 4, storage);
      return "";
    }
    storage.size = 1;
    for (int i = 0; i < rank; ++i) {
      if (__builtin_mul_overflow(storage.size, fields.u32(), &storage.size))
        image.damaged(fields.offset(), "a layout too large");
    }
    storage.layout = kind == 0 ? Storage::Layout::kCompact : Storage::Layout::kContiguous;
    if (kind == 0) {
      storage.size = fields.u32();
      storage.compact = fields.take(storage.size);
    }
    return "";
  }
  switch (fields.u8()) {
    case 0:
      storage.layout = Storage::Layout::kCompact;
      storage.size = fields.u16();
      storage.compact = fields.take(storage.size);
      break;
    case 1:
      storage.address = fields.address();
      storage.size = fields.length();
      break;
    case 2: return parse_chunked(image, fields, version, storage);
    case 3: storage.is_virtual = true; return "it is a virtual dataset, whose values are stored elsewhere";
    default: image.damaged(fields.offset(), "a data layout of an unknown class");
  }
  return "";
}

}  // namespace lockstep::formats::hdf5
