// Reads of variables of TensorFlow 1: internal to lockstep/graph.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/graph/graph_internal.h"

namespace lockstep::graph {

// The graph with the variable itself as the input of each node that reads a variable through Identity, where the nodes
// that `fetches` and `targets` need also assign to that variable. In TensorFlow 1 the output of that Identity is the
// memory of the variable, so a node that runs after an assignment sees the new value, even if the Identity ran before
// it. Nodes keep their numbers. Returns nullopt if there is no such node. `fed` marks the nodes that are fed.
std::optional<Graph> with_late_reads(const Graph& graph, const std::vector<char>& fed,
                                     const std::vector<Output>& fetches, const std::vector<int>& targets);

}  // namespace lockstep::graph
