#include "lockstep/io/directory_lock_internal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

class Held;
// A folder that this process has locked.
struct Folder {
  std::weak_ptr<Held> held;
  bool locked = false;  // until the descriptor is closed, which is after `held` has expired
};
struct Folders {
  std::mutex mutex;
  std::condition_variable unlocked;
  std::map<std::pair<dev_t, ino_t>, Folder> all;
};
// Never destroyed: static objects may have locks.
Folders& folders() {
  static auto* const one = new Folders;
  return *one;
}

class Held {
 public:
  explicit Held(int fd) : fd_(fd) {}
  ~Held() {
    const std::lock_guard guard(folders().mutex);
    ::close(fd_);
    if (folder_) folder_->locked = false;
    folders().unlocked.notify_all();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  void is_lock_of(Folder& folder) {
    folder_ = &folder;
    folder.locked = true;
  }

 private:
  int fd_;
  Folder* folder_ = nullptr;
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
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_not_found(fmt::format("{}: cannot open the folder: {}", path, std::strerror(errno)));
  auto opened = std::make_shared<Held>(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) return {opened, {}};
  std::unique_lock guard(folders().mutex);
  Folder& ours = folders().all[{info.st_dev, info.st_ino}];
  std::shared_ptr<Held> held;
  folders().unlocked.wait(guard, [&] { return (held = ours.held.lock()) || !ours.locked; });
  if (held) return {held, {}};
  for (int attempts = 1000; ::flock(fd, LOCK_EX | LOCK_NB) != 0; --attempts) {
    if (errno == EWOULDBLOCK) return {nullptr, holder_of(info)};
    if (errno != EINTR || attempts == 0) break;  // a file system without locks
  }
  ours.held = opened;
  opened->is_lock_of(ours);
  return {opened, {}};
}

}  // namespace lockstep::io
