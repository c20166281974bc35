// tf.io.gfile: files and folders of the machine by TensorFlow's names. Names may begin with "file://". Failures are the
// Errors of FileSystem (file_system.h): NotFound, AlreadyExists, PermissionDenied, ...
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/base/list.h"

namespace lockstep::io::gfile {

bool exists(const std::string& path);
bool isdir(const std::string& path);
// The paths that match patterns (*, ?, [...] within a name), sorted.
List<std::string> glob(const std::string& pattern);
List<std::string> glob(const std::vector<std::string>& patterns);
// Names in a folder. Throws NotFound where there is none.
List<std::string> listdir(const std::string& path);
void mkdir(const std::string& path);     // its parent exists, it does not
void makedirs(const std::string& path);  // with its parents; fine when it exists
void remove(const std::string& path);    // a file
void rmtree(const std::string& path);    // a folder with all below it. Throws NotFound where there is none.
// Throw AlreadyExists for a file that is there, unless it is to be overwritten.
void copy(const std::string& src, const std::string& dst, bool overwrite = false);
void rename(const std::string& src, const std::string& dst, bool overwrite = false);
std::string join(const std::string& path, const std::string& name);
template <typename... Names>
std::string join(const std::string& path, const std::string& name, const Names&... names) {
  return join(join(path, name), names...);
}
struct Stat {
  std::int64_t length = 0;  // bytes
  bool is_directory = false;
};
Stat stat(const std::string& path);
// (folder, folders in it, files in it), a folder before those below it.
std::vector<std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>> walk(const std::string& top);

// A file that is read, "r" and "rb", or written, "w", "wb", "a" and "ab". It is written when it is closed, or goes.
class GFile {
 public:
  // Throws NotFound for a file that is read and not there, InvalidArgument for another mode.
  explicit GFile(const std::string& name, const std::string& mode = "r");
  ~GFile();
  GFile(const GFile&) = delete;
  GFile& operator=(const GFile&) = delete;

  std::string read(std::int64_t n = -1);  // what is left, or at most n bytes
  std::string readline();                 // with its line break; empty at the end
  std::vector<std::string> readlines();
  std::int64_t size() const;
  std::int64_t tell() const;
  void seek(std::int64_t offset);
  void write(std::string_view text);
  void flush();
  void close();
  const std::string& name() const { return name_; }

  // for (const std::string& line : file): lines with their breaks.
  std::vector<std::string>::iterator begin();
  std::vector<std::string>::iterator end();

 private:
  std::string name_, mode_, bytes_;
  std::size_t place_ = 0;
  bool changed_ = false;
  std::vector<std::string> lines_;
};

}  // namespace lockstep::io::gfile
