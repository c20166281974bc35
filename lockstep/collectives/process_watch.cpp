#include "lockstep/collectives/process_watch_internal.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>

#include <fmt/format.h>

namespace lockstep::collectives {
namespace {

// Process numbers mean something within one namespace only.
std::string number_space() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? std::to_string(status.st_ino) : "";
}

}  // namespace

std::string ProcessWatch::self() { return fmt::format("{} {}", getpid(), number_space()); }

ProcessWatch::ProcessWatch(const std::string& process) {
  int number = 0;
  const auto parsed = std::from_chars(process.data(), process.data() + process.size(), number);
  if (parsed.ec != std::errc() || number <= 0) return;
  const std::size_t space = process.find(' ');
  const std::string own = number_space();
  if (own.empty() || space == std::string::npos || process.compare(space + 1, std::string::npos, own) != 0) return;
  handle_ = static_cast<int>(syscall(SYS_pidfd_open, number, 0));
}

ProcessWatch::~ProcessWatch() {
  if (handle_ >= 0) close(handle_);
}

bool ProcessWatch::ended() const {
  pollfd state{handle_, POLLIN, 0};
  return handle_ >= 0 && poll(&state, 1, 0) == 1;
}

}  // namespace lockstep::collectives
