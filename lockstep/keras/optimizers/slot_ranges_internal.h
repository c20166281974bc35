// Slots of which each worker holds a range of elements: sharded optimizer state (ZeRO-1).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/variable.h"

namespace lockstep::optimizers {

// A range of the elements of a float32 tensor for each rank, in their order: whole rows of the first axis where there
// are many of them, else whole cache lines.
struct ElementRanges {
  ElementRanges(const Shape& shape, int rank, int size);
  std::int64_t begin = 0, end = 0;  // of this rank
  std::vector<std::size_t> ends;    // of all ranks, in bytes
};

class ChiefsReads;

// One slot of which each worker of a job holds a range. The memory of the other ranges is given back to the system
// unless the value is whole. A variable with such a value gathers it when it is read, and gives copies of it; so all
// workers read it at the same point of their programs. run_on_chief() is the exception.
class SlotRange final : public collectives::Pending {
 public:
  // Of a whole value that nobody else writes to or keeps.
  SlotRange(collectives::CommunicatorPtr workers, Tensor value);
  const collectives::CommunicatorPtr& workers() const { return workers_; }
  const ElementRanges& ranges() const { return ranges_; }
  // Of the slot's shape; the elements of other ranks are undefined unless it is whole.
  const Tensor& value() const { return value_; }
  // The elements of this rank.
  std::span<std::byte> own();

  // Takes this rank's elements of a new value.
  void take(const Tensor& whole);
  void take(std::span<const std::byte> own);
  bool whole() const { return whole_.load(std::memory_order_acquire); }
  // Makes it whole.
  void wait() override;
  // Frees the ranges that other ranks hold.
  void release();

 private:
  friend class ChiefsReads;
  collectives::CommunicatorPtr workers_;
  ElementRanges ranges_;
  Tensor value_;
  std::mutex mutex_;
  std::atomic<bool> whole_{true};
  std::atomic<ChiefsReads*> reads_{nullptr};  // while the chief reads alone
};

// The range that this worker holds of a variable's value; null where it has the whole value.
std::shared_ptr<SlotRange> slot_range(distribute::VariableImpl& variable);
// Makes the value of a float32 variable one of ranges, unless it is that already. `fresh`: it was just made, so its
// memory is nobody else's.
std::shared_ptr<SlotRange> keep_range(distribute::VariableImpl& variable, const collectives::CommunicatorPtr& workers,
                                      bool fresh = false);
// Makes the value whole on every rank, to stay so.
void keep_whole(distribute::VariableImpl& variable);
// Replaces the value of a variable on all workers without reading the old one. A slot of ranges stays one.
void replace_value(distribute::VariableImpl& variable, Tensor value);

// While one lives the value is whole, in bounded memory if one follows the other. Every rank makes it.
class WholeSlot {
 public:
  explicit WholeSlot(SlotRange& slot) : slot_(slot), was_whole_(slot.whole()) { slot_.wait(); }
  ~WholeSlot() {
    if (!was_whole_) slot_.release();
  }
  WholeSlot(const WholeSlot&) = delete;
  WholeSlot& operator=(const WholeSlot&) = delete;

 private:
  SlotRange& slot_;
  bool was_whole_;
};

// As collectives::run_on_chief. The chief's work may read `variables` of which workers hold ranges, in any order, on
// its own thread and in bounded memory: a slot is whole until the next one is read. Meanwhile the other ranks send
// theirs. Each rank passes the variables of the same model. The work makes no other calls of the group.
void run_on_chief(collectives::Communicator* group, std::string_view what,
                  const std::vector<distribute::Variable>& variables, const std::function<void()>& work);

}  // namespace lockstep::optimizers
