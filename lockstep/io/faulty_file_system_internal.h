// A file system for tests whose n-th changing call goes wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/io/file_system.h"

namespace lockstep::io {

// Passes every call on to `base`, and counts those that change something: create, write_at, reserve,
// sync, close, rename, exchange, link, remove_*, make_directory, copy_permissions, sync_path.
class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault {
    kFail,  // the call does nothing and throws ResourceExhausted, as a full disk does; later calls work
    kTear,  // like kFail, but a write leaves its first half behind
    kDie,   // the call and all changing calls after it do nothing and throw: the process was killed
  };

  // The call number `at` (from 1) goes wrong; 0 means none does.
  FaultyFileSystem(FileSystem& base, Fault fault, int at) : base_(base), fault_(fault), at_(at) {}

  // Only calls for which this is true count and go wrong, such as those of one worker's thread. Called from any thread.
  void set_scope(std::function<bool()> concerns) { concerns_ = std::move(concerns); }
  // Called once when the fault strikes.
  void on_strike(std::function<void()> strike) { strike_ = std::move(strike); }

  int calls() const { return calls_; }
  bool struck() const { return at_ > 0 && calls_ >= at_; }
  // The calls so far, as "rename a -> b", in order.
  const std::vector<std::string>& log() const { return log_; }

  std::unique_ptr<WritableFile> create(const std::string& path, std::uint32_t mode) override;
  std::shared_ptr<const FileBytes> map(const std::string& path) override { return base_.map(path); }
  std::optional<FileStat> stat(const std::string& path) override { return base_.stat(path); }
  std::vector<std::string> list(const std::string& directory) override { return base_.list(directory); }
  void rename(const std::string& from, const std::string& to) override;
  bool exchange(const std::string& a, const std::string& b) override;
  bool link(const std::string& existing, const std::string& name) override;
  void remove_file(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  void make_directory(const std::string& path) override;
  void copy_permissions(const std::string& path, const FileStat& replaced) override;
  void sync_path(const std::string& path) override;
  bool is_link(const std::string& path) override { return base_.is_link(path); }
  std::string resolve(const std::string& path) override { return base_.resolve(path); }

  // False when this call may proceed; throws, or returns true for a write to be torn.
  bool step(const std::string& what, bool is_write = false);

 private:
  FileSystem& base_;
  Fault fault_;
  int at_;
  std::function<bool()> concerns_;
  std::function<void()> strike_;
  std::atomic<int> calls_{0};
  std::vector<std::string> log_;
};

}  // namespace lockstep::io
