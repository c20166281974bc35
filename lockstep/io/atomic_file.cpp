#include "lockstep/io/atomic_file.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

constexpr std::size_t kChunk = std::size_t{4} << 20;     // small pieces are gathered up to this size
constexpr std::size_t kDirect = std::size_t{256} << 10;  // pieces from this size on are written as they come
constexpr std::size_t kAlignment = 4096;

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kAlignment}); }
};
using Chunk = std::unique_ptr<std::byte, AlignedDelete>;

Chunk new_chunk() {
  auto* memory = static_cast<std::byte*>(::operator new (kChunk, std::align_val_t{kAlignment}, std::nothrow));
  if (memory == nullptr) throw_resource_exhausted(fmt::format("no memory for a write buffer of {} bytes", kChunk));
  return Chunk(memory);
}

constexpr std::uint32_t kNewFileMode = 0666;

}  // namespace

class AtomicFile::Stream {
 public:
  Stream(std::string path, FileSystem& files, std::uint64_t expected_size) : path_(std::move(path)), files_(files) {
    if (files_.is_link(path_) && files_.stat(path_)) path_ = files_.resolve(path_);
    std::uint32_t mode = kNewFileMode;
    const auto replaced = files_.stat(path_);
    if (replaced) {
      if (replaced->kind == FileStat::Kind::kDirectory) {
        throw_already_exists(fmt::format("{}: a folder is there, expected a file or nothing", path_));
      }
      mode = replaced->mode & 0777;
    }
    if (!replaced) make_directories(files_, parent_directory(path_));
    remove_abandoned();
    create(mode | 0600);
    if (replaced) copy_permissions(*replaced);
    if (expected_size > kChunk) reserve(expected_size);
  }

  ~Stream() {
    if (file_ || !published_) abandon();
  }

  void append(std::span<const std::byte> bytes) {
    require_open();
    if (bytes.size() >= kDirect) {
      flush();
      file_->write_at(flushed_, bytes);
      flushed_ += bytes.size();
      return;
    }
    while (!bytes.empty()) {
      if (!chunk_) chunk_ = new_chunk();
      const std::size_t part = std::min(bytes.size(), kChunk - fill_);
      std::memcpy(chunk_.get() + fill_, bytes.data(), part);
      fill_ += part;
      bytes = bytes.subspan(part);
      if (fill_ == kChunk) flush();
    }
  }

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
    require_open();
    if (offset > size() || bytes.size() > size() - offset) {
      throw_invalid_argument(fmt::format("{}: {} bytes at offset {} are not within the {} bytes written so far", path_,
                                         bytes.size(), offset, size()));
    }
    if (offset < flushed_) {
      const auto before =
          bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), flushed_ - offset)));
      file_->write_at(offset, before);
      offset += before.size();
      bytes = bytes.subspan(before.size());
    }
    if (!bytes.empty()) std::memcpy(chunk_.get() + (offset - flushed_), bytes.data(), bytes.size());
  }

  std::uint64_t size() const { return flushed_ + fill_; }

  void sync_data() {
    require_open();
    check_mappings();  // nothing that was computed from a truncated file is published
    flush();
    file_->sync();
    file_->close();
    file_.reset();
    chunk_.reset();
    synced_ = true;
  }

  void publish() {
    if (!synced_) throw_failed_precondition(fmt::format("{}: published before its data was synced", path_));
    files_.rename(temporary_, path_);
    published_ = true;
    files_.sync_path(parent_directory(path_));
  }

  void abandon() noexcept {
    file_.reset();
    if (published_ || temporary_.empty()) return;
    try {
      files_.remove_file(temporary_);
    } catch (...) {  // nothing more can be done about a left-over file
    }
    temporary_.clear();
  }

  const std::string& path() const { return path_; }
  const std::string& temporary() const { return temporary_; }

 private:
  void create(std::uint32_t mode) {
    constexpr int kAttempts = 100;  // a killed process with our number may have left some
    for (int attempt = 1;; ++attempt) {
      std::string candidate = temporary_sibling(path_);
      try {
        file_ = files_.create(candidate, mode);
        temporary_ = std::move(candidate);
        return;
      } catch (const Error& error) {
        if (error.code() != Code::kAlreadyExists || attempt == kAttempts) throw;
      }
    }
  }

  void remove_abandoned() noexcept {
    try {
      for (const std::string& each : abandoned_temporaries(path_, files_)) remove_all(files_, each);
    } catch (...) {  // they do no harm but take room
    }
  }

  void copy_permissions(const FileStat& replaced) {
    or_abandon([&] { files_.copy_permissions(temporary_, replaced); });
  }

  void reserve(std::uint64_t size) {
    or_abandon([&] { file_->reserve(size); });
  }

  template <typename Step>
  void or_abandon(Step step) {
    try {
      step();
    } catch (...) {
      abandon();
      throw;
    }
  }

  void flush() {
    if (fill_ == 0) return;
    file_->write_at(flushed_, {chunk_.get(), fill_});
    flushed_ += std::exchange(fill_, 0);
  }

  void require_open() const {
    if (!file_) throw_failed_precondition(fmt::format("{}: written to after it was finished or abandoned", path_));
  }

  std::string path_;
  std::string temporary_;
  FileSystem& files_;
  std::unique_ptr<WritableFile> file_;
  Chunk chunk_;
  std::size_t fill_ = 0;
  std::uint64_t flushed_ = 0;
  bool synced_ = false;
  bool published_ = false;
};

AtomicFile::AtomicFile(std::string path, FileSystem& files, std::uint64_t expected_size)
    : stream_(std::make_unique<Stream>(std::move(path), files, expected_size)) {}

AtomicFile::~AtomicFile() = default;

void AtomicFile::append(std::span<const std::byte> bytes) { stream_->append(bytes); }

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) { stream_->write_at(offset, bytes); }

std::uint64_t AtomicFile::size() const { return stream_->size(); }

void AtomicFile::sync_data() {
  try {
    stream_->sync_data();
  } catch (...) {
    stream_->abandon();
    throw;
  }
}

void AtomicFile::publish() {
  try {
    stream_->publish();
  } catch (...) {
    stream_->abandon();
    throw;
  }
}

void AtomicFile::commit() {
  sync_data();
  publish();
}

const std::string& AtomicFile::path() const { return stream_->path(); }

const std::string& AtomicFile::temporary_path() const { return stream_->temporary(); }

void write_atomically(const std::string& path, std::string_view text, FileSystem& files) {
  AtomicFile file(path, files);
  file.append(text);
  file.commit();
}

}  // namespace lockstep::io
