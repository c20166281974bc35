// The file seam: everything lockstep does to a disk goes through these few calls, so that tests can
// make each of them fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::io {

struct FileStat {
  enum class Kind { kFile, kDirectory, kOther };
  Kind kind = Kind::kFile;
  std::uint64_t size = 0;  // bytes, for files
  std::uint32_t mode = 0;  // permission bits
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
};

// A file that was created by FileSystem::create. Closing does not sync.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Writes all of `bytes` at `offset`. Calls for disjoint ranges may run at the same time.
  virtual void write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Reserves room without changing the size, so that a full disk is noticed early; a hint elsewhere.
  virtual void reserve(std::uint64_t size) = 0;
  virtual void sync() = 0;
  virtual void close() = 0;
};

// The bytes of a file, mapped or read. Valid as long as the object lives, also after the file was
// replaced or removed. Reading past the end of a mapped file that another process truncates in place is SIGBUS, unless
// handle_truncated_mappings() was called.
class FileBytes {
 public:
  virtual ~FileBytes() = default;
  std::span<const std::byte> bytes() const { return bytes_; }

 protected:
  std::span<const std::byte> bytes_;
};

// Lets the memory behind a piece of a mapped file go; the file's bytes come back when they are touched again.
// For bytes that were copied or checksummed and are not needed soon. Bytes of anything else are left alone.
void release(std::span<const std::byte> bytes) noexcept;

// From now on bytes past the end of a mapped file that was truncated read as zero, and check_mappings() reports them.
// For programs, not for libraries: it installs a handler of SIGBUS, which passes on all other faults to the one before
// it.
void handle_truncated_mappings();
// Throws DataLoss, naming the file, when such bytes were read since the last call or of a file that is still mapped. To
// be called before data that was read, or results computed from it, are used; AtomicFile calls it before it publishes a
// file.
void check_mappings();

// All calls throw lockstep::Error with the path in it: NotFound, AlreadyExists, PermissionDenied,
// ResourceExhausted (disk, quota, handles, memory), InvalidArgument (not a folder, name too long), DataLoss (device).
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // A new empty file, which must not exist yet. `mode` is subject to the process's umask.
  virtual std::unique_ptr<WritableFile> create(const std::string& path, std::uint32_t mode) = 0;
  virtual std::shared_ptr<const FileBytes> map(const std::string& path) = 0;
  // Follows links. Empty when nothing is there.
  virtual std::optional<FileStat> stat(const std::string& path) = 0;
  // Names in a folder, sorted, without "." and "..".
  virtual std::vector<std::string> list(const std::string& directory) = 0;
  // Atomic; replaces a file, or an empty folder by a folder.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Swaps two existing entries atomically. False where the file system cannot.
  virtual bool exchange(const std::string& a, const std::string& b) = 0;
  // A second name for a file. False where the file system cannot.
  virtual bool link(const std::string& existing, const std::string& name) = 0;
  virtual void remove_file(const std::string& path) = 0;
  virtual void remove_directory(const std::string& path) = 0;  // an empty one
  virtual void make_directory(const std::string& path) = 0;    // its parent exists
  // Gives `path` the mode, and where that is permitted the owner and group, of the file that it will replace.
  virtual void copy_permissions(const std::string& path, const FileStat& replaced) = 0;
  // Makes a file's bytes, or the entries of a folder, durable.
  virtual void sync_path(const std::string& path) = 0;
  // True when `path` itself is a link (which stat follows).
  virtual bool is_link(const std::string& path) = 0;
  // The path with its links resolved.
  virtual std::string resolve(const std::string& path) = 0;
};

// The machine's own files.
FileSystem& posix_file_system();

// Helpers over any file system.

// "a/b" of "a/b/c", "." of "c", "/" of "/c"; a trailing slash does not count.
std::string parent_directory(const std::string& path);
// "c" of "a/b/c" and of "a/b/c/".
std::string base_name(const std::string& path);
std::string join_path(const std::string& directory, const std::string& name);

bool is_directory(FileSystem& files, const std::string& path);
bool is_file(FileSystem& files, const std::string& path);
// Creates missing folders from the top down. Fine when all are there.
void make_directories(FileSystem& files, const std::string& path);
// Removes a file or a folder with all below it; does not follow links. Fine when nothing is there.
void remove_all(FileSystem& files, const std::string& path);
// The whole file as text. Throws ResourceExhausted above `limit` bytes.
std::string read_text(FileSystem& files, const std::string& path, std::uint64_t limit = std::uint64_t{64} << 20);

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace lockstep::io
