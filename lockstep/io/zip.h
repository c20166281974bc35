// Zip archives as Keras and NumPy write them: stored members, no data descriptors, a fixed date.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"

namespace lockstep::io {

struct ZipMember {
  std::string name;
  std::uint16_t method = 0;  // 0 stored, 8 deflate
  std::uint32_t crc = 0;
  std::uint64_t compressed_size = 0;
  std::uint64_t size = 0;
  std::uint64_t data_offset = 0;  // in the archive
};

// Bytes that live as long as `owner`: a piece of the mapped archive, or a buffer.
struct SharedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// Reads stored and deflated members, zip64 included. Opening checks the whole directory; a member's
// checksum is checked when it is read. Throws DataLoss for anything malformed: two members of one
// name, members that overlap or whose local header differs from the directory,
// truncation; Unimplemented for encryption, other compressions and archives of several disks;
// ResourceExhausted for a member, or an archive, that would expand to more than 256 MiB and 100 times its size.
class ZipReader {
 public:
  explicit ZipReader(const std::string& path, FileSystem& files = posix_file_system());

  const std::vector<ZipMember>& members() const { return members_; }  // in the order of the directory
  const ZipMember* find(std::string_view name) const;                 // null when there is none
  // A stored member is not copied. The second form throws NotFound for an unknown name.
  SharedBytes read(const ZipMember& member) const;
  SharedBytes read(std::string_view name) const;
  // For text that takes many times its size once it is parsed: ResourceExhausted for more than 32 MiB and 8 times the
  // size of the archive.
  SharedBytes read_text(const ZipMember& member) const;
  const std::string& path() const { return path_; }

 private:
  struct Directory;
  Directory locate_directory() const;
  void read_directory(const Directory& directory);
  std::size_t read_entry(std::size_t at, std::size_t end);
  void check_local_header(ZipMember& member, std::uint64_t header_offset, std::uint16_t flags);
  void check_overlaps(std::uint64_t directory_offset) const;
  SharedBytes inflate(const ZipMember& member, std::span<const std::byte> compressed) const;
  [[noreturn]] void damaged(const std::string& what) const;

  std::string path_;
  std::shared_ptr<const FileBytes> file_;
  std::vector<ZipMember> members_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents_;  // header start, data end
  std::unordered_map<std::string, std::size_t> index_;
};

// True when the bytes begin or end as a zip archive does.
bool looks_like_zip(std::span<const std::byte> bytes);

// Writes stored members dated 1980-01-01 with mode 0600: same members, same bytes. Streams: memory
// does not grow with the members. The data of members of 1 MiB and more starts at a multiple of 64 bytes. The archive
// appears at `path` when finish() returns.
class ZipWriter {
 public:
  explicit ZipWriter(std::string path, FileSystem& files = posix_file_system(), std::uint64_t expected_size = 0);

  void add(std::string_view name, std::span<const std::byte> bytes);
  void add(std::string_view name, std::string_view text) { add(name, as_bytes(text)); }

  // A member in pieces. `most_size` at or above 4 GiB makes room for 64-bit sizes; a member that
  // outgrows it throws InvalidArgument. Throws AlreadyExists for a name added before.
  void begin(std::string_view name, std::uint64_t most_size);
  void append(std::span<const std::byte> bytes);
  void end();

  void finish();
  const std::string& path() const { return file_.path(); }

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc = 0;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
    bool wide = false;        // 64-bit sizes
    std::size_t padding = 0;  // bytes of extra field that align the data
  };
  void append_directory_entry(std::string& out, const Entry& entry) const;

  AtomicFile file_;
  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_;
  bool open_ = false;
};

}  // namespace lockstep::io
