#include "lockstep/collectives/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <random>

#include <fmt/format.h>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kPlace = 4 << 20;     // bytes of a rank, when there is room
constexpr std::size_t kMost = 64 << 20;     // bytes in all
constexpr std::size_t kLine = 64;           // a line of the cache
constexpr int kMaxRanks = 64;
constexpr int kSpins = 4000;                // some 100 microseconds: how far apart ranks arrive at a step's end
constexpr long kNap = 5'000'000;            // nanoseconds

std::size_t place_size(int size) {
  const std::size_t fair = kMost / (static_cast<std::size_t>(size) + 1);
  return std::min(kPlace, fair) / kLine * kLine;
}

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <typename T>
void add_places(std::byte* const* places, int size, std::size_t begin, std::size_t end, std::byte* result) {
  auto* const out = reinterpret_cast<T*>(result);
  const auto* const first = reinterpret_cast<const T*>(places[0]);
  const auto* const second = reinterpret_cast<const T*>(places[1]);
  for (std::size_t i = begin; i < end; ++i) out[i] = first[i] + second[i];
  for (int rank = 2; rank < size; ++rank) {
    const auto* const other = reinterpret_cast<const T*>(places[rank]);
    for (std::size_t i = begin; i < end; ++i) out[i] += other[i];
  }
}

using Add = void (*)(std::byte* const*, int, std::size_t, std::size_t, std::byte*);

Add adder(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return add_places<float>;
    case DType::kFloat64: return add_places<double>;
    case DType::kInt32: return add_places<std::int32_t>;
    case DType::kInt64: return add_places<std::int64_t>;
    default: return nullptr;
  }
}

}  // namespace

// At the start of the memory; then the ranks' places, then the result.
struct SharedMemory::Header {
  struct alignas(kLine) Counter {
    std::atomic<std::uint64_t> value{0};
  };
  Counter arrived[kMaxRanks];             // meetings each rank has come to
  alignas(kLine) std::atomic<std::uint32_t> bell{0};  // changes at each arrival
  std::atomic<std::uint32_t> sleepers{0};
};

std::unique_ptr<SharedMemory> SharedMemory::make(int size) {
  if (size < 2 || size > kMaxRanks) return nullptr;
  std::random_device random;
  const std::string name = fmt::format("/lockstep-{}-{:08x}{:08x}", getpid(), random(), random());
  const std::size_t bytes = sizeof(Header) + (static_cast<std::size_t>(size) + 1) * place_size(size);
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0) memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    shm_unlink(name.c_str());
    return nullptr;
  }
  new (memory) Header();
  return std::unique_ptr<SharedMemory>(new SharedMemory(name, 0, size, memory, bytes));
}

std::unique_ptr<SharedMemory> SharedMemory::open(const std::string& name, int rank, int size) {
  if (!name.starts_with("/lockstep-") || size < 2 || size > kMaxRanks) return nullptr;
  const std::size_t bytes = sizeof(Header) + (static_cast<std::size_t>(size) + 1) * place_size(size);
  const int file = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (lseek(file, 0, SEEK_END) == static_cast<off_t>(bytes)) memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedMemory>(new SharedMemory(std::string(), rank, size, memory, bytes));
}

SharedMemory::SharedMemory(std::string name, int rank, int size, void* memory, std::size_t bytes)
    : name_(std::move(name)), rank_(rank), size_(size), memory_(memory), bytes_(bytes) {}

SharedMemory::~SharedMemory() {
  unlink();
  munmap(memory_, bytes_);
}

void SharedMemory::unlink() {
  if (!name_.empty()) shm_unlink(name_.c_str());
  name_.clear();
}

std::size_t SharedMemory::capacity() const { return place_size(size_); }

std::byte* SharedMemory::place(int rank) const {
  return static_cast<std::byte*>(memory_) + sizeof(Header) + static_cast<std::size_t>(rank) * place_size(size_);
}

bool SharedMemory::can_sum(DType dtype) { return adder(dtype) != nullptr; }

void SharedMemory::arrive_and_wait(const Patience& patience) {
  auto& header = *static_cast<Header*>(memory_);
  const std::uint64_t meeting = ++meetings_;
  header.arrived[rank_].value.store(meeting, std::memory_order_seq_cst);
  header.bell.fetch_add(1, std::memory_order_seq_cst);
  if (header.sleepers.load(std::memory_order_seq_cst) > 0) {
    syscall(SYS_futex, &header.bell, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
  const auto all_here = [&] {
    for (int rank = 0; rank < size_; ++rank) {
      if (header.arrived[rank].value.load(std::memory_order_acquire) < meeting) return false;
    }
    return true;
  };
  for (int spin = 0; spin < kSpins; ++spin) {
    if (all_here()) return;
    pause();
  }
  while (true) {
    header.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t bell = header.bell.load(std::memory_order_seq_cst);
    const bool done = all_here();
    const timespec nap{0, kNap};
    if (!done) syscall(SYS_futex, &header.bell, FUTEX_WAIT, bell, &nap, nullptr, 0);
    header.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (done || all_here()) return;
    patience();
  }
}

void SharedMemory::sum(void* data, std::size_t count, DType dtype, const Patience& patience) {
  const std::size_t bytes = count * dtype_size(dtype);
  std::memcpy(place(rank_), data, bytes);
  arrive_and_wait(patience);
  std::byte* places[kMaxRanks];
  for (int rank = 0; rank < size_; ++rank) places[rank] = place(rank);
  const auto bound = [&](int rank) { return count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(size_); };
  adder(dtype)(places, size_, bound(rank_), bound(rank_ + 1), place(size_));
  arrive_and_wait(patience);
  std::memcpy(data, place(size_), bytes);
}

}  // namespace lockstep::collectives
