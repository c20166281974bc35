#include "lockstep/io/directory_lock_internal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

class Held {
 public:
  explicit Held(int fd) : fd_(fd) {}
  ~Held() { ::close(fd_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  int fd_;
};

// The process that has locked a folder, as Linux lists it: "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF".
std::optional<int> holder_of(const struct stat& folder) {
  const std::string place = fmt::format("{:02x}:{:02x}:{}", major(folder.st_dev), minor(folder.st_dev), folder.st_ino);
  std::ifstream locks("/proc/locks");
  std::string number, kind, mode, access, at;
  for (int process = 0; locks >> number >> kind >> mode >> access >> process >> at;) {
    if (kind == "FLOCK" && at == place && process > 0) return process;
    locks.ignore(256, '\n');
  }
  return std::nullopt;
}

}  // namespace

DirectoryLock lock_directory(const std::string& path) {
  static std::mutex mutex;
  static auto* const locks = new std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Held>>();
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_not_found(fmt::format("{}: cannot open the folder: {}", path, std::strerror(errno)));
  auto opened = std::make_shared<Held>(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return {opened, {}};
  const std::lock_guard guard(mutex);
  std::weak_ptr<Held>& ours = (*locks)[{info.st_dev, info.st_ino}];
  if (auto held = ours.lock()) return {held, {}};
  for (int attempts = 1000; ::flock(fd, LOCK_EX | LOCK_NB) != 0; --attempts) {
    if (errno == EWOULDBLOCK) return {nullptr, holder_of(info)};
    if (errno != EINTR || attempts == 0) break;  // a file system without locks
  }
  ours = opened;
  return {opened, {}};
}

}  // namespace lockstep::io
