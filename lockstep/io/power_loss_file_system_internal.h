// A file system for tests whose machine loses power.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/io/file_system.h"

namespace lockstep::io {

// Files in memory, of which only synced content is certain to survive: a file's bytes by sync(), the entries of a
// folder by sync_path(). sync_path() on a file is not enough: an error of writing back may be lost before a file is
// opened again. lose_power() keeps any of the rest: each write or change of entries since then is kept, dropped or, for
// writes, torn, whatever the others are. A rename or an exchange is kept or dropped as a whole. There are no links of
// files to others' names.
class PowerLossFileSystem final : public FileSystem {
 public:
  PowerLossFileSystem();

  // Calls must not be under way. Open files stay usable, without effect on the present content.
  void lose_power(std::mt19937_64& random);
  // Writes and changes of entries that were not synced, so far.
  std::size_t unsynced() const;

  std::unique_ptr<WritableFile> create(const std::string& path, std::uint32_t mode) override;
  std::shared_ptr<const FileBytes> map(const std::string& path) override;
  std::optional<FileStat> stat(const std::string& path) override;
  std::vector<std::string> list(const std::string& directory) override;
  void rename(const std::string& from, const std::string& to) override;
  bool exchange(const std::string& a, const std::string& b) override;
  bool link(const std::string&, const std::string&) override { return false; }
  void remove_file(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  void make_directory(const std::string& path) override;
  void copy_permissions(const std::string&, const FileStat&) override {}
  void sync_path(const std::string& path) override;
  bool is_link(const std::string&) override { return false; }
  std::string resolve(const std::string& path) override { return path; }

 private:
  friend class PowerLossFile;
  struct Write {
    std::uint64_t offset;
    std::string bytes;
  };
  struct Node {
    bool is_directory = false;
    std::string bytes;                                     // of a file, with all writes
    std::string synced;                                    // of a file, as of the last sync
    std::vector<Write> writes;                             // since then
    std::map<std::string, std::shared_ptr<Node>> entries;  // of a folder, with all changes
    std::map<std::string, std::shared_ptr<Node>> synced_entries;
  };
  using NodePtr = std::shared_ptr<Node>;
  // One entry of a folder; a null node: there is none.
  struct Entry {
    NodePtr folder;
    std::string name;
    NodePtr node;
  };
  using Change = std::vector<Entry>;  // at once

  NodePtr find(const std::string& path) const;
  NodePtr at(const std::string& path) const;
  void change(Change change);
  static void apply(const Change& change, std::map<std::string, NodePtr> Node::*entries);
  static void write(std::string& bytes, std::uint64_t offset, std::string_view data);
  static void settle(const NodePtr& node, std::mt19937_64& random, std::set<Node*>& seen);

  mutable std::mutex mutex_;
  NodePtr root_;
  std::vector<Change> changes_;  // not synced, in order
};

}  // namespace lockstep::io
