// Internal to the HDF5 reader: groups of the old layout, whose members are listed in a B-tree and named in a local
// heap.
#pragma once

#include <string>
#include <vector>

#include "lockstep/formats/hdf5_image_internal.h"

namespace lockstep::formats::hdf5 {

struct Symbol {
  std::string name;
  std::uint64_t address = 0;  // of the object header
  bool soft_link = false;
};

// The members of a group, in the order of their names. Tree and leaves are checked against each other, so that a
// damaged count cannot hide a member: HDF5 keeps the names sorted, each key of the tree is the name of the last member
// below it, and the places behind the last entry of a node are zero.
std::vector<Symbol> read_symbol_table(const Image& image, std::uint64_t tree, std::uint64_t heap);

}  // namespace lockstep::formats::hdf5
