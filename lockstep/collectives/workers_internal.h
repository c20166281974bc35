// Bringing the workers of a job together.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"

namespace lockstep::collectives {

struct JobOptions {
  int rank = 0;
  // "worker 1 (10.0.0.2:2222)" by rank, as errors shall name them.
  std::vector<std::string> names;
  // host:port of each rank. Rank 0's is where all meet; another's may be empty where only its rank is known, else its
  // port is held while the job runs, so that no second process can take its place.
  std::vector<std::string> addresses;
  // The launcher already serves a TCPStore at rank 0's address: rank 0 joins it as the others do.
  bool store_is_served = false;
  std::chrono::milliseconds startup_timeout{20000};
  std::chrono::milliseconds timeout{30000};  // of each collective, and of a worker's silence
  bool share_memory = true;  // sums go through memory when all ranks are on one machine, else always through Gloo
  // Told every few seconds, on a thread of its own, who is waited for; never after join_job has returned or thrown.
  std::function<void(const std::string&)> report;
};

// Joins the job and returns when all ranks have. LibTorch's Gloo moves the tensors; its TCPStore in rank 0 tells who is
// there and alive. Throws
//   InvalidArgument    another worker runs another version or knows another cluster; malformed addresses
//   Unavailable        a port is in use, the name of rank 0's host cannot be resolved, or a worker failed
//   DeadlineExceeded   workers that are missing after startup_timeout, by name and address.
CommunicatorPtr join_job(JobOptions options);

}  // namespace lockstep::collectives
