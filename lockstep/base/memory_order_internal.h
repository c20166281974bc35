// Orders accesses to memory that is shared by LibTorch's reference counts, also for the thread sanitizer, which does
// not see LibTorch's atomic operations.
#pragma once

#include <atomic>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace lockstep {

// Release: to be called after the last read of shared memory, before its reference is dropped.
inline void done_reading([[maybe_unused]] const void* memory) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(memory));
#endif
}

// Acquire: to be called before a write to memory whose use_count() is 1, a relaxed load.
inline void about_to_write([[maybe_unused]] const void* memory) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(memory));
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace lockstep
