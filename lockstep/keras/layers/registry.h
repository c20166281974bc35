// Layer classes by name, and reading objects from configs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

// One layer class: all that reading needs; writing is the class's own.
struct LayerClass {
  std::string name;                     // "Conv2D"
  std::vector<std::string> aliases;     // other exported names: "Convolution2D"
  std::string module = "keras.layers";  // the module files name
  // Makes the layer from a config with Keras's keywords. Unknown keywords are refused unless they hold a
  // harmless value that an older Keras wrote.
  std::function<LayerPtr(const Json& config)> from_config;
};

class LayerRegistry {
 public:
  static LayerRegistry& instance();
  void add(LayerClass row);
  // Null when there is none.
  const LayerClass* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  LayerRegistry();
  std::map<std::string, std::shared_ptr<LayerClass>, std::less<>> rows_;
};

// {"module", "class_name", "config", "registered_name", "build_config"} as Keras 3.15 writes the object.
Json serialize_operation(const Operation& operation);
// A layer from such an object, or from Keras 1's and 2's {"class_name", "config"}. Throws NotFound for an
// unknown class, naming it and the nearest known one, Unimplemented for classes that hold code (Lambda,
// TFSMLayer, TorchModuleWrapper), InvalidArgument for configs that do not fit.
LayerPtr deserialize_layer(const Json& object);
// A layer of any kind from class name and config alone, as Keras 2 and earlier wrote them.
bool is_legacy_object(const Json& object);

// Names of keras modules whose classes are the built-in ones.
bool is_keras_module(std::string_view module);

}  // namespace lockstep::keras
