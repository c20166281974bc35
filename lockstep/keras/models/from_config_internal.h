// Models from configs.
#pragma once

#include "lockstep/keras/models/model_impl.h"

namespace lockstep::keras {

// From the config of a Functional, Keras 1 to 3. Throws InvalidArgument for graphs that cannot be rebuilt.
std::shared_ptr<FunctionalImpl> functional_from_config(const Json& config);
std::shared_ptr<SequentialImpl> sequential_from_config(const Json& config);

// The content of model.to_json() and config.json: the object, compiled or not.
Json model_to_json(const ModelImpl& model);
// The model of such an object, not compiled: its compile_config is the trainer's to read.
ModelPtr model_from_json(const Json& object);

// A tensor from the config of a "__tensor__" or "__numpy__": {"value": nested lists of numbers, "dtype": …}.
Tensor constant_from(const Json& config);

}  // namespace lockstep::keras
