// Liveness of the workers of a job: each sends heartbeats twice a second, and all detect those that do not.
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
#include "lockstep/collectives/machines_internal.h"

namespace lockstep::collectives {

// Sends the heartbeats of this worker, watches those of the others, and publishes the first fault that any rank
// detects. Rank 0 reads all heartbeats and writes one short report, which the others read. On several machines, the
// ranks of a machine exchange both in shared memory with the leader of their machine, and only leaders use the store in
// rank 0: it handles two requests of each machine in an interval, independently of the number of ranks. When a leader
// is silent for two intervals, the ranks of its machine use the store themselves. The monitor's thread never keeps the
// program from exiting.
class HealthMonitor {
 public:
  struct Options {
    int rank = 0;
    std::vector<std::string> names;            // of all ranks
    std::chrono::milliseconds timeout{30000};  // a worker that is silent for this time is lost
    std::chrono::milliseconds interval{500};
  };
  // `store` is a separate connection. The keys of a rank exist after it has called announce().
  HealthMonitor(std::unique_ptr<JobStore> store, Options options);
  ~HealthMonitor();
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;

  // Writes this worker's first heartbeat. Called before others read it.
  static void announce(JobStore& store, int rank);
  // Reports to a running job that one of its workers is lost.
  static void report_lost(JobStore& store, const std::string& message);
  // Starts watching; every rank must have announced itself.
  void start();

  // From now on leaders send the heartbeats of their machines. Every rank calls it once, with the same machines.
  // `board`: the memory of the HeartbeatBoard of this rank's machine; null for a rank that is alone on its machine.
  void use_machines(const Machines& machines, std::shared_ptr<std::byte> board);
  // Called when this worker enters its next collective.
  std::uint64_t next_collective();
  // The first known fault.
  std::optional<Fault> fault() const;
  // A connection broke during a collective: waits a few heartbeats to find the worker that caused it.
  Fault diagnose(const std::string& reason);
  // Collective `number` has timed out: names the workers that have not reached it.
  Fault overdue(std::uint64_t number, std::chrono::milliseconds waited);
  // A worker that has left the job before collective `number`.
  std::optional<Fault> departed(std::uint64_t number);
  // The process of `rank` has ended: returns the reason that it published, else that it has ended.
  Fault ended(int rank);
  // Publishes a fault of this worker to all; waits briefly until it is written.
  void publish(const Fault& fault);
  // Reports that this worker is done. Rank 0 waits briefly for the others to be done too, since it serves the store.
  void leave();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace lockstep::collectives
