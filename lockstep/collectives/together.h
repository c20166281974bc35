// Work whose result or error every rank gets.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/communicator.h"

namespace lockstep::collectives {

// Runs `work` on each rank, on the calling thread, and returns the results of all ranks, by rank, on every rank. The
// group is kept alive, so the work may take longer than its timeout. If it throws on a rank, that rank throws the same
// error, and the others an Error of the same code that names the first such worker, `what` and the message; the group
// stays usable. If a worker is lost, the others throw as in any collective, after their own work has ended.
std::vector<std::string> run_together(Communicator& group, std::string_view what,
                                      const std::function<std::string()>& work);

// The same for work of the chief only, such as writing a file. Without a group (null) this process is the chief of a
// job of one.
void run_on_chief(Communicator* group, std::string_view what, const std::function<void()>& work);

}  // namespace lockstep::collectives
