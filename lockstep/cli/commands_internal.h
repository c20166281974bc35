// The commands that need no engine: they read files and compute nothing.
#pragma once

#include "lockstep/cli/options_internal.h"

namespace lockstep::cli {

int inspect(const Arguments& arguments);
int verify(const Arguments& arguments);
int audit(const Arguments& arguments);
int diff(const Arguments& arguments);
// Between files of weights; whole models go to the engine.
int convert(const Arguments& arguments);
// Starts the workers of a job on this machine.
int launch(const Arguments& arguments);

}  // namespace lockstep::cli
