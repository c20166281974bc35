// Internal: files mapped into memory, and errors when another process truncates one of them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lockstep/io/file_system.h"

namespace lockstep::io {

// Maps the first `size` bytes of an open file for reading; `path` names it in errors. Null, with errno set, where the
// system cannot. The descriptor may be closed afterwards. No bytes: no mapping.
std::shared_ptr<const FileBytes> map_descriptor(int descriptor, std::size_t size, const std::string& path);

}  // namespace lockstep::io
