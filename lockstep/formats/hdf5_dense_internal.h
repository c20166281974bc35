// Internal to the HDF5 reader: links and attributes of large new-style groups, which are stored in a fractal
// heap and are listed by a version-2 B-tree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/formats/hdf5_image_internal.h"

namespace lockstep::formats::hdf5 {

// The encoded links (record type 5) or attributes (record type 8) in the order of the index.
std::vector<std::span<const std::byte>> dense_objects(const Image& image, std::uint64_t heap, std::uint64_t index,
                                                      int record_type);

}  // namespace lockstep::formats::hdf5
