// Makes system calls fail. Preloaded into the lockstep tool (LD_PRELOAD) by test_faults.py.
//
//   LOCKSTEP_FAULT_UNDER      only calls on files below this folder count
//   LOCKSTEP_FAULT_LOG        one line for each of them: its name, and " failed" where it was made to fail
//   LOCKSTEP_FAULT_AT         the call number (from 1) that fails; 0: none
//   LOCKSTEP_FAULT_ERRNO      with this error
//   LOCKSTEP_FAULT_PERMANENT  1: all calls after it fail too
//
// A failing close() closes, and a failing write writes its first half, as the calls themselves may.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

struct Settings {
  std::string_view under;
  int log = -1;
  long at = 0;
  int error = 0;
  bool permanent = false;
};

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const Settings& settings() {
  static const Settings all = [] {
    Settings read;
    read.under = variable("LOCKSTEP_FAULT_UNDER");
    read.at = std::atol(variable("LOCKSTEP_FAULT_AT"));
    read.error = std::atoi(variable("LOCKSTEP_FAULT_ERRNO"));
    read.permanent = *variable("LOCKSTEP_FAULT_PERMANENT") == '1';
    read.log = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, variable("LOCKSTEP_FAULT_LOG"),
                                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    return read;
  }();
  return all;
}

std::atomic<long> calls{0};

bool concerns(const char* path) {
  return path != nullptr && !settings().under.empty() && std::string_view(path).starts_with(settings().under);
}

bool concerns(int descriptor) {
  if (descriptor < 0) return false;
  char link[64];
  char path[PATH_MAX + 1];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const long size = ::syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX);
  if (size <= 0) return false;
  path[size] = '\0';
  return concerns(path);
}

// Counts a call on one of the files; true if it is to fail, errno is set then.
bool strikes(const char* name, bool concerned) {
  if (!concerned) return false;
  const Settings& all = settings();
  const long number = ++calls;
  const bool fails = all.at > 0 && (number == all.at || (number > all.at && all.permanent));
  char line[64];
  const int size = std::snprintf(line, sizeof line, "%s%s\n", name, fails ? " failed" : "");
  ::syscall(SYS_write, all.log, line, static_cast<std::size_t>(size));
  if (fails) errno = all.error;
  return fails;
}

template <typename Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

#define REAL(name) static auto* const real = next(&::name, #name)

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  if (strikes("open", concerns(path))) return -1;
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  if (strikes("pwrite", concerns(descriptor))) {
    const int error = errno;
    if (size > 1) ::syscall(SYS_pwrite64, descriptor, bytes, size / 2, offset);
    errno = error;
    return -1;
  }
  return ::syscall(SYS_pwrite64, descriptor, bytes, size, offset);
}

int close(int descriptor) {
  const bool fails = strikes("close", concerns(descriptor));
  const int error = errno;
  const int result = static_cast<int>(::syscall(SYS_close, descriptor));
  if (!fails) return result;
  errno = error;
  return -1;
}

#define INTERPOSE(result, name, failure, concerned, parameters, arguments) \
  result name parameters {                                                 \
    REAL(name);                                                            \
    if (strikes(#name, concerned)) return failure;                         \
    return real arguments;                                                 \
  }

INTERPOSE(int, fstat, -1, concerns(descriptor), (int descriptor, struct stat* info), (descriptor, info))
INTERPOSE(int, stat, -1, concerns(path), (const char* path, struct stat* info), (path, info))
INTERPOSE(int, lstat, -1, concerns(path), (const char* path, struct stat* info), (path, info))
INTERPOSE(int, fsync, -1, concerns(descriptor), (int descriptor), (descriptor))
INTERPOSE(int, fallocate, -1, concerns(descriptor), (int descriptor, int mode, off_t at, off_t size),
          (descriptor, mode, at, size))
INTERPOSE(void*, mmap, MAP_FAILED, concerns(descriptor),
          (void* at, size_t size, int protection, int flags, int descriptor, off_t offset),
          (at, size, protection, flags, descriptor, offset))
INTERPOSE(DIR*, opendir, nullptr, concerns(path), (const char* path), (path))
INTERPOSE(struct dirent*, readdir, nullptr, concerns(::dirfd(folder)), (DIR * folder), (folder))
INTERPOSE(int, rename, -1, concerns(from), (const char* from, const char* to), (from, to))
INTERPOSE(int, link, -1, concerns(from), (const char* from, const char* to), (from, to))
INTERPOSE(int, unlink, -1, concerns(path), (const char* path), (path))
INTERPOSE(int, rmdir, -1, concerns(path), (const char* path), (path))
INTERPOSE(int, mkdir, -1, concerns(path), (const char* path, mode_t mode), (path, mode))
INTERPOSE(int, chmod, -1, concerns(path), (const char* path, mode_t mode), (path, mode))
INTERPOSE(int, chown, -1, concerns(path), (const char* path, uid_t owner, gid_t group), (path, owner, group))
INTERPOSE(char*, realpath, nullptr, concerns(path), (const char* path, char* resolved), (path, resolved))
INTERPOSE(int, flock, -1, concerns(descriptor), (int descriptor, int operation), (descriptor, operation))

// renameat2() has no function of its own in older C libraries.
long syscall(long number, ...) {
  using Function = long(long, ...);
  static auto* const real = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "syscall"));
  va_list arguments;
  va_start(arguments, number);
  long values[6];
  for (long& value : values) value = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_renameat2 && strikes("renameat2", concerns(reinterpret_cast<const char*>(values[1])))) return -1;
  return real(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

}  // extern "C"
