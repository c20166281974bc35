// One MemoryLimit for several threads. Internal to lockstep.
#pragma once

#include <memory>

#include "lockstep/ops/memory_limit_internal.h"

namespace lockstep::ops {

// The limit of this thread; null without one.
std::shared_ptr<MemoryLimit::State> current_memory_limit();

// While one lives, the tensors of this thread count against the limit of the thread that it works for.
class SharedMemoryLimit {
 public:
  explicit SharedMemoryLimit(std::shared_ptr<MemoryLimit::State> limit);
  ~SharedMemoryLimit();
  SharedMemoryLimit(const SharedMemoryLimit&) = delete;
  SharedMemoryLimit& operator=(const SharedMemoryLimit&) = delete;

 private:
  std::shared_ptr<MemoryLimit::State> previous_;
};

}  // namespace lockstep::ops
