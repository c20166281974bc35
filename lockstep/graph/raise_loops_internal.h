// Loops of TensorFlow 1 as While: internal to lockstep/graph.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/graph/graph_internal.h"

namespace lockstep::graph {

struct RaisedGraph {
  Graph graph;
  std::vector<Output> feeds, fetches;
  std::vector<int> targets;
  std::vector<std::shared_ptr<const Function>> functions;  // tests and bodies of the loops
};

// The part of a graph that feeds, fetches and targets need, with a While node for each frame of Enter, Merge, Switch,
// NextIteration and Exit nodes that tf.while_loop makes; loops within loops too. Nothing where there are no frames, or
// where one is not of that form: such a graph runs as it is.
std::optional<RaisedGraph> raise_loops(const Graph& graph, const std::vector<Output>& feeds,
                                       const std::vector<Output>& fetches, const std::vector<int>& targets);

}  // namespace lockstep::graph
