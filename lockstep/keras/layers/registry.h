// Layers as JSON objects.
#pragma once

#include <string_view>

#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

// {"module", "class_name", "config", "registered_name", "build_config"} as Keras 3.15 writes the object.
Json serialize_operation(const Operation& operation);
// A layer from such an object, or from Keras 1's and 2's {"class_name", "config"}. Throws NotFound for an
// unknown class, naming it and the nearest known one, Unimplemented for classes that hold code (Lambda,
// TFSMLayer, TorchModuleWrapper), InvalidArgument for configs that do not fit.
LayerPtr deserialize_layer(const Json& object);
// Another layer of a class that is not registered, as make_layer() made this one; null where it did not.
LayerPtr remade_layer(const Layer& layer);
// A layer of any kind from class name and config alone, as Keras 2 and earlier wrote them.
bool is_legacy_object(const Json& object);

// Names of keras modules whose classes are the built-in ones.
bool is_keras_module(std::string_view module);

}  // namespace lockstep::keras

// keras.layers.serialize and deserialize: the above.
namespace lockstep::layers {
Json serialize(const keras::LayerHandle& layer);
keras::LayerHandle deserialize(const Json& object);
}  // namespace lockstep::layers
