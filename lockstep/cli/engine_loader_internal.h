// Commands that compute are in a module, so that the others start without LibTorch.
#pragma once

#include <string>

#include "lockstep/cli/options_internal.h"

namespace lockstep::cli {

// Loads lockstep-engine.so and runs its command. Throws NotFound if it is missing, Internal if it cannot be
// loaded.
int run_in_engine(const std::string& command, const Arguments& arguments);

}  // namespace lockstep::cli
