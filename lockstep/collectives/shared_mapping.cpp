#include "lockstep/collectives/shared_mapping_internal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include <fmt/format.h>

namespace lockstep::collectives {
namespace {

void* map(int file, std::size_t bytes) { return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); }

// The target of a link in proc(5): "/memfd:LABEL (deleted)" for a descriptor of anonymous memory.
std::string target_of(const std::string& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

}  // namespace

// proc(5), MemAvailable.
std::int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string field;
  std::int64_t kilobytes = 0;
  while (file >> field) {
    if (field == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::int64_t>::max();
}

// A name is "PROCESS DESCRIPTOR LABEL": where it is in the process that made it, and what only that memory is called.
std::unique_ptr<SharedMapping> SharedMapping::make(std::size_t bytes, double part_of_free) {
  std::random_device random;
  const std::string label = fmt::format("lockstep-{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  if (static_cast<double>(bytes) > part_of_free * static_cast<double>(available_memory())) return nullptr;
  const int file = memfd_create(label.c_str(), MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0) memory = map(file, bytes);
  if (memory == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  return std::unique_ptr<SharedMapping>(
      new SharedMapping(fmt::format("{} {} {}", getpid(), file, label), file, memory, bytes));
}

std::unique_ptr<SharedMapping> SharedMapping::open(const std::string& name, std::size_t bytes) {
  std::istringstream words(name);
  std::string process, descriptor, label;
  words >> process >> descriptor >> label;
  const std::string proc = "/proc/" + process, path = proc + "/fd/" + descriptor;
  // On another machine the same numbers may be anything. Processes in other network namespaces count as
  // other machines.
  if (label.empty() || !target_of(path).starts_with("/memfd:" + label) ||
      target_of(proc + "/ns/net") != target_of("/proc/self/ns/net"))
    return nullptr;
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (lseek(file, 0, SEEK_END) == static_cast<off_t>(bytes)) memory = map(file, bytes);
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedMapping>(new SharedMapping(std::string(), -1, memory, bytes));
}

SharedMapping::~SharedMapping() {
  unname();
  munmap(memory_, bytes_);
}

void SharedMapping::unname() {
  if (file_ >= 0) close(file_);
  file_ = -1;
  name_.clear();
}

}  // namespace lockstep::collectives
