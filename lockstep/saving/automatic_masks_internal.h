// Masks that Keras 3's configs name as arguments of calls, although they follow from the inputs.
#pragma once

#include <set>
#include <string>

#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// "model/layer/0/mask" for the argument `mask` of the layer's call 0, where it is the mask that the call's inputs have
// by themselves. Nested models follow their model's name; paths begin with that of `model`.
std::set<std::string> automatic_masks(const keras::ModelImpl& model);

}  // namespace lockstep::saving
