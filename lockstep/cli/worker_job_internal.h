// Commands that run on several workers.
#pragma once

#include <memory>
#include <string>

#include "lockstep/cli/input_arrays_internal.h"
#include "lockstep/cli/options_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::cli {

// The strategy of --strategy, with the times of --timeout and --startup-timeout. If the command fails on this
// worker, abort_peers reports the error to the others.
std::unique_ptr<distribute::Strategy> strategy_of(const Arguments& arguments);
// Whether this process is a task "ps" of --strategy parameter_server.
bool is_parameter_server(const Arguments& arguments);
// Its work, until the chief ends the job.
void run_parameter_server(const Arguments& arguments);
// Aborts the job on all workers with the error message of this one.
void abort_peers(const std::string& message) noexcept;
// Called when a command has ended: leaves the job.
void leave_job() noexcept;

// Throws InvalidArgument on every worker, naming the difference, unless all have the same model with the same weights,
// the same data and the same options.
void require_same_job(const distribute::Strategy& strategy, const Arguments& arguments, const keras::Model& model,
                      const Examples& data);

}  // namespace lockstep::cli
