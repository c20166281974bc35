// Strategies by name.
#pragma once

#include <memory>
#include <string>

#include "lockstep/distribute/multi_worker_mirrored_strategy.h"
#include "lockstep/distribute/strategy.h"

namespace lockstep::distribute {

// Makes the strategy of a command-line SPEC: "default", "one_device:cpu", "mirrored:N", "multi_worker" or
// "multi_worker:N" (N replicas on each worker). Throws InvalidArgument for anything else.
std::unique_ptr<Strategy> parse_strategy(const std::string& spec, const CommunicationOptions& communication = {});

}  // namespace lockstep::distribute
