// Graphs of TensorFlow with random changes.
#pragma once

#include <string>
#include <vector>

#include "fuzz/execution/isolated.h"

namespace lockstep::fuzz {

// Serialized GraphDefs. A case takes one, changes some attributes, inputs, constants and operations of its nodes,
// parses the result and runs all of its outputs under RunLimits. It must end with values or an Error.
Target graphs_target(std::vector<std::string> seeds);

}  // namespace lockstep::fuzz
