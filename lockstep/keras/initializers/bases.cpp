#include "lockstep/keras/initializers/bases.h"

namespace lockstep::initializers {

BuiltInInitializer::BuiltInInitializer(const char* class_name, const Json& config)
    : BuiltInInitializer(of_class(class_name, config)) {}
InitializerPtr BuiltInInitializer::of_class(const char* class_name, const Json& config) {
  return get(Json{{"module", "keras.initializers"}, {"class_name", class_name}, {"config", config}});
}

}  // namespace lockstep::initializers
