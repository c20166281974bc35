// Keras models as SavedModels, and SavedModels as layers.
#pragma once

#include <optional>
#include <string>

#include "lockstep/keras/models/model.h"
#include "lockstep/saving/saved_model.h"

namespace lockstep::saved_model {

// A model as Keras's export() gives it: the endpoint `serve` (also the signature "serving_default"), `__call__` with a
// training argument for reuse as a layer, and the variables. The batch axis is open. Inputs are named after their
// Input layers ("keras_tensor" where those have automatic names), or as in `input_signature`.
// Throws FailedPrecondition for a subclassed model that was never called: its inputs are not known.
Exportable exportable(const keras::Model& model, const Specs& input_signature = {});

// tf.saved_model.save of a model: the same functions, and the signature "serving_default", whose inputs are `inputs`,
// `inputs_1`, ... in the order of the model's.
void save(const keras::Model& model, const std::string& path, const SaveOptions& options = {});

struct KerasLayerOptions {
  bool trainable = false;
  std::string name = {};
  // Called instead of __call__. Where it is "" and the SavedModel has no __call__: "default" of a module for
  // TensorFlow 1, else "serving_default".
  std::string signature = {};
  std::string output_key = {};  // the output of the signature that is returned; "": all as a dict, or the only one
  std::map<std::string, Structure> arguments = {};  // more arguments of __call__, by keyword
};
// hub.KerasLayer: a loaded SavedModel as a layer of a model. When `trainable`, those variables are trained that the
// root lists as `trainable_variables`; a module without that list is not trained, as with TensorFlow Hub.
keras::LayerHandle KerasLayer(const LoadedModel& loaded, KerasLayerOptions options = {});
// The same from a folder.
keras::LayerHandle KerasLayer(const std::string& path, KerasLayerOptions options = {});

}  // namespace lockstep::saved_model

namespace lockstep::layers {

struct TFSMLayerOptions {
  std::string call_endpoint = "serve";      // a function of the loaded object, or a signature
  std::string call_training_endpoint = {};  // called in training instead
  bool trainable = true;
  std::string name = {};
};
// keras.layers.TFSMLayer: an endpoint of a SavedModel as a layer. A signature returns a dict. Its weights are those
// that the root of the SavedModel lists (Keras: those that the endpoint uses). Throws InvalidArgument, naming the
// endpoints there are.
keras::LayerHandle TFSMLayer(const std::string& filepath, TFSMLayerOptions options = {});

}  // namespace lockstep::layers
