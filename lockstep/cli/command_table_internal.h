// Every command of the tool with its options, for the parser and for --help.
#pragma once

#include <vector>

#include "lockstep/cli/options_internal.h"

namespace lockstep::cli {

const std::vector<Command>& command_table();

}  // namespace lockstep::cli
