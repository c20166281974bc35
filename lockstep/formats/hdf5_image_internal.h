// Internal to the HDF5 reader: bounds-checked access to the image, and the description of a stored dataset.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/hdf5_checksum_internal.h"
#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/budget_internal.h"

namespace lockstep::formats::hdf5 {

// Bytes of a file from `begin` to `end`.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Image {
  std::span<const std::byte> bytes;
  std::string what;
  std::uint64_t base = 0;  // addresses count from here
  int address_size = 8;
  int length_size = 8;
  int leaf_k = 4;                            // half the entries of a symbol table node
  int internal_k = 16;                       // half the children of a group's B-tree node
  io::Budget* budget = nullptr;              // charged while metadata is read; null: not bounded
  std::vector<Extent>* structure = nullptr;  // receives what own_block() gave, where it is not null

  [[noreturn]] void damaged(std::uint64_t at, std::string_view problem) const {
    throw_data_loss(fmt::format("{}: damaged HDF5 file at byte {}: {}", what, at, problem));
  }
  [[noreturn]] void unsupported(std::string_view feature) const {
    throw_unimplemented(fmt::format("{}: {} is not read; write the file again with h5py's defaults", what, feature));
  }
  // One step of work for each block, message, record, link, attribute or heap object that is read, however often.
  void charge_steps(std::uint64_t steps, std::uint64_t at) const {
    if (budget != nullptr && !budget->take_steps(steps))
      damaged(at, "its metadata refers to the same bytes over and over, more often than a file of this size can need");
  }
  // Memory that a value copied out of the file takes.
  void charge_bytes(std::uint64_t size, std::uint64_t at) const {
    if (budget != nullptr && !budget->take_bytes(size))
      damaged(at, "its names, attributes and strings require more memory than a file of this size can need");
  }
  // `size` bytes at an address of the file.
  std::span<const std::byte> block(std::uint64_t address, std::uint64_t size) const {
    charge_steps(1, address);
    if (address > bytes.size() - base || size > bytes.size() - base - address) {
      damaged(address, fmt::format("{} bytes are wanted there, but the file ends at {}", size, bytes.size()));
    }
    return bytes.subspan(base + address, size);
  }
  // The same of metadata, which share their bytes with no values of a dataset.
  std::span<const std::byte> own_block(std::uint64_t address, std::uint64_t size) const {
    const auto found = block(address, size);
    if (structure != nullptr && size > 0) structure->push_back({address, address + size});
    return found;
  }
};

// Reads fields in order out of one block.
class Fields {
 public:
  Fields(const Image& image, std::span<const std::byte> block) : image_(&image), block_(block) {}

  std::uint64_t unsigned_field(int size) {
    auto field = take(static_cast<std::uint64_t>(size));
    std::uint64_t value = 0;
    for (int i = size; i-- > 0;)
      value = (value << 8) | std::to_integer<std::uint64_t>(field[static_cast<std::size_t>(i)]);
    return value;
  }
  std::uint8_t u8() { return static_cast<std::uint8_t>(unsigned_field(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(unsigned_field(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(unsigned_field(4)); }
  std::uint64_t u64() { return unsigned_field(8); }
  std::uint64_t length() { return unsigned_field(image_->length_size); }
  std::uint64_t address() {
    const std::uint64_t value = unsigned_field(image_->address_size);
    return image_->address_size == 4 && value == 0xffffffffu ? kUndefinedAddress : value;
  }
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > block_.size() - at_)
      image_->damaged(offset(), fmt::format("a field of {} bytes passes its block", size));
    auto result = block_.subspan(at_, size);
    at_ += size;
    return result;
  }
  void skip(std::uint64_t size) { take(size); }
  void align(std::size_t multiple) { skip(std::min((multiple - at_ % multiple) % multiple, left())); }
  void expect(std::string_view signature) {
    auto found = take(signature.size());
    if (std::string_view(reinterpret_cast<const char*>(found.data()), found.size()) != signature) {
      image_->damaged(offset() - signature.size(), fmt::format("no {} block there", signature));
    }
  }
  std::string text(std::uint64_t size) {
    auto found = take(size);
    return std::string(reinterpret_cast<const char*>(found.data()), found.size());
  }
  [[noreturn]] void damaged(std::string_view problem) const { image_->damaged(offset(), problem); }
  std::size_t left() const { return block_.size() - at_; }
  std::size_t position() const { return at_; }
  std::uint64_t offset() const {
    return static_cast<std::uint64_t>(block_.data() - image_->bytes.data()) - image_->base + at_;
  }

 private:
  const Image* image_;
  std::span<const std::byte> block_;
  std::size_t at_ = 0;
};

struct Datatype {
  enum class Kind { kNumber, kFixedString, kVariableString, kUnreadable };
  Kind kind = Kind::kUnreadable;
  DType dtype = DType::kInvalid;
  bool big_endian = false;
  bool opaque2 = false;    // two opaque bytes, which an attribute may declare to be bfloat16
  std::uint64_t size = 0;  // bytes of one element in the file
  int padding = 0;         // of fixed strings: 0 NUL-terminated, 1 NUL-padded, 2 space-padded
  std::string name;        // for messages
};

struct Dataspace {
  bool null = false;
  std::vector<std::int64_t> dims;
  std::uint64_t count = 1;
};

struct Filter {
  std::uint16_t id = 0;
  std::vector<std::uint32_t> values;
};

struct Storage {
  enum class Layout { kCompact, kContiguous, kChunked };
  Layout layout = Layout::kContiguous;
  Datatype type;
  Dataspace space;
  std::uint64_t address = kUndefinedAddress;
  std::uint64_t size = 0;
  std::span<const std::byte> compact;
  std::vector<Filter> filters;
  std::vector<std::uint64_t> chunk;  // extents, without the element size
  int index = 0;                     // 0: version-1 B-tree; 1 single, 2 implicit, 3 fixed array
  std::uint64_t single_size = 0;     // of a filtered single chunk
  std::uint32_t single_mask = 0;
  bool fill_is_zero = true;  // missing chunks are zero
  bool is_virtual = false;   // a virtual dataset: parts of other datasets, which may be in other files
};

// Throws DataLoss where the last four bytes of a metadata block are not the checksum of those before.
void check_metadata(const Image& image, std::span<const std::byte> block);

Datatype parse_datatype(const Image& image, std::span<const std::byte> block, int depth = 0);
Dataspace parse_dataspace(const Image& image, std::span<const std::byte> block);
std::vector<Filter> parse_filters(const Image& image, std::span<const std::byte> block);

// Whether values that were never written are zero, according to a fill value message.
bool fill_is_zero(const Image& image, std::span<const std::byte> body);

// Fills in the location of the values of a dataset whose type and space are known already. Returns why they cannot be
// read; nothing where they can.
std::string parse_layout(const Image& image, std::span<const std::byte> body, Storage& storage);

// The objects of global heap collections. Each collection is parsed once, so that many strings in one collection do not
// scan it again and again.
class GlobalHeaps {
 public:
  explicit GlobalHeaps(const Image& image) : image_(image) {}
  // The object `index` of the collection at `address`.
  std::span<const std::byte> object(std::uint64_t address, std::uint32_t index);

 private:
  using Collection = std::map<std::uint32_t, std::span<const std::byte>>;
  Collection parse(std::uint64_t address) const;

  const Image& image_;
  std::map<std::uint64_t, Collection> collections_;
};

// Strings of `count` elements that are stored in `bytes`. Charges their memory to the budget of `image`.
std::vector<std::string> read_strings(const Image& image, const Datatype& type, std::uint64_t count,
                                      std::span<const std::byte> bytes, GlobalHeaps& heaps);

// Puts the elements of a chunked dataset into `target`, in the file's byte order.
void read_chunks(const Image& image, const Storage& storage, std::span<std::byte> target);

// Checks that the file stores enough to fill a dataset of `size` bytes, before memory is allocated for it: chunks do
// not share their bytes, each can expand to its size, and only little was never written.
void check_claim(const Image& image, const Storage& storage, std::uint64_t size);

}  // namespace lockstep::formats::hdf5
