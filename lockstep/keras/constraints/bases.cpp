#include "lockstep/keras/constraints/bases.h"

namespace lockstep::constraints {

BuiltInConstraint::BuiltInConstraint(const char* class_name, const Json& config)
    : BuiltInConstraint(get(Json{{"module", "keras.constraints"}, {"class_name", class_name}, {"config", config}})) {}

}  // namespace lockstep::constraints
