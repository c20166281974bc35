// Layers of single operations in functional models that Keras saved until TensorFlow 2.3.
#pragma once

#include "lockstep/base/json.h"

namespace lockstep::saving {

// Keras saved `x * 2` as {"class_name": "TensorFlowOpLayer", "config": {"node_def": {"op": "Mul", "attr": …},
// "constants":
// {"1": 2}}, "inbound_nodes": [[["x", 0, 0, {}]]]}: constants by their place among the inputs of the operation.
// Replaces them in the config of a functional model by the TFOpLambda that later versions saved. Throws Unimplemented
// for operations and attributes without counterpart.
void change_op_layers(Json& functional);

}  // namespace lockstep::saving
