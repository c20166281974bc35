// Nodes that choose and order elements of their inputs without looking at them.
#pragma once

#include <vector>

#include "lockstep/data/node_internal.h"

namespace lockstep::data {

// Arguments have been checked by Dataset's functions.
NodePtr repeat_node(NodePtr input, std::int64_t count);  // negative: for ever
NodePtr take_node(NodePtr input, std::int64_t count);    // count >= 0
NodePtr skip_node(NodePtr input, std::int64_t count);    // count >= 0
NodePtr shard_node(NodePtr input, std::int64_t num_shards, std::int64_t index);
NodePtr concatenate_node(NodePtr a, NodePtr b);
NodePtr enumerate_node(NodePtr input, std::int64_t start);
NodePtr zip_node(std::vector<NodePtr> inputs);
NodePtr choose_node(std::vector<NodePtr> choices_and_inputs, bool stop_on_empty);
NodePtr assert_cardinality_node(NodePtr input, std::int64_t count);

}  // namespace lockstep::data
