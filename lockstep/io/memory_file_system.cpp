#include "lockstep/io/memory_file_system_internal.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

class MemoryBytes final : public FileBytes {
 public:
  explicit MemoryBytes(std::shared_ptr<const std::string> data) : data_(std::move(data)) { bytes_ = as_bytes(*data_); }

 private:
  std::shared_ptr<const std::string> data_;
};

class MemoryFile final : public WritableFile {
 public:
  explicit MemoryFile(std::shared_ptr<std::string> data) : data_(std::move(data)) {}
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    if (data_->size() < offset + bytes.size()) data_->resize(offset + bytes.size());
    std::memcpy(data_->data() + offset, bytes.data(), bytes.size());
  }
  void reserve(std::uint64_t) override {}
  void sync() override {}
  void close() override {}

 private:
  std::mutex mutex_;
  std::shared_ptr<std::string> data_;
};

}  // namespace

MemoryFileSystem::MemoryFileSystem() : folders_{{"/", {}}, {".", {}}} {}

void MemoryFileSystem::put(const std::string& path, std::string bytes) {
  make_directories(*this, parent_directory(path));
  const std::lock_guard lock(mutex_);
  folders_[parent_directory(path)].insert(base_name(path));
  files_[path] = std::make_shared<std::string>(std::move(bytes));
}

void MemoryFileSystem::put(const std::string& path, std::shared_ptr<const FileBytes> bytes) {
  make_directories(*this, parent_directory(path));
  const std::lock_guard lock(mutex_);
  folders_[parent_directory(path)].insert(base_name(path));
  elsewhere_[path] = std::move(bytes);
}

MemoryFileSystem::Bytes& MemoryFileSystem::file(const std::string& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) throw_not_found(fmt::format("{}: no such file", path));
  return found->second;
}

std::unique_ptr<WritableFile> MemoryFileSystem::create(const std::string& path, std::uint32_t) {
  const std::lock_guard lock(mutex_);
  const auto folder = folders_.find(parent_directory(path));
  if (folder == folders_.end()) throw_not_found(fmt::format("{}: its folder does not exist", path));
  if (files_.contains(path) || folders_.contains(path)) throw_already_exists(fmt::format("{}: is there already", path));
  folder->second.insert(base_name(path));
  return std::make_unique<MemoryFile>(files_[path] = std::make_shared<std::string>());
}

std::shared_ptr<const FileBytes> MemoryFileSystem::map(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const auto found = elsewhere_.find(path); found != elsewhere_.end()) return found->second;
  return std::make_shared<MemoryBytes>(file(path));
}

std::optional<FileStat> MemoryFileSystem::stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (folders_.contains(path)) return FileStat{FileStat::Kind::kDirectory, 0, 0755};
  if (const auto found = elsewhere_.find(path); found != elsewhere_.end())
    return FileStat{FileStat::Kind::kFile, found->second->bytes().size(), 0444};
  const auto found = files_.find(path);
  if (found == files_.end()) return std::nullopt;
  return FileStat{FileStat::Kind::kFile, found->second->size(), 0644};
}

std::vector<std::string> MemoryFileSystem::list(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  const auto found = folders_.find(directory);
  if (found == folders_.end()) throw_not_found(fmt::format("{}: no such folder", directory));
  return {found->second.begin(), found->second.end()};
}

void MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const Bytes moved = file(from);
  const auto folder = folders_.find(parent_directory(to));
  if (folder == folders_.end()) throw_not_found(fmt::format("{}: its folder does not exist", to));
  files_.erase(from);
  folders_[parent_directory(from)].erase(base_name(from));
  folder->second.insert(base_name(to));
  files_[to] = moved;
}

void MemoryFileSystem::remove_file(const std::string& path) {
  const std::lock_guard lock(mutex_);
  file(path);
  files_.erase(path);
  folders_[parent_directory(path)].erase(base_name(path));
}

void MemoryFileSystem::remove_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  folders_.erase(path);
  folders_[parent_directory(path)].erase(base_name(path));
}

void MemoryFileSystem::make_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (files_.contains(path) || folders_.contains(path)) throw_already_exists(fmt::format("{}: is there already", path));
  folders_[path];
  folders_[parent_directory(path)].insert(base_name(path));
}

}  // namespace lockstep::io
