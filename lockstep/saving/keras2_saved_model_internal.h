// SavedModels that Keras 2 wrote, as the Keras models that they were.
#pragma once

#include <string>

#include "lockstep/keras/models/model.h"

namespace lockstep::saving {

// The layers, weights, compile arguments and optimizer's state of a SavedModel, from the Keras metadata in it:
// keras_metadata.pb (since TensorFlow 2.5), else in saved_model.pb. Throws Unimplemented, naming what the SavedModel
// can be used for, without metadata, and for that of a subclassed model.
keras::Model load_keras2_saved_model(const std::string& path, bool compile);

}  // namespace lockstep::saving
