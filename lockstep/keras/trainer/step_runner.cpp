#include "lockstep/keras/trainer/step_runner_internal.h"

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/trainer/all_reduce_steps_internal.h"
#include "lockstep/keras/trainer/server_steps_internal.h"

namespace lockstep::keras {
namespace {

struct StepRunners {
  std::mutex mutex;
  std::map<std::string, MakeStepRunner> by_name = {
      {"all_reduce", [](TrainingSession& session) { return std::make_unique<AllReduceSteps>(session); }},
      {"parameter_server", [](TrainingSession& session) { return std::make_unique<ServerSteps>(session); }}};
};

StepRunners& step_runners() {
  static StepRunners all;
  return all;
}

}  // namespace

void register_step_runner(const std::string& name, MakeStepRunner make) {
  StepRunners& all = step_runners();
  const std::lock_guard lock(all.mutex);
  if (!all.by_name.emplace(name, std::move(make)).second) {
    throw_already_exists(fmt::format("a step runner named '{}' is registered already", name));
  }
}

std::unique_ptr<StepRunner> make_step_runner(TrainingSession& session) {
  const std::string name = session.strategy ? session.strategy->step_runner() : "all_reduce";
  StepRunners& all = step_runners();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_name.find(name);
  if (found == all.by_name.end()) {
    throw_not_found(fmt::format("unknown step runner '{}': strategy {} requires it to train a model", name,
                                session.strategy->name()));
  }
  return found->second(session);
}

}  // namespace lockstep::keras
