#include "lockstep/keras/optimizers/server.h"

#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/distribute/parameter_server_strategy_internal.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/keras/constraints/constraints.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/optimizers/server_rules_internal.h"

namespace lockstep::optimizers {
namespace {

// An optimizer of one variable.
class OptimizerRule final : public distribute::UpdateRule {
 public:
  OptimizerRule(const Json& config, const Variable& variable, const Json& options)
      : variable_(variable), optimizer_(deserialize(config)) {
    if (!options.value("decays", true)) optimizer_.exclude_from_weight_decay({variable});
    if (const auto constraint = options.find("constraint"); constraint != options.end())
      variable_->set_constraint(constraints::get(*constraint));
    optimizer_.build({variable});
    slots_ = optimizer_.variables();
    slots_.erase(slots_.begin(), slots_.begin() + (optimizer_->has_fixed_learning_rate() ? 2 : 1));
  }
  void apply(const Tensor& gradient, std::int64_t count) override {
    optimizer_->iterations_variable()->assign(Tensor::scalar(count));
    optimizer_->apply_aggregated({gradient}, {variable_});
  }
  const std::vector<Variable>& slots() const override { return slots_; }
  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

 private:
  Variable variable_;
  OptimizerPtr optimizer_;
  Variables slots_;
};

}  // namespace

distribute::MakeUpdateRule server_rules() {
  return
      [](const Json& config, const Variable& variable, const Json& options) -> std::unique_ptr<distribute::UpdateRule> {
        static std::mutex mutex;  // names of classes are counted
        const std::lock_guard lock(mutex);
        return std::make_unique<OptimizerRule>(config, variable, options);
      };
}

const distribute::RemoteOptimizer& Optimizer::remote() const {
  if (remote_) return *remote_;
  auto remote = std::make_shared<distribute::RemoteOptimizer>();
  remote->name = name_;
  const std::shared_ptr<Optimizer> self(std::shared_ptr<Optimizer>(), const_cast<Optimizer*>(this));
  remote->config = serialize(OptimizerPtr(self));
  // A worker does these, as they take all gradients, or the whole of one.
  for (const char* done : {"clipnorm", "clipvalue", "global_clipnorm", "loss_scale_factor"})
    remote->config["config"][done] = nullptr;
  if (options_.learning_rate.function()) remote->config["config"]["learning_rate"] = learning_rate();
  remote->variables = trainable_;
  for (std::size_t i = 0; i < trainable_.size(); ++i) {
    Json options{{"decays", !options_.weight_decay || decay_of(i) != 0}};
    bool divisible = true;
    if (const auto& function = trainable_[i]->constraint()) {
      const auto* constraint = function.target<constraints::ConstraintPtr>();
      if (!constraint) {
        throw_unimplemented(
            fmt::format("{}: variable '{}' has a function as constraint, which parameter servers cannot apply; "
                        "use a class of keras.constraints",
                        name_, trainable_[i]->path()));
      }
      options["constraint"] = constraints::serialize(*constraint);
      divisible = (*constraint)->is_per_row(trainable_[i]->shape().rank());
    }
    remote->options.push_back(std::move(options));
    remote->divisible.push_back(divisible);
  }
  remote->iterations = iterations_;
  for (const Variables* list : {&averages_, &accumulators_, &slots_})
    remote->slots.insert(remote->slots.end(), list->begin(), list->end());
  remote_ = std::move(remote);
  return *remote_;
}

class Optimizer::Served final : public distribute::ServedOptimizer {
 public:
  explicit Served(Optimizer& optimizer) : optimizer_(optimizer) {}
  const std::string& name() const override { return optimizer_.name(); }
  bool is_served() const override { return !optimizer_.inner_optimizer() && optimizer_.optimizers().empty(); }
  bool built() const override { return optimizer_.built(); }
  void build(const Variables& variables) override { optimizer_.build(variables); }
  const distribute::RemoteOptimizer& remote() const override { return optimizer_.remote(); }
  std::optional<double> own_learning_rate() const override {
    if (!optimizer_.options_.learning_rate.number()) return std::nullopt;
    return optimizer_.learning_rate();
  }
  void set_learning_rate(double rate) override { optimizer_.set_learning_rate(rate); }

 private:
  Optimizer& optimizer_;
};

void Optimizer::announce() {
  auto* const strategy = dynamic_cast<distribute::ParameterServerStrategy*>(distribute::Strategy::current());
  if (!strategy || served_) return;
  served_ = std::make_shared<Served>(*this);
  strategy->impl().optimizers.push_back(served_);
}

}  // namespace lockstep::optimizers

namespace lockstep::distribute {

Server::Server(ServerOptions options) {
  const ClusterResolver cluster = options.cluster_resolver ? *options.cluster_resolver : resolve_cluster();
  if (cluster.task_type() != "ps") {
    throw_invalid_argument(fmt::format(
        "invalid task of a Server: found {}, expected a ps; chief and workers make a ParameterServerStrategy and "
        "run the same program",
        cluster.task_type().empty() ? "none" : "a " + cluster.task_type()));
  }
  const auto milliseconds_of = [](const char* what, double seconds) {
    if (!(seconds > 0 && seconds < 1e6))
      throw_invalid_argument(fmt::format("invalid {}: found {}, expected more than 0 seconds", what, seconds));
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  };
  const std::string& address = cluster.cluster_spec().task_address("ps", cluster.task_id());
  server_ = std::make_shared<ParameterServer>(
      ClusterMember{"ps", cluster.task_id(), address}.name(), collectives::parse_address(address).port,
      optimizers::server_rules(),
      ParameterServerOptions{
          .startup_timeout = milliseconds_of("startup_timeout_seconds", options.startup_timeout_seconds),
          .timeout = milliseconds_of("timeout_seconds", options.timeout_seconds)});
}

void Server::join() { server_->join(); }

}  // namespace lockstep::distribute
