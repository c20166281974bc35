// Operations of keras.ops in functional models, as functions of TensorFlow in those of Keras 2: the reverse of
// old_operations_internal.h.
#pragma once

#include "lockstep/base/json.h"

namespace lockstep::saving {

// An operation's entry in the "layers" of a functional model as a TFOpLambda or SlicingOpLambda. The calls keep Keras
// 3's form, with the first operand in "args" and everything else in "kwargs". Throws Unimplemented, naming operation
// and argument, where TensorFlow has no function that computes the same.
Json function_of_keras2(const Json& operation);

}  // namespace lockstep::saving
