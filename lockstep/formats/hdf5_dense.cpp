#include "lockstep/formats/hdf5_dense_internal.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/formats/hdf5_checksum_internal.h"
#include "lockstep/io/checksum_internal.h"

namespace lockstep::formats::hdf5 {
namespace {

int bytes_for(std::uint64_t value) { return value == 0 ? 1 : (static_cast<int>(std::bit_width(value)) - 1) / 8 + 1; }

// Lists the records of a version-2 B-tree.
class BTree2 {
 public:
  BTree2(const Image& image, std::uint64_t address, int type) : image_(image), type_(type) {
    auto block = image.own_block(address, 22 + static_cast<std::uint64_t>(image.address_size + image.length_size));
    Fields fields(image, block);
    fields.expect("BTHD");
    const int version = fields.u8();
    if (version != 0 || fields.u8() != type) image.damaged(address, "an index of an unexpected kind");
    node_size_ = fields.u32();
    record_size_ = fields.u16();
    const int depth = fields.u16();
    fields.skip(2);
    const auto root = fields.address();
    const auto in_root = fields.u16();
    const auto total = fields.length();
    check_metadata(image, block);
    if (node_size_ < 32 || record_size_ < 4 || node_size_ > image.bytes.size() || record_size_ > node_size_ - 10 ||
        depth > 16 || total > image.bytes.size()) {
      image.damaged(address, "an index with impossible sizes");
    }
    most_[0] = (node_size_ - 10) / record_size_;
    total_[0] = most_[0];
    for (int level = 1; level <= depth; ++level) {
      const auto l = static_cast<std::size_t>(level);
      const auto pointer = pointer_size(level);
      if (record_size_ + pointer + 10 > node_size_) image.damaged(address, "an index with impossible sizes");
      most_[l] = (node_size_ - 10 - pointer) / (record_size_ + pointer);
      if (__builtin_mul_overflow(most_[l] + 1, total_[l - 1], &total_[l])) total_[l] = ~std::uint64_t{0} >> 1;
      total_[l] += most_[l];
    }
    if (root != kUndefinedAddress && total > 0) walk(root, in_root, depth);
    if (records_.size() != total) {
      image.damaged(address, fmt::format("an index of {} records, but it declares {}", records_.size(), total));
    }
  }

  const std::vector<std::span<const std::byte>>& records() const { return records_; }

 private:
  std::uint64_t pointer_size(int level) const {
    const auto below = level > 1 ? bytes_for(total_[static_cast<std::size_t>(level - 1)]) : 0;
    return static_cast<std::uint64_t>(image_.address_size + bytes_for(most_[0]) + below);
  }

  void walk(std::uint64_t address, std::uint64_t count, int level) {
    if (count > most_[static_cast<std::size_t>(level)]) image_.damaged(address, "an index that is overfull");
    image_.charge_steps(count, address);
    const std::uint64_t pointers = level > 0 ? (count + 1) * pointer_size(level) : 0;
    auto block = image_.own_block(address, 6 + count * record_size_ + pointers + 4);
    check_metadata(image_, block);
    Fields fields(image_, block);
    fields.expect(level > 0 ? "BTIN" : "BTLF");
    fields.skip(1);
    if (fields.u8() != type_) image_.damaged(address, "an index node of another kind");
    for (std::uint64_t i = 0; i < count; ++i) records_.push_back(fields.take(record_size_));
    for (std::uint64_t i = 0; level > 0 && i <= count; ++i) {
      const auto child = fields.address();
      const auto in_child = fields.unsigned_field(bytes_for(most_[0]));
      fields.skip(pointer_size(level) - static_cast<std::uint64_t>(image_.address_size + bytes_for(most_[0])));
      walk(child, in_child, level - 1);
    }
  }

  const Image& image_;
  int type_;
  std::uint64_t node_size_ = 0;
  std::uint64_t record_size_ = 0;
  std::uint64_t most_[17] = {};
  std::uint64_t total_[17] = {};
  std::vector<std::span<const std::byte>> records_;
};

class FractalHeap {
 public:
  FractalHeap(const Image& image, std::uint64_t address) : image_(image) {
    const auto a = static_cast<std::uint64_t>(image.address_size);
    const auto l = static_cast<std::uint64_t>(image.length_size);
    auto block = image.own_block(address, 26 + 3 * a + 12 * l);
    Fields fields(image, block);
    fields.expect("FRHP");
    fields.skip(1);
    id_size_ = fields.u16();
    const auto filters = fields.u16();
    constexpr int kChecksums = 2;
    has_checksums_ = (fields.u8() & kChecksums) != 0;
    most_managed_ = fields.u32();
    fields.length();
    huge_index_ = fields.address();
    fields.length();
    fields.address();
    for (int i = 0; i < 8; ++i) fields.length();
    width_ = fields.u16();
    start_ = fields.length();
    most_direct_ = fields.length();
    offset_bits_ = fields.u16();
    fields.skip(2);
    root_ = fields.address();
    rows_ = fields.u16();
    if (filters != 0) image.unsupported("a compressed heap of an HDF5 group");
    check_metadata(image, block);
    if (!std::has_single_bit(width_) || !std::has_single_bit(start_) || !std::has_single_bit(most_direct_) ||
        offset_bits_ > 64 || offset_bits_ == 0 || most_direct_ < start_ || id_size_ < 2) {
      image.damaged(address, "a heap with impossible sizes");
    }
  }

  std::uint64_t id_size() const { return id_size_; }

  std::span<const std::byte> object(std::span<const std::byte> id) {
    Fields fields(image_, id);
    const int first = fields.u8();
    switch (first >> 4 & 3) {
      case 0: {
        const auto offset = fields.unsigned_field((offset_bits_ + 7) / 8);
        const auto length_bytes =
            std::min<int>((static_cast<int>(std::bit_width(most_direct_)) - 1 + 7) / 8, bytes_for(most_managed_));
        const auto length = fields.unsigned_field(length_bytes);
        return managed(root_, rows_, 0, offset, length, 0);
      }
      case 1: return huge(fields);
      case 2:
        if (id_size_ > 17) image_.unsupported("a heap with long identifiers");
        return fields.take(static_cast<std::uint64_t>(first & 15) + 1);
      default: image_.damaged(fields.offset(), "a heap identifier of an unknown kind");
    }
  }

 private:
  std::span<const std::byte> huge(Fields& fields) {
    const auto direct = static_cast<std::uint64_t>(image_.address_size + image_.length_size);
    if (id_size_ - 1 >= direct) {
      const auto address = fields.address();
      return image_.block(address, fields.length());
    }
    const auto key = fields.unsigned_field(static_cast<int>(std::min<std::uint64_t>(8, id_size_ - 1)));
    if (!huge_objects_) read_huge_index();
    const auto found = huge_objects_->find(key);
    if (found == huge_objects_->end()) image_.damaged(fields.offset(), "a missing large heap object");
    return image_.block(found->second.first, found->second.second);
  }

  void read_huge_index() {
    huge_objects_.emplace();
    const BTree2 index(image_, huge_index_, 1);
    for (auto record : index.records()) {
      Fields entry(image_, record);
      const auto address = entry.address();
      const auto length = entry.length();
      huge_objects_->emplace(entry.length(), std::pair(address, length));
    }
  }

  // The checksum of a direct block is that of the block with zeros in the place of the checksum, at `at`.
  void check_direct(std::uint64_t address, std::span<const std::byte> block, std::uint64_t at) {
    constexpr std::uint64_t kBytesPerStep = 32;
    if (!checked_.emplace(address, block.size()).second) return;
    image_.charge_steps(block.size() / kBytesPerStep, address);
    Fields fields(image_, block);
    fields.expect("FHDB");
    if (!has_checksums_) return;
    fields.skip(at - 4);
    const auto stored = fields.u32();
    std::vector<std::byte> copy(block.begin(), block.end());
    std::fill_n(copy.begin() + static_cast<std::ptrdiff_t>(at), kChecksumSize, std::byte{0});
    if (!io::checksum_matches(stored, lookup3(copy))) image_.damaged(address, "a heap block with a wrong checksum");
  }

  std::uint64_t row_size(std::uint64_t row) const { return row == 0 ? start_ : start_ << (row - 1); }

  // The object at `offset` of the heap, below the block at `address` that starts at `block_start`.
  std::span<const std::byte> managed(std::uint64_t address, std::uint64_t rows, std::uint64_t block_start,
                                     std::uint64_t offset, std::uint64_t length, std::uint64_t block_size) {
    const auto head =
        5 + static_cast<std::uint64_t>(image_.address_size) + static_cast<std::uint64_t>((offset_bits_ + 7) / 8);
    if (rows == 0) {
      if (block_size == 0) block_size = start_;
      if (offset - block_start > block_size || length > block_size - (offset - block_start)) {
        image_.damaged(address, "a heap object outside its block");
      }
      auto block = image_.own_block(address, block_size);
      check_direct(address, block, head);
      return block.subspan(offset - block_start, length);
    }
    const auto direct_rows = static_cast<std::uint64_t>(std::bit_width(most_direct_) - std::bit_width(start_)) + 2;
    if (rows > 64) image_.damaged(address, "a heap block with too many rows");
    const auto pointer = static_cast<std::uint64_t>(image_.address_size);
    auto block = image_.own_block(address, head + rows * width_ * pointer + kChecksumSize);
    Fields fields(image_, block);
    fields.expect("FHIB");
    if (checked_.emplace(address, block.size()).second) check_metadata(image_, block);
    fields.skip(head - 4);
    std::uint64_t start = block_start;
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t size = row_size(row);
      if (size == 0) break;
      const std::uint64_t column = (offset - start) / size;
      if (column >= width_) {
        start += width_ * size;
        continue;
      }
      fields.skip((row * width_ + column) * pointer);
      const auto child = fields.address();
      start += column * size;
      if (child == kUndefinedAddress) image_.damaged(address, "a heap object in a missing block");
      if (row < direct_rows) return managed(child, 0, start, offset, length, size);
      const auto child_rows = static_cast<std::uint64_t>(std::bit_width(size) - std::bit_width(width_ * start_)) + 1;
      if (child_rows == 0 || child_rows >= rows) image_.damaged(address, "a heap block inside a smaller one");
      return managed(child, child_rows, start, offset, length, 0);
    }
    image_.damaged(address, "a heap object past the end of its heap");
  }

  static constexpr std::uint64_t kChecksumSize = 4;

  const Image& image_;
  bool has_checksums_ = false;
  std::set<std::pair<std::uint64_t, std::uint64_t>> checked_;  // addresses and sizes of blocks
  std::uint64_t id_size_ = 0;
  std::uint64_t most_managed_ = 0;
  std::uint64_t huge_index_ = 0;
  std::uint64_t width_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t most_direct_ = 0;
  int offset_bits_ = 0;
  std::uint64_t root_ = 0;
  std::uint64_t rows_ = 0;
  std::optional<std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>>
      huge_objects_;  // key: address, length
};

}  // namespace

std::vector<std::span<const std::byte>> dense_objects(const Image& image, std::uint64_t heap, std::uint64_t index,
                                                      int record_type) {
  FractalHeap objects(image, heap);
  const BTree2 tree(image, index, record_type);
  std::vector<std::span<const std::byte>> result;
  for (auto record : tree.records()) {
    Fields fields(image, record);
    if (record_type == 5) fields.skip(4);  // the hash of the name; attributes have it after the identifier
    result.push_back(objects.object(fields.take(std::min<std::uint64_t>(objects.id_size(), fields.left()))));
  }
  return result;
}

}  // namespace lockstep::formats::hdf5
