#include "lockstep/io/faulty_file_system_internal.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

std::mutex log_mutex;

class FaultyFile final : public WritableFile {
 public:
  FaultyFile(FaultyFileSystem& files, std::unique_ptr<WritableFile> base, std::string path)
      : files_(files), base_(std::move(base)), path_(std::move(path)) {}

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    if (files_.step("write " + path_, true)) {
      base_->write_at(offset, bytes.first(bytes.size() / 2));
      throw_resource_exhausted(fmt::format("{}: no space left (injected, torn)", path_));
    }
    base_->write_at(offset, bytes);
  }
  void reserve(std::uint64_t size) override {
    files_.step("reserve " + path_);
    base_->reserve(size);
  }
  void sync() override {
    files_.step("sync " + path_);
    base_->sync();
  }
  void close() override {
    files_.step("close " + path_);
    base_->close();
  }

 private:
  FaultyFileSystem& files_;
  std::unique_ptr<WritableFile> base_;
  std::string path_;
};

}  // namespace

bool FaultyFileSystem::step(const std::string& what, bool is_write) {
  if (concerns_ && !concerns_()) return false;
  const int call = ++calls_;
  if (call == at_ && strike_) strike_();
  if (at_ > 0 && (call == at_ || (call > at_ && fault_ == Fault::kDie))) {
    if (fault_ == Fault::kTear && is_write) return true;
    throw_resource_exhausted(fmt::format("{}: no space left (injected at call {})", what, call));
  }
  const std::lock_guard lock(log_mutex);
  log_.push_back(what);
  return false;
}

std::unique_ptr<WritableFile> FaultyFileSystem::create(const std::string& path, std::uint32_t mode) {
  step("create " + path);
  return std::make_unique<FaultyFile>(*this, base_.create(path, mode), path);
}

void FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  step("rename " + from + " -> " + to);
  base_.rename(from, to);
}

bool FaultyFileSystem::exchange(const std::string& a, const std::string& b) {
  step("exchange " + a + " <-> " + b);
  return base_.exchange(a, b);
}

bool FaultyFileSystem::link(const std::string& existing, const std::string& name) {
  step("link " + existing + " as " + name);
  return base_.link(existing, name);
}

void FaultyFileSystem::remove_file(const std::string& path) {
  step("remove " + path);
  base_.remove_file(path);
}

void FaultyFileSystem::remove_directory(const std::string& path) {
  step("remove " + path);
  base_.remove_directory(path);
}

void FaultyFileSystem::make_directory(const std::string& path) {
  step("mkdir " + path);
  base_.make_directory(path);
}

void FaultyFileSystem::copy_permissions(const std::string& path, const FileStat& replaced) {
  step("chmod " + path);
  base_.copy_permissions(path, replaced);
}

void FaultyFileSystem::sync_path(const std::string& path) {
  step("sync " + path);
  base_.sync_path(path);
}

}  // namespace lockstep::io
