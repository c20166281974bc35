// Internal to the HDF5 writer: what makes a group of names, its local heap, symbol nodes and B-tree, as one run of
// bytes (HDF5 File Format Specification, III.A.1, III.B, III.D).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/formats/hdf5_checksum_internal.h"

namespace lockstep::formats::hdf5 {

inline constexpr std::size_t kLeafEntries = 8;    // 2 * group leaf node K, of the superblock
inline constexpr std::size_t kTreeChildren = 32;  // 2 * group internal node K

// The entry of one object in a symbol node or the superblock.
struct SymbolEntry {
  std::uint64_t name_offset = 0;  // in the local heap
  std::uint64_t header_address = 0;
  bool is_group = false;
  std::uint64_t tree_address = 0;  // of groups
  std::uint64_t heap_address = 0;
};

void write_symbol_entry(FieldWriter& out, const SymbolEntry& entry);

class GroupBlocks {
 public:
  // In the order of the names' bytes.
  void add(std::string_view name, SymbolEntry entry);

  // How many bytes the blocks take. They depend on the names alone.
  std::uint64_t size() const;
  // Address of the root node of the tree when the blocks start at `at`; the local heap is at `at` itself.
  std::uint64_t tree_address(std::uint64_t at) const;
  // The blocks for the place `at`.
  std::vector<std::byte> bytes(std::uint64_t at) const;

 private:
  std::size_t leaves() const { return (entries_.size() + kLeafEntries - 1) / kLeafEntries; }
  std::vector<std::size_t> levels() const;
  void write_local_heap(FieldWriter& out, std::uint64_t at) const;
  void write_leaves(FieldWriter& out) const;

  std::vector<SymbolEntry> entries_;
  FieldWriter names_;
};

}  // namespace lockstep::formats::hdf5
