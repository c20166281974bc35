#include "lockstep/collectives/rendezvous_internal.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/collectives/health_internal.h"
#include "lockstep/collectives/messages_internal.h"

namespace lockstep::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kStoreConnections = 4;  // of each rank at once
constexpr const char* kGo = "go";
constexpr const char* kWaiting = "waiting";
constexpr milliseconds kPoll{50};
// More for each rank, so that those that wait do not keep the store busy: it answers some ten thousand questions a
// second.
constexpr std::chrono::microseconds kPollPerRank{200};
constexpr milliseconds kReportEvery{5000};
constexpr milliseconds kProbe{1000};
constexpr milliseconds kLeaderGrace{2000};   // rank 0 times out first, and reports the reason
constexpr milliseconds kErrorGrace{300};     // the others read the reason before the store closes
constexpr milliseconds kSilenceGrace{1000};  // after kLeaderGrace: rank 0 does not answer

// The startup timeout, with periodic reports to the user.
class StartupDeadline {
 public:
  explicit StartupDeadline(const JobOptions& options)
      : options_(options), end_(Clock::now() + options.startup_timeout) {}
  bool expired(milliseconds by = {}) const { return Clock::now() >= end_ + by; }
  milliseconds left() const {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(end_ - Clock::now()));
  }
  void pause(const std::function<std::string()>& waiting_for) {
    if (Clock::now() >= next_report_) {
      const std::string text = waiting_for();
      if (!text.empty()) next_report_ = Clock::now() + kReportEvery;
      if (options_.report && !text.empty()) {
        options_.report(fmt::format("{} waits for {} ({:.0f} s left)",
                                    options_.names[static_cast<std::size_t>(options_.rank)], text, seconds(left())));
      }
    }
    std::this_thread::sleep_for(kPoll + static_cast<long>(options_.names.size()) * kPollPerRank);
  }

 private:
  const JobOptions& options_;
  Clock::time_point end_;
  Clock::time_point next_report_ = Clock::now() + milliseconds(2000);
};

// The first names, and the number of others.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kListed = 8;
  if (names.size() <= kListed + 1) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kListed, ", "), names.size() - kListed);
}

std::string hello_key(int rank) { return "hello/" + std::to_string(rank); }

// Rank 0's part: waits for all registrations, compares them, and publishes the start of the job or the error.
void lead_rendezvous(JobStore& store, const JobOptions& options, StartupDeadline& deadline) {
  const int size = static_cast<int>(options.names.size());
  const Registration own{std::string(version()), options.names};
  Fault fault{Code::kInvalidArgument, ""};
  std::vector<bool> here(options.names.size(), false);
  std::vector<std::string> missing;
  for (here[0] = true;;) {
    missing.clear();
    for (int rank = 1; rank < size; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (!here[at] && store.has(hello_key(rank))) {
        here[at] = true;
        fault.message = own.difference(store.get(hello_key(rank)), rank);
        if (!fault.message.empty()) break;
      }
      if (!here[at]) missing.push_back(options.names[at]);
    }
    if (!fault.message.empty() || missing.empty()) break;
    const std::string absent = listed(missing);
    if (deadline.expired()) {
      fault = {Code::kDeadlineExceeded,
               fmt::format("{} did not start within {:.0f} s; start every worker of the cluster, and see that {} can "
                           "be reached from there",
                           absent, seconds(options.startup_timeout), options.addresses[0])};
      break;
    }
    deadline.pause([&] {
      store.set(kWaiting, absent);
      return absent;
    });
  }
  store.set(kGo, fault.message.empty() ? "" : fault_text(fault));
  if (fault.message.empty()) return;
  std::this_thread::sleep_for(kErrorGrace);
  throw_error(fault.code, fault.message);
}

// The part of other ranks. False if the store is that of a job in which this rank was before: this process holds the
// rank's port, so its predecessor has ended, and the job is informed.
bool register_worker(JobStore& store, const JobOptions& options, StartupDeadline& deadline) {
  const std::string& name = options.names[static_cast<std::size_t>(options.rank)];
  if (store.has(hello_key(options.rank))) {
    if (options.addresses[static_cast<std::size_t>(options.rank)].empty()) {
      throw_unavailable(fmt::format(
          "a second {} wants to join the running job; end the job that is running at {}, or wait until it has "
          "ended",
          name, options.addresses[0]));
    }
    HealthMonitor::report_lost(store, fmt::format("{} is lost: it has been started again", name));
    return false;
  }
  HealthMonitor::announce(store, options.rank);
  if (!store.set_once(hello_key(options.rank), Registration{std::string(version()), options.names}.text())) {
    throw_unavailable(fmt::format("{} was started twice at the same time; start it once", name));
  }
  while (!store.has(kGo)) {
    if (deadline.expired(kLeaderGrace)) {
      throw_deadline_exceeded(
          fmt::format("{} did not start the job within {:.0f} s", options.names[0], seconds(options.startup_timeout)));
    }
    deadline.pause([&] {
      const std::string missing = store.has(kWaiting) ? store.get(kWaiting) : std::string();
      return missing.find(name) == missing.npos ? missing : options.names[0];  // it has not seen this registration yet
    });
  }
  const std::string go = store.get(kGo);
  if (go.empty()) return true;
  const Fault fault = parse_fault(go);
  throw_error(fault.code, fault.message);
}

// Connects to rank 0; retries until the deadline.
std::unique_ptr<JobStore> connect_to_leader(const JobOptions& options, StartupDeadline& deadline,
                                            std::string& local_address) {
  const HostPort leader = parse_address(options.addresses[0]);
  std::string problem;
  for (;;) {
    if (const auto local = probe(leader, std::min(kProbe, deadline.left()), problem)) {
      local_address = *local;
      return join_store(leader, deadline.left(), options.store_is_served ? options.store_prefix : std::string());
    }
    if (deadline.expired()) {
      throw_deadline_exceeded(fmt::format("{} cannot be reached within {:.0f} s ({}); start it, and check its address",
                                          options.names[0], seconds(options.startup_timeout), problem));
    }
    deadline.pause([&] { return fmt::format("{}: {}", options.names[0], problem); });
  }
}

// The rendezvous in the store, which rank 0 may serve already.
void run_rendezvous(const JobOptions& options, Rendezvous& rendezvous) {
  StartupDeadline deadline(options);
  if (!rendezvous.store) rendezvous.store = connect_to_leader(options, deadline, rendezvous.local_address);
  if (options.rank == 0) {
    HealthMonitor::announce(*rendezvous.store, 0);
    lead_rendezvous(*rendezvous.store, options, deadline);
  }
  while (options.rank != 0 && !register_worker(*rendezvous.store, options, deadline)) {
    rendezvous.store = nullptr;
    const std::string& leader = options.names[0];
    if (deadline.expired()) {
      throw_deadline_exceeded(fmt::format("{} still runs the previous job of {} after {:.0f} s; end it there", leader,
                                          options.names[static_cast<std::size_t>(options.rank)],
                                          seconds(options.startup_timeout)));
    }
    deadline.pause([&] { return fmt::format("{} to end the previous job", leader); });
    rendezvous.store = connect_to_leader(options, deadline, rendezvous.local_address);
  }
  rendezvous.health_store = rendezvous.store->clone();
}

// A rendezvous in a separate thread, since a call to the store does not return while the connection to rank 0 is
// broken.
struct Attempt {
  JobOptions options;
  Rendezvous rendezvous;
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  bool abandoned = false;
  std::exception_ptr problem;

  void report(const std::string& line) {
    const std::lock_guard lock(mutex);
    if (!abandoned && options.report) options.report(line);
  }
  void run() {
    std::exception_ptr caught;
    try {
      JobOptions guarded = options;
      guarded.report = [this](const std::string& line) { report(line); };
      run_rendezvous(guarded, rendezvous);
    } catch (const StoreLost& lost) {
      caught = std::make_exception_ptr(errors::UnavailableError(fmt::format(
          "{} is lost while the job starts (it has ended or is cut off): {}", options.names[0], lost.message())));
    } catch (...) {
      caught = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    over = true;
    problem = std::move(caught);
    changed.notify_all();
  }
};

}  // namespace

Rendezvous find_workers(const JobOptions& options) {
  const std::string& name = options.names[static_cast<std::size_t>(options.rank)];
  const std::string& address = options.addresses[static_cast<std::size_t>(options.rank)];
  const bool serves = options.rank == 0 && !options.store_is_served;
  const auto ranks = options.names.size();
  // A worker has connections to a logarithm of the workers, twice (a group for saves); rank 0 serves the store to all.
  require_descriptors(name, (serves ? kStoreConnections * ranks : 0) + 4 * std::bit_width(ranks));
  std::unique_ptr<Listener> place;
  if (!address.empty() && (serves || options.rank != 0))
    place = std::make_unique<Listener>(name, parse_address(address).port);
  const auto attempt = std::make_shared<Attempt>();
  attempt->options = options;
  if (serves) {
    const HostPort own = parse_address(address);
    attempt->rendezvous.store = serve_store("localhost", own.port, *place, options.startup_timeout);
    attempt->rendezvous.local_address = local_address_of(own.host).value_or("");
    place.reset();
  }
  std::thread([attempt] { attempt->run(); }).detach();
  std::unique_lock lock(attempt->mutex);
  if (!attempt->changed.wait_for(lock, options.startup_timeout + kLeaderGrace + kSilenceGrace,
                                 [&] { return attempt->over; })) {
    attempt->abandoned = true;
    throw_deadline_exceeded(
        fmt::format("{} was reached, but did not answer for the whole of {:.0f} s: it is stopped or disconnected, or "
                    "another program listens there",
                    options.names[0], seconds(options.startup_timeout)));
  }
  if (attempt->problem) std::rethrow_exception(std::exchange(attempt->problem, nullptr));
  Rendezvous rendezvous = std::move(attempt->rendezvous);
  rendezvous.place = std::move(place);
  return rendezvous;
}

}  // namespace lockstep::collectives
