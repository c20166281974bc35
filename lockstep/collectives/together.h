// Work of which all ranks learn together how it went.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/communicator.h"

namespace lockstep::collectives {

// Runs `work` on each rank, on the calling thread, and returns what it gave on each, by rank, on every rank. The group
// is kept awake meanwhile, so the work may take longer than its timeout. When it throws on a rank, that rank throws
// what it threw, and the others an Error of the same code that names the first such worker, `what` and the message; the
// group stays usable. When a worker is lost, the rest throw as any collective does, once their own work has ended.
std::vector<std::string> run_together(Communicator& group, std::string_view what,
                                      const std::function<std::string()>& work);

// The same for work of the chief's alone, such as writing one file. Without a group (null) this process is the chief,
// alone.
void run_on_chief(Communicator* group, std::string_view what, const std::function<void()>& work);

}  // namespace lockstep::collectives
