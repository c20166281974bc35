// Reads of variables of TensorFlow 1: internal to lockstep/graph.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/graph/graph_internal.h"

namespace lockstep::graph {

// The graph with the variable itself as the input of each node that reads a variable through Identity, where the nodes
// that `fetches` and `targets` need also assign to that variable. In TensorFlow 1 the output of that Identity is the
// memory of the variable, so a node that runs after an assignment sees the new value, even if the Identity ran before
// it. The ids of the nodes do not change. Returns nullopt if the graph has no such node. `fed` is true at the id of
// each node that has a feed.
std::optional<Graph> with_late_reads(const Graph& graph, const std::vector<char>& fed,
                                     const std::vector<Output>& fetches, const std::vector<int>& targets);

}  // namespace lockstep::graph
