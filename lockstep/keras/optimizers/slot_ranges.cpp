#include "lockstep/keras/optimizers/slot_ranges_internal.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <thread>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/threads_internal.h"
#include "lockstep/collectives/block_gather_internal.h"
#include "lockstep/collectives/together.h"
#include "lockstep/distribute/variable_memory_internal.h"

namespace lockstep::optimizers {
namespace {

constexpr std::int64_t kLine = 64 / sizeof(float);  // elements of a cache line
constexpr std::int64_t kEvenRows = 16;              // this many rows or more for each rank differ little in bytes
constexpr std::size_t kExchanged = 8 << 20;         // bytes of all ranks that the chief's reads move at a time

std::span<std::byte> memory_of(const Tensor& value) {
  const auto bytes = value.to_data().bytes;
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

// Whole pages within the range become zeros that need no memory.
void give_back(std::span<std::byte> range) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(range.data()) + page - 1) / page * page,
             end = reinterpret_cast<std::uintptr_t>(range.data() + range.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// The slots that are ranges, by their variables.
struct Registry {
  std::mutex mutex;
  std::unordered_map<const distribute::VariableImpl*, std::weak_ptr<SlotRange>> slots;
};
Registry& registry() {
  static auto* const all = new Registry();
  return *all;
}

}  // namespace

ElementRanges::ElementRanges(const Shape& shape, int rank, int size) {
  const std::int64_t elements = shape.num_elements().value();
  const std::int64_t rows = shape.rank() > 1 ? shape[0] : 0;
  const std::int64_t unit = rows >= kEvenRows * size ? elements / rows : kLine;
  const std::int64_t each = (elements + size * unit - 1) / (size * unit) * unit;
  for (int i = 0; i < size; ++i) {
    const std::int64_t last = std::min(elements, (i + 1) * each);
    if (i == rank) begin = std::min(elements, i * each), end = last;
    ends.push_back(static_cast<std::size_t>(last) * sizeof(float));
  }
}

// The chief's side of run_on_chief(): a thread sends the other ranks the number of the slot that is read next, or none.
class ChiefsReads {
 public:
  using Slots = std::vector<std::shared_ptr<SlotRange>>;

  ChiefsReads(collectives::Communicator& group, const Slots& slots) : group_(group), slots_(slots) {
    thread_ = start_thread([this] { run(); });
    for (const auto& slot : slots_) slot->reads_ = this;
  }
  ~ChiefsReads() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    thread_.join();
    for (const auto& slot : slots_) slot->reads_ = nullptr;
    if (last_) last_->release();
  }

  // Makes the slot whole, until the next one is read.
  void read(SlotRange& slot) {
    const std::lock_guard one_at_a_time(reading_);
    if (slot.whole()) return;
    if (SlotRange* const before = std::exchange(last_, &slot)) before->release();
    std::unique_lock lock(mutex_);
    wanted_ = &slot;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !wanted_ || lost_; });
    if (lost_) std::rethrow_exception(lost_);
    slot.whole_.store(true, std::memory_order_release);
  }

  // What the other ranks do meanwhile.
  static void serve(collectives::Communicator& group, const Slots& slots) {
    for (;;) {
      const std::string text = group.broadcast(std::string(), 0);
      if (text == kEnd) return;
      if (text == kNone) continue;
      std::size_t number = slots.size();
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (text == std::to_string(i)) number = i;
      }
      if (number == slots.size()) throw_data_loss(fmt::format("the chief reads slot '{}' of {}", text, slots.size()));
      exchange(group, *slots[number], {});
    }
  }

 private:
  static constexpr const char* kNone = "none";
  static constexpr const char* kEnd = "end";
  static constexpr std::chrono::milliseconds kBeat{1000};  // well within the timeout of any group

  void run() {
    try {
      for (bool ended = false; !ended;) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kBeat, [this] { return wanted_ || ended_; });
        const SlotRange* const wanted = wanted_;
        ended = ended_ && !wanted;
        lock.unlock();
        if (!wanted) {
          group_.broadcast(ended ? kEnd : kNone, 0);
          continue;
        }
        const auto at =
            std::find_if(slots_.begin(), slots_.end(), [&](const auto& each) { return each.get() == wanted; });
        group_.broadcast(std::to_string(at - slots_.begin()), 0);
        exchange(group_, **at, memory_of((*at)->value()));
        lock.lock();
        wanted_ = nullptr;
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      lost_ = std::current_exception();
      changed_.notify_all();
    }
  }

  // Gathers all ranges in small parts; a rank without `target` drops them.
  static void exchange(collectives::Communicator& group, SlotRange& slot, std::span<std::byte> target) {
    const std::vector<std::size_t>& ends = slot.ranges().ends;
    const std::size_t each = std::max<std::size_t>(kExchanged / ends.size(), 4096), ranks = ends.size();
    const auto begin_of = [&](std::size_t rank) { return rank == 0 ? 0 : ends[rank - 1]; };
    std::size_t longest = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) longest = std::max(longest, ends[rank] - begin_of(rank));
    const std::span<const std::byte> own = slot.own();
    std::vector<std::byte> parts;
    for (std::size_t at = 0; at < longest; at += each) {
      std::vector<std::size_t> part_ends;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t length = ends[rank] - begin_of(rank);
        const std::size_t part = std::min(std::max(length, at), at + each) - at;
        part_ends.push_back((part_ends.empty() ? 0 : part_ends.back()) + part);
      }
      parts.resize(part_ends.back());
      const auto mine = collectives::block_at(parts, part_ends, group.rank());
      if (!mine.empty()) std::memcpy(mine.data(), own.data() + at, mine.size());
      collectives::gather_ranges(group, parts, part_ends);
      for (std::size_t rank = 0; rank < ranks && !target.empty(); ++rank) {
        const auto part = collectives::block_at(parts, part_ends, static_cast<int>(rank));
        if (!part.empty()) std::memcpy(target.data() + begin_of(rank) + at, part.data(), part.size());
      }
    }
  }

  collectives::Communicator& group_;
  const Slots& slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const SlotRange* wanted_ = nullptr;  // the slot that is being read
  bool ended_ = false;
  std::exception_ptr lost_;  // what a collective threw
  std::mutex reading_;
  SlotRange* last_ = nullptr;
  std::thread thread_;
};

SlotRange::SlotRange(collectives::CommunicatorPtr workers, Tensor value)
    : workers_(std::move(workers)),
      ranges_(value.shape(), workers_->rank(), workers_->size()),
      value_(std::move(value)) {}

std::span<std::byte> SlotRange::own() {
  const auto begin = static_cast<std::size_t>(ranges_.begin) * sizeof(float),
             end = static_cast<std::size_t>(ranges_.end) * sizeof(float);
  return memory_of(value_).subspan(begin, end - begin);
}

void SlotRange::take(const Tensor& whole) {
  const formats::TensorData data = whole.to_data();
  take(data.bytes.subspan(static_cast<std::size_t>(ranges_.begin) * sizeof(float), own().size()));
}

void SlotRange::take(std::span<const std::byte> elements) {
  release();
  if (!elements.empty()) std::memcpy(own().data(), elements.data(), elements.size());
}

void SlotRange::wait() {
  if (whole()) return;
  if (ChiefsReads* const reads = reads_) return reads->read(*this);
  const std::lock_guard lock(mutex_);
  if (whole()) return;
  collectives::gather_ranges(*workers_, memory_of(value_), ranges_.ends);
  whole_.store(true, std::memory_order_release);
}

void SlotRange::release() {
  const std::lock_guard lock(mutex_);
  if (!whole_.exchange(false)) return;
  const std::span<std::byte> memory = memory_of(value_);
  give_back(memory.first(static_cast<std::size_t>(ranges_.begin) * sizeof(float)));
  give_back(memory.subspan(static_cast<std::size_t>(ranges_.end) * sizeof(float)));
}

// A variable that was written to since has another value than its range.
std::shared_ptr<SlotRange> slot_range(distribute::VariableImpl& variable) {
  std::shared_ptr<SlotRange> slot;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    const auto found = all.slots.find(&variable);
    if (found == all.slots.end()) return nullptr;
    slot = found->second.lock();
    if (!slot) all.slots.erase(found);
  }
  if (!slot) return nullptr;
  distribute::VariableMemory::set_pending_update(variable, nullptr);
  if (!same(variable.shared_value(), slot->value())) return nullptr;
  distribute::VariableMemory::set_pending_update(variable, slot);
  return slot;
}

std::shared_ptr<SlotRange> keep_range(distribute::VariableImpl& variable, const collectives::CommunicatorPtr& workers,
                                      bool fresh) {
  if (auto known = slot_range(variable)) return known;
  const Tensor value = variable.shared_value();
  std::shared_ptr<SlotRange> slot;
  if (fresh) {
    slot = std::make_shared<SlotRange>(workers, value);
  } else {
    slot = std::make_shared<SlotRange>(workers, Tensor::zeros(value.shape(), value.dtype()));
    slot->take(value);
  }
  distribute::VariableMemory::set(variable, slot->value());
  distribute::VariableMemory::set_pending_update(variable, slot);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.slots, [](const auto& each) { return each.second.expired(); });
  all.slots[&variable] = slot;
  return slot;
}

void keep_whole(distribute::VariableImpl& variable) {
  const auto slot = slot_range(variable);
  if (!slot) return;
  slot->wait();
  distribute::VariableMemory::set_pending_update(variable, nullptr);
}

void replace_value(distribute::VariableImpl& variable, Tensor value) {
  if (const auto slot = slot_range(variable)) return slot->take(value);
  variable.shared_value() = std::move(value);
}

void run_on_chief(collectives::Communicator* group, std::string_view what,
                  const std::vector<distribute::Variable>& variables, const std::function<void()>& work) {
  ChiefsReads::Slots slots;
  for (const auto& variable : variables) {
    if (auto slot = slot_range(*variable)) slots.push_back(std::move(slot));
  }
  if (!group || slots.empty()) return collectives::run_on_chief(group, what, work);
  std::exception_ptr failure;
  if (group->rank() == 0) {
    const ChiefsReads reads(*group, slots);
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  } else {
    ChiefsReads::serve(*group, slots);
  }
  collectives::run_on_chief(group, what, [&] {
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace lockstep::optimizers
