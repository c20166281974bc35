// Background threads through which the collectives of a group pass.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::collectives {

// A piece of work passes through three stages: the sum within a machine, the sum between machines, and the distribution
// within the machine. Each stage has a thread and handles the pieces in the order of submission, so while one piece is
// on the network the next one is added up in memory.
class Pipeline {
 public:
  static constexpr std::size_t kStages = 3;
  struct Piece {
    std::array<std::function<void()>, kStages> stages;  // empty: nothing to do in this stage
    // Called once, on the thread of the last stage: with the message of the exception of a stage, or empty.
    std::function<void(const std::string& problem)> done;
  };

  // With threads for some of the stages, in which a piece may have work.
  explicit Pipeline(const std::array<bool, kStages>& stages);
  ~Pipeline() { stop(); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  void submit(Piece piece);
  // Ends the threads. Pieces on their way are dropped; their `done` is not called.
  void stop();
  // Throws while the pipeline is being stopped; stages call it while they wait.
  void check_abort() const;

 private:
  struct Stage {
    std::deque<std::shared_ptr<Piece>> waiting;
    std::thread thread;
  };
  void run(std::size_t stage);
  void pass_on(std::shared_ptr<Piece> piece, std::size_t stage);

  std::array<bool, kStages> present_;
  std::mutex mutex_;  // guards the queues and problem_
  std::condition_variable changed_;
  std::array<Stage, kStages> stages_;
  std::string problem_;  // after an exception, nothing is carried out any more
  std::atomic<bool> stop_{false};
};

}  // namespace lockstep::collectives
