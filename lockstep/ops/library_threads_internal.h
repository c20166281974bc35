// How many threads LibTorch's own loops use.
#pragma once

#include <cstdint>

namespace lockstep::ops {

// Elements from which LibTorch's threads, which all meet at the end of each loop, are worth waking.
constexpr std::int64_t kLargeWork = 1 << 22;

// While one lives, LibTorch's loops on this thread use several threads if the largest tensor they work on is large.
class LibraryThreads {
 public:
  explicit LibraryThreads(std::int64_t elements);
  ~LibraryThreads();
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace lockstep::ops
