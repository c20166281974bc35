// Slots of which each worker holds a range of elements: sharded optimizer state (ZeRO-1).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/variable.h"

namespace lockstep::optimizers {

// A range of elements for each rank, in their order; the ranges of large tensors begin at cache lines.
struct ElementRanges {
  ElementRanges(std::int64_t elements, int rank, int size);
  std::int64_t begin = 0, end = 0;  // of this rank
  std::vector<std::size_t> ends;    // of all ranks, in bytes of float32
};

// The slots of large variables. Between updates each worker has the values of its ranges only; the memory of the others
// is given back to the system. Whoever reads a slot gathers all of them (wait()), so all workers read slots at the same
// points of their programs.
class SlotRanges final : public collectives::Pending {
 public:
  explicit SlotRanges(collectives::CommunicatorPtr workers) : workers_(std::move(workers)) {}
  const collectives::CommunicatorPtr& workers() const { return workers_; }

  // The value of a float32 slot for an update of this rank's range. A value that was assigned since is taken over.
  Tensor for_update(distribute::VariableImpl& slot);
  // Forgets what other ranks hold. Called before the updates of a step.
  void scatter();
  void wait() override;

 private:
  collectives::CommunicatorPtr workers_;
  std::mutex mutex_;
  std::vector<const distribute::VariableImpl*> order_;
  std::unordered_map<const distribute::VariableImpl*, Tensor> values_;
  std::atomic<bool> whole_{true};
};

}  // namespace lockstep::optimizers
