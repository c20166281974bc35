#include "lockstep/keras/regularizers/bases.h"

namespace lockstep::regularizers {

BuiltInRegularizer::BuiltInRegularizer(const char* class_name, const Json& config)
    : BuiltInRegularizer(of_class(class_name, config)) {}
RegularizerPtr BuiltInRegularizer::of_class(const char* class_name, const Json& config) {
  return get(Json{{"module", "keras.regularizers"}, {"class_name", class_name}, {"config", config}});
}

}  // namespace lockstep::regularizers
