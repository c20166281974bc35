#include "lockstep/io/gfile.h"

#include <algorithm>

#include <glob.h>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"

namespace lockstep::io::gfile {
namespace {

std::string local(const std::string& path) { return path.starts_with("file://") ? path.substr(7) : path; }

std::string contents(const std::string& path) {
  const std::shared_ptr<const FileBytes> bytes = posix_file_system().map(path);
  return std::string(as_text(bytes->bytes()));
}
void put(const std::string& path, std::string_view text) {
  const std::string folder = parent_directory(path);
  if (!is_directory(posix_file_system(), folder)) throw_not_found(fmt::format("the folder {} does not exist", folder));
  write_atomically(path, text);
}

void require_absent(const std::string& path, bool overwrite) {
  if (!overwrite && exists(path)) throw_already_exists(fmt::format("{} exists already; overwrite is false", path));
}

void walk_into(const std::string& folder,
               std::vector<std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>>& out) {
  std::vector<std::string> folders, names;
  for (const std::string& name : listdir(folder)) (isdir(join(folder, name)) ? folders : names).push_back(name);
  out.emplace_back(folder, folders, names);
  for (const std::string& name : folders) walk_into(join(folder, name), out);
}

}  // namespace

bool exists(const std::string& path) { return posix_file_system().stat(local(path)).has_value(); }
bool isdir(const std::string& path) { return is_directory(posix_file_system(), local(path)); }
List<std::string> glob(const std::string& pattern) {
  ::glob_t found{};
  const int result = ::glob(local(pattern).c_str(), 0, nullptr, &found);
  std::vector<std::string> names;
  if (result == 0) names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return names;
}
List<std::string> glob(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const std::string& pattern : patterns) {
    for (std::string& name : glob(pattern)) names.push_back(std::move(name));
  }
  return names;
}
List<std::string> listdir(const std::string& path) { return posix_file_system().list(local(path)); }
void mkdir(const std::string& path) { posix_file_system().make_directory(local(path)); }
void makedirs(const std::string& path) { make_directories(posix_file_system(), local(path)); }
void remove(const std::string& path) { posix_file_system().remove_file(local(path)); }
void rmtree(const std::string& path) {
  if (!exists(path)) throw_not_found(fmt::format("{} does not exist", path));
  remove_all(posix_file_system(), local(path));
}
void copy(const std::string& src, const std::string& dst, bool overwrite) {
  require_absent(dst, overwrite);
  put(local(dst), contents(local(src)));
}
void rename(const std::string& src, const std::string& dst, bool overwrite) {
  require_absent(dst, overwrite);
  posix_file_system().rename(local(src), local(dst));
}
std::string join(const std::string& path, const std::string& name) {
  return name.starts_with("/") ? name : path.empty() ? name : join_path(path, name);
}
Stat stat(const std::string& path) {
  const auto found = posix_file_system().stat(local(path));
  if (!found) throw_not_found(fmt::format("{} does not exist", path));
  return {static_cast<std::int64_t>(found->size), found->kind == FileStat::Kind::kDirectory};
}
std::vector<std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>> walk(const std::string& top) {
  std::vector<std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>> out;
  if (isdir(top)) walk_into(top, out);
  return out;
}

GFile::GFile(const std::string& name, const std::string& mode) : name_(name), mode_(mode.substr(0, 1)) {
  if (mode != "r" && mode != "rb" && mode != "w" && mode != "wb" && mode != "a" && mode != "ab") {
    throw_invalid_argument(
        fmt::format("GFile: invalid mode: found \"{}\", expected \"r\", \"w\" or \"a\", with \"b\" or not", mode));
  }
  if (mode_ == "r" || (mode_ == "a" && exists(name))) bytes_ = contents(local(name));
  changed_ = mode_ != "r";
}
GFile::~GFile() {
  try {
    close();
  } catch (const Error&) {
    // A file that is not closed reports nothing.
  }
}
std::string GFile::read(std::int64_t n) {
  const std::size_t left = bytes_.size() - std::min(place_, bytes_.size());
  const std::size_t count = n < 0 ? left : std::min(left, static_cast<std::size_t>(n));
  std::string out = count == 0 ? std::string() : bytes_.substr(place_, count);
  place_ += count;
  return out;
}
std::string GFile::readline() {
  const std::size_t end = place_ < bytes_.size() ? bytes_.find('\n', place_) : std::string::npos;
  return read(end == std::string::npos ? -1 : static_cast<std::int64_t>(end + 1 - place_));
}
std::vector<std::string> GFile::readlines() {
  std::vector<std::string> lines;
  for (std::string line = readline(); !line.empty(); line = readline()) lines.push_back(line);
  return lines;
}
std::int64_t GFile::size() const { return static_cast<std::int64_t>(bytes_.size()); }
std::int64_t GFile::tell() const { return static_cast<std::int64_t>(mode_ == "r" ? place_ : bytes_.size()); }
void GFile::seek(std::int64_t offset) {
  if (offset < 0) throw_invalid_argument(fmt::format("GFile.seek: the offset {} is negative", offset));
  place_ = static_cast<std::size_t>(offset);
}
void GFile::write(std::string_view text) {
  if (mode_ == "r") throw_error(Code::kPermissionDenied, fmt::format("{} was opened for reading", name_));
  bytes_ += text;
  changed_ = true;
}
void GFile::flush() {
  if (!changed_) return;
  put(local(name_), bytes_);
  changed_ = false;
}
void GFile::close() { flush(); }
std::vector<std::string>::iterator GFile::begin() {
  lines_ = readlines();
  return lines_.begin();
}
std::vector<std::string>::iterator GFile::end() { return lines_.end(); }

}  // namespace lockstep::io::gfile
