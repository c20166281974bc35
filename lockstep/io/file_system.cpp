#include "lockstep/io/file_system.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

std::string without_trailing_slashes(const std::string& path) {
  std::size_t end = path.size();
  while (end > 1 && path[end - 1] == '/') --end;
  return path.substr(0, end);
}

}  // namespace

std::string parent_directory(const std::string& path) {
  const std::string clean = without_trailing_slashes(path);
  const std::size_t slash = clean.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : without_trailing_slashes(clean.substr(0, slash));
}

std::string base_name(const std::string& path) {
  const std::string clean = without_trailing_slashes(path);
  return clean.substr(clean.rfind('/') + 1);
}

std::string join_path(const std::string& directory, const std::string& name) {
  if (directory.empty() || (!name.empty() && name.front() == '/')) return name;
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

bool is_directory(FileSystem& files, const std::string& path) {
  const auto stat = files.stat(path);
  return stat && stat->kind == FileStat::Kind::kDirectory;
}

bool is_file(FileSystem& files, const std::string& path) {
  const auto stat = files.stat(path);
  return stat && stat->kind == FileStat::Kind::kFile;
}

void make_directories(FileSystem& files, const std::string& path) {
  if (path.empty() || is_directory(files, path)) return;
  const std::string parent = parent_directory(path);
  if (parent != path) make_directories(files, parent);
  try {
    files.make_directory(path);
  } catch (const Error& error) {
    // Another process may have been faster.
    if (error.code() != Code::kAlreadyExists || !is_directory(files, path)) throw;
  }
}

void remove_all(FileSystem& files, const std::string& path) {
  const bool link = files.is_link(path);
  if (!link) {
    const auto stat = files.stat(path);
    if (!stat) return;
    if (stat->kind == FileStat::Kind::kDirectory) {
      for (const auto& name : files.list(path)) remove_all(files, join_path(path, name));
      files.remove_directory(path);
      return;
    }
  }
  files.remove_file(path);
}

std::string read_text(FileSystem& files, const std::string& path, std::uint64_t limit) {
  const auto file = files.map(path);
  if (file->bytes().size() > limit) {
    throw_resource_exhausted(fmt::format("{}: {} bytes is more than the limit of {} for a file of this kind", path,
                                         file->bytes().size(), limit));
  }
  return std::string(as_text(file->bytes()));
}

}  // namespace lockstep::io
