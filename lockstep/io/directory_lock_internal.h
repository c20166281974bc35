// One process at a time in a folder.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace lockstep::io {

struct DirectoryLock {
  std::shared_ptr<void> held;  // null: another process has it
  std::optional<int> holder;   // that process, where it is known
};

// Locks a folder for this process, which may do so more than once, until all copies of `held` are gone or the process
// ends, in whatever way. Nothing is written; who does not ask for the lock is not stopped by it. Waits for nobody. On a
// file system without locks everyone gets one. Throws NotFound when the folder cannot be opened.
DirectoryLock lock_directory(const std::string& path);

}  // namespace lockstep::io
