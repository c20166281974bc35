// Operations of graphs that connect devices. Internal to lockstep/graph.
#pragma once

#include <string_view>

#include "lockstep/graph/plan_internal.h"

namespace lockstep::graph {

// Replaces the reductions of a group whose members are all in `graph` (NcclAllReduce, CollectiveReduce,
// CollectiveReduceV2) by operations that compute their result. Groups of which members are missing stay as they are.
void join_collectives(Graph& graph);
// Null for other operations. Groups of one device give their input; others throw Unimplemented.
ExecutorOp find_collective_operation(std::string_view op);

}  // namespace lockstep::graph
