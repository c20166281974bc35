#include "lockstep/keras/initializers/bases.h"

namespace lockstep::initializers {

BuiltInInitializer::BuiltInInitializer(const char* class_name, const Json& config)
    : BuiltInInitializer(get(Json{{"module", "keras.initializers"}, {"class_name", class_name}, {"config", config}})) {}

}  // namespace lockstep::initializers
