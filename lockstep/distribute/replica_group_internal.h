// Where the replica threads of one worker meet.
#pragma once

#include <any>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace lockstep::distribute {

// Where the replica threads of one Strategy::run meet. Every replica must make the same calls in the
// same order; when one ends early or fails, those that wait get an Aborted error instead of hanging.
class ReplicaGroup {
 public:
  explicit ReplicaGroup(int size) : size_(size), inputs_(static_cast<std::size_t>(size)) {}
  int size() const { return size_; }

  // Gives every replica the result of `combine` over all replicas' values in replica order; it runs once.
  std::any meet(int replica, std::any value, const std::function<std::any(std::vector<std::any>&)>& combine);
  // Called when a replica's function has returned or thrown.
  void leave(bool failed);

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::any> inputs_;
  std::any output_;
  std::exception_ptr error_;
  int waiting_ = 0;
  int left_ = 0;
  bool failed_ = false;
  std::uint64_t round_ = 0;
};

}  // namespace lockstep::distribute
