#include "lockstep/distribute/cluster_coordinator.h"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/parameter_server_strategy_internal.h"

namespace lockstep::distribute {

struct RemoteValue::State {
  bool done = false;
  Tensor value;
  std::function<void()> wait;  // until it is done; empty on a worker
};

struct ClusterCoordinator::State {
  explicit State(ParameterServerStrategy& owner) : strategy(owner), impl(owner.impl()) {}

  // Brings what this process has made or written since the last call to the servers.
  void upload() {
    impl.servers->place(impl.new_variables());
    if (!std::exchange(impl.uploaded, true)) return impl.servers->upload({});
    impl.servers->upload_new();
    impl.servers->push_assignments();
  }
  void wait_until(const std::function<bool()>& done) {
    impl.board->on_result = [this](const TaskResult& result) {
      const auto found = values.find(result.number);
      if (found == values.end()) return;
      if (const auto value = found->second.lock()) {
        value->done = true;
        if (!result.tensors.empty()) value->value = Tensor::from_data(result.tensors[0]);
      }
      values.erase(found);
    };
    const auto recovering = [this] { recover(); };
    for (std::size_t left = impl.board->unfinished(); left > 0 && !done(); left = impl.board->unfinished())
      impl.board->wait(left - 1, recovering);
    if (!done()) impl.board->wait(0, recovering);
  }
  void recover() {
    impl.servers->connect();
    impl.servers->upload({});
  }
  void run(std::int64_t section, TaskResult& result) {
    if (result.number >= static_cast<std::int64_t>(closures.size())) {
      throw_failed_precondition(fmt::format(
          "closure {} was not scheduled on {}: chief and workers must make the same calls of schedule() and join()",
          result.number, impl.tasks.own_name));
    }
    const ParameterServerStrategy::LocalVariables local;  // the chief does not have those that a closure makes
    const ParameterServers::Closure closure(*impl.servers, fmt::format("{}/{}", section, result.number));
    impl.servers->pull();
    const Tensor value = closures[static_cast<std::size_t>(result.number)]();
    impl.servers->push_changes();
    if (value.defined()) result.tensors.push_back(value.to_data());
  }

  ParameterServerStrategy& strategy;
  ParameterServerStrategy::Impl& impl;
  std::map<std::int64_t, std::weak_ptr<RemoteValue::State>> values;
  std::vector<std::function<Tensor()>> closures;  // a worker's
};

ClusterCoordinator::ClusterCoordinator(ParameterServerStrategy& strategy) : state_(std::make_shared<State>(strategy)) {}
ClusterCoordinator::~ClusterCoordinator() = default;

RemoteValue ClusterCoordinator::add(std::function<Tensor()> closure) {
  auto value = std::make_shared<RemoteValue::State>();
  if (!state_->strategy.is_chief()) {
    state_->closures.push_back(std::move(closure));
    return RemoteValue(std::move(value));
  }
  state_->upload();
  const std::int64_t number = state_->impl.board->add("");
  state_->values[number] = value;
  value->wait = [state = std::weak_ptr(state_), handle = value.get()] {
    if (const auto coordinator = state.lock()) coordinator->wait_until([&] { return handle->done; });
  };
  return RemoteValue(std::move(value));
}

void ClusterCoordinator::join() {
  State& state = *state_;
  if (!state.strategy.is_chief()) {
    const auto work = [&](std::int64_t section, const std::string&, TaskResult& result) { state.run(section, result); };
    struct Clear {
      std::vector<std::function<Tensor()>>& closures;
      ~Clear() { closures.clear(); }
    } const clear{state.closures};
    state.impl.servers->place(state.impl.new_variables());
    state.impl.client->serve(work);
    state.impl.servers->pull();
    return;
  }
  try {
    state.upload();
    state.wait_until([] { return false; });
    state.impl.servers->download({});
  } catch (const Error& error) {
    state.values.clear();
    state.impl.board->close_section(error);
    throw;
  }
  state.values.clear();
  state.impl.board->close_section("");
}

bool ClusterCoordinator::done() const { return state_->strategy.is_chief() && state_->impl.board->unfinished() == 0; }

bool RemoteValue::done() const { return state_->done; }

Tensor RemoteValue::fetch() const {
  if (!state_->wait) {
    throw_failed_precondition(
        "RemoteValue::fetch requires the chief: workers do not have each other's results; call it if "
        "strategy.is_chief()");
  }
  if (!state_->done) state_->wait();
  if (!state_->done) throw_failed_precondition("RemoteValue::fetch: its closure was dropped");
  return state_->value;
}

}  // namespace lockstep::distribute
