// Collectives on tensors as they come: any layout, several at once.
#pragma once

#include <cstdint>

#include "lockstep/collectives/communicator.h"

namespace lockstep::collectives {

// How much one all-reduce carries when several tensors are added, and when it begins before all of them are there.
inline constexpr std::int64_t kDefaultBytesPerPack = 32 << 20;
inline constexpr std::int64_t kDefaultBytesPerBucket = 4 << 20;
// From how many bytes on a gradient travels alone among ranks that share memory.
inline constexpr std::int64_t kBytesOfLarge = 64 << 10;

// What gradients are rounded to on their way: they are added in this type too.
enum class Compression { kNone, kFloat16, kBFloat16 };

struct SumOptions {
  bool idle = false;                             // this rank adds zeros
  std::int64_t bytes_per_pack = 0;               // 0: kDefaultBytesPerPack
  Compression compression = Compression::kNone;  // of float32
};

// Replaces each defined tensor by its sum over the ranks. A tensor that nobody else holds is summed where it lies;
// others are not written to. The same tensors must be defined, of equal dtypes and shapes, on all ranks. Tensors of one
// dtype that follow each other travel packed, up to `bytes_per_pack` at a time; a larger one travels alone, uncopied.
void sum(Communicator& group, Tensors& values, const SumOptions& options = {});

// The sum of a step's gradients, which begins while the last of them are still being computed: gradients are sent from
// the last variable's to the first's, as a backward pass makes them, in buckets that are equal on all ranks whenever
// they are ready. Among ranks that share memory each large gradient is a bucket, and the small ones are one at the end.
class GradientSum {
 public:
  // Of `count` gradients. bytes_per_pack 0: kDefaultBytesPerBucket; among ranks that share memory not more than
  // kBytesOfLarge.
  GradientSum(Communicator& group, std::size_t count, const SumOptions& options);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  // The gradient at `place` has its value; nobody may write to it until finish() returns. Not for gradients with
  // slices.
  void ready(std::size_t place, const Tensor& gradient);
  // All gradients are there, undefined ones too; replaces them by their sums, and `exact`, which travels along
  // unrounded and counts on idle ranks too, by its own. `updates`, by gradient, those without `make` are none: what is
  // made of a sum instead; the gradient is undefined afterwards, and the parts of the target that other ranks make may
  // be missing until what is returned has been waited for: as often as one likes, and from any thread. Null without
  // updates.
  std::shared_ptr<Pending> finish(Tensors& gradients, Tensors& exact, const std::vector<ShardedUpdate>& updates = {});
  // Whether finish() takes an update of such a gradient: ranks share memory, it is large, and it is not compressed.
  bool takes_update(const Tensor& gradient) const;

 private:
  struct Sending;
  std::int64_t bytes_of(const Tensor& gradient) const;
  bool waits_for_the_end(const Tensor& gradient) const;
  void begin(std::size_t place, Tensor gradient);

  Communicator& group_;
  SumOptions options_;
  std::int64_t bucket_;  // bytes
  std::unique_ptr<Sending> sending_;
  std::size_t next_;  // places below it are still to come
  Tensors ready_;     // by place, until finish()
};

// Each rank's tensor, by rank; dtypes and shapes may differ, and tensors may be undefined. See labelled_gather for
// `what`.
Tensors gather(Communicator& group, const Tensor& value, const std::string& what = "a tensor");

}  // namespace lockstep::collectives
