// Rendezvous: how workers find each other before the first collective.
#pragma once

#include <memory>
#include <string>

#include "lockstep/collectives/job_store_internal.h"
#include "lockstep/collectives/workers_internal.h"

namespace lockstep::collectives {

// Connections of a worker after the rendezvous.
struct Rendezvous {
  std::unique_ptr<JobStore> store;
  std::unique_ptr<JobStore> health_store;  // separate connection of the heartbeat
  std::unique_ptr<Listener> place;         // reserves this worker's port; null for rank 0, whose store listens
  std::string local_address;               // the interface that reaches the other workers
};

// Returns when every rank has registered, with equal versions and clusters. Throws as join_job, at most three seconds
// after startup_timeout, even if rank 0 accepts the connection and does not answer.
Rendezvous find_workers(const JobOptions& options);

}  // namespace lockstep::collectives
