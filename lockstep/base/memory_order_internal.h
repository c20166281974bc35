// What the thread sanitizer is told about memory whose reference counts are LibTorch's, which it does not see.
#pragma once

#include <atomic>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace lockstep {

// A thread has read the memory and is about to give up its reference.
inline void done_reading([[maybe_unused]] const void* memory) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(memory));
#endif
}

// A thread has found that it has the only reference and is about to write. Counts are read without ordering.
inline void about_to_write([[maybe_unused]] const void* memory) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(memory));
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace lockstep
