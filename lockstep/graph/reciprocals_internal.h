// Divisions by constants as TensorFlow runs them: internal to lockstep/graph.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/graph/graph_internal.h"

namespace lockstep::graph {

// The graph with a product with 1 / c for each quotient x / c of floating or complex numbers whose divisor is a
// constant, as TensorFlow's constant folding (grappler, ReduceDivToReciprocalMul) makes it; the values differ in the
// last bit, and whatever is rounded afterwards, such as sizes in tf.image.resize_with_pad, by one. Nodes keep their
// numbers. Returns nullopt if the graph has no such quotient. `fed` marks the nodes that are fed, which are not
// constants.
std::optional<Graph> with_reciprocals(const Graph& graph, const std::vector<char>& fed);

}  // namespace lockstep::graph
