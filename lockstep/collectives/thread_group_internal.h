// Ranks as threads of one process, for tests and simulations.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/collectives/pending_internal.h"

namespace lockstep::collectives {

// Makes `size` connected communicators; give each to its own thread. A call that waits longer than `timeout` for a rank
// throws DeadlineExceeded naming it.
std::vector<CommunicatorPtr> make_thread_group(int size, std::chrono::milliseconds timeout = std::chrono::seconds(30));

// Runs fn(communicator) for each rank on a separate thread. When fn throws on a rank, its communicator is made to
// fail and the first cause by rank is rethrown here.
void run_ranks(int size, const std::function<void(Communicator&)>& fn,
               std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace lockstep::collectives
