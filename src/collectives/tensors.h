// Collectives on tensors as they come: any layout, several at once.
#pragma once

#include <cstdint>

#include "lockstep/collectives/communicator.h"

namespace lockstep::collectives {

// How much one all-reduce carries when several tensors are added.
inline constexpr std::int64_t kDefaultBytesPerPack = 32 << 20;

// What gradients are rounded to on their way.
enum class Compression { kNone, kFloat16, kBFloat16 };

struct SumOptions {
  bool idle = false;           // this rank adds zeros,
  std::size_t never_idle = 0;  // but for so many of the last tensors
  std::int64_t bytes_per_pack = kDefaultBytesPerPack;
  Compression compression = Compression::kNone;  // of float32
};

// Replaces each defined tensor by its sum over the ranks; the tensors given are not written to. The same tensors must be
// defined, of equal dtypes and shapes, on all ranks. Tensors of one dtype travel packed, up to `bytes_per_pack` at a time.
void sum(Communicator& group, Tensors& values, const SumOptions& options = {});

// Each rank's tensor, by rank; dtypes and shapes may differ, and tensors may be undefined. See labelled_gather for `what`.
Tensors gather(Communicator& group, const Tensor& value, const std::string& what = "a tensor");

}  // namespace lockstep::collectives
