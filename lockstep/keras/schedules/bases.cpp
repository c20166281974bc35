#include "lockstep/keras/schedules/bases.h"

namespace lockstep::schedules {

BuiltInSchedule::BuiltInSchedule(const char* class_name, const Json& config)
    : BuiltInSchedule(
          deserialize(Json{{"module", "keras.optimizers.schedules"}, {"class_name", class_name}, {"config", config}})) {
}

}  // namespace lockstep::schedules
