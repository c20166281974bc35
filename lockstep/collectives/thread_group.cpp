#include "lockstep/collectives/thread_group_internal.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/threads_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::collectives {
namespace {

struct Contribution {
  std::string call;  // what the rank called, with what must be equal on all ranks
  std::string bytes;
  at::Tensor value;  // a copy of what the rank gave
};

class Group;

// One collective: complete when every rank has put in its part.
struct Round {
  explicit Round(int size) : parts(static_cast<std::size_t>(size)) {}
  std::vector<std::optional<Contribution>> parts;
  int arrived = 0;
  std::string mismatch;  // set if the ranks made different calls
  at::Tensor sum;
  std::shared_ptr<Group> child;  // of duplicate
};

std::string rank_name(int rank) { return fmt::format("worker {} (thread)", rank); }

class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(int size, std::chrono::milliseconds timeout)
      : size_(size), timeout_(timeout), left_(static_cast<std::size_t>(size)) {}

  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // The rank's part of its next collective, number `sequence` of that rank.
  std::shared_ptr<Round> arrive(int rank, std::uint64_t sequence, Contribution part) {
    const std::lock_guard lock(mutex_);
    require_whole();
    auto& round = rounds_[sequence];
    if (!round) round = std::make_shared<Round>(size_);
    round->parts[static_cast<std::size_t>(rank)] = std::move(part);
    if (++round->arrived == size_) {
      complete(*round);
      auto finished = round;
      rounds_.erase(sequence);
      changed_.notify_all();
      return finished;
    }
    return round;
  }

  // Returns when all ranks have arrived.
  void await(Round& round, std::string_view call) {
    std::unique_lock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    while (round.arrived < size_) {
      require_whole();
      if (const auto gone = missing(round, true); !gone.empty()) {
        break_with(Code::kUnavailable, fmt::format("{} left the group before {}", fmt::join(gone, ", "), call));
      } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && round.arrived < size_ && !broken_) {
        break_with(Code::kDeadlineExceeded,
                   fmt::format("{} did not arrive at {} within {} s", fmt::join(missing(round, false), ", "), call,
                               std::chrono::duration<double>(timeout_).count()));
      }
    }
    if (!round.mismatch.empty()) throw_invalid_argument(round.mismatch);
  }

  void fail(int rank, const std::string& reason) {
    std::vector<std::shared_ptr<Group>> children;
    {
      const std::lock_guard lock(mutex_);
      break_with(Code::kUnavailable, fmt::format("{} failed: {}", rank_name(rank), reason));
      for (const auto& each : children_) {
        if (auto child = each.lock()) children.push_back(std::move(child));
      }
    }
    for (const auto& child : children) child->fail(rank, reason);
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    left_[static_cast<std::size_t>(rank)] = true;
    changed_.notify_all();
  }

  bool is_own(const Error& error) {
    const std::lock_guard lock(mutex_);
    return broken_ && broken_->message == error.message();
  }

 private:
  void require_whole() const {
    if (broken_) throw_error(broken_->code, broken_->message);
  }

  void break_with(Code code, std::string message) {
    if (!broken_) broken_ = Failure{code, std::move(message)};
    changed_.notify_all();
  }

  std::vector<std::string> missing(const Round& round, bool only_left) const {
    std::vector<std::string> names;
    for (int rank = 0; rank < size_; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (!round.parts[at] && (!only_left || left_[at])) names.push_back(rank_name(rank));
    }
    return names;
  }

  void complete(Round& round) {
    const std::string& first = round.parts[0]->call;
    for (int rank = 1; rank < size_; ++rank) {
      const std::string& call = round.parts[static_cast<std::size_t>(rank)]->call;
      if (call == first) continue;
      round.mismatch = fmt::format("{} called {}, but {} called {}: all ranks of a group make the same calls",
                                   rank_name(rank), call, rank_name(0), first);
      return;
    }
    if (first.starts_with("all_reduce")) {
      const at::NoGradGuard no_grad;
      round.sum = round.parts[0]->value;
      for (int rank = 1; rank < size_; ++rank) round.sum.add_(round.parts[static_cast<std::size_t>(rank)]->value);
    } else if (first.starts_with("duplicate")) {
      round.child = std::make_shared<Group>(size_, timeout_);
      children_.push_back(round.child);
    }
  }

  const int size_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds_;  // those not yet complete
  std::vector<bool> left_;
  struct Failure {
    Code code;
    std::string message;
  };
  std::optional<Failure> broken_;
  std::vector<std::weak_ptr<Group>> children_;
};

class ThreadSum final : public Pending {
 public:
  ThreadSum(std::shared_ptr<Group> group, std::shared_ptr<Round> round, std::string call, Tensor target)
      : group_(std::move(group)), round_(std::move(round)), call_(std::move(call)), target_(std::move(target)) {}
  void wait() override {
    group_->await(*round_, call_);
    const at::NoGradGuard no_grad;
    aten(target_).copy_(round_->sum);
  }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<Round> round_;
  std::string call_;
  Tensor target_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  ~ThreadCommunicator() override { group_->leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string member_name(int rank) const override { return rank_name(rank); }

  std::unique_ptr<Pending> all_reduce_async(const Tensor& value) override {
    if (!is_floating(value.dtype()) && !is_integer(value.dtype())) {
      throw_invalid_argument(
          fmt::format("invalid dtype of all_reduce: found {}, expected numbers", dtype_name(value.dtype())));
    }
    const std::string call = described("all_reduce", value);
    auto round = group_->arrive(rank_, next_++, {call, {}, aten(value).detach().clone()});
    return std::make_unique<ThreadSum>(group_, std::move(round), call, value);
  }

  std::vector<std::string> all_gather(const std::string& bytes) override {
    const auto round = meet({"all_gather", bytes, {}});
    std::vector<std::string> all;
    all.reserve(round->parts.size());
    for (const auto& part : round->parts) all.push_back(part->bytes);
    return all;
  }

  std::string broadcast(const std::string& bytes, int root) override {
    check_root(root);
    const auto round = meet({fmt::format("broadcast from {}", root), rank_ == root ? bytes : std::string(), {}});
    return round->parts[static_cast<std::size_t>(root)]->bytes;
  }

  void broadcast(const Tensor& value, int root) override {
    check_root(root);
    at::Tensor mine;
    if (rank_ == root) mine = aten(value).detach().clone();
    const auto round = meet({described(fmt::format("broadcast from {}", root), value), {}, std::move(mine)});
    const at::NoGradGuard no_grad;
    if (rank_ != root) aten(value).copy_(round->parts[static_cast<std::size_t>(root)]->value);
  }

  void barrier() override { meet({"barrier", {}, {}}); }
  void fail(const std::string& reason) noexcept override { group_->fail(rank_, reason); }

  CommunicatorPtr duplicate(const std::string& name) override {
    const auto round = meet({fmt::format("duplicate '{}'", name), {}, {}});
    return std::make_shared<ThreadCommunicator>(round->child, rank_);
  }

 private:
  std::shared_ptr<Round> meet(Contribution part) {
    const std::string call = part.call;
    auto round = group_->arrive(rank_, next_++, std::move(part));
    group_->await(*round, call);
    return round;
  }

  static std::string described(const std::string& call, const Tensor& value) {
    return fmt::format("{} of {}{}", call, dtype_name(value.dtype()), value.shape().to_string());
  }

  void check_root(int root) const {
    if (root < 0 || root >= size())
      throw_invalid_argument(fmt::format(
          "invalid root of broadcast: found rank {}, expected a rank below the world size {}", root, size()));
  }

  std::shared_ptr<Group> group_;
  const int rank_;
  std::uint64_t next_ = 0;
};

CommunicatorPtr member(const std::shared_ptr<Group>& group, int rank) {
  return std::make_shared<ThreadCommunicator>(group, rank);
}

}  // namespace

std::vector<CommunicatorPtr> make_thread_group(int size, std::chrono::milliseconds timeout) {
  if (size < 1)
    throw_invalid_argument(fmt::format("invalid size of a thread group: found {}, expected at least 1", size));
  const auto group = std::make_shared<Group>(size, timeout);
  std::vector<CommunicatorPtr> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(member(group, rank));
  return members;
}

void run_ranks(int size, const std::function<void(Communicator&)>& fn, std::chrono::milliseconds timeout) {
  if (size < 1) throw_invalid_argument(fmt::format("invalid number of ranks: found {}, expected at least 1", size));
  const auto group = std::make_shared<Group>(size, timeout);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<char> consequence(static_cast<std::size_t>(size), 0);
  const auto work = [&](int rank, CommunicatorPtr communicator) {
    const auto at = static_cast<std::size_t>(rank);
    try {
      fn(*communicator);
    } catch (const Error& error) {
      errors[at] = std::current_exception();
      consequence[at] = group->is_own(error);
      communicator->fail(error.message());
    } catch (const std::exception& error) {
      errors[at] = std::current_exception();
      communicator->fail(error.what());
    } catch (...) {
      errors[at] = std::current_exception();
      communicator->fail("an exception of another type");
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < size; ++rank) threads.push_back(start_thread(work, rank, member(group, rank)));
  } catch (const Error& error) {
    member(group, static_cast<int>(threads.size()))->fail(error.message());
    for (auto& thread : threads) thread.join();
    throw;
  }
  for (auto& thread : threads) thread.join();
  for (const bool causes : {true, false}) {
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      if (errors[rank] && (!causes || !consequence[rank])) std::rethrow_exception(errors[rank]);
    }
  }
}

}  // namespace lockstep::collectives
