// The weights file of a model.
#pragma once

#include "lockstep/formats/keras_weights.h"
#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// What save_weights() writes: the model's variables and, when compiled and built, the optimizer's.
formats::WeightsPlan weights_plan(keras::ModelImpl& model);

}  // namespace lockstep::saving
