#include "lockstep/collectives/shared_memory_internal.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kBlock = 512 << 10;  // bytes of a place, when there is room
constexpr std::size_t kPlaces = 8;         // of each rank
constexpr std::size_t kMost = 28 << 20;    // bytes in all
constexpr std::size_t kLine = 64;          // a line of the cache
constexpr int kMaxRanks = 64;
constexpr int kSpins = 2000;      // some 40 microseconds
constexpr int kYields = 500;      // then the processor is offered to others, some hundreds of microseconds,
constexpr long kNap = 5'000'000;  // and then this one sleeps: nanoseconds

std::size_t block_size(int size) {
  const std::size_t fair = kMost / (static_cast<std::size_t>(size) * kPlaces);
  return std::min(kBlock, fair) / kLine * kLine;
}

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// result[i] = the sum of addends[rank][i], of `bytes` in all.
template <typename T>
void add_up(const std::byte* const* addends, int size, std::size_t bytes, std::byte* result) {
  auto* const out = reinterpret_cast<T*>(result);
  const auto* const first = reinterpret_cast<const T*>(addends[0]);
  const auto* const second = reinterpret_cast<const T*>(addends[1]);
  const std::size_t count = bytes / sizeof(T);
  if (size == 2) {
    for (std::size_t i = 0; i < count; ++i) out[i] = first[i] + second[i];
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    T sum = first[i] + second[i];
    for (int rank = 2; rank < size; ++rank) sum += reinterpret_cast<const T*>(addends[rank])[i];
    out[i] = sum;
  }
}

using Add = void (*)(const std::byte* const*, int, std::size_t, std::byte*);

Add adder(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return add_up<float>;
    case DType::kFloat64: return add_up<double>;
    case DType::kInt32: return add_up<std::int32_t>;
    case DType::kInt64: return add_up<std::int64_t>;
    default: return nullptr;
  }
}

}  // namespace

// What a rank has done, in blocks since the beginning. Each is written by its rank alone.
struct alignas(kLine) SharedMemory::Counters {
  std::atomic<std::uint64_t> posted{0}, summed{0}, taken{0};
};

// At the start of the memory; then the ranks' places.
struct SharedMemory::Header {
  Counters of[kMaxRanks];
  alignas(kLine) std::atomic<std::uint32_t> bell{0};  // changes whenever somebody may wait for it
  std::atomic<std::uint32_t> sleepers{0};
};

std::unique_ptr<SharedMemory> SharedMemory::make(int size) {
  if (size < 2 || size > kMaxRanks) return nullptr;
  auto mapping = SharedMapping::make(bytes_for(size));
  if (!mapping) return nullptr;
  new (mapping->data()) Header();
  return std::unique_ptr<SharedMemory>(new SharedMemory(std::move(mapping), 0, size));
}

std::unique_ptr<SharedMemory> SharedMemory::open(const std::string& name, int rank, int size) {
  if (size < 2 || size > kMaxRanks) return nullptr;
  auto mapping = SharedMapping::open(name, bytes_for(size));
  return mapping ? std::unique_ptr<SharedMemory>(new SharedMemory(std::move(mapping), rank, size)) : nullptr;
}

std::size_t SharedMemory::bytes_for(int size) {
  return sizeof(Header) + static_cast<std::size_t>(size) * kPlaces * block_size(size);
}

SharedMemory::SharedMemory(std::unique_ptr<SharedMapping> mapping, int rank, int size)
    : mapping_(std::move(mapping)), rank_(rank), size_(size) {}

SharedMemory::Header& SharedMemory::header() const { return *reinterpret_cast<Header*>(mapping_->data()); }
SharedMemory::Counters& SharedMemory::counters(int rank) const { return header().of[rank]; }

std::byte* SharedMemory::place(int rank, std::uint64_t block) const {
  const std::size_t number = static_cast<std::size_t>(rank) * kPlaces + block % kPlaces;
  return mapping_->data() + sizeof(Header) + number * block_size(size_);
}

bool SharedMemory::can_sum(DType dtype) { return adder(dtype) != nullptr; }

std::uint64_t SharedMemory::start(std::vector<Part> parts, DType dtype, bool share_out) {
  Sum sum{std::move(parts), dtype, share_out || size_ > 2, 0, 0, 0, {}, false};
  for (const Part& part : sum.parts) sum.bytes += part.bytes;
  const std::lock_guard lock(mutex_);
  sum.first_block = end_block_;
  end_block_ += (sum.bytes + block_size(size_) - 1) / block_size(size_);
  sum.end_block = end_block_;
  sums_.push_back(std::move(sum));
  while (can_post()) post();
  return first_sum_ + sums_.size() - 1;
}

void SharedMemory::target(std::uint64_t sum, std::size_t part, void* to) {
  const std::lock_guard lock(mutex_);
  sums_.at(static_cast<std::size_t>(sum - first_sum_)).parts.at(part).to = to;
}

void SharedMemory::make_of(std::uint64_t sum, std::size_t part, void* to, Make fn) {
  target(sum, part, to);
  const std::lock_guard lock(mutex_);
  Sum& made = sums_[static_cast<std::size_t>(sum - first_sum_)];
  if (!made.shared_out) throw_internal("something is to be made of a sum that is not shared out");
  made.makes.resize(made.parts.size());
  made.makes[part] = std::move(fn);
}

void SharedMemory::abandon(std::uint64_t sum) noexcept {
  const std::lock_guard lock(mutex_);
  if (sum < first_sum_) return;
  Sum& left = sums_[static_cast<std::size_t>(sum - first_sum_)];
  for (Part& part : left.parts) part.from = part.to = nullptr;
  left.makes.clear();
  left.unwanted = summed_ >= left.end_block;
}

void SharedMemory::add(std::uint64_t sum, const Patience& patience) {
  const std::lock_guard lock(mutex_);
  advance_to(summed_, sum, patience);
}

void SharedMemory::finish(std::uint64_t sum, const Patience& patience) {
  const std::lock_guard lock(mutex_);
  advance_to(taken_, sum, patience);
  for (; first_sum_ <= sum; ++first_sum_) sums_.pop_front();
}

// Goes on until `blocks`, one of this rank's counts, has come to the end of the sum.
void SharedMemory::advance_to(const std::uint64_t& blocks, std::uint64_t sum, const Patience& patience) {
  if (sum < first_sum_) return;
  const std::uint64_t end = sums_[static_cast<std::size_t>(sum - first_sum_)].end_block;
  while (blocks < end) {
    if (!advance(end)) wait(end, patience);
  }
}

const SharedMemory::Sum& SharedMemory::sum_of(std::uint64_t block) const {
  return *std::find_if(sums_.begin(), sums_.end(), [block](const Sum& sum) { return block < sum.end_block; });
}

// fn(part, the first byte of it, the same place in the block, how many bytes) for the parts that a block has bytes of.
template <typename Fn>
void SharedMemory::each_part(const Sum& sum, std::uint64_t block, Fn fn) const {
  const std::size_t begin = (block - sum.first_block) * block_size(size_),
                    end = std::min(sum.bytes, begin + block_size(size_));
  std::size_t at = 0;
  for (const Part& part : sum.parts) {
    const std::size_t first = std::max(at, begin), last = std::min(at + part.bytes, end);
    if (first < last) fn(part, first - at, first - begin, last - first);
    at += part.bytes;
    if (at >= end) break;
  }
}

bool SharedMemory::can_post() const {
  if (posted_ == end_block_) return false;
  for (int rank = 0; rank < size_; ++rank) {
    if (posted_ - counters(rank).taken.load(std::memory_order_acquire) >= kPlaces) return false;
  }
  return true;
}

void SharedMemory::post() {
  std::byte* const mine = place(rank_, posted_);
  const Sum& sum = sum_of(posted_);
  const std::size_t bytes = block_bytes(sum, posted_);
  // The own share, empty when all is to be copied.
  const std::size_t begin = sum.shared_out ? share_begin(bytes, rank_) : bytes,
                    end = sum.shared_out ? share_begin(bytes, rank_ + 1) : bytes;
  each_part(sum, posted_, [&](const Part& part, std::size_t offset, std::size_t at, std::size_t count) {
    const auto copy = [&](std::size_t first, std::size_t last) {
      if (first >= last) return;
      if (part.from) {
        std::memcpy(mine + first, static_cast<const std::byte*>(part.from) + offset + (first - at), last - first);
      } else {
        std::memset(mine + first, 0, last - first);
      }
    };
    copy(at, std::min(begin, at + count));
    copy(std::max(end, at), at + count);
  });
  counters(rank_).posted.store(++posted_, std::memory_order_release);
  ring();
}

bool SharedMemory::can_add_share(std::uint64_t end) const {
  if (summed_ >= std::min(posted_, end) || !sum_of(summed_).shared_out) return false;
  for (int rank = 0; rank < size_; ++rank) {
    if (counters(rank).posted.load(std::memory_order_acquire) <= summed_) return false;
  }
  return true;
}

void SharedMemory::add_share() {
  const Sum& sum = sum_of(summed_);
  const std::size_t bytes = block_bytes(sum, summed_), begin = share_begin(bytes, rank_),
                    end = share_begin(bytes, rank_ + 1);
  std::byte* const mine = place(rank_, summed_);
  each_part(sum, summed_, [&](const Part& part, std::size_t offset, std::size_t at, std::size_t count) {
    const std::size_t first = std::max(at, begin), last = std::min(at + count, end);
    if (first >= last) return;
    const std::byte* addends[kMaxRanks];
    for (int rank = 0; rank < size_; ++rank) addends[rank] = place(rank, summed_) + first;
    if (part.from) {
      addends[rank_] = static_cast<const std::byte*>(part.from) + offset + (first - at);
    } else {
      std::memset(mine + first, 0, last - first);
    }
    adder(sum.dtype)(addends, size_, last - first, mine + first);
    if (sum.makes.empty()) return;
    const Make& make = sum.makes[static_cast<std::size_t>(&part - sum.parts.data())];
    if (make) make(offset + (first - at), last - first, mine + first);
  });
  counters(rank_).summed.store(++summed_, std::memory_order_release);
  ring();
}

bool SharedMemory::can_take(std::uint64_t end) const {
  if (taken_ >= std::min(posted_, end)) return false;
  const bool shared_out = sum_of(taken_).shared_out;
  for (int rank = 0; rank < size_; ++rank) {
    const Counters& theirs = counters(rank);
    if ((shared_out ? theirs.summed : theirs.posted).load(std::memory_order_acquire) <= taken_) return false;
  }
  return true;
}

void SharedMemory::take() {
  const Sum& sum = sum_of(taken_);
  each_part(sum, taken_, [&](const Part& part, std::size_t offset, std::size_t at, std::size_t count) {
    if (sum.unwanted) return;
    if (!part.to) throw_internal("a sum is to be finished before one that was begun earlier has got its targets");
    std::byte* const to = static_cast<std::byte*>(part.to) + offset;
    if (sum.shared_out) {
      collect(sum, part, to, at, count);
      return;
    }
    const std::byte* addends[] = {place(0, taken_) + at, place(1, taken_) + at};
    // What is summed in place is nearer than its copy.
    if (part.from == part.to) addends[rank_] = to;
    adder(sum.dtype)(addends, 2, count, to);
  });
  counters(rank_).taken.store(++taken_, std::memory_order_release);
  if (!sum.shared_out) counters(rank_).summed.store(summed_ = taken_, std::memory_order_relaxed);
  ring();
}

// The bytes at … at+count-1 of the block that is taken, from the ranks that have added them.
void SharedMemory::collect(const Sum& sum, const Part& part, std::byte* to, std::size_t at, std::size_t count) const {
  const std::size_t bytes = block_bytes(sum, taken_);
  const bool made = !sum.makes.empty() && sum.makes[static_cast<std::size_t>(&part - sum.parts.data())];
  for (int rank = 0; rank < size_; ++rank) {
    if (made && rank == rank_) continue;  // it is there already
    const std::size_t begin = std::max(at, share_begin(bytes, rank)),
                      end = std::min(at + count, share_begin(bytes, rank + 1));
    if (begin < end) std::memcpy(to + (begin - at), place(rank, taken_) + begin, end - begin);
  }
}

std::size_t SharedMemory::block_bytes(const Sum& sum, std::uint64_t block) const {
  return std::min(sum.bytes - (block - sum.first_block) * block_size(size_), block_size(size_));
}

// A block's elements are shared out by whole lines; the last rank's share ends with the block.
std::size_t SharedMemory::share_begin(std::size_t block_bytes, int rank) const {
  if (rank == size_) return block_bytes;
  const std::size_t lines = block_bytes / kLine * static_cast<std::size_t>(rank),
                    ranks = static_cast<std::size_t>(size_);
  return std::min(block_bytes, (lines + ranks - 1) / ranks * kLine);
}

// Does what can be done without waiting: posts, and goes on with the blocks before `end`, as it may not be known yet
// what becomes of later ones. False when there is nothing.
bool SharedMemory::advance(std::uint64_t end) {
  if (can_post()) {
    post();
  } else if (can_add_share(end)) {
    add_share();
  } else if (can_take(end)) {
    take();
  } else {
    return false;
  }
  return true;
}

void SharedMemory::ring() const {
  Header& header = this->header();
  header.bell.fetch_add(1, std::memory_order_seq_cst);
  if (header.sleepers.load(std::memory_order_seq_cst) > 0) {
    syscall(SYS_futex, &header.bell, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
}

void SharedMemory::wait(std::uint64_t end, const Patience& patience) {
  Header& header = this->header();
  const auto ready = [this, end] { return can_post() || can_add_share(end) || can_take(end); };
  for (int spin = 0; spin < kSpins + kYields; ++spin) {
    if (ready()) return;
    if (spin < kSpins) {
      pause();
    } else {
      sched_yield();
    }
  }
  while (true) {
    header.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t bell = header.bell.load(std::memory_order_seq_cst);
    const bool done = ready();
    const timespec nap{0, kNap};
    if (!done) syscall(SYS_futex, &header.bell, FUTEX_WAIT, bell, &nap, nullptr, 0);
    header.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (done || ready()) return;
    patience();
  }
}

}  // namespace lockstep::collectives
