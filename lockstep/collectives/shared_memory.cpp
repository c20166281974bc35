#include "lockstep/collectives/shared_memory_internal.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>

#include "lockstep/base/error.h"
#include "lockstep/collectives/element_sum_internal.h"
#include "lockstep/collectives/heartbeat_board_internal.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kBlock = 512 << 10;            // bytes of a slot, if memory permits
constexpr std::size_t kSlots = 8;                    // of each rank
constexpr std::size_t kMost = 28 << 20;              // bytes of all slots
constexpr std::size_t kLine = 64;                    // bytes of a cache line
constexpr int kSpins = 2000;                         // some 40 microseconds;
constexpr std::chrono::microseconds kYielding{300};  // then the processor is yielded for this time,
constexpr long kNap = 5'000'000;                     // and then the thread sleeps: nanoseconds

std::size_t block_size(int size) {
  const std::size_t fair = kMost / (static_cast<std::size_t>(size) * kSlots);
  return std::min(kBlock, fair) / kLine * kLine;
}

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// Progress of a rank, in blocks since the start. Each counter is written by its rank only.
struct alignas(kLine) SharedMemory::Counters {
  std::atomic<std::uint64_t> published{0}, reduced{0}, consumed{0};
};

// At the start of the memory; the heartbeat board and the slots of the ranks follow.
struct SharedMemory::Header {
  Counters of[kMaxRanks];
  alignas(kLine) std::atomic<std::uint32_t> bell{0};  // changes after every progress; futex of the sleepers
  std::atomic<std::uint32_t> sleepers{0};
};

const std::size_t SharedMemory::kSlotsBegin = sizeof(Header) + HeartbeatBoard::bytes();

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
  return kSlotsBegin + static_cast<std::size_t>(size) * kSlots * block_size(size);
}

SharedMemory::SharedMemory(std::unique_ptr<SharedMapping> mapping, int rank, int size)
    : mapping_(std::move(mapping)), rank_(rank), size_(size) {}

std::byte* SharedMemory::board() const { return mapping_->data() + sizeof(Header); }
SharedMemory::Header& SharedMemory::header() const { return *reinterpret_cast<Header*>(mapping_->data()); }
SharedMemory::Counters& SharedMemory::counters(int rank) const { return header().of[rank]; }

std::byte* SharedMemory::slot(int rank, std::uint64_t block) const {
  const std::size_t number = static_cast<std::size_t>(rank) * kSlots + block % kSlots;
  return mapping_->data() + kSlotsBegin + number * block_size(size_);
}

bool SharedMemory::can_sum(DType dtype) { return element_sum(dtype) != nullptr; }

std::uint64_t SharedMemory::start(std::vector<Part> parts, DType dtype, bool reduce_scatter, int only) {
  const bool copies = !parts.empty() && parts[0].source != kAllRanks;
  Sum sum{std::move(parts), dtype, !copies && (reduce_scatter || size_ > 2), only, 0, 0, 0, {}, false};
  for (const Part& part : sum.parts) {
    if ((part.source != kAllRanks) != copies) throw_internal("sums and copies in one call");
    sum.bytes += part.bytes;
  }
  const std::lock_guard lock(mutex_);
  sum.first_block = end_block_;
  end_block_ += (sum.bytes + block_size(size_) - 1) / block_size(size_);
  sum.end_block = end_block_;
  sums_.push_back(std::move(sum));
  while (can_publish()) publish();
  return first_sum_ + sums_.size() - 1;
}

void SharedMemory::target(std::uint64_t sum, std::size_t part, void* to) {
  const std::lock_guard lock(mutex_);
  sums_.at(static_cast<std::size_t>(sum - first_sum_)).parts.at(part).to = to;
}

void SharedMemory::set_shard_update(std::uint64_t sum, std::size_t part, void* to, ShardUpdate fn) {
  target(sum, part, to);
  const std::lock_guard lock(mutex_);
  Sum& made = sums_[static_cast<std::size_t>(sum - first_sum_)];
  if (!made.scattered) throw_internal("a shard update requires a sum with reduce_scatter");
  made.updates.resize(made.parts.size());
  made.updates[part] = std::move(fn);
}

void SharedMemory::abandon(std::uint64_t sum) noexcept {
  const std::lock_guard lock(mutex_);
  if (sum < first_sum_) return;
  Sum& left = sums_[static_cast<std::size_t>(sum - first_sum_)];
  for (Part& part : left.parts) part.from = part.to = nullptr;
  left.updates.clear();
  left.discarded = reduced_ >= left.end_block;
}

void SharedMemory::reduce(std::uint64_t sum, const AbortCheck& check_abort) {
  std::unique_lock lock(mutex_);
  advance_to(reduced_, sum, check_abort, lock);
}

void SharedMemory::finish(std::uint64_t sum, const AbortCheck& check_abort) {
  std::unique_lock lock(mutex_);
  advance_to(consumed_, sum, check_abort, lock);
  for (; first_sum_ <= sum; ++first_sum_) sums_.pop_front();
}

// Works until `blocks`, one of this rank's counters, has reached the end of the sum.
void SharedMemory::advance_to(const std::uint64_t& blocks, std::uint64_t sum, const AbortCheck& check_abort,
                              std::unique_lock<std::mutex>& lock) {
  if (sum < first_sum_) return;
  const std::uint64_t end = sums_[static_cast<std::size_t>(sum - first_sum_)].end_block;
  while (blocks < end) {
    if (!advance(end)) wait(blocks, end, check_abort, lock);
  }
}

const SharedMemory::Sum& SharedMemory::sum_of(std::uint64_t block) const {
  return *std::find_if(sums_.begin(), sums_.end(), [block](const Sum& sum) { return block < sum.end_block; });
}

// fn(part, first byte in the part, first byte in the block, number of bytes) for each part with bytes in the block.
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

bool SharedMemory::can_publish() const {
  if (published_ == end_block_) return false;
  for (int rank = 0; rank < size_; ++rank) {
    if (published_ - counters(rank).consumed.load(std::memory_order_acquire) >= kSlots) return false;
  }
  return true;
}

void SharedMemory::publish() {
  std::byte* const mine = slot(rank_, published_);
  const Sum& sum = sum_of(published_);
  const std::size_t bytes = block_bytes(sum, published_);
  // This rank's shard, which is not copied; empty without reduce-scatter.
  const std::size_t begin = sum.scattered ? shard_begin(bytes, rank_) : bytes,
                    end = sum.scattered ? shard_begin(bytes, rank_ + 1) : bytes;
  each_part(sum, published_, [&](const Part& part, std::size_t offset, std::size_t at, std::size_t count) {
    if (part.source != kAllRanks && part.source != rank_) return;
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
  counters(rank_).published.store(++published_, std::memory_order_release);
  ring();
}

bool SharedMemory::can_reduce_shard(std::uint64_t end) const {
  if (reduced_ >= std::min(published_, end) || !sum_of(reduced_).scattered) return false;
  for (int rank = 0; rank < size_; ++rank) {
    if (counters(rank).published.load(std::memory_order_acquire) <= reduced_) return false;
  }
  return true;
}

void SharedMemory::reduce_shard() {
  const Sum& sum = sum_of(reduced_);
  const std::size_t bytes = block_bytes(sum, reduced_), begin = shard_begin(bytes, rank_),
                    end = shard_begin(bytes, rank_ + 1);
  std::byte* const mine = slot(rank_, reduced_);
  each_part(sum, reduced_, [&](const Part& part, std::size_t offset, std::size_t at, std::size_t count) {
    const std::size_t first = std::max(at, begin), last = std::min(at + count, end);
    if (first >= last) return;
    const std::byte* addends[kMaxRanks];
    for (int rank = 0; rank < size_; ++rank) addends[rank] = slot(rank, reduced_) + first;
    if (part.from) {
      addends[rank_] = static_cast<const std::byte*>(part.from) + offset + (first - at);
    } else {
      std::memset(mine + first, 0, last - first);
    }
    element_sum(sum.dtype)(addends, size_, last - first, mine + first);
    if (sum.updates.empty()) return;
    const ShardUpdate& update = sum.updates[static_cast<std::size_t>(&part - sum.parts.data())];
    if (update) update(offset + (first - at), last - first, mine + first);
  });
  counters(rank_).reduced.store(++reduced_, std::memory_order_release);
  ring();
}

bool SharedMemory::can_consume(std::uint64_t end) const {
  if (consumed_ >= std::min(published_, end)) return false;
  const bool scattered = sum_of(consumed_).scattered;
  for (int rank = 0; rank < size_; ++rank) {
    const Counters& theirs = counters(rank);
    if ((scattered ? theirs.reduced : theirs.published).load(std::memory_order_acquire) <= consumed_) return false;
  }
  return true;
}

void SharedMemory::consume() {
  const Sum& sum = sum_of(consumed_);
  each_part(sum, consumed_, [&](const Part& part, std::size_t offset, std::size_t at, std::size_t count) {
    if (sum.discarded || (sum.only != kAllRanks && sum.only != rank_)) return;
    if (!part.to) throw_internal("a sum cannot be finished before the targets of earlier sums are set");
    std::byte* const to = static_cast<std::byte*>(part.to) + offset;
    if (part.source != kAllRanks) {
      if (part.source != rank_ || part.to != part.from) std::memcpy(to, slot(part.source, consumed_) + at, count);
      return;
    }
    if (sum.scattered) {
      collect(sum, part, to, at, count);
      return;
    }
    const std::byte* addends[] = {slot(0, consumed_) + at, slot(1, consumed_) + at};
    // The original of a sum in place is nearer in the cache than its copy.
    if (part.from == part.to) addends[rank_] = to;
    element_sum(sum.dtype)(addends, 2, count, to);
  });
  counters(rank_).consumed.store(++consumed_, std::memory_order_release);
  if (!sum.scattered) counters(rank_).reduced.store(reduced_ = consumed_, std::memory_order_relaxed);
  ring();
}

// Copies the bytes at … at+count-1 of the consumed block from the ranks that have reduced them.
void SharedMemory::collect(const Sum& sum, const Part& part, std::byte* to, std::size_t at, std::size_t count) const {
  const std::size_t bytes = block_bytes(sum, consumed_);
  const bool made = !sum.updates.empty() && sum.updates[static_cast<std::size_t>(&part - sum.parts.data())];
  for (int rank = 0; rank < size_; ++rank) {
    if (made && rank == rank_) continue;  // written by the update itself
    const std::size_t begin = std::max(at, shard_begin(bytes, rank)),
                      end = std::min(at + count, shard_begin(bytes, rank + 1));
    if (begin < end) std::memcpy(to + (begin - at), slot(rank, consumed_) + begin, end - begin);
  }
}

std::size_t SharedMemory::block_bytes(const Sum& sum, std::uint64_t block) const {
  return std::min(sum.bytes - (block - sum.first_block) * block_size(size_), block_size(size_));
}

// Shards of a block are multiples of cache lines; the last rank's shard ends with the block.
std::size_t SharedMemory::shard_begin(std::size_t block_bytes, int rank) const {
  if (rank == size_) return block_bytes;
  const std::size_t lines = block_bytes / kLine * static_cast<std::size_t>(rank),
                    ranks = static_cast<std::size_t>(size_);
  return std::min(block_bytes, (lines + ranks - 1) / ranks * kLine);
}

// Does one piece of work that is possible without waiting: publishes a block, or processes a block before `end`
// (targets and updates of later ones may not be set yet). False if there is none.
bool SharedMemory::advance(std::uint64_t end) {
  if (can_publish()) {
    publish();
  } else if (can_reduce_shard(end)) {
    reduce_shard();
  } else if (can_consume(end)) {
    consume();
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

// Returns when there is work before `end`, or another thread has done it. After the spins other threads may have the
// lock meanwhile.
void SharedMemory::wait(const std::uint64_t& blocks, std::uint64_t end, const AbortCheck& check_abort,
                        std::unique_lock<std::mutex>& lock) {
  Header& header = this->header();
  const auto ready = [&] { return blocks >= end || can_publish() || can_reduce_shard(end) || can_consume(end); };
  const auto unlocked = [&](const auto& pass_time) {
    lock.unlock();
    pass_time();
    lock.lock();
  };
  for (int spin = 0; spin < kSpins; ++spin) {
    if (ready()) return;
    pause();
  }
  // On a busy machine a single call may take milliseconds.
  for (const auto end = std::chrono::steady_clock::now() + kYielding; std::chrono::steady_clock::now() < end;) {
    if (ready()) return;
    unlocked(sched_yield);
  }
  while (true) {
    header.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t bell = header.bell.load(std::memory_order_seq_cst);
    const bool done = ready();
    const timespec nap{0, kNap};
    if (!done) unlocked([&] { syscall(SYS_futex, &header.bell, FUTEX_WAIT, bell, &nap, nullptr, 0); });
    header.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (done || ready()) return;
    lock.unlock();
    check_abort();
    lock.lock();
  }
}

}  // namespace lockstep::collectives
