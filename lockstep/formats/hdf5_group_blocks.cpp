#include "lockstep/formats/hdf5_group_blocks_internal.h"

#include <algorithm>
#include <utility>

namespace lockstep::formats::hdf5 {
namespace {

constexpr std::size_t kLeafSize = 8 + kLeafEntries * 40;
constexpr std::size_t kTreeNodeSize = 24 + kTreeChildren * 16 + 8;

// One level of the tree. `children` are the addresses of the nodes below, `last_names` the heap offset of the
// greatest name below each; both are replaced by those of this level.
void write_tree_level(FieldWriter& out, std::uint8_t level, std::uint64_t at, std::vector<std::uint64_t>& children,
                      std::vector<std::uint64_t>& last_names) {
  const std::size_t nodes = std::max<std::size_t>(1, (children.size() + kTreeChildren - 1) / kTreeChildren);
  std::vector<std::uint64_t> places;
  std::vector<std::uint64_t> keys;
  std::uint64_t left_key = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::size_t first = node * kTreeChildren;
    const std::size_t count = std::min(kTreeChildren, children.size() - first);
    const std::uint64_t place = at + node * kTreeNodeSize;
    const std::size_t start = out.size();
    out.text("TREE");
    out.u8(0);
    out.u8(level);
    out.u16(static_cast<std::uint16_t>(count));
    out.u64(node == 0 ? kUndefinedAddress : place - kTreeNodeSize);
    out.u64(node + 1 == nodes ? kUndefinedAddress : place + kTreeNodeSize);
    out.u64(left_key);
    for (std::size_t i = 0; i < count; ++i) {
      out.u64(children[first + i]);
      left_key = last_names[first + i];
      out.u64(left_key);
    }
    out.zeros(kTreeNodeSize - (out.size() - start));
    places.push_back(place);
    keys.push_back(left_key);
  }
  children = std::move(places);
  last_names = std::move(keys);
}

}  // namespace

void write_symbol_entry(FieldWriter& out, const SymbolEntry& entry) {
  out.u64(entry.name_offset);
  out.u64(entry.header_address);
  out.u32(entry.is_group ? 1 : 0);
  out.u32(0);
  out.u64(entry.is_group ? entry.tree_address : 0);
  out.u64(entry.is_group ? entry.heap_address : 0);
}

void GroupBlocks::add(std::string_view name, SymbolEntry entry) {
  if (names_.size() == 0) names_.zeros(8);
  entry.name_offset = names_.size();
  names_.text(name);
  names_.u8(0);
  names_.pad_to(8);
  entries_.push_back(entry);
}

// Number of tree nodes on each level, lowest first; an empty group has one empty node.
std::vector<std::size_t> GroupBlocks::levels() const {
  std::vector<std::size_t> counts;
  std::size_t count = leaves();
  do {
    count = std::max<std::size_t>(1, (count + kTreeChildren - 1) / kTreeChildren);
    counts.push_back(count);
  } while (count > 1);
  return counts;
}

std::uint64_t GroupBlocks::size() const {
  std::size_t nodes = 0;
  for (std::size_t count : levels()) nodes += count;
  return 32 + std::max<std::size_t>(names_.size(), 8) + leaves() * kLeafSize + nodes * kTreeNodeSize;
}

// The nodes are written from the leaves up, the root last.
std::uint64_t GroupBlocks::tree_address(std::uint64_t at) const { return at + size() - kTreeNodeSize; }

void GroupBlocks::write_local_heap(FieldWriter& out, std::uint64_t at) const {
  const std::size_t size = std::max<std::size_t>(names_.size(), 8);
  out.text("HEAP");
  out.u32(0);
  out.u64(size);
  out.u64(1);  // no free block
  out.u64(at + 32);
  out.raw(names_.bytes());
  out.zeros(size - names_.size());
}

void GroupBlocks::write_leaves(FieldWriter& out) const {
  for (std::size_t first = 0; first < entries_.size(); first += kLeafEntries) {
    const std::size_t count = std::min(kLeafEntries, entries_.size() - first);
    out.text("SNOD");
    out.u8(1);
    out.u8(0);
    out.u16(static_cast<std::uint16_t>(count));
    for (std::size_t i = 0; i < count; ++i) write_symbol_entry(out, entries_[first + i]);
    out.zeros((kLeafEntries - count) * 40);
  }
}

std::vector<std::byte> GroupBlocks::bytes(std::uint64_t at) const {
  FieldWriter out;
  write_local_heap(out, at);
  std::vector<std::uint64_t> children;
  std::vector<std::uint64_t> last_names;
  for (std::size_t leaf = 0; leaf < leaves(); ++leaf) {
    children.push_back(at + out.size() + leaf * kLeafSize);
    last_names.push_back(entries_[std::min(entries_.size(), (leaf + 1) * kLeafEntries) - 1].name_offset);
  }
  write_leaves(out);
  for (std::size_t level = 0; level < levels().size(); ++level) {
    write_tree_level(out, static_cast<std::uint8_t>(level), at + out.size(), children, last_names);
  }
  return std::move(out.bytes());
}

}  // namespace lockstep::formats::hdf5
