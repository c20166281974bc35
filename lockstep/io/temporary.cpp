// Names of temporary files contain the process that made them, so that those of dead processes are found and removed.
#include <limits.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/io/atomic_file.h"

namespace lockstep::io {
namespace {

constexpr std::string_view kMark = ".tmp-";
constexpr std::size_t kMostOfName = 190;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// When a process started, in ticks since the machine did; empty for one that is not there or is dead.
std::string start_of(const std::string& pid) {
  const std::string text = contents("/proc/" + pid + "/stat");
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return {};
  std::vector<std::string> fields;
  for (std::size_t at = name_end + 1; at < text.size() && fields.size() < 20;) {
    const std::size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string::npos) break;
    at = std::min(text.find(' ', begin), text.size());
    fields.push_back(text.substr(begin, at - begin));
  }
  if (fields.size() < 20 || fields[0] == "Z" || fields[0] == "X") return {};
  return fields[19];
}

// Identifies this boot of this machine and this namespace of process ids.
std::string machine() {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, HOST_NAME_MAX);
  char numbering[64] = {};
  const auto size = ::readlink("/proc/self/ns/pid", numbering, sizeof numbering - 1);
  const std::string all = std::string(host) + contents("/proc/sys/kernel/random/boot_id") +
                          std::string(numbering, size > 0 ? static_cast<std::size_t>(size) : 0);
  return fmt::format("{:08x}", static_cast<std::uint32_t>(std::hash<std::string>{}(all)));
}

const std::string& this_machine() {
  static const std::string name = machine();
  return name;
}

}  // namespace

std::string temporary_sibling(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  const std::string self = std::to_string(::getpid());  // not kept: a forked child is another process
  const std::string start = start_of(self);
  const std::string name = base_name(path).substr(0, kMostOfName);
  return join_path(parent_directory(path),
                   fmt::format(".{}{}{}-{}-{}-{}", name, kMark, this_machine(), self, start, counter.fetch_add(1)));
}

std::string temporary_target(const std::string& name) {
  const std::size_t mark = name.rfind(kMark);
  return name.starts_with('.') && mark != std::string::npos && mark > 0 ? name.substr(1, mark - 1) : std::string();
}

bool is_abandoned_temporary(const std::string& name) {
  const std::size_t mark = name.rfind(kMark);
  if (temporary_target(name).empty()) return false;
  std::vector<std::string> parts;
  for (std::size_t at = mark + kMark.size(); at <= name.size();) {
    const std::size_t end = std::min(name.find('-', at), name.size());
    parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  if (parts.size() != 4 || parts[0] != this_machine() || parts[1].empty() ||
      parts[1].find_first_not_of("0123456789") != std::string::npos) {
    return false;
  }
  return start_of(parts[1]) != parts[2];
}

std::vector<std::string> abandoned_temporaries(const std::string& path, FileSystem& files) {
  const std::string directory = parent_directory(path), name = base_name(path).substr(0, kMostOfName);
  std::vector<std::string> found;
  for (const std::string& entry : files.list(directory)) {
    if (entry.starts_with('.') && temporary_target(entry) == name && is_abandoned_temporary(entry)) {
      found.push_back(join_path(directory, entry));
    }
  }
  return found;
}

}  // namespace lockstep::io
