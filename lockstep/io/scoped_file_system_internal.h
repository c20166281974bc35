// Another file system in the place of the machine's own, for tests that make each of a save's calls fail.
#pragma once

#include "lockstep/io/file_system.h"

namespace lockstep::io {

// While it lives, posix_file_system() is `files`, in all threads. Made and dropped while nothing uses files; one at a
// time.
class ScopedFileSystem {
 public:
  explicit ScopedFileSystem(FileSystem& files);
  ~ScopedFileSystem();
  ScopedFileSystem(const ScopedFileSystem&) = delete;
  ScopedFileSystem& operator=(const ScopedFileSystem&) = delete;
};

}  // namespace lockstep::io
