#include "lockstep/collectives/pipeline_internal.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/threads_internal.h"

namespace lockstep::collectives {

Pipeline::Pipeline(const std::array<bool, kStages>& stages) : present_(stages) {
  try {
    for (std::size_t i = 0; i < kStages; ++i) {
      if (present_[i]) stages_[i].thread = start_thread([this, i] { run(i); });
    }
  } catch (...) {
    stop();
    throw;
  }
}

void Pipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  for (Stage& stage : stages_) {
    if (stage.thread.joinable()) stage.thread.join();
  }
}

void Pipeline::check_abort() const {
  if (stop_) throw_unavailable("the group of workers is closed");
}

void Pipeline::submit(Piece piece) { pass_on(std::make_shared<Piece>(std::move(piece)), 0); }

// To the next stage from `stage` on that has a thread.
void Pipeline::pass_on(std::shared_ptr<Piece> piece, std::size_t stage) {
  while (stage < kStages && !present_[stage]) ++stage;
  std::unique_lock lock(mutex_);
  if (stage < kStages) {
    stages_[stage].waiting.push_back(std::move(piece));
    changed_.notify_all();
    return;
  }
  const std::string problem = problem_;
  lock.unlock();
  if (piece->done) piece->done(problem);
}

void Pipeline::run(std::size_t number) {
  Stage& stage = stages_[number];
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !stage.waiting.empty(); });
    if (stop_) return;
    std::shared_ptr<Piece> piece = std::move(stage.waiting.front());
    stage.waiting.pop_front();
    const bool works = problem_.empty();
    lock.unlock();
    std::string problem;
    try {
      if (works && piece->stages[number]) piece->stages[number]();
    } catch (const std::exception& error) {
      problem = error.what();
      if (problem.empty()) problem = "unknown error";
    }
    if (!problem.empty()) {
      const std::lock_guard again(mutex_);
      if (problem_.empty()) problem_ = problem;
    }
    pass_on(std::move(piece), number + 1);
    lock.lock();
  }
}

}  // namespace lockstep::collectives
