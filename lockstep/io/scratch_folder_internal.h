// A temporary folder.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::io {

// Created when it is first used and removed with the object.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() {
    if (path_.empty()) {
      std::string made = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
      if (!mkdtemp(made.data())) throw_unavailable(made + ": cannot create a temporary folder");
      path_ = std::move(made);
    }
    return path_;
  }
  std::string file(const std::string& name) { return path() + "/" + name; }

 private:
  std::string path_;
};

}  // namespace lockstep::io
