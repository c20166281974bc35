// Queues of TensorFlow 1. Internal to lockstep/graph.
#pragma once

#include <string_view>

#include "lockstep/graph/plan_internal.h"

namespace lockstep::graph {

// Null for other operations. Thread-safe.
ExecutorOp find_queue_operation(std::string_view op);

}  // namespace lockstep::graph
