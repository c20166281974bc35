// The records of text, CSV and TFRecord files, compressed or not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// kCsv: a line, which continues while a quoted field is open, without its end.
enum class RecordFormat { kTextLine, kCsv, kTFRecord };
enum class RecordCompression { kNone, kGzip, kZlib };

// A record as a TFRecord file has it: length and bytes, each with its checksum.
std::string tfrecord(std::string_view bytes);

// Whether `bytes`, unpacked, begin with the length of a record and its checksum.
bool looks_like_tfrecord(std::span<const std::byte> bytes);

// A compressed file is decompressed as a whole by the constructor, which throws DataLoss for a damaged one and
// ResourceExhausted for a decompression bomb.
class RecordReader {
 public:
  RecordReader(std::string path, RecordFormat format, RecordCompression compression,
               io::FileSystem& files = io::posix_file_system());
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // A line without its end and without carriage returns, or the bytes of a record whose checksums were checked. Empty
  // at the end of the file. Throws DataLoss with the byte for a record that is damaged or cut off.
  std::optional<std::string> next();

  // In the decompressed file. seek() throws FailedPrecondition beyond the end.
  std::int64_t offset() const { return static_cast<std::int64_t>(at_); }
  void seek(std::int64_t offset);

 private:
  std::string line();
  std::string csv_record();
  std::string record();
  [[noreturn]] void cut_off(std::size_t at) const;
  void check(std::size_t at, std::size_t size, const char* hint) const;

  std::string path_;
  RecordFormat format_;
  std::shared_ptr<const io::FileBytes> file_;
  std::string plain_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::formats
