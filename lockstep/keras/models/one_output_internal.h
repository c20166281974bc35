// What a call of a functional model gives.
#pragma once

#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/models/model_impl.h"

namespace lockstep::keras {

// A functional model whose outputs are a list of one, Model(inputs, {x}), gives that one, as in Keras. Symbolic outputs
// stay a list there.
inline Structure one_output(const ModelImpl& model, Structure outputs) {
  const bool is_one = outputs.is_list() && outputs.size() == 1 && dynamic_cast<const FunctionalImpl*>(&model);
  if (!is_one) return outputs;
  Structure first = outputs[0];
  return first.is_leaf() && as_keras_tensor(first.leaf()) ? outputs : first;
}

}  // namespace lockstep::keras
