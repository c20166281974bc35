#include <algorithm>
#include <cstring>

#include "lockstep/formats/hdf5_image_internal.h"
#include "lockstep/io/inflate_internal.h"

namespace lockstep::formats::hdf5 {
namespace {

constexpr std::uint16_t kDeflate = 1;
constexpr std::uint16_t kShuffle = 2;
constexpr std::uint16_t kFletcher32 = 3;
constexpr std::uint16_t kLzf = 32000;
constexpr std::uint64_t kUnwritten = std::uint64_t{64} << 20;  // bytes of a dataset that may be missing

using Bytes = std::vector<std::byte>;

Bytes inflate(const Image& image, std::span<const std::byte> input, std::uint64_t limit) {
  Bytes output(limit);
  const auto result = io::inflate_into(output, input, io::Deflate::kZlib, image.what);
  if (!result) throw_data_loss(fmt::format("{}: a compressed chunk of an HDF5 dataset is damaged", image.what));
  output.resize(result->size);
  return output;
}

// LibLZF's format: a byte below 32 starts that many literals plus one, any other a copy from before.
Bytes unlzf(const Image& image, std::span<const std::byte> input, std::uint64_t limit) {
  Bytes output;
  output.reserve(limit);
  Fields fields(image, input);
  auto fail = [&] { throw_data_loss(fmt::format("{}: an lzf chunk of an HDF5 dataset is damaged", image.what)); };
  while (fields.left() > 0) {
    const unsigned control = fields.u8();
    if (control < 32) {
      if (fields.left() < control + 1 || output.size() + control + 1 > limit) fail();
      auto literals = fields.take(control + 1);
      output.insert(output.end(), literals.begin(), literals.end());
      continue;
    }
    std::size_t length = (control >> 5) + 2;
    if (length == 9) length += fields.left() > 0 ? fields.u8() : 0u;
    if (fields.left() == 0) fail();
    const std::size_t distance = ((control & 31) << 8 | fields.u8()) + 1;
    if (distance > output.size() || output.size() + length > limit) fail();
    for (std::size_t i = 0; i < length; ++i) output.push_back(output[output.size() - distance]);
  }
  return output;
}

Bytes unshuffle(std::span<const std::byte> input, std::size_t width) {
  Bytes output(input.begin(), input.end());
  const std::size_t count = width == 0 ? 0 : input.size() / width;
  if (count == 0) return output;  // the width is the file's: up to 2^32
  for (std::size_t byte = 0; byte < width; ++byte) {
    for (std::size_t i = 0; i < count; ++i) output[i * width + byte] = input[byte * count + i];
  }
  return output;
}

Bytes strip_fletcher(const Image& image, std::span<const std::byte> input) {
  if (input.size() < 4) throw_data_loss(fmt::format("{}: a chunk is too short for its checksum", image.what));
  auto data = input.first(input.size() - 4);
  const auto stored = Fields(image, input.last(4)).u32();
  const auto computed = fletcher32(data);
  // Old libraries on little-endian machines stored the halves with their bytes swapped.
  const std::uint32_t swapped = ((computed & 0x00ff00ffu) << 8) | ((computed >> 8) & 0x00ff00ffu);
  if (stored != computed && stored != swapped) {
    throw_data_loss(fmt::format("{}: a chunk of an HDF5 dataset does not match its Fletcher-32 checksum", image.what));
  }
  return Bytes(data.begin(), data.end());
}

struct Chunk {
  std::uint64_t index = 0;  // in row-major order
  std::uint64_t address = 0;
  std::uint64_t stored = 0;  // bytes in the file
  std::uint32_t mask = 0;    // of filters that were not applied
};

// The index of a chunked dataset, checked as a whole before anything is decoded.
class ChunkReader {
 public:
  ChunkReader(const Image& image, const Storage& storage)
      : image_(image), storage_(storage), rank_(storage.chunk.size()), budget_(0, 4096 + image.bytes.size() / 4) {
    image_.budget = &budget_;
    chunk_bytes_ = storage.type.size;
    total_ = 1;
    for (std::size_t i = 0; i < rank_; ++i) {
      chunk_bytes_ *= storage.chunk[i];  // checked when the layout was parsed
      const auto dim = static_cast<std::uint64_t>(storage.space.dims[i]);
      grid_.push_back((dim + storage.chunk[i] - 1) / storage.chunk[i]);
      total_ *= grid_.back();
    }
    collect();
    check();
    image_.budget = nullptr;
  }

  // Of the dataset's `size` bytes, at most; chunks may reach beyond it.
  std::uint64_t missing_bytes(std::uint64_t size) const {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(total_ - chunks_.size(), chunk_bytes_, &bytes)) return size;
    return std::min(bytes, size);
  }

  void read(std::span<std::byte> target) {
    target_ = target;
    std::memset(target.data(), 0, target.size());
    for (const Chunk& chunk : chunks_) {
      const auto raw = image_.block(chunk.address, chunk.stored);
      if (storage_.filters.empty()) {
        copy(coordinates(chunk.index), raw);
        continue;
      }
      const Bytes decoded = decode(raw, chunk.mask);
      if (decoded.size() != chunk_bytes_) {
        image_.damaged(chunk.address, "a chunk of the wrong size after decompression");
      }
      copy(coordinates(chunk.index), decoded);
    }
  }

 private:
  void collect() {
    if (storage_.address != kUndefinedAddress) {
      switch (storage_.index) {
        case 0: walk_tree(storage_.address, -1); break;
        case 1:
          place(std::vector<std::uint64_t>(rank_), storage_.address,
                storage_.filters.empty() ? chunk_bytes_ : storage_.single_size, storage_.single_mask);
          break;
        case 2:
          if (!storage_.filters.empty()) image_.damaged(storage_.address, "compressed chunks without an index");
          for (std::uint64_t i = 0; i < total_; ++i) {
            const std::uint64_t address = storage_.address + i * chunk_bytes_;
            image_.block(address, chunk_bytes_);
            chunks_.push_back({i, address, chunk_bytes_, 0});
          }
          break;
        default: walk_fixed_array();
      }
    }
  }

  void check() {
    std::sort(chunks_.begin(), chunks_.end(), [](const Chunk& a, const Chunk& b) { return a.index < b.index; });
    std::uint64_t stored = 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      const Chunk& chunk = chunks_[i];
      if (i > 0 && chunks_[i - 1].index == chunk.index) image_.damaged(chunk.address, "a chunk that is stored twice");
      image_.block(chunk.address, chunk.stored);
      if (storage_.filters.empty() ? chunk.stored != chunk_bytes_ : chunk_bytes_ > io::most_expanded(chunk.stored)) {
        image_.damaged(chunk.address,
                       fmt::format("a chunk of the wrong size: {} bytes for {}", chunk.stored, chunk_bytes_));
      }
      stored += chunk.stored;
      if (stored > image_.bytes.size()) image_.damaged(chunk.address, "chunks that share their bytes");
    }
    std::uint64_t decoded = 0;
    if (__builtin_mul_overflow(chunk_bytes_, chunks_.size(), &decoded) ||
        decoded > io::most_expanded(image_.bytes.size())) {
      image_.damaged(storage_.address, "chunks that expand to more than a file of this size can hold");
    }
    if (chunks_.size() < total_ && !storage_.fill_is_zero) {
      image_.unsupported("a dataset with missing chunks and a fill value");
    }
  }

  std::vector<std::uint64_t> coordinates(std::uint64_t index) const {
    std::vector<std::uint64_t> at(rank_);
    for (std::size_t i = rank_; i-- > 0; index /= grid_[i]) at[i] = index % grid_[i] * storage_.chunk[i];
    return at;
  }

  void walk_tree(std::uint64_t address, int expected_level) {
    const auto size_l = 8 + 8 * (static_cast<std::uint64_t>(rank_) + 1);
    Fields head(image_, image_.block(address, 8 + 2 * static_cast<std::uint64_t>(image_.address_size)));
    head.expect("TREE");
    const auto type = head.u8();
    const int level = head.u8();
    const auto count = head.u16();
    if (type != 1 || level > 16 || (expected_level >= 0 && level != expected_level)) {
      image_.damaged(address, "a chunk index of the wrong kind or level");
    }
    const auto entry = size_l + static_cast<std::uint64_t>(image_.address_size);
    Fields fields(image_, image_.block(address + 8 + 2 * static_cast<std::uint64_t>(image_.address_size),
                                       count * entry + size_l));
    std::vector<std::uint64_t> at(rank_);
    std::uint64_t in_element = 0;
    const auto read_offsets = [&] {
      for (std::size_t i = 0; i < rank_; ++i) {
        at[i] = fields.u64();
        if (at[i] % storage_.chunk[i] != 0) image_.damaged(address, "an offset of a chunk that is not one of a chunk");
      }
      in_element = fields.u64();
    };
    for (int i = 0; i < count; ++i) {
      const auto stored = fields.u32();
      const auto mask = fields.u32();
      read_offsets();
      const auto child = fields.address();
      if (level > 0) {
        walk_tree(child, level - 1);
      } else if (in_element != 0) {  // the HDF5 library does not find such a chunk and gives fill values
        image_.damaged(child, "a chunk that begins within an element");
      } else {
        place(at, child, stored, mask);
      }
    }
    fields.skip(8);
    read_offsets();  // behind the last chunk
  }

  void walk_fixed_array() {
    const int a = image_.address_size;
    const auto head_size = 12 + static_cast<std::uint64_t>(image_.length_size + a);
    auto block = image_.block(storage_.address, head_size);
    Fields head(image_, block);
    head.expect("FAHD");
    head.skip(1);
    const bool filtered = head.u8() == 1;
    const std::uint64_t entry = head.u8();
    const int page_bits = head.u8();
    const std::uint64_t count = head.length();
    const std::uint64_t data = head.address();
    check_metadata(image_, block);
    if (count < total_ || page_bits > 32 || entry < static_cast<std::uint64_t>(a) + (filtered ? 5 : 0) ||
        entry > static_cast<std::uint64_t>(a) + (filtered ? 12 : 0) || filtered != !storage_.filters.empty()) {
      image_.damaged(storage_.address, "a fixed-array chunk index that does not fit its dataset");
    }
    if (data == kUndefinedAddress) return;
    const std::uint64_t page = std::uint64_t{1} << page_bits;
    const std::uint64_t pages = count > page ? (count + page - 1) / page : 0;
    const std::uint64_t bitmap = (pages + 7) / 8;
    const std::uint64_t prefix = 6 + static_cast<std::uint64_t>(a) + bitmap;
    if (count > image_.bytes.size() / entry) image_.damaged(data, "a chunk index larger than the file");
    auto first = image_.block(data, prefix + (pages == 0 ? count * entry : 0) + 4);
    Fields fields(image_, first);
    fields.expect("FADB");
    check_metadata(image_, first);
    fields.skip(2 + static_cast<std::uint64_t>(a));
    auto bits = fields.take(bitmap);
    for (std::uint64_t p = 0, index = 0; p < std::max<std::uint64_t>(pages, 1) && index < total_; ++p) {
      const std::uint64_t in_page = std::min(page, count - p * page);
      if (pages > 0) {
        if ((std::to_integer<int>(bits[p / 8]) >> (7 - p % 8) & 1) == 0) {
          index += in_page;
          continue;
        }
        auto page_block = image_.block(data + prefix + 4 + p * (page * entry + 4), in_page * entry + 4);
        check_metadata(image_, page_block);
        fields = Fields(image_, page_block);
      }
      for (std::uint64_t i = 0; i < in_page && index < total_; ++i, ++index) {
        const std::uint64_t address = fields.address();
        const std::uint64_t stored = filtered ? fields.unsigned_field(static_cast<int>(entry) - a - 4) : chunk_bytes_;
        const std::uint32_t mask = filtered ? fields.u32() : 0;
        if (address != kUndefinedAddress) place(coordinates(index), address, stored, mask);
      }
    }
  }

  void place(const std::vector<std::uint64_t>& at, std::uint64_t address, std::uint64_t stored, std::uint32_t mask) {
    std::uint64_t index = 0;
    for (std::size_t i = 0; i < rank_; ++i) {
      if (at[i] % storage_.chunk[i] != 0 || at[i] / storage_.chunk[i] >= grid_[i]) {
        image_.damaged(address, "a chunk outside its dataset");
      }
      index = index * grid_[i] + at[i] / storage_.chunk[i];
    }
    image_.charge_steps(1, address);
    chunks_.push_back({index, address, stored, mask});
  }

  Bytes decode(std::span<const std::byte> raw, std::uint32_t mask) const {
    Bytes data(raw.begin(), raw.end());
    const std::uint64_t limit = chunk_bytes_ + 4 * storage_.filters.size();
    for (std::size_t i = storage_.filters.size(); i-- > 0;) {
      if (i < 32 && (mask >> i & 1) != 0) continue;
      const Filter& filter = storage_.filters[i];
      switch (filter.id) {
        case kDeflate: data = inflate(image_, data, limit); break;
        case kShuffle: data = unshuffle(data, filter.values.empty() ? storage_.type.size : filter.values[0]); break;
        case kFletcher32: data = strip_fletcher(image_, data); break;
        case kLzf: data = unlzf(image_, data, limit); break;
        default: image_.unsupported(fmt::format("filter {} of an HDF5 dataset", filter.id));
      }
    }
    return data;
  }

  // Copies the part of the chunk inside the dataset, row by row.
  void copy(const std::vector<std::uint64_t>& at, std::span<const std::byte> chunk) {
    const std::uint64_t width = storage_.type.size;
    auto dim = [&](std::size_t i) { return static_cast<std::uint64_t>(storage_.space.dims[i]); };
    auto extent = [&](std::size_t i) { return std::min(storage_.chunk[i], dim(i) - at[i]); };
    const std::uint64_t row = extent(rank_ - 1);
    std::vector<std::uint64_t> place(rank_);
    for (;;) {
      std::uint64_t from = 0;
      std::uint64_t to = 0;
      for (std::size_t i = 0; i < rank_; ++i) {
        from = from * storage_.chunk[i] + place[i];
        to = to * dim(i) + at[i] + place[i];
      }
      std::memcpy(target_.data() + to * width, chunk.data() + from * width, row * width);
      std::size_t axis = rank_ - 1;
      while (axis-- > 0) {
        if (++place[axis] < extent(axis)) break;
        place[axis] = 0;
      }
      if (axis == static_cast<std::size_t>(-1)) return;
    }
  }

  Image image_;
  const Storage& storage_;
  std::span<std::byte> target_;
  std::size_t rank_;
  io::Budget budget_;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t total_ = 0;
  std::vector<std::uint64_t> grid_;
  std::vector<Chunk> chunks_;
};

}  // namespace

void check_claim(const Image& image, const Storage& storage, std::uint64_t size) {
  const bool chunked = storage.layout == Storage::Layout::kChunked;
  const std::uint64_t missing = chunked ? ChunkReader(image, storage).missing_bytes(size) : size;
  if (missing > kUnwritten) {
    throw_data_loss(fmt::format("{}: an HDF5 dataset of {} bytes, but {} of them were never written; at most {} may be",
                                image.what, size, missing, kUnwritten));
  }
}

void read_chunks(const Image& image, const Storage& storage, std::span<std::byte> target) {
  ChunkReader(image, storage).read(target);
}

}  // namespace lockstep::formats::hdf5
