#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/zip.h"
#include "lockstep/io/zip_layout_internal.h"

namespace lockstep::io {
namespace {

using namespace zip;

constexpr std::uint16_t kVersion = 20;
constexpr std::uint16_t kVersionWide = 45;
constexpr std::uint16_t kMadeOnUnix = 3 << 8;
constexpr std::uint16_t kDate = (0 << 9) | (1 << 5) | 1;  // 1980-01-01
constexpr std::uint32_t kExternal = 0600u << 16;
constexpr std::uint16_t kAlignExtra = 0xD935;  // zipalign's extra field
constexpr std::uint16_t kAlignment = 64;
constexpr std::uint64_t kAlignedSize = 1u << 20;  // members from this size on are aligned, so that readers may map them
constexpr std::size_t kCrcOffset = 14;            // in a local header
constexpr std::size_t kBlock = 1u << 20;          // checksummed and written while in the cache

std::uint16_t flags_of(const std::string& name) {
  for (const char c : name) {
    if (static_cast<unsigned char>(c) >= 0x80) return kFlagUtf8;
  }
  return 0;
}

// version … name_len, shared by local headers and directory entries.
void append_common(std::string& out, const std::string& name, std::uint32_t crc, std::uint32_t size, bool wide) {
  append_le<std::uint16_t>(out, wide ? kVersionWide : kVersion);
  append_le<std::uint16_t>(out, flags_of(name));
  append_le<std::uint16_t>(out, kStored);
  append_le<std::uint16_t>(out, 0);
  append_le<std::uint16_t>(out, kDate);
  append_le<std::uint32_t>(out, crc);
  append_le<std::uint32_t>(out, size);
  append_le<std::uint32_t>(out, size);
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(name.size()));
}

// `padding` bytes of extra field come before the data: zipalign's field, of at least 6 bytes.
std::string local_header(const std::string& name, std::uint32_t crc, std::uint64_t size, bool wide,
                         std::size_t padding) {
  std::string out;
  append_le(out, kLocalSignature);
  append_common(out, name, crc, wide ? kWide32 : static_cast<std::uint32_t>(size), wide);
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>((wide ? 20 : 0) + padding));
  out += name;
  if (wide) {
    append_le(out, kWideExtra);
    append_le<std::uint16_t>(out, 16);
    append_le<std::uint64_t>(out, size);
    append_le<std::uint64_t>(out, size);
  }
  if (padding > 0) {
    append_le(out, kAlignExtra);
    append_le<std::uint16_t>(out, static_cast<std::uint16_t>(padding - 4));
    append_le<std::uint16_t>(out, kAlignment);
    out.append(padding - 6, '\0');
  }
  return out;
}

// What puts the data of a member whose header begins at `offset` on a multiple of kAlignment.
std::size_t padding_for(std::uint64_t offset, const std::string& name, bool wide) {
  const std::uint64_t data = offset + kLocalSize + name.size() + (wide ? 20 : 0);
  const std::size_t padding = (kAlignment - data % kAlignment) % kAlignment;
  return padding == 0 || padding >= 6 ? padding : padding + kAlignment;
}

}  // namespace

ZipWriter::ZipWriter(std::string path, FileSystem& files, std::uint64_t expected_size)
    : file_(std::move(path), files, expected_size) {}

void ZipWriter::add(std::string_view name, std::span<const std::byte> bytes) {
  begin(name, bytes.size());
  append(bytes);
  end();
}

void ZipWriter::begin(std::string_view name, std::uint64_t most_size) {
  if (open_) throw_failed_precondition(fmt::format("{}: member {} was begun within another", path(), name));
  if (name.empty() || name.size() > kWide16 || name.find('\0') != std::string_view::npos) {
    throw_invalid_argument(fmt::format("{}: a member's name must have 1 to 65535 bytes and no NUL", path()));
  }
  if (!names_.emplace(name).second) {
    throw_already_exists(fmt::format("{}: member {} was added before", path(), name));
  }
  Entry entry;
  entry.name = name;
  entry.offset = file_.size();
  entry.wide = most_size >= kWide32;
  if (most_size >= kAlignedSize) entry.padding = padding_for(entry.offset, entry.name, entry.wide);
  file_.append(local_header(entry.name, 0, 0, entry.wide, entry.padding));
  entries_.push_back(std::move(entry));
  open_ = true;
}

void ZipWriter::append(std::span<const std::byte> bytes) {
  if (!open_) throw_failed_precondition(fmt::format("{}: no member was begun", path()));
  Entry& entry = entries_.back();
  entry.size += bytes.size();
  if (!entry.wide && entry.size >= kWide32) {
    throw_invalid_argument(fmt::format("{}: member {} grew past 4 GiB, more than was announced", path(), entry.name));
  }
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kBlock));
    entry.crc = crc32(part, entry.crc);
    file_.append(part);
    bytes = bytes.subspan(part.size());
  }
}

void ZipWriter::end() {
  if (!open_) throw_failed_precondition(fmt::format("{}: no member was begun", path()));
  const Entry& entry = entries_.back();
  const std::string header = local_header(entry.name, entry.crc, entry.size, entry.wide, entry.padding);
  file_.write_at(entry.offset + kCrcOffset, as_bytes(header).subspan(kCrcOffset));
  open_ = false;
}

void ZipWriter::append_directory_entry(std::string& out, const Entry& entry) const {
  const bool far = entry.offset >= kWide32;
  const bool wide = entry.wide || far;
  append_le(out, kEntrySignature);
  append_le<std::uint16_t>(out, kMadeOnUnix | (wide ? kVersionWide : kVersion));
  append_common(out, entry.name, entry.crc, entry.wide ? kWide32 : static_cast<std::uint32_t>(entry.size), wide);
  const unsigned extra = (entry.wide ? 16 : 0) + (far ? 8 : 0);
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(extra == 0 ? 0 : extra + 4));
  append_le<std::uint16_t>(out, 0);  // comment
  append_le<std::uint16_t>(out, 0);  // disk
  append_le<std::uint16_t>(out, 0);  // internal attributes
  append_le<std::uint32_t>(out, kExternal);
  append_le<std::uint32_t>(out, far ? kWide32 : static_cast<std::uint32_t>(entry.offset));
  out += entry.name;
  if (extra == 0) return;
  append_le(out, kWideExtra);
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(extra));
  if (entry.wide) {
    append_le<std::uint64_t>(out, entry.size);
    append_le<std::uint64_t>(out, entry.size);
  }
  if (far) append_le<std::uint64_t>(out, entry.offset);
}

void ZipWriter::finish() {
  if (open_) throw_failed_precondition(fmt::format("{}: member {} was not ended", path(), entries_.back().name));
  const std::uint64_t start = file_.size();
  std::string out;
  for (const Entry& entry : entries_) append_directory_entry(out, entry);
  const std::uint64_t size = out.size();
  const std::uint64_t count = entries_.size();
  if (count >= kWide16 || size >= kWide32 || start >= kWide32) {
    const std::uint64_t end64 = start + size;
    append_le(out, kEnd64Signature);
    append_le<std::uint64_t>(out, kEnd64Size - 12);
    append_le<std::uint16_t>(out, kMadeOnUnix | kVersionWide);
    append_le<std::uint16_t>(out, kVersionWide);
    append_le<std::uint64_t>(out, 0);  // both disks
    append_le<std::uint64_t>(out, count);
    append_le<std::uint64_t>(out, count);
    append_le<std::uint64_t>(out, size);
    append_le<std::uint64_t>(out, start);
    append_le(out, kLocatorSignature);
    append_le<std::uint32_t>(out, 0);
    append_le<std::uint64_t>(out, end64);
    append_le<std::uint32_t>(out, 1);
  }
  const auto narrow = [](std::uint64_t value) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kWide32));
  };
  const auto count16 = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, kWide16));
  append_le(out, kEndSignature);
  append_le<std::uint32_t>(out, 0);  // both disks
  append_le<std::uint16_t>(out, count16);
  append_le<std::uint16_t>(out, count16);
  append_le<std::uint32_t>(out, narrow(size));
  append_le<std::uint32_t>(out, narrow(start));
  append_le<std::uint16_t>(out, 0);
  file_.append(out);
  file_.commit();
}

}  // namespace lockstep::io
