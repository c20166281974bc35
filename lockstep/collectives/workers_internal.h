// Joins the workers of a job to a group.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/pending_internal.h"

namespace lockstep::collectives {

struct JobOptions {
  int rank = 0;
  // "worker 1 (10.0.0.2:2222)" by rank, as errors name them.
  std::vector<std::string> names;
  // host:port of each rank. Rank 0's is the address of the rendezvous; another may be empty if only its rank is known,
  // else its port is reserved while the job runs, so that no second process can use the rank.
  std::vector<std::string> addresses;
  // The launcher already serves a TCPStore at rank 0's address: rank 0 connects to it like the others.
  bool store_is_served = false;
  std::string store_prefix;  // of the keys of a store that is served
  std::chrono::milliseconds startup_timeout{20000};
  std::chrono::milliseconds timeout{30000};  // of a collective, and of a worker's silence
  bool share_memory = true;                  // use shared memory among the ranks of a machine; false: always TCP
  std::string machine;                       // the name of this rank's machine; empty: detected
  // Gets the missing workers every few seconds, on a separate thread; never after join_job has returned or thrown.
  std::function<void(const std::string&)> report;
};

// Joins the job and returns when all ranks have joined. LibTorch's TCPStore in rank 0 holds the registrations and
// heartbeats. Throws
//   ResourceExhausted  the limit of open files is too low for a job of this size
//   InvalidArgument    another worker has another version or another cluster; malformed addresses
//   Unavailable        a port is in use, the name of rank 0's host cannot be resolved, or a worker failed
//   DeadlineExceeded   workers are missing after startup_timeout; names and addresses are listed.
CommunicatorPtr join_job(JobOptions options);

}  // namespace lockstep::collectives
