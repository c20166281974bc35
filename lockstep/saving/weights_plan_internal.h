// The weights file of a model.
#pragma once

#include <string>

#include "lockstep/formats/keras_weights.h"
#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// The group of an object's variables: "layers/dense/vars"; "vars" of the root.
std::string vars_group(const std::string& inner_path);
// What save_weights() writes: the model's variables and, when compiled and built, the optimizer's.
formats::WeightsPlan weights_plan(keras::ModelImpl& model);

}  // namespace lockstep::saving
