// Collectives on tensors of any layout, several at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/pending_internal.h"

namespace lockstep::collectives {

// Bytes of a bucket if all tensors are available at the start, and if the all-reduce overlaps their computation.
inline constexpr std::int64_t kDefaultBytesPerPack = 32 << 20;
inline constexpr std::int64_t kDefaultBytesPerBucket = 4 << 20;
// Gradients of at least this many bytes are buckets by themselves among ranks that share memory.
inline constexpr std::int64_t kBytesOfLarge = 64 << 10;

struct SumOptions {
  bool idle = false;                             // this rank adds zeros
  std::int64_t bytes_per_pack = 0;               // 0: kDefaultBytesPerPack
  Compression compression = Compression::kNone;  // of float32
  bool shard_state = false;                      // each rank keeps a part of the optimizer's state
};

// Replaces each defined tensor by its sum over the ranks. Gradients with slices are not added: the result has the
// slices of all ranks, in their order, which are not compressed. A tensor without other owners is summed in place;
// others are not overwritten. The same tensors must be defined, of equal dtypes and shapes, on all ranks. Consecutive
// tensors of one dtype share a bucket of up to `bytes_per_pack` bytes; a larger tensor is a bucket by itself and is not
// copied.
void sum(Communicator& group, Tensors& values, const SumOptions& options = {});

// The all-reduce of a step's gradients, which overlaps the backward pass: gradients are sent from the last variable to
// the first, in the order of the backward pass, in buckets that are equal on all ranks, whatever the order of ready().
// Among ranks that share memory each large gradient is a bucket, and the small ones form one bucket at the end.
class GradientSum {
 public:
  // Of `count` gradients. bytes_per_pack 0: kDefaultBytesPerBucket; among ranks that share memory not more than
  // kBytesOfLarge.
  GradientSum(Communicator& group, std::size_t count, const SumOptions& options);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // The gradient at `place` is computed; it must not change until finish() returns. Not for gradients with
  // slices.
  void ready(std::size_t place, const Tensor& gradient);
  // All gradients are computed, or undefined. Replaces them by their sums, and also `exact`, which is sent in the last
  // bucket, is not rounded, and is counted on idle ranks too. `updates` (by gradient; entries without `make` are
  // ignored) replace sums: such a gradient is undefined afterwards, and the shards of its target that other ranks
  // update may be missing until the returned object has been awaited, repeatedly if needed and from any thread. Null
  // without updates.
  std::shared_ptr<Pending> finish(Tensors& gradients, Tensors& exact, const std::vector<ShardedUpdate>& updates = {});
  // Whether finish() accepts an update of the gradient: ranks share memory, it is large, and it is not compressed.
  bool takes_update(const Tensor& gradient) const;
  // Whether each rank is to keep a part of the optimizer's state, where ranks do not share memory.
  bool shards_state() const { return options_.shard_state && !Transport::shares_memory(group_); }

 private:
  struct Sending;
  std::int64_t bytes_of(const Tensor& gradient) const;
  bool waits_for_the_end(const Tensor& gradient) const;
  void begin(std::size_t place, Tensor gradient);

  Communicator& group_;
  SumOptions options_;
  std::int64_t bucket_;  // bytes
  std::unique_ptr<Sending> sending_;
  std::size_t next_;  // places below it are not sent yet
  Tensors ready_;     // by place, until finish()
};

// `data` consists of a range of each rank, of which `ends` are the ends; fills the ranges of the others.
void gather_ranges(Communicator& group, std::span<std::byte> data, const std::vector<std::size_t>& ends);

// The tensors of all ranks, by rank; dtypes and shapes may differ, and tensors may be undefined. For `what` see
// labelled_gather.
Tensors gather(Communicator& group, const Tensor& value, const std::string& what = "a tensor");

}  // namespace lockstep::collectives
