// Saves in the background: state is copied, then written by a thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/formats/tensor_data.h"

namespace lockstep::train {

// The memory of copies of the state, reused from save to save.
class CopyBuffers {
 public:
  // Points each tensor's bytes to a copy of them; strings are left as they are. Two threads copy large tensors.
  void copy(std::vector<formats::TensorData*> tensors);

 private:
  struct Pool;
  std::shared_ptr<Pool> pool_;
};

// Runs jobs one after the other, in the order in which they were given, on one thread.
class AsyncSaver {
 public:
  AsyncSaver() = default;
  // Waits for all jobs; an error that has not been reported becomes a warning.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  // Waits until the jobs under way hold so little that `bytes` more are within `budget`; a job larger than that waits
  // for all others.
  void make_room(std::uint64_t bytes, std::uint64_t budget);
  void submit(std::uint64_t bytes, std::function<void()> job);
  // Whether a job has failed whose error has not been reported.
  bool failed();
  // Waits for all jobs and throws the first error. After an error the jobs that were waiting still run.
  void wait();

 private:
  struct Job {
    std::uint64_t bytes;
    std::function<void()> run;
  };
  void run();
  void rethrow(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::uint64_t held_ = 0;  // bytes of the jobs that wait or run
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace lockstep::train
