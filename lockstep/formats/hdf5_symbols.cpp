#include "lockstep/formats/hdf5_symbols_internal.h"

#include <algorithm>
#include <utility>

namespace lockstep::formats::hdf5 {
namespace {

// Names of members (HDF5 File Format Specification, III.D). Each takes a multiple of 8 bytes, the first 8 are reserved.
class LocalHeap {
 public:
  LocalHeap(const Image& image, std::uint64_t address) : image_(image), address_(address) {
    Fields fields(image, image.own_block(address, 8 + 2 * static_cast<std::uint64_t>(image.length_size) +
                                                      static_cast<std::uint64_t>(image.address_size)));
    fields.expect("HEAP");
    if (fields.u8() != 0) image.damaged(address, "a local heap of an unknown version");
    fields.skip(3);
    const auto size = fields.length();
    const auto free = fields.length();
    bytes_ = image.own_block(fields.address(), size);
    read_free_list(free);
  }

  std::string name(std::uint64_t offset) {
    if (offset >= bytes_.size()) image_.damaged(address_, "a name outside its heap");
    const auto rest = bytes_.subspan(offset);
    const auto stop = std::find(rest.begin(), rest.end(), std::byte{0});
    if (stop == rest.end()) image_.damaged(address_, "a name without an end");
    const auto size = static_cast<std::size_t>(stop - rest.begin());
    image_.charge_bytes(size, address_);
    return std::string(reinterpret_cast<const char*>(rest.data()), size);
  }

  // Whether the bytes at `offset` belong to no name.
  bool is_free(std::uint64_t offset) const {
    return std::ranges::any_of(
        free_, [&](const auto& block) { return offset >= block.first && offset - block.first < block.second; });
  }

 private:
  void read_free_list(std::uint64_t offset) {
    constexpr std::uint64_t kEnd = 1;
    const auto head = 2 * static_cast<std::uint64_t>(image_.length_size);
    while (offset != kEnd) {
      image_.charge_steps(1, address_);
      if (offset >= bytes_.size() || bytes_.size() - offset < head) {
        image_.damaged(address_, "a bad list of free blocks in a local heap");
      }
      Fields fields(image_, bytes_.subspan(offset));
      const auto next = fields.length();
      const auto size = fields.length();
      if (size < head || size > bytes_.size() - offset) {
        image_.damaged(address_, fmt::format("a free block of {} bytes in a local heap", size));
      }
      free_.emplace_back(offset, size);
      offset = next;
    }
  }

  const Image& image_;
  std::uint64_t address_;
  std::span<const std::byte> bytes_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> free_;  // offsets and sizes of the free blocks
};

class SymbolTable {
 public:
  SymbolTable(const Image& image, std::uint64_t heap) : image_(image), heap_(image, heap) {}

  std::vector<Symbol> read(std::uint64_t tree) {
    walk(tree, -1, kUndefinedAddress, kUndefinedAddress);
    return std::move(symbols_);
  }

 private:
  void walk(std::uint64_t address, int expected_level, std::uint64_t left, std::uint64_t right) {
    const auto pointer = static_cast<std::uint64_t>(image_.address_size);
    Fields fields(image_, image_.block(address, 8 + 2 * pointer));
    fields.expect("TREE");
    const int type = fields.u8();
    const int level = fields.u8();
    const auto count = fields.u16();
    if (type != 0 || level > 16 || (expected_level >= 0 && level != expected_level)) {
      image_.damaged(address, "a group index of the wrong kind or level");
    }
    if (fields.address() != left || fields.address() != right) {
      image_.damaged(address, "a group index whose neighbours differ from those in its parent");
    }
    const auto key = static_cast<std::uint64_t>(image_.length_size);
    const std::uint64_t size = count * (key + pointer) + key;
    Fields body(image_, image_.block(address + 8 + 2 * pointer, size));
    image_.own_block(address,
                     8 + 2 * pointer + 2 * static_cast<std::uint64_t>(image_.internal_k) * (key + pointer) + key);
    check_count(address, count, 2 * image_.internal_k);
    std::vector<std::uint64_t> keys;
    std::vector<std::uint64_t> children;
    for (int i = 0; i < count; ++i) {
      keys.push_back(body.length());
      children.push_back(body.address());
    }
    keys.push_back(body.length());
    const std::string first_key = heap_.name(keys[0]);
    const std::size_t before = symbols_.size();
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (level == 0) {
        read_leaf(children[i]);
      } else {
        walk(children[i], level - 1, i == 0 ? neighbour(left, true) : children[i - 1],
             i + 1 == children.size() ? neighbour(right, false) : children[i + 1]);
      }
      if (symbols_.empty() || heap_.name(keys[i + 1]) != symbols_.back().name) {
        image_.damaged(address, "a group index whose key is not the name of the last member below it");
      }
    }
    if (symbols_.size() > before && first_key >= symbols_[before].name) {
      image_.damaged(address, "a group index whose first key is not before the names below it");
    }
    if (count < 2 * image_.internal_k) {
      const std::uint64_t end = address + 8 + 2 * pointer + size;
      Fields unused(image_, image_.block(end, pointer + key));
      const auto child = unused.address();
      if (continues(child, level, unused.length())) declares_too_few(end, count);
    }
  }

  // Whether the node at `address` continues the names read so far, up to the name at `key`. HDF5 1.8 and 1.10 write the
  // nodes of all groups of a file from one buffer, so the unused entries of a node can be those of another group. Their
  // offsets can lead into a free block of this group's heap, which contains no names.
  bool continues(std::uint64_t address, int level, std::uint64_t key) {
    if (address == 0 || address == kUndefinedAddress) return false;
    const auto pointer = static_cast<std::uint64_t>(image_.address_size);
    try {
      for (; level > 0; --level) {
        const auto length = static_cast<std::uint64_t>(image_.length_size);
        Fields tree(image_, image_.block(address, 8 + 2 * pointer + length + pointer));
        tree.expect("TREE");
        tree.skip(4 + 2 * pointer + length);
        address = tree.address();
      }
      Fields head(image_, image_.block(address, 8));
      head.expect("SNOD");
      head.skip(2);
      const auto count = head.u16();
      std::string last = symbols_.empty() ? std::string() : symbols_.back().name;
      for (int i = 0; i < count; ++i) {
        const auto entry = 24 + static_cast<std::uint64_t>(image_.length_size) + pointer;
        const auto offset =
            Fields(image_, image_.block(address + 8 + static_cast<std::uint64_t>(i) * entry, entry)).length();
        if (heap_.is_free(offset)) return false;
        const std::string name = heap_.name(offset);
        if (name <= last) return false;
        last = name;
      }
      return count > 0 && heap_.name(key) == last;
    } catch (const errors::DataLossError&) {
      return false;
    }
  }

  // The last or first child of the node at `address`.
  std::uint64_t neighbour(std::uint64_t address, bool last) const {
    if (address == kUndefinedAddress) return kUndefinedAddress;
    const auto pointer = static_cast<std::uint64_t>(image_.address_size);
    const auto key = static_cast<std::uint64_t>(image_.length_size);
    const auto count = Fields(image_, image_.block(address + 6, 2)).u16();
    if (count == 0) image_.damaged(address, "an empty group index");
    const std::uint64_t entry = last ? count - 1 : 0;
    return Fields(image_, image_.block(address + 8 + 2 * pointer + entry * (key + pointer) + key, pointer)).address();
  }

  void check_count(std::uint64_t address, int count, int most) const {
    if (count > most)
      image_.damaged(address, fmt::format("a group index node of {} entries, at most {} fit", count, most));
  }
  [[noreturn]] void declares_too_few(std::uint64_t end, int count) const {
    image_.damaged(end, fmt::format("a group index node that declares {} entries and has more", count));
  }
  // HDF5 fills the unused entries of a symbol table node with zeros.
  void check_end(std::uint64_t end, int count, int most, std::uint64_t size) const {
    check_count(end, count, most);
    if (count == most) return;
    const auto next = image_.block(end, size);
    if (std::any_of(next.begin(), next.end(), [](std::byte value) { return value != std::byte{0}; }))
      declares_too_few(end, count);
  }

  void read_leaf(std::uint64_t address) {
    Fields head(image_, image_.block(address, 8));
    head.expect("SNOD");
    if (head.u8() != 1) image_.damaged(address, "a symbol table node of an unknown version");
    head.skip(1);
    const auto count = head.u16();
    if (count == 0) image_.damaged(address, "a symbol table node without entries");
    const auto entry = 24 + static_cast<std::uint64_t>(image_.length_size + image_.address_size);
    image_.own_block(address + 8, 2 * static_cast<std::uint64_t>(image_.leaf_k) * entry);
    Fields fields(image_, image_.block(address + 8, count * entry));
    check_end(address + 8 + count * entry, count, 2 * image_.leaf_k, entry);
    for (int i = 0; i < count; ++i) {
      image_.charge_steps(1, address);
      const auto name_at = fields.length();
      Symbol symbol;
      symbol.name = heap_.name(name_at);
      symbol.address = fields.address();
      const auto cache = fields.u32();
      fields.skip(4);
      Fields scratch(image_, fields.take(16));
      symbol.soft_link = cache == 2;
      if (cache > 2 || symbol.soft_link != (symbol.address == kUndefinedAddress)) {
        image_.damaged(address, fmt::format("a symbol table entry \"{}\" of an unknown kind", symbol.name));
      }
      if (!symbols_.empty() && symbol.name <= symbols_.back().name) {
        image_.damaged(address, fmt::format("\"{}\" and \"{}\" are not in the order of their names",
                                            symbols_.back().name, symbol.name));
      }
      if (symbol.soft_link) heap_.name(scratch.u32());
      symbols_.push_back(std::move(symbol));
    }
  }

  const Image& image_;
  LocalHeap heap_;
  std::vector<Symbol> symbols_;
};

}  // namespace

std::vector<Symbol> read_symbol_table(const Image& image, std::uint64_t tree, std::uint64_t heap) {
  return SymbolTable(image, heap).read(tree);
}

}  // namespace lockstep::formats::hdf5
