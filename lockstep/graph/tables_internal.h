// The operations of lookup tables, HashTableV2, MutableHashTableV2 and others. Internal to lockstep/graph.
#pragma once

#include <string_view>

#include "lockstep/graph/plan_internal.h"

namespace lockstep::graph {

// Null for other operations.
ExecutorOp find_table_operation(std::string_view op);

}  // namespace lockstep::graph
