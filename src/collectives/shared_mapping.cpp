#include "lockstep/collectives/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <random>

#include <fmt/format.h>

namespace lockstep::collectives {
namespace {

constexpr const char* kPrefix = "/lockstep-";

bool has_room(int file, std::size_t bytes, double part_of_free) {
  struct statvfs system;
  if (fstatvfs(file, &system) != 0 || system.f_blocks == 0) return true;  // a file system without limit
  return static_cast<double>(bytes) <= part_of_free * static_cast<double>(system.f_bavail) * static_cast<double>(system.f_frsize);
}

void* map(int file, std::size_t bytes) { return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); }

}  // namespace

std::unique_ptr<SharedMapping> SharedMapping::make(std::size_t bytes, double part_of_free) {
  std::random_device random;
  const std::string name = fmt::format("{}{}-{:08x}{:08x}", kPrefix, getpid(), random(), random());
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (has_room(file, bytes, part_of_free) && posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0) memory = map(file, bytes);
  close(file);
  if (memory == MAP_FAILED) {
    shm_unlink(name.c_str());
    return nullptr;
  }
  return std::unique_ptr<SharedMapping>(new SharedMapping(name, memory, bytes));
}

std::unique_ptr<SharedMapping> SharedMapping::open(const std::string& name, std::size_t bytes) {
  if (!name.starts_with(kPrefix)) return nullptr;
  const int file = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (lseek(file, 0, SEEK_END) == static_cast<off_t>(bytes)) memory = map(file, bytes);
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedMapping>(new SharedMapping(std::string(), memory, bytes));
}

SharedMapping::~SharedMapping() {
  unlink();
  munmap(memory_, bytes_);
}

void SharedMapping::unlink() {
  if (!name_.empty()) shm_unlink(name_.c_str());
  name_.clear();
}

}  // namespace lockstep::collectives
