// Configs of Keras 3 in the terms of Keras 2: the reverse of old_configs_internal.h.
#pragma once

#include "lockstep/base/json.h"
#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// A model as Keras 2 wrote it: without modules, calls as lists, nested models
// counted from 1, arguments under their old names. Throws Unimplemented, naming layer and argument, for classes and
// values that Keras 2 lacks.
Json keras2_model_config(const keras::ModelImpl& model);

// Losses, metrics, optimizers and the objects in them.
Json keras2_object(const Json& object);

}  // namespace lockstep::saving
