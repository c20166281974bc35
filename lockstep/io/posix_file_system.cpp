#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/mapped_file_internal.h"
#include "lockstep/io/scoped_file_system_internal.h"

namespace lockstep::io {
namespace {

Code code_of(int error) {
  switch (error) {
    case ENOENT: return Code::kNotFound;
    case EEXIST:
    case ENOTEMPTY: return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS: return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return Code::kResourceExhausted;
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case EINVAL: return Code::kInvalidArgument;
    case EIO: return Code::kDataLoss;
    default: return Code::kUnknown;
  }
}

[[noreturn]] void throw_errno(int error, const std::string& what, const std::string& path) {
  throw_error(code_of(error), fmt::format("{}: cannot {}: {}", path, what, std::strerror(error)));
}

// Paths from files may hold NUL, which would silently cut them short.
const char* c_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) throw_invalid_argument("a file name must not contain a NUL byte");
  if (path.empty()) throw_invalid_argument("a file name must not be empty");
  return path.c_str();
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    return old >= 0 ? ::close(old) : 0;
  }

 private:
  int fd_;
};

// Whether a call that a signal interrupted is to be made again; a file system that interrupts each call has failed.
class Interruptions {
 public:
  bool again() { return errno == EINTR && left_-- > 0; }

 private:
  int left_ = 1000;
};

int open_retrying(const std::string& path, int flags, mode_t mode = 0) {
  for (Interruptions interruptions;;) {
    const int fd = ::open(c_path(path), flags | O_CLOEXEC, mode);
    if (fd >= 0 || !interruptions.again()) return fd;
  }
}

constexpr std::size_t kWriteBack = std::size_t{1} << 20;

// Through the page cache: past it, writing is a little faster, but the next reader of the file, often
// the same process, would wait for the device instead of finding the bytes in memory.
class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    for (Interruptions interruptions; !bytes.empty();) {
      const std::size_t part = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
      const ssize_t written = ::pwrite(fd_.get(), bytes.data(), part, static_cast<off_t>(offset));
      if (written < 0 && interruptions.again()) continue;
      if (written <= 0) {
        throw_errno(written < 0 ? errno : ENOSPC, fmt::format("write {} bytes at offset {}", part, offset), path_);
      }
      const auto size = static_cast<std::size_t>(written);
      // The device starts now instead of at sync(), which also reports what goes wrong.
      if (size >= kWriteBack)
        ::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(size), SYNC_FILE_RANGE_WRITE);
      offset += size;
      bytes = bytes.subspan(size);
    }
  }

  void reserve(std::uint64_t size) override {
    if (size == 0 || ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) return;
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
      throw_errno(errno, fmt::format("reserve {} bytes", size), path_);
    }
  }

  void sync() override {
    for (Interruptions interruptions; ::fsync(fd_.get()) != 0;) {
      if (!interruptions.again()) throw_errno(errno, "sync", path_);
    }
  }

  void close() override {
    if (fd_.reset() != 0 && errno != EINTR) throw_errno(errno, "close", path_);
  }

 private:
  std::string path_;
  Descriptor fd_;
};

class PosixFileSystem final : public FileSystem {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path, std::uint32_t mode) override {
    const int fd = open_retrying(path, O_RDWR | O_CREAT | O_EXCL, mode);
    if (fd < 0) throw_errno(errno, "create", path);
    return std::make_unique<PosixWritableFile>(path, fd);
  }

  std::shared_ptr<const FileBytes> map(const std::string& path) override {
    // Not blocking, so that a pipe in the place of a file does not hang us.
    Descriptor fd(open_retrying(path, O_RDONLY | O_NONBLOCK));
    if (!fd) throw_errno(errno, "open", path);
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) throw_errno(errno, "examine", path);
    if (S_ISDIR(info.st_mode)) throw_errno(EISDIR, "read", path);
    if (!S_ISREG(info.st_mode)) throw_invalid_argument(fmt::format("{}: not a regular file", path));
    if (info.st_size == 0) return map_descriptor(-1, 0, path);
    auto bytes = map_descriptor(fd.get(), static_cast<std::size_t>(info.st_size), path);
    if (bytes == nullptr) throw_errno(errno, "map", path);
    return bytes;
  }

  std::optional<FileStat> stat(const std::string& path) override {
    struct stat info {};
    if (::stat(c_path(path), &info) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
      throw_errno(errno, "examine", path);
    }
    FileStat result;
    result.kind = S_ISREG(info.st_mode)   ? FileStat::Kind::kFile
                  : S_ISDIR(info.st_mode) ? FileStat::Kind::kDirectory
                                          : FileStat::Kind::kOther;
    result.size = static_cast<std::uint64_t>(info.st_size);
    result.mode = info.st_mode & 07777;
    result.owner = info.st_uid;
    result.group = info.st_gid;
    return result;
  }

  std::vector<std::string> list(const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(c_path(directory)), ::closedir);
    if (!handle) throw_errno(errno, "list", directory);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(handle.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) throw_errno(errno, "list", directory);
    std::sort(names.begin(), names.end());
    return names;
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(c_path(from), c_path(to)) != 0) throw_errno(errno, "rename to " + to, from);
  }

  bool exchange(const std::string& a, const std::string& b) override {
    if (::syscall(SYS_renameat2, AT_FDCWD, c_path(a), AT_FDCWD, c_path(b), RENAME_EXCHANGE) == 0) return true;
    if (errno == EINVAL || errno == ENOSYS) return false;
    throw_errno(errno, "exchange with " + b, a);
  }

  bool link(const std::string& existing, const std::string& name) override {
    if (::link(c_path(existing), c_path(name)) == 0) return true;
    if (errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP || errno == EMLINK) return false;
    throw_errno(errno, "link as " + name, existing);
  }

  void remove_file(const std::string& path) override {
    if (::unlink(c_path(path)) != 0) throw_errno(errno, "remove", path);
  }

  void remove_directory(const std::string& path) override {
    if (::rmdir(c_path(path)) != 0) throw_errno(errno, "remove", path);
  }

  void make_directory(const std::string& path) override {
    if (::mkdir(c_path(path), 0777) != 0) throw_errno(errno, "create folder", path);
  }

  void copy_permissions(const std::string& path, const FileStat& replaced) override {
    const auto now = stat(path);
    if (!now) throw_errno(ENOENT, "examine", path);
    // Only a privileged process may give a file to another user, and a user only to a group of theirs.
    const auto unless_same = [](std::uint32_t is, std::uint32_t wanted) {
      return is == wanted ? static_cast<std::uint32_t>(-1) : wanted;
    };
    if ((now->owner != replaced.owner || now->group != replaced.group) &&
        ::chown(c_path(path), unless_same(now->owner, replaced.owner), unless_same(now->group, replaced.group)) != 0 &&
        now->group != replaced.group) {
      (void)!::chown(c_path(path), static_cast<uid_t>(-1), replaced.group);
    }
    const std::uint32_t mode = replaced.mode & 03777;
    if (stat(path)->mode == mode || ::chmod(c_path(path), mode) == 0) return;
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) throw_errno(errno, "set the mode of", path);
  }

  void sync_path(const std::string& path) override {
    Descriptor fd(open_retrying(path, O_RDONLY | O_NONBLOCK));
    if (!fd) throw_errno(errno, "open", path);
    for (Interruptions interruptions; ::fsync(fd.get()) != 0;) {
      if (errno == EINVAL) return;  // a file system without folders to sync
      if (!interruptions.again()) throw_errno(errno, "sync", path);
    }
  }

  bool is_link(const std::string& path) override {
    struct stat info {};
    return ::lstat(c_path(path), &info) == 0 && S_ISLNK(info.st_mode);
  }

  std::string resolve(const std::string& path) override {
    const std::unique_ptr<char, void (*)(void*)> resolved(::realpath(c_path(path), nullptr), std::free);
    if (!resolved) throw_errno(errno, "resolve", path);
    return resolved.get();
  }
};

std::atomic<FileSystem*> in_its_place{nullptr};

}  // namespace

ScopedFileSystem::ScopedFileSystem(FileSystem& files) { in_its_place = &files; }
ScopedFileSystem::~ScopedFileSystem() { in_its_place = nullptr; }

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  FileSystem* const other = in_its_place;
  return other ? *other : files;
}

}  // namespace lockstep::io
