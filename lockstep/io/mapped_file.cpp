#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/mapped_file_internal.h"

namespace lockstep::io {
namespace {

std::uintptr_t page_size() {
  static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// A mapping as the signal handler sees it. Entries are never freed, so that the handler can walk the list at any
// moment; one whose mapping has ended is used again.
struct Watched {
  std::atomic<std::uintptr_t> begin{0};  // 0: unused
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> truncated{false};
  Watched* next = nullptr;
};

std::atomic<Watched*> watched{nullptr};
struct sigaction previous_action {};

// Touching a page past the end of a mapped file is SIGBUS. Of our mappings such a page is replaced by one of zeros, and
// the reading thread continues; check_mappings() reports it. mmap is a plain system call, which a handler may make.
void on_bus_error(int number, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Watched* each = watched.load(); each != nullptr; each = each->next) {
    const std::uintptr_t begin = each->begin.load();
    if (begin == 0 || at < begin || at >= each->end.load()) continue;
    const int saved = errno;
    void* const page = reinterpret_cast<void*>(at / page_size() * page_size());
    void* const zeros = ::mmap(page, page_size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = saved;
    if (zeros == MAP_FAILED) break;
    each->truncated = true;
    return;
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
  } else {
    std::signal(number, SIG_DFL);  // the access is repeated and ends the process, as it would have without us
  }
}

// The mappings that are alive, so that release() can distinguish them from other memory.
struct Mappings {
  struct Entry {
    std::size_t size = 0;
    std::string path;
    Watched* watched = nullptr;
  };
  std::mutex mutex;
  std::map<const std::byte*, Entry> entries;
  std::string truncated;  // path of a mapping that has ended and was not reported

  static Mappings& instance() {
    static Mappings* mappings = new Mappings();
    return *mappings;
  }

  void add(std::span<const std::byte> bytes, const std::string& path) {
    const std::lock_guard lock(mutex);
    entries.emplace(bytes.data(), Entry{bytes.size(), path, watch(bytes)});
  }

  void remove(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex);
    const auto found = entries.find(bytes.data());
    if (found->second.watched->truncated) truncated = found->second.path;
    found->second.watched->begin = 0;
    entries.erase(found);
    ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
  }

 private:
  static Watched* watch(std::span<const std::byte> bytes) {
    Watched* entry = watched.load();
    while (entry != nullptr && entry->begin.load() != 0) entry = entry->next;
    const bool fresh = entry == nullptr;
    if (fresh) {
      entry = new Watched();
      entry->next = watched.load();
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    entry->truncated = false;
    // Whole pages: the handler is called for addresses past the file's end, which its last page may contain.
    entry->end = (begin + bytes.size() + page_size() - 1) / page_size() * page_size();
    entry->begin = begin;
    if (fresh) watched = entry;
    return entry;
  }
};

class MappedBytes final : public FileBytes {
 public:
  MappedBytes(std::span<const std::byte> bytes, const std::string& path) {
    bytes_ = bytes;
    if (!bytes_.empty()) Mappings::instance().add(bytes_, path);
  }
  ~MappedBytes() override {
    if (!bytes_.empty()) Mappings::instance().remove(bytes_);
  }
};

}  // namespace

std::shared_ptr<const FileBytes> map_descriptor(int descriptor, std::size_t size, const std::string& path) {
  if (size == 0) return std::make_shared<MappedBytes>(std::span<const std::byte>{}, path);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) return nullptr;
  ::madvise(address, size, MADV_WILLNEED);
  return std::make_shared<MappedBytes>(std::span(static_cast<const std::byte*>(address), size), path);
}

void release(std::span<const std::byte> bytes) noexcept {
  const std::uintptr_t begin =
      (reinterpret_cast<std::uintptr_t>(bytes.data()) + page_size() - 1) / page_size() * page_size();
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / page_size() * page_size();
  if (begin >= end) return;
  Mappings& all = Mappings::instance();
  const std::lock_guard lock(all.mutex);
  auto found = all.entries.upper_bound(bytes.data());
  if (found == all.entries.begin()) return;
  --found;
  if (bytes.data() + bytes.size() > found->first + found->second.size) return;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void handle_truncated_mappings() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    page_size();  // known before the handler needs it
    ::sigaction(SIGBUS, &action, &previous_action);
  });
}

void check_mappings() {
  Mappings& all = Mappings::instance();
  const std::lock_guard lock(all.mutex);
  std::string path = std::exchange(all.truncated, "");
  for (const auto& [begin, entry] : all.entries) {
    if (entry.watched->truncated) path = entry.path;
  }
  if (path.empty()) return;
  throw_data_loss(
      fmt::format("{}: the file was truncated while it was read; another process rewrites it in place: read "
                  "it again when that has ended",
                  path));
}

}  // namespace lockstep::io
