#include "lockstep/keras/constraints/bases.h"

namespace lockstep::constraints {

BuiltInConstraint::BuiltInConstraint(const char* class_name, const Json& config)
    : BuiltInConstraint(of_class(class_name, config)) {}
ConstraintPtr BuiltInConstraint::of_class(const char* class_name, const Json& config) {
  return get(Json{{"module", "keras.constraints"}, {"class_name", class_name}, {"config", config}});
}

}  // namespace lockstep::constraints
