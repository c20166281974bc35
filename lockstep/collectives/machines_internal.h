// Which ranks of a job run on the same machine, and the memory that they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/job_store_internal.h"
#include "lockstep/collectives/shared_memory_internal.h"

namespace lockstep::collectives {

// The ranks of a group by machine. Ranks that share memory are on one machine: at most 64, since a larger number counts
// as several machines.
struct Machines {
  std::vector<std::vector<int>> ranks;  // of each machine, ascending; machines in the order of their first ranks
  int machine = 0;                      // of this rank
  int place = 0;                        // of this rank among those of its machine; 0: it is the leader

  int count() const { return static_cast<int>(ranks.size()); }
  const std::vector<int>& local() const { return ranks[static_cast<std::size_t>(machine)]; }
  bool leads() const { return place == 0; }
  // Every rank on its own machine.
  static Machines apart(int rank, int size);
  // From the number of the machine of each rank.
  static Machines of(const std::vector<int>& machines, int rank);
};

// The memory that this rank shares with the others of its machine; empty without others.
struct SharedMachine {
  Machines machines;
  std::unique_ptr<SharedMemory> memory, second_memory;
  std::vector<std::string> processes;  // of the local ranks, see ProcessWatch
};

// Every rank calls it, with a name that is new in the job. Ranks whose memory the others cannot open count as machines
// of their own. Rank 0 reads a few bytes of each rank; the others read a line with a number for each rank. `machine`:
// the name of this rank's machine, or empty: detected.
SharedMachine share_machine(JobStore& store, const std::string& name, int rank, int size, const std::string& machine);

}  // namespace lockstep::collectives
