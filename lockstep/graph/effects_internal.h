// Which graphs leave something changed after a run.
#pragma once

#include <vector>

#include "lockstep/graph/graph_internal.h"

namespace lockstep::graph {

// Whether running the fetches of `graph`, or `function`, can change variables, tables or the state of a generator of
// random numbers, in called functions too. A second run then gives other results.
bool changes_state(const Graph& graph, const FunctionLibrary& library, const std::vector<Output>& fetches);
bool changes_state(const Function& function, const FunctionLibrary& library);

}  // namespace lockstep::graph
