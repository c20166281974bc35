#include "lockstep/keras/schedules/bases.h"

namespace lockstep::schedules {

BuiltInSchedule::BuiltInSchedule(const char* class_name, const Json& config)
    : BuiltInSchedule(of_class(class_name, config)) {}
SchedulePtr BuiltInSchedule::of_class(const char* class_name, const Json& config) {
  return deserialize(Json{{"module", "keras.optimizers.schedules"}, {"class_name", class_name}, {"config", config}});
}

}  // namespace lockstep::schedules
