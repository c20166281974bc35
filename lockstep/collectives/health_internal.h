// Who of the job is alive: each worker says so twice a second, and all notice who does not.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/collectives/fault_internal.h"
#include "lockstep/collectives/job_store_internal.h"

namespace lockstep::collectives {

// Beats for this worker, watches the beats of the others, and spreads the first fault that anybody finds. The thread
// never keeps the program from ending.
class HealthMonitor {
 public:
  struct Options {
    int rank = 0;
    std::vector<std::string> names;            // of all ranks
    std::chrono::milliseconds timeout{30000};  // a worker that has not been heard of for so long is lost
    std::chrono::milliseconds interval{500};
  };
  // `store` is a connection of its own. Keys of all ranks are there once each has called announce().
  HealthMonitor(std::unique_ptr<JobStore> store, Options options);
  ~HealthMonitor();
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;

  // Writes this worker's first beat. Called before others read it.
  static void announce(JobStore& store, int rank);
  // Tells a running job that one of its workers is gone.
  static void report_lost(JobStore& store, const std::string& message);
  // Starts watching; every rank must have announced itself.
  void start();

  // Called when this worker enters its next collective.
  std::uint64_t next_collective();
  // The fault known so far.
  std::optional<Fault> fault() const;
  // A connection broke during a collective: waits a few beats for the worker whose fault it is.
  Fault diagnose(const std::string& reason);
  // Collective `number` has taken the whole time allowed: names those that have not reached it.
  Fault overdue(std::uint64_t number, std::chrono::milliseconds waited);
  // A worker that has left the job without having come to collective `number`.
  std::optional<Fault> departed(std::uint64_t number);
  // A process was seen to end: looks for the reason it may have given, else this is the fault.
  Fault ended(int rank);
  // Makes a fault of this worker's known to all; waits a moment until it is.
  void publish(const Fault& fault);
  // Says that this worker is done. Rank 0 waits a moment for the others to be done too, as the store goes with it.
  void leave();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep::collectives
