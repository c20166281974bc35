// Paths that a command writes to.
#pragma once

#include <string>

#include "lockstep/io/file_system.h"

namespace lockstep::cli {

// Creates the missing parent folders of `path`.
inline void create_parent_directories(const std::string& path) {
  io::make_directories(io::posix_file_system(), io::parent_directory(path));
}

}  // namespace lockstep::cli
