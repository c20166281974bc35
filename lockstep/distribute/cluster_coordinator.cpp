#include "lockstep/distribute/cluster_coordinator.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/parameter_server_strategy_internal.h"
#include "lockstep/distribute/variable_memory_internal.h"

namespace lockstep::distribute {
namespace {

constexpr const char* kCall = "ClusterCoordinator::join()";

}  // namespace

struct RemoteValue::State {
  bool done = false;
  Tensor value;
  std::function<void()> listen;  // empty on a worker
  std::function<void()> wait;    // until it is done; empty on a worker
};

struct ClusterCoordinator::State {
  explicit State(ParameterServerStrategy& owner) : strategy(owner), impl(owner.impl()) {}

  // The optimizers whose slots the servers have, or are to get.
  std::vector<RemoteOptimizer> built_optimizers() const {
    std::vector<RemoteOptimizer> built;
    for (const auto& optimizer : impl.living_optimizers()) {
      if (optimizer->built()) built.push_back(optimizer->remote());
    }
    return built;
  }
  static Tensors state_of(const RemoteOptimizer& optimizer) {
    Tensors state{VariableMemory::value_without_copy(*optimizer.iterations)};
    for (const Variable& slot : optimizer.slots) state.push_back(VariableMemory::value_without_copy(*slot));
    return state;
  }
  void note_states(const std::vector<RemoteOptimizer>& optimizers) {
    states.clear();
    for (const RemoteOptimizer& optimizer : optimizers) states[optimizer.name] = state_of(optimizer);
  }
  // Brings what this process has made or written since the last call to the servers.
  void upload() {
    impl.servers->place(impl.new_variables());
    const std::vector<RemoteOptimizer> optimizers = built_optimizers();
    if (!std::exchange(impl.uploaded, true)) {
      impl.servers->upload(optimizers);
      return note_states(optimizers);
    }
    impl.servers->upload_new();
    impl.servers->push_assignments();
    for (const RemoteOptimizer& optimizer : optimizers) {  // one that was restored from a checkpoint
      const Tensors state = state_of(optimizer);
      const Tensors& known = states[optimizer.name];
      if (std::ranges::equal(state, known, [](const Tensor& a, const Tensor& b) { return same(a, b); })) continue;
      impl.servers->upload_optimizer(optimizer);
      states[optimizer.name] = state;
    }
  }
  void download() {
    const std::vector<RemoteOptimizer> optimizers = built_optimizers();
    states.clear();  // else each slot is copied before it is written
    impl.servers->download(optimizers);
    note_states(optimizers);
  }
  // Called before a worker first applies gradients with an optimizer: builds the chief's optimizer of that name for the
  // same variables, which restores its slots from a checkpoint that is loaded, and uploads them.
  void introduce(const std::string& question) {
    const Json asked = parse_json(question, "a worker's question");
    const auto name = asked.at("optimizer").get<std::string>();
    for (const auto& optimizer : impl.living_optimizers()) {
      if (optimizer->name() != name) continue;
      std::vector<Variable> variables;
      for (const Json& index : asked.at("variables"))
        variables.push_back(impl.servers->placed(index.get<std::size_t>()));
      const bool known = states.contains(name);
      optimizer->build(variables);
      if (known) return;
      impl.servers->upload_optimizer(optimizer->remote());
      states[name] = state_of(optimizer->remote());
      return;
    }
    throw_failed_precondition(
        fmt::format("optimizer '{}' requires the scope of the ParameterServerStrategy: chief and workers must make it "
                    "there, and not in a closure",
                    name));
  }
  // What a closure needs to know of the chief.
  std::string input() const {
    Json rates = Json::object();
    for (const auto& optimizer : impl.living_optimizers()) {
      if (const auto rate = optimizer->own_learning_rate()) rates[optimizer->name()] = *rate;
    }
    return dump_json(rates);
  }
  // Learning rates that the chief has changed.
  void take_rates(const std::string& input) {
    const Json rates = parse_json(input, "the chief's learning rates");
    for (const auto& optimizer : impl.living_optimizers()) {
      if (!rates.contains(optimizer->name())) continue;
      const double rate = rates[optimizer->name()].get<double>();
      const auto known = chiefs_rates.find(optimizer->name());
      if (known != chiefs_rates.end() && known->second == rate) continue;
      chiefs_rates[optimizer->name()] = rate;
      optimizer->set_learning_rate(rate);
    }
  }
  // Takes what the workers send. Between two calls of it they may wait for this process.
  void listen() {
    impl.board->on_result = [this](const TaskResult& result) {
      const auto found = values.find(result.number);
      if (found == values.end()) return;
      if (const auto value = found->second.lock()) {
        value->done = true;
        if (!result.tensors.empty()) value->value = Tensor::from_data(result.tensors[0]);
      }
      values.erase(found);
    };
    impl.board->on_question = [this](const std::string& question) { introduce(question); };
    impl.board->poll([this] { recover(); });
  }
  void wait_until(const std::function<bool()>& done) {
    listen();
    const auto recovering = [this] { recover(); };
    for (std::size_t left = impl.board->unfinished(); left > 0 && !done(); left = impl.board->unfinished())
      impl.board->wait(left - 1, recovering);
    if (!done()) impl.board->wait(0, recovering);
  }
  void recover() {
    impl.servers->connect();
    const std::vector<RemoteOptimizer> optimizers = built_optimizers();
    impl.servers->upload(optimizers);
    note_states(optimizers);
  }
  void run(std::int64_t section, const std::string& input, TaskResult& result) {
    if (result.number >= static_cast<std::int64_t>(closures.size())) {
      throw_failed_precondition(fmt::format(
          "closure {} was not scheduled on {}: chief and workers must make the same calls of schedule() and join()",
          result.number, impl.tasks.own_name));
    }
    const ParameterServerStrategy::LocalVariables local;  // the chief does not have those that a closure makes
    const auto introduce = [&](const std::string& optimizer, const std::vector<std::size_t>& variables) {
      impl.client->ask(dump_json(Json{{"optimizer", optimizer}, {"variables", variables}}));
    };
    const ParameterServers::Closure closure(*impl.servers, fmt::format("{}/{}", section, result.number), introduce);
    take_rates(input);
    impl.servers->pull();
    const Tensor value = closures[static_cast<std::size_t>(result.number)]();
    impl.servers->push_changes();
    if (value.defined()) result.tensors.push_back(value.to_data());
  }

  ParameterServerStrategy& strategy;
  ParameterServerStrategy::Impl& impl;
  std::map<std::int64_t, std::weak_ptr<RemoteValue::State>> values;
  std::map<std::string, Tensors> states;          // the chief's: of the optimizers' iterations and slots on the servers
  std::map<std::string, double> chiefs_rates;     // a worker's
  std::vector<std::function<Tensor()>> closures;  // a worker's
  std::int64_t scheduled = 0;                     // the chief's closures since the last join
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
  state_->impl.board->open_section(kCall);
  const std::int64_t number = state_->impl.board->add(state_->input());
  ++state_->scheduled;
  state_->values[number] = value;
  value->listen = [state = std::weak_ptr(state_)] {
    if (const auto coordinator = state.lock()) coordinator->listen();
  };
  value->wait = [state = std::weak_ptr(state_), handle = value.get()] {
    if (const auto coordinator = state.lock()) coordinator->wait_until([&] { return handle->done; });
  };
  return RemoteValue(std::move(value));
}

void ClusterCoordinator::join() {
  State& state = *state_;
  if (!state.strategy.is_chief()) {
    const auto work = [&](std::int64_t section, const std::string& input, TaskResult& result) {
      state.run(section, input, result);
    };
    struct Clear {
      std::vector<std::function<Tensor()>>& closures;
      ~Clear() { closures.clear(); }
    } const clear{state.closures};
    state.impl.servers->place(state.impl.new_variables());
    const std::string closures = state.impl.client->serve(kCall, work);
    if (closures != std::to_string(state.closures.size())) {
      throw_failed_precondition(
          fmt::format("{} has scheduled {} closures since the last ClusterCoordinator::join(), but the chief {}: chief "
                      "and workers must make the same calls of schedule() and join()",
                      state.impl.tasks.own_name, state.closures.size(), closures));
    }
    state.impl.servers->pull();
    return;
  }
  try {
    state.impl.board->open_section(kCall);
    state.upload();
    state.wait_until([] { return false; });
    state.download();
  } catch (const Error& error) {
    state.values.clear();
    state.scheduled = 0;
    state.impl.board->close_section(error);
    throw;
  }
  state.values.clear();
  state.impl.board->close_section(std::to_string(std::exchange(state.scheduled, 0)));
}

bool ClusterCoordinator::done() const {
  if (!state_->strategy.is_chief()) return false;
  state_->listen();
  return state_->impl.board->unfinished() == 0;
}

bool RemoteValue::done() const {
  if (!state_->done && state_->listen) state_->listen();
  return state_->done;
}

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
