// How workers find each other before the first collective.
#pragma once

#include <memory>
#include <string>

#include "lockstep/collectives/job_store_internal.h"
#include "lockstep/collectives/workers_internal.h"

namespace lockstep::collectives {

// What a worker has once all are there.
struct Meeting {
  std::unique_ptr<JobStore> store;
  std::unique_ptr<JobStore> health_store;  // a connection of the heartbeat's own
  std::unique_ptr<Listener> place;         // holds this worker's own port; null for rank 0, whose store listens
  std::string local_address;               // the interface by which the others are reached
};

// Returns when every rank has said hello, all alike. Throws as join_job, at the latest three seconds after
// startup_timeout, even where rank 0 takes the connection and does not answer.
Meeting meet(const JobOptions& options);

}  // namespace lockstep::collectives
