#include "lockstep/keras/trainer/step_runner_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/trainer/all_reduce_steps_internal.h"
#include "lockstep/keras/trainer/server_steps_internal.h"

namespace lockstep::keras {

std::unique_ptr<StepRunner> make_step_runner(TrainingSession& session) {
  const std::string name = session.strategy ? session.strategy->step_runner() : "all_reduce";
  if (name == "all_reduce") return std::make_unique<AllReduceSteps>(session);
  if (name == "parameter_server") return std::make_unique<ServerSteps>(session);
  throw_not_found(fmt::format("unknown step runner '{}' of strategy {}: expected all_reduce or parameter_server", name,
                              session.strategy->name()));
}

}  // namespace lockstep::keras
