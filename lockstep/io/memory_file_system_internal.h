// Files that exist in this process only: for simulations, and for files that came over a network.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lockstep/io/file_system.h"

namespace lockstep::io {

// All paths exist below folders that were made; "/" and "." are there from the start. No links. Any number of threads.
class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  // A file with these bytes, and its folders.
  void put(const std::string& path, std::string bytes);
  // The same of bytes that are elsewhere; this file is only read.
  void put(const std::string& path, std::shared_ptr<const FileBytes> bytes);

  std::unique_ptr<WritableFile> create(const std::string& path, std::uint32_t mode) override;
  std::shared_ptr<const FileBytes> map(const std::string& path) override;
  std::optional<FileStat> stat(const std::string& path) override;
  std::vector<std::string> list(const std::string& directory) override;
  void rename(const std::string& from, const std::string& to) override;
  bool exchange(const std::string&, const std::string&) override { return false; }
  bool link(const std::string&, const std::string&) override { return false; }
  void remove_file(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  void make_directory(const std::string& path) override;
  void copy_permissions(const std::string&, const FileStat&) override {}
  void sync_path(const std::string&) override {}
  bool is_link(const std::string&) override { return false; }
  std::string resolve(const std::string& path) override { return path; }

 private:
  using Bytes = std::shared_ptr<std::string>;
  Bytes& file(const std::string& path);

  std::mutex mutex_;
  std::map<std::string, Bytes> files_;
  std::map<std::string, std::shared_ptr<const FileBytes>> elsewhere_;
  std::map<std::string, std::set<std::string>> folders_;  // and the names in them
};

}  // namespace lockstep::io
