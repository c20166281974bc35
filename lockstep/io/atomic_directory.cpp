#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"

namespace lockstep::io {
namespace {

// After a folder took the place of `old`, which may not survive a loss of power: the old one returns, and the new one
// is removed once that is durable.
void put_back(const std::string& old, const std::string& path, FileSystem& files) noexcept {
  try {
    std::string replaced = old;
    if (!files.exchange(old, path)) {
      replaced = temporary_sibling(path);
      files.rename(path, replaced);
      files.rename(old, path);
    }
    files.sync_path(parent_directory(path));
    remove_all(files, replaced);
  } catch (...) {  // both folders are whole, and the next save removes one
  }
}

}  // namespace

AtomicDirectory::AtomicDirectory(std::string path, std::vector<std::string> owned, FileSystem& files)
    : path_(std::move(path)), owned_(std::move(owned)), files_(files) {
  const auto replaced = files_.stat(path_);
  if (replaced) {
    if (replaced->kind != FileStat::Kind::kDirectory) {
      throw_already_exists(fmt::format("{}: a file is there, expected a folder or nothing", path_));
    }
    if (files_.is_link(path_)) path_ = files_.resolve(path_);
  }
  make_directories(files_, parent_directory(path_));
  remove_abandoned();
  staging_ = temporary_sibling(path_);
  files_.make_directory(staging_);
  if (!replaced) return;
  try {
    files_.copy_permissions(staging_, *replaced);
  } catch (...) {
    abandon();
    throw;
  }
}

AtomicDirectory::~AtomicDirectory() {
  if (!finished_) abandon();
}

void AtomicDirectory::abandon() noexcept {
  finished_ = true;
  try {
    remove_all(files_, staging_);
  } catch (...) {  // nothing more can be done about left-over files
  }
}

// Leftovers of a killed process: an unfinished folder, or the old one with entries that had yet to be moved.
void AtomicDirectory::remove_abandoned() noexcept {
  try {
    for (const std::string& each : abandoned_temporaries(path_, files_)) {
      if (is_directory(files_, path_) && is_directory(files_, each)) carry_over(each);
      remove_all(files_, each);
    }
  } catch (...) {  // they do no harm but take room
  }
}

void AtomicDirectory::commit() {
  if (finished_) throw_failed_precondition(fmt::format("{}: committed twice, or after it was abandoned", path_));
  sync_tree(staging_);
  const std::string parent = parent_directory(path_);
  if (!files_.stat(path_)) {
    files_.rename(staging_, path_);
    finished_ = true;
    files_.sync_path(parent);
    return;
  }
  std::string old = staging_;
  if (files_.exchange(staging_, path_)) {
    finished_ = true;  // from here on staging_ is the old folder, whose content must not be lost
  } else {
    // Without an atomic swap there is an instant in which only the sibling names exist.
    old = temporary_sibling(path_) + "-old";  // not to be taken for an abandoned new one
    files_.rename(path_, old);
    try {
      files_.rename(staging_, path_);
    } catch (...) {
      files_.rename(old, path_);
      throw;
    }
    finished_ = true;
  }
  try {
    files_.sync_path(parent);
  } catch (...) {
    put_back(old, path_, files_);
    throw;
  }
  carry_over(old);
  remove_all(files_, old);
}

void remove_directory_at_once(const std::string& path, FileSystem& files) {
  if (!is_directory(files, parent_directory(path))) return;
  for (const std::string& each : abandoned_temporaries(path, files)) remove_all(files, each);
  if (!is_directory(files, path)) return;
  const std::string gone = temporary_sibling(path);
  files.rename(path, gone);
  remove_all(files, gone);
}

void AtomicDirectory::sync_tree(const std::string& directory) {
  for (const auto& name : files_.list(directory)) {
    const std::string entry = join_path(directory, name);
    if (is_directory(files_, entry)) {
      sync_tree(entry);
    } else {
      files_.sync_path(entry);
    }
  }
  files_.sync_path(directory);
}

void AtomicDirectory::carry_over(const std::string& old_directory) {
  bool moved = false;
  for (const auto& name : files_.list(old_directory)) {
    if (std::find(owned_.begin(), owned_.end(), name) != owned_.end() || !temporary_target(name).empty()) continue;
    const std::string target = join_path(path_, name);
    if (files_.stat(target)) continue;
    files_.rename(join_path(old_directory, name), target);
    moved = true;
  }
  if (moved) files_.sync_path(path_);
}

}  // namespace lockstep::io
