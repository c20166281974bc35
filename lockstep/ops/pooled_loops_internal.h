// LibTorch's elementwise loops, copies, concatenations and reductions along axes on the threads of parallel_for.
#pragma once

#include <cstdint>

#include "lockstep/ops/library_threads_internal.h"

namespace lockstep::ops {

// Elements of a result, or of a reduction's input, from which the work is divided.
constexpr std::int64_t kPooledElements = 1 << 17;

// While one lives, LibTorch's own threads are not used, and if it is wanted, LibTorch's operations on large tensors
// that this thread calls, autograd's own included, are divided into pieces for parallel_for. The pieces depend on
// shapes only, and each element is computed as without them, so results do not depend on the number of threads. Other
// operations run as before.
class PooledLoops {
 public:
  explicit PooledLoops(bool wanted);
  ~PooledLoops();
  PooledLoops(const PooledLoops&) = delete;
  PooledLoops& operator=(const PooledLoops&) = delete;

 private:
  LibraryThreads threads_{0};
  bool entered_ = false;
};

}  // namespace lockstep::ops
