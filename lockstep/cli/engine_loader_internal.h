// Commands that compute live in a module beside the tool, so that the others start without LibTorch.
#pragma once

#include <string>

#include "lockstep/cli/options_internal.h"

namespace lockstep::cli {

// Loads lockstep-engine.so and runs its command. Throws NotFound when it is not there, Internal when it cannot be
// loaded.
int run_in_engine(const std::string& command, const Arguments& arguments);

}  // namespace lockstep::cli
