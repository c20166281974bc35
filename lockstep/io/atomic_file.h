// Files and folders that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/file_system.h"

namespace lockstep::io {

// A file written to a temporary sibling (see temporary_sibling) and renamed into place by commit(). Siblings that
// processes left when they were killed are removed by the next one who writes the same file. Missing parent folders are
// created. Until commit() returns,
// `path` keeps its old content; an uncommitted object leaves no trace. A link at `path` stays a link: the file it
// points to is replaced. The mode of an existing file is kept, and its owner and group where the process may set them.
// One thread at a time may use it.
class AtomicFile {
 public:
  // `expected_size`, when known, reserves the room, so that a full disk is noticed at once.
  explicit AtomicFile(std::string path, FileSystem& files = posix_file_system(), std::uint64_t expected_size = 0);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(as_bytes(text)); }
  // Writes over bytes that were appended before. Throws InvalidArgument outside them.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  std::uint64_t size() const;

  // Syncs, renames, syncs the folder. After an error the object is abandoned.
  void commit();
  // commit() in two steps, for artifacts of several files: sync_data() for each, then publish() for each.
  void sync_data();
  void publish();

  const std::string& path() const;
  const std::string& temporary_path() const;

 private:
  class Stream;
  std::unique_ptr<Stream> stream_;
};

// A small file at once.
void write_atomically(const std::string& path, std::string_view text, FileSystem& files = posix_file_system());

// A folder built as a temporary sibling and swapped into place by commit(). Until then the old folder
// stays whole. Files below staging_path() are written through AtomicFile or WritableFile and synced before they are
// closed: an error of writing back can be lost when a file is opened again to be synced. commit() syncs them once more,
// and the folders. The mode, owner and group of an existing folder are kept, as those of a file are.
class AtomicDirectory {
 public:
  // `owned` are the names directly in the folder that belong to the artifact: an old one of these
  // is gone after commit(). Any other entry of an old folder is moved into the new one, since it is
  // not ours to delete. Throws AlreadyExists where `path` is something else than a folder.
  AtomicDirectory(std::string path, std::vector<std::string> owned, FileSystem& files = posix_file_system());
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::string& path() const { return path_; }
  const std::string& staging_path() const { return staging_; }
  void commit();

 private:
  void sync_tree(const std::string& directory);
  void carry_over(const std::string& old_directory);
  void abandon() noexcept;
  void remove_abandoned() noexcept;

  std::string path_;
  std::string staging_;
  std::vector<std::string> owned_;
  FileSystem& files_;
  bool finished_ = false;
};

// Removes a folder so that, killed at any moment, all of it is there or it is gone; what killed processes left of it
// goes too. Fine when nothing is there.
void remove_directory_at_once(const std::string& path, FileSystem& files = posix_file_system());

// ".<name>.tmp-<machine>-<pid>-<start of the process>-<n>" in the folder of `path`, different at each call; long names
// are cut to stay legal.
std::string temporary_sibling(const std::string& path);
// <name> of such a name; empty for others.
std::string temporary_target(const std::string& name);
// Whether the process that made such a name ran on this machine and has died. False where that cannot be known.
bool is_abandoned_temporary(const std::string& name);
// The abandoned siblings of `path`.
std::vector<std::string> abandoned_temporaries(const std::string& path, FileSystem& files = posix_file_system());

}  // namespace lockstep::io
