// The rendezvous of the replica threads of one worker.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <typeindex>
#include <vector>

namespace lockstep::distribute {

// The replica threads of one Strategy::run. Every replica must make the same calls in the same order; if one ends early
// or fails, waiting ones throw Aborted instead of hanging.
class ReplicaGroup {
 public:
  explicit ReplicaGroup(int size) : size_(size), slots_(static_cast<std::size_t>(size)) {}
  int size() const { return size_; }

  // Returns when combine(slots of all replicas, in their order) has run once. The slots have one type, else it throws
  // FailedPrecondition.
  void meet(int replica, void* slot, std::type_index type,
            const std::function<void(const std::vector<void*>&)>& combine);
  // Called when a replica's function has returned or thrown.
  void leave(bool failed);

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<void*> slots_;
  std::type_index type_ = typeid(void);  // of the slots
  bool alike_ = true;                    // whether all of them have it
  std::exception_ptr error_;
  int waiting_ = 0;
  int left_ = 0;
  bool failed_ = false;
  std::uint64_t round_ = 0;
};

}  // namespace lockstep::distribute
