// Definitions shared by the bundle's reader and writer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::formats {

// The key of one slice of a partitioned tensor (TensorFlow's ordered code):
// num(0) | string(name) | num(rank) | per dimension snum(start), snum(length).
std::string slice_key(const std::string& name, const std::vector<std::pair<std::int64_t, std::int64_t>>& extents);

}  // namespace lockstep::formats
