#include "lockstep/collectives/together.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

constexpr std::chrono::milliseconds kBeat{1000};  // well within the timeout of any group
constexpr char kBusy = 'b', kDone = 'd', kFailed = 'f';

// What this rank's work came to.
struct Outcome {
  char state = kBusy;
  std::string text;  // the result, or the error's message
  Code code = Code::kUnknown;
};

// Takes part in rounds until no rank is busy any more, then exchanges the outcomes.
class Rounds {
 public:
  explicit Rounds(Communicator& group) : group_(group), thread_([this] { run(); }) {}
  ~Rounds() {
    if (thread_.joinable()) finish({kFailed, "the work was given up", Code::kInternal});
  }

  void finish(Outcome outcome) {
    {
      const std::lock_guard lock(mutex_);
      mine_ = std::move(outcome);
      changed_.notify_all();
    }
    thread_.join();
  }

  std::exception_ptr lost;         // what a collective threw
  std::vector<std::string> all;    // state, code and text of each rank

 private:
  void run() {
    try {
      for (bool busy = true; busy;) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kBeat, [this] { return mine_.state != kBusy; });
        const std::string state(1, mine_.state);
        lock.unlock();
        busy = false;
        for (const std::string& each : group_.all_gather(state)) busy = busy || each[0] == kBusy;
      }
      all = group_.all_gather(fmt::format("{}{:03}", mine_.state, static_cast<int>(mine_.code)) + mine_.text);
    } catch (...) {
      lost = std::current_exception();
    }
  }

  Communicator& group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Outcome mine_;
  std::thread thread_;
};

}  // namespace

std::vector<std::string> run_together(Communicator& group, std::string_view what, const std::function<std::string()>& work) {
  Rounds rounds(group);
  std::exception_ptr own;
  Outcome outcome;
  try {
    outcome = {kDone, work(), Code::kUnknown};
  } catch (const Error& error) {
    own = std::current_exception();
    outcome = {kFailed, error.message(), error.code()};
  } catch (const std::exception& error) {
    own = std::current_exception();
    outcome = {kFailed, error.what(), Code::kInternal};
  }
  rounds.finish(std::move(outcome));
  if (own) std::rethrow_exception(own);
  if (rounds.lost) std::rethrow_exception(rounds.lost);
  constexpr std::size_t kHeader = 4;
  std::vector<std::string> results;
  for (std::size_t rank = 0; rank < rounds.all.size(); ++rank) {
    const std::string& each = rounds.all[rank];
    if (each[0] == kFailed) {
      throw Error(static_cast<Code>(std::stoi(each.substr(1, 3))),
                  fmt::format("{}: {}: {}", group.member_name(static_cast<int>(rank)), what, each.substr(kHeader)));
    }
    results.push_back(each.substr(kHeader));
  }
  return results;
}

void run_on_chief(Communicator& group, std::string_view what, const std::function<void()>& work) {
  run_together(group, what, [&] {
    if (group.rank() == 0) work();
    return std::string();
  });
}

}  // namespace lockstep::collectives
