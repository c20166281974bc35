// Running collectives, and updates that workers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/collectives/communicator.h"

namespace lockstep::collectives {

// A running collective. Destroying it without wait() leaves the tensor it works on in an undefined state.
class Pending {
 public:
  virtual ~Pending() = default;
  // Returns when the result is available, at once in a second call; throws the error of the collective.
  virtual void wait() = 0;
};

// One tensor of a bucket.
struct Addend {
  Tensor value;                // contiguous
  bool contributes = true;     // false: zeros of its shape are added instead
  bool may_overwrite = false;  // by the sum
};

// Ring buffers in shared memory. Sums of kGradients may be awaited after sums of kDefault that were started later.
enum class Channel : bool { kDefault, kGradients };

// An update that runs between reduce-scatter and all-gather of a float32 addend, such as a sharded optimizer step.
// make(begin, count, piece): `piece` contains the sums of elements begin … begin+count-1 of this rank's shard; make
// replaces them by the updated values and writes these to `target` too, whose other elements are gathered from the
// other ranks. `target` is contiguous, of the addend's shape. `make` must not own an object that waits for it.
struct ShardedUpdate {
  Tensor target;
  std::function<void(std::int64_t begin, std::int64_t count, float* piece)> make;
};

// The running all-reduce of a bucket.
class PendingSum {
 public:
  virtual ~PendingSum() = default;
  // Requires ranks that share memory. Every rank calls it for the same addends, before it waits for this sum or a later
  // one.
  virtual void update(std::size_t addend, ShardedUpdate update);
  // Returns when this rank has updated its shard: no other rank waits for it any more. wait() then waits for the shards
  // of the others.
  virtual void update_local_shard() {}
  // The sums, in the order of the addends; undefined for an addend with an update. `targets`: memory for the sums: an
  // empty list, or contiguous tensors of the addends' shapes, of which some may be undefined. Sums are awaited in the
  // order in which they were started.
  virtual Tensors wait(const Tensors& targets = {}) = 0;
};

// The calls of a group that trainers and optimizers make, but not programs. Every rank makes the same ones.
struct Transport {
  // As Communicator::all_reduce, which waits for it.
  static std::unique_ptr<Pending> all_reduce_async(Communicator& group, const Tensor& value) {
    return group.all_reduce_async(value);
  }
  // All-reduce of a bucket of tensors of one dtype. The memory of the addends must not change until the sum is
  // available.
  static std::unique_ptr<PendingSum> sum_async(Communicator& group, std::vector<Addend> addends,
                                               Channel channel = Channel::kDefault) {
    return group.sum_async(std::move(addends), channel);
  }
  // Whether sums use shared memory: several sums of single tensors then cost no more than one sum of a bucket of all of
  // them.
  static bool shares_memory(const Communicator& group) { return group.shares_memory(); }
  // Shared memory of zeros, which exists while a rank holds it. Null on every rank if they do not share memory or the
  // machine has no space for it.
  static std::shared_ptr<std::byte> shared_memory(Communicator& group, std::size_t bytes) {
    return group.shared_memory(bytes);
  }
};

}  // namespace lockstep::collectives
