// Sums between workers of one machine: through memory that they share, without copies through the network's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/dtype.h"

namespace lockstep::collectives {

// A piece of memory in which every rank has a place of `capacity()` bytes. It has no name once all have opened it, so nothing
// stays behind however the processes end.
class SharedMemory {
 public:
  // What a rank does while it waits: throws when waiting has no sense any more. Called every few milliseconds.
  using Patience = std::function<void()>;

  // Rank 0 makes it; empty when the system has none to give.
  static std::unique_ptr<SharedMemory> make(int size);
  // The other ranks open it by name; empty when it cannot be seen from here, as on another machine.
  static std::unique_ptr<SharedMemory> open(const std::string& name, int rank, int size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const std::string& name() const { return name_; }
  // Takes the name away.
  void unlink();
  std::size_t capacity() const;

  static bool can_sum(DType dtype);
  // Replaces `count` elements by their sums over the ranks, added in the order of ranks: each rank adds a share of the
  // elements. Every rank calls it with equal arguments. count * the dtype's size must be at most capacity().
  void sum(void* data, std::size_t count, DType dtype, const Patience& patience);

 private:
  struct Header;
  SharedMemory(std::string name, int rank, int size, void* memory, std::size_t bytes);
  std::byte* place(int rank) const;
  void arrive_and_wait(const Patience& patience);

  std::string name_;
  int rank_;
  int size_;
  void* memory_;
  std::size_t bytes_;
  std::uint64_t meetings_ = 0;
};

}  // namespace lockstep::collectives
