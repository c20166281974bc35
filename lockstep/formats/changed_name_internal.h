// Names in HDF5 files, which have no checksums.
#pragma once

#include <algorithm>
#include <string_view>

namespace lockstep::formats {

// The place of the one character in which two names of the same length differ; npos if none or several do.
inline std::size_t only_difference(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return std::string_view::npos;
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
  const bool one = x != a.end() && std::equal(x + 1, a.end(), y + 1);
  return one ? static_cast<std::size_t>(x - a.begin()) : std::string_view::npos;
}

}  // namespace lockstep::formats
