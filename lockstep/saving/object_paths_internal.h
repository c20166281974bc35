// The paths of a model's objects in Keras 3's weights files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/formats/keras_weights.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/preprocessing/vocabulary_internal.h"

namespace lockstep::saving {

// One saved object: its inner path ("layers/dense", "optimizer", "" for the model), its name, and its variables.
struct SavedObject {
  std::string path;
  std::string name;
  keras::OwnState state;
  const optimizers::Optimizer* optimizer = nullptr;  // of an optimizer's variables
  keras::KeepsVocabulary* vocabulary = nullptr;      // of a layer that has one
  keras::Layer* own_store = nullptr;                 // a layer whose class overrides save_own_variables()
  keras::Layer* own_assets = nullptr;                // a layer whose class overrides save_assets() or load_assets()
  bool has_weights_in_config = false;                // a Discretization; see bin_boundaries
  bool is_activation = false;                        // a layer that another one has instead of an activation function
};

// Walks a model as keras.saving does (rules: each object once, under the first path that reaches it; the layers of
// Sequential and Functional models first, then attributes sorted by name, private ones last; items of containers are
// named by class). Optimizers come in their places among the attributes, that of compile() when the model is compiled.
//
// Keras 2.12 and 2.13 reach the layers of a Functional or Sequential model through another attribute than `layers`,
// `_layer_checkpoint_dependencies`, which has each layer with variables twice. The numbers behind the names count both.
enum class LayerAttribute { kLayers, kCheckpointDependencies };
std::vector<SavedObject> saved_objects(keras::ModelImpl& model, LayerAttribute attribute = LayerAttribute::kLayers);
// The same for the attributes of an object that is not a layer, a FeatureSpace.
std::vector<SavedObject> saved_objects(const std::vector<std::pair<std::string, keras::LayerTree>>& attributes);
// The variables of an optimizer that files of Keras 3 hold. Keras builds an optimizer whose losses are scaled without
// tracking its attributes, so that Nadam's product is not among them.
std::vector<distribute::VariablePtr> saved_variables(const optimizers::Optimizer& optimizer, bool scaled = false);
LayerAttribute layer_attribute_of(const formats::KerasWeights& weights);

}  // namespace lockstep::saving
