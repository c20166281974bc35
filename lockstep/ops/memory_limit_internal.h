// A limit on the bytes of the tensors that a thread allocates. Internal to lockstep.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace lockstep::ops {

// While one lives, tensors that this thread allocates in host memory count against `bytes` until they are freed, on
// any thread; an allocation beyond it throws ResourceExhausted. One may not live inside another's scope.
//
// The first one puts a forwarding allocator in front of LibTorch's; without a limit on the thread it only forwards.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  // Whether this thread has a limit.
  static bool active();

  // Throws ResourceExhausted when `count` items of `size` bytes exceed the rest of this thread's limit; for memory that
  // LibTorch does not allocate. Does nothing without a limit.
  static void check(std::int64_t count, std::int64_t size);

  struct State {
    std::int64_t limit = 0;
    std::atomic<std::int64_t> used = 0;
  };

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::ops
