// A mutex for classes in public headers: <mutex> and <chrono> cost every user's build a tenth of a second.
#pragma once

#include <memory>

namespace lockstep {

// Works with std::lock_guard and std::unique_lock.
class Mutex {
 public:
  Mutex();
  ~Mutex();
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock();
  void unlock();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
