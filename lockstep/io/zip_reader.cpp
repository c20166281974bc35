#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/budget_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/inflate_internal.h"
#include "lockstep/io/zip.h"
#include "lockstep/io/zip_layout_internal.h"

namespace lockstep::io {
namespace {

using namespace zip;

constexpr std::size_t kReleaseBlock = std::size_t{4} << 20;
constexpr std::uint64_t kMostText = std::uint64_t{32} << 20;

// Like load_le for offsets that were checked already.
template <typename T>
T get(std::span<const std::byte> bytes, std::size_t offset) {
  return load_le<T>(bytes, offset).value_or(T{});
}

}  // namespace

struct ZipReader::Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
};

bool looks_like_zip(std::span<const std::byte> bytes) {
  const auto start = load_le<std::uint32_t>(bytes, 0);
  return start && (*start == kLocalSignature || *start == kEndSignature);
}

void ZipReader::damaged(const std::string& what) const {
  throw_data_loss(fmt::format("{}: damaged or not a zip archive: {}", path_, what));
}

ZipReader::ZipReader(const std::string& path, FileSystem& files) : path_(path), file_(files.map(path)) {
  const Directory directory = locate_directory();
  read_directory(directory);
  check_overlaps(directory.offset);
}

ZipReader::Directory ZipReader::locate_directory() const {
  const auto bytes = file_->bytes();
  if (bytes.size() < kEndSize) damaged(fmt::format("{} bytes are too few", bytes.size()));
  // The record may be followed by a comment of its stated length.
  const std::size_t lowest = bytes.size() - std::min(bytes.size(), kEndSize + kWide16);
  std::size_t end = bytes.size() - kEndSize;
  while (get<std::uint32_t>(bytes, end) != kEndSignature ||
         get<std::uint16_t>(bytes, end + 20) != bytes.size() - end - kEndSize) {
    if (end == lowest) damaged("no end-of-directory record (a truncated file?)");
    --end;
  }
  if (get<std::uint32_t>(bytes, end + 4) != 0) {
    throw_unimplemented(fmt::format("{}: an archive of several disks", path_));
  }
  Directory directory{get<std::uint32_t>(bytes, end + 16), get<std::uint32_t>(bytes, end + 12),
                      get<std::uint16_t>(bytes, end + 10)};
  if (get<std::uint16_t>(bytes, end + 8) != directory.count) damaged("two counts of members differ");
  std::size_t limit = end;
  if (end >= kLocatorSize && get<std::uint32_t>(bytes, end - kLocatorSize) == kLocatorSignature) {
    const auto end64 = get<std::uint64_t>(bytes, end - kLocatorSize + 8);
    if (end64 > end - kLocatorSize || end - kLocatorSize - end64 < kEnd64Size ||
        get<std::uint32_t>(bytes, end64) != kEnd64Signature) {
      damaged("the 64-bit end-of-directory record is missing");
    }
    directory = {get<std::uint64_t>(bytes, end64 + 48), get<std::uint64_t>(bytes, end64 + 40),
                 get<std::uint64_t>(bytes, end64 + 32)};
    limit = end64;
  }
  if (directory.offset > limit || directory.size > limit - directory.offset) {
    damaged(fmt::format("the directory (offset {}, {} bytes) is outside the file", directory.offset, directory.size));
  }
  // Readers that accept bytes before the archive would find another directory.
  if (directory.offset + directory.size != limit)
    damaged(
        fmt::format("{} bytes between the directory and its end record", limit - directory.offset - directory.size));
  if (directory.count > directory.size / kEntrySize) damaged("more members than the directory has room for");
  return directory;
}

void ZipReader::read_directory(const Directory& directory) {
  std::size_t at = directory.offset;
  const std::size_t end = at + directory.size;
  members_.reserve(directory.count);
  for (std::uint64_t i = 0; i < directory.count; ++i) at = read_entry(at, end);
  if (at != end) damaged("bytes are left over in the directory");
  // One by one the members may be far smaller than all of them together.
  Budget budget(most_expanded(file_->bytes().size()), 0);
  for (const ZipMember& member : members_) {
    if (!budget.take_bytes(member.size)) {
      throw_resource_exhausted(fmt::format("{}: its {} bytes would expand to more than {}, which is rejected as a bomb",
                                           path_, file_->bytes().size(), most_expanded(file_->bytes().size())));
    }
  }
}

std::size_t ZipReader::read_entry(std::size_t at, std::size_t end) {
  const auto bytes = file_->bytes();
  if (end - at < kEntrySize || get<std::uint32_t>(bytes, at) != kEntrySignature) damaged("a bad directory entry");
  const auto flags = get<std::uint16_t>(bytes, at + 8);
  const std::size_t name_size = get<std::uint16_t>(bytes, at + 28);
  const std::size_t extra_size = get<std::uint16_t>(bytes, at + 30);
  const std::size_t comment_size = get<std::uint16_t>(bytes, at + 32);
  const std::size_t next = at + kEntrySize + name_size + extra_size + comment_size;
  if (next > end) damaged("a directory entry passes the directory's end");
  ZipMember member;
  member.name = as_text(bytes.subspan(at + kEntrySize, name_size));
  if (member.name.empty() || member.name.find('\0') != std::string::npos) damaged("a member without a proper name");
  member.method = get<std::uint16_t>(bytes, at + 10);
  member.crc = get<std::uint32_t>(bytes, at + 16);
  member.compressed_size = get<std::uint32_t>(bytes, at + 20);
  member.size = get<std::uint32_t>(bytes, at + 24);
  std::uint64_t header_offset = get<std::uint32_t>(bytes, at + 42);

  auto extra = bytes.subspan(at + kEntrySize + name_size, extra_size);
  while (extra.size() >= 4) {
    const std::size_t field = get<std::uint16_t>(extra, 2);
    if (field > extra.size() - 4) damaged(fmt::format("member {}: a bad extra field", member.name));
    if (get<std::uint16_t>(extra, 0) == kWideExtra) {
      auto wide = extra.subspan(4, field);
      const auto take = [&](std::uint64_t& value) {
        if (value != kWide32) return;
        if (wide.size() < 8) damaged(fmt::format("member {}: a bad 64-bit extra field", member.name));
        value = get<std::uint64_t>(wide, 0);
        wide = wide.subspan(8);
      };
      take(member.size);
      take(member.compressed_size);
      take(header_offset);
    }
    extra = extra.subspan(4 + field);
  }
  if (flags & (kFlagEncrypted | kFlagPatch)) {
    throw_unimplemented(fmt::format("{}: member {} is encrypted, which is not supported", path_, member.name));
  }
  check_local_header(member, header_offset, flags);
  if (!index_.emplace(member.name, members_.size()).second) {
    damaged(fmt::format("two members are named {}", member.name));
  }
  members_.push_back(std::move(member));
  return next;
}

void ZipReader::check_local_header(ZipMember& member, std::uint64_t header_offset, std::uint16_t flags) {
  const auto bytes = file_->bytes();
  if (header_offset > bytes.size() || bytes.size() - header_offset < kLocalSize ||
      get<std::uint32_t>(bytes, header_offset) != kLocalSignature) {
    damaged(fmt::format("member {}: no local header at offset {}", member.name, header_offset));
  }
  const auto local = bytes.subspan(header_offset);
  const std::size_t name_size = get<std::uint16_t>(local, 26);
  const std::size_t extra_size = get<std::uint16_t>(local, 28);
  const std::uint64_t data = kLocalSize + name_size + extra_size;
  if (data > local.size() || member.compressed_size > local.size() - data) {
    damaged(fmt::format("member {}: its {} bytes pass the end of the file", member.name, member.compressed_size));
  }
  const bool described = (get<std::uint16_t>(local, 6) & kFlagDescriptor) != 0;
  const auto differs = [&](std::size_t offset, std::uint64_t expected) {
    const auto value = get<std::uint32_t>(local, offset);
    return value != expected && value != kWide32 && !(described && value == 0);
  };
  const bool same =
      as_text(local.subspan(kLocalSize, name_size)) == member.name && get<std::uint16_t>(local, 8) == member.method &&
      ((get<std::uint16_t>(local, 6) ^ flags) & (kFlagEncrypted | kFlagDescriptor)) == 0 &&
      get<std::uint32_t>(local, 14) == (described && get<std::uint32_t>(local, 14) == 0 ? 0 : member.crc) &&
      !differs(18, member.compressed_size) && !differs(22, member.size);
  if (!same) damaged(fmt::format("member {}: its local header and the directory disagree", member.name));
  member.data_offset = header_offset + data;
  extents_.emplace_back(header_offset, member.data_offset + member.compressed_size);
}

void ZipReader::check_overlaps(std::uint64_t directory_offset) const {
  auto extents = extents_;
  std::sort(extents.begin(), extents.end());
  extents.emplace_back(directory_offset, directory_offset);
  std::uint64_t end = 0;
  for (const auto& [first, last] : extents) {
    if (end > first) damaged("members overlap");
    const std::string_view between = as_text(file_->bytes().subspan(end, first - end));
    if (between.find("PK\x03\x04") != std::string_view::npos) damaged("a member that the directory does not list");
    end = last;
  }
}

const ZipMember* ZipReader::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &members_[found->second];
}

SharedBytes ZipReader::read(std::string_view name) const {
  const ZipMember* member = find(name);
  if (member == nullptr) throw_not_found(fmt::format("{}: no member {} in the archive", path_, name));
  return read(*member);
}

SharedBytes ZipReader::read_text(const ZipMember& member) const {
  const std::uint64_t most = std::max(kMostText, 8 * std::uint64_t{file_->bytes().size()});
  if (member.size > most) {
    throw_resource_exhausted(
        fmt::format("{}: member {} would expand to {} bytes of text, more than {}, which is "
                    "rejected as a bomb",
                    path_, member.name, member.size, most));
  }
  return read(member);
}

SharedBytes ZipReader::read(const ZipMember& member) const {
  const auto raw = file_->bytes().subspan(member.data_offset, member.compressed_size);
  SharedBytes result{raw, file_};
  if (member.method == kDeflate) {
    result = inflate(member, raw);
  } else if (member.method != kStored) {
    throw_unimplemented(fmt::format("{}: member {} uses compression method {}; stored and deflate are supported", path_,
                                    member.name, member.method));
  } else if (member.size != member.compressed_size) {
    damaged(fmt::format("member {}: stored with two different sizes", member.name));
  }
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < result.bytes.size(); at += kReleaseBlock) {
    const auto part = result.bytes.subspan(at, std::min(kReleaseBlock, result.bytes.size() - at));
    crc = crc32(part, crc);
    if (part.size() == kReleaseBlock) release(part);  // of a large member one block at a time is in memory
  }
  if (!checksum_matches(member.crc, crc)) {
    damaged(fmt::format("member {}: checksum {:08x}, expected {:08x}", member.name, crc, member.crc));
  }
  return result;
}

SharedBytes ZipReader::inflate(const ZipMember& member, std::span<const std::byte> compressed) const {
  if (member.size > most_expanded(member.compressed_size)) {
    throw_resource_exhausted(fmt::format("{}: member {} would expand from {} to {} bytes, which is rejected as a bomb",
                                         path_, member.name, member.compressed_size, member.size));
  }
  std::shared_ptr<std::byte> buffer(new (std::nothrow) std::byte[std::max<std::uint64_t>(member.size, 1)],
                                    std::default_delete<std::byte[]>());
  if (!buffer)
    throw_resource_exhausted(fmt::format("{}: no memory for the {} bytes of {}", path_, member.size, member.name));
  const auto result =
      inflate_into({buffer.get(), member.size}, compressed, Deflate::kRaw, fmt::format("{}: {}", path_, member.name));
  if (!result || result->size != member.size || result->consumed != compressed.size()) {
    damaged(fmt::format("member {}: its compressed data are damaged, or do not expand to {} bytes", member.name,
                        member.size));
  }
  return {{buffer.get(), member.size}, buffer};
}

}  // namespace lockstep::io
