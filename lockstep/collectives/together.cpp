#include "lockstep/collectives/together.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "lockstep/collectives/fault_internal.h"

namespace lockstep::collectives {
namespace {

constexpr std::chrono::milliseconds kBeat{1000};  // well within the timeout of any group
constexpr char kBusy = 'b', kDone = 'd', kFailed = 'f';

// The outcome of this rank's work.
struct Outcome {
  char state = kBusy;
  std::string text;  // the result, or the fault
};

// Takes part in rounds, in which each rank sends its outcome or that it is busy, until no rank is busy.
class Rounds {
 public:
  explicit Rounds(Communicator& group) : group_(group), thread_([this] { run(); }) {}
  ~Rounds() {
    if (thread_.joinable()) finish({kFailed, fault_text({Code::kInternal, "the work was given up"})});
  }

  void finish(Outcome outcome) {
    {
      const std::lock_guard lock(mutex_);
      mine_ = std::move(outcome);
      changed_.notify_all();
    }
    thread_.join();
  }

  std::exception_ptr lost;       // what a collective threw
  std::vector<std::string> all;  // state and text of each rank

 private:
  void run() {
    try {
      for (bool busy = true; busy;) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kBeat, [this] { return mine_.state != kBusy; });
        const std::string mine = mine_.state + mine_.text;
        lock.unlock();
        busy = false;
        all = group_.all_gather(mine);
        for (const std::string& each : all) busy = busy || each.at(0) == kBusy;
      }
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

std::vector<std::string> run_together(Communicator& group, std::string_view what,
                                      const std::function<std::string()>& work) {
  Rounds rounds(group);
  std::exception_ptr own;
  Outcome outcome;
  try {
    outcome = {kDone, work()};
  } catch (const Error& error) {
    own = std::current_exception();
    outcome = {kFailed, fault_text({error.code(), error.message()})};
  } catch (const std::exception& error) {
    own = std::current_exception();
    outcome = {kFailed, fault_text({Code::kInternal, error.what()})};
  }
  rounds.finish(std::move(outcome));
  if (own) std::rethrow_exception(own);
  if (rounds.lost) std::rethrow_exception(rounds.lost);
  std::vector<std::string> results;
  for (std::size_t rank = 0; rank < rounds.all.size(); ++rank) {
    std::string text = rounds.all[rank].substr(1);
    if (rounds.all[rank][0] == kFailed) {
      const Fault fault = parse_fault(text);
      throw_error(fault.code,
                  fmt::format("{}: {}: {}", group.member_name(static_cast<int>(rank)), what, fault.message));
    }
    results.push_back(std::move(text));
  }
  return results;
}

void run_on_chief(Communicator* group, std::string_view what, const std::function<void()>& work) {
  if (!group) return work();
  run_together(*group, what, [&] {
    if (group->rank() == 0) work();
    return std::string();
  });
}

}  // namespace lockstep::collectives
