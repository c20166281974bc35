// Functions of TensorFlow in functional models of Keras 2, as operations of keras.ops.
#pragma once

#include "lockstep/base/json.h"

namespace lockstep::saving {

// Keras 2 saved `x * 2` as {"class_name": "TFOpLambda", "config": {"function": "math.multiply"}, "inbound_nodes":
// [["x", 0, 0, {"y": 2}]]} and `x[:, 0]` as a SlicingOpLambda (before: old_op_layers_internal.h). Replaces them in the
// config of a functional model by the operations of keras.ops that compute the same. Throws Unimplemented for functions
// and arguments without counterpart.
void change_operations(Json& functional);

}  // namespace lockstep::saving
