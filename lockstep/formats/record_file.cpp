#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/inflate_internal.h"

namespace lockstep::formats {
namespace {

// record   length u64 | masked crc32c of the length u32 | bytes | masked crc32c of the bytes u32; little endian
constexpr std::size_t kHeader = 12;
constexpr std::size_t kChecksum = 4;

}  // namespace

// Compares the checksum in fuzz targets too, which accept any checksum elsewhere: otherwise every file would be
// recognized as records.
bool looks_like_tfrecord(std::span<const std::byte> bytes) {
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  return bytes.size() >= kHeader &&
         io::load_le<std::uint32_t>(bytes, kLength) == io::mask_crc(io::crc32c(bytes.first(kLength)));
}

RecordReader::RecordReader(std::string path, RecordFormat format, RecordCompression compression, io::FileSystem& files)
    : path_(std::move(path)), format_(format), file_(files.map(path_)) {
  text_ = io::as_text(file_->bytes());
  if (compression == RecordCompression::kNone) return;
  const auto kind = compression == RecordCompression::kGzip ? io::Deflate::kGzip : io::Deflate::kZlib;
  plain_ = io::inflate_file(file_->bytes(), kind, path_);
  text_ = plain_;
}

std::optional<std::string> RecordReader::next() {
  if (at_ >= text_.size()) return std::nullopt;
  switch (format_) {
    case RecordFormat::kTextLine: return line();
    case RecordFormat::kCsv: return csv_record();
    default: return record();
  }
}

void RecordReader::seek(std::int64_t offset) {
  if (offset < 0 || static_cast<std::size_t>(offset) > text_.size()) {
    throw_failed_precondition(fmt::format("{} has {} bytes, but the saved iterator had read {}: the file has changed",
                                          path_, text_.size(), offset));
  }
  at_ = static_cast<std::size_t>(offset);
}

std::string RecordReader::line() {
  const std::size_t end = std::min(text_.find('\n', at_), text_.size());
  std::string out(text_.substr(at_, end - at_));
  std::erase(out, '\r');
  at_ = std::min(end + 1, text_.size());
  return out;
}

std::string RecordReader::csv_record() {
  std::size_t end = at_;
  for (bool quoted = false; end < text_.size() && (quoted || text_[end] != '\n'); ++end) quoted ^= text_[end] == '"';
  std::string out(text_.substr(at_, end - at_));
  if (!out.empty() && out.back() == '\r') out.pop_back();
  at_ = std::min(end + 1, text_.size());
  return out;
}

std::string RecordReader::record() {
  const std::size_t begin = at_;
  const auto length = io::load_le<std::uint64_t>(io::as_bytes(text_), begin);
  if (!length || text_.size() - begin < kHeader) cut_off(begin);
  check(begin, sizeof *length, " (is this a TFRecord file?)");
  const std::size_t left = text_.size() - begin - kHeader;
  if (*length > left || left - *length < kChecksum) cut_off(begin);
  check(begin + kHeader, *length, "");
  at_ = begin + kHeader + *length + kChecksum;
  return std::string(text_.substr(begin + kHeader, *length));
}

void RecordReader::cut_off(std::size_t at) const {
  throw_data_loss(fmt::format("{}: the record at byte {} is cut off: the file ends at {}", path_, at, text_.size()));
}

// Of `size` bytes at `at`, which their checksum follows.
void RecordReader::check(std::size_t at, std::size_t size, const char* hint) const {
  const auto bytes = io::as_bytes(text_);
  const auto stored = io::load_le<std::uint32_t>(bytes, at + size).value_or(0);
  const std::uint32_t found = io::mask_crc(io::crc32c(bytes.subspan(at, size)));
  if (!io::checksum_matches(stored, found)) {
    throw_data_loss(fmt::format("{}: corrupted record at byte {}: its checksum is {:08x}, but {:08x} is stored{}",
                                path_, at, found, stored, hint));
  }
}

std::string tfrecord(std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  const auto checksum = [&](std::string_view part) {
    const std::uint32_t crc = io::crc32c(io::as_bytes(part)), masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    out.append(reinterpret_cast<const char*>(&masked), sizeof masked);
  };
  checksum(std::string(out));
  out += bytes;
  checksum(bytes);
  return out;
}

}  // namespace lockstep::formats
