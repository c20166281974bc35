#include "lockstep/distribute/parameter_server_strategy.h"

#include <random>

#include <fmt/format.h>

#include "lockstep/base/entropy_internal.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/distribute/parameter_server_strategy_internal.h"

namespace lockstep::distribute {
namespace {

constexpr const char* kProtocol = "lockstep tasks 2: ";

thread_local bool t_local = false;

std::chrono::milliseconds to_milliseconds(double seconds, const char* what) {
  if (!(seconds > 0 && seconds < 1e6))
    throw_invalid_argument(fmt::format("invalid {}: found {}, expected more than 0 seconds", what, seconds));
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

std::string named_task(const ClusterSpec& cluster, const std::string& job, int id) {
  return ClusterMember{job, id, cluster.task_address(job, id)}.name();
}

void require_jobs(const ClusterResolver& cluster) {
  for (const char* job : {"chief", "worker", "ps"}) {
    if (cluster.cluster_spec().num_tasks(job) > 0) continue;
    throw_invalid_argument(
        fmt::format("ParameterServerStrategy requires a cluster with the jobs chief, worker and ps: found no {}; set "
                    "TF_CONFIG in each process",
                    job));
  }
  if (cluster.task_type() == "chief" || cluster.task_type() == "worker") return;
  throw_invalid_argument(
      fmt::format("invalid task of a ParameterServerStrategy: found {} {}, expected a chief or a worker; a ps calls "
                  "Server::join(), an evaluator reads checkpoints",
                  cluster.task_type(), cluster.task_id()));
}

}  // namespace

ParameterServerStrategy::LocalVariables::LocalVariables() : previous_(std::exchange(t_local, true)) {}
ParameterServerStrategy::LocalVariables::~LocalVariables() { t_local = previous_; }

ParameterServerStrategy::ParameterServerStrategy(ParameterServerStrategyOptions options)
    : Strategy(std::vector<std::string>{"/cpu:0"}), impl_(std::make_unique<Impl>()) {
  impl_->cluster = options.cluster_resolver ? *options.cluster_resolver : resolve_cluster();
  require_jobs(impl_->cluster);
  const ClusterSpec& spec = impl_->cluster.cluster_spec();
  const bool chief = is_chief();
  TaskOptions& tasks = impl_->tasks;
  for (const int id : spec.task_indices("worker")) tasks.workers.push_back(named_task(spec, "worker", id));
  tasks.own_name = named_task(spec, impl_->cluster.task_type(), impl_->cluster.task_id());
  tasks.cluster = kProtocol + dump_json(spec.as_dict());
  tasks.timeout = to_milliseconds(options.timeout_seconds, "timeout_seconds");
  tasks.startup_timeout = to_milliseconds(options.startup_timeout_seconds, "startup_timeout_seconds");
  tasks.report = options.report ? options.report : [](const std::string& line) { log_warning("{}", line); };
  ParameterServers::Options servers{.own_name = tasks.own_name,
                                    .chief = chief,
                                    .servers = {},
                                    .partitioner = options.variable_partitioner,
                                    .startup_timeout = tasks.startup_timeout,
                                    .timeout = tasks.timeout};
  for (const int id : spec.task_indices("ps"))
    servers.servers.push_back({named_task(spec, "ps", id), spec.task_address("ps", id)});
  impl_->num_servers = static_cast<int>(servers.servers.size());
  impl_->servers = std::make_unique<ParameterServers>(std::move(servers));
  const int chief_id = spec.task_indices("chief").front();
  const std::string& address = spec.task_address("chief", chief_id);
  if (chief) {
    std::random_device device;
    tasks.seed = (static_cast<std::uint64_t>(device()) << 32) | device();
    impl_->servers->connect();
    impl_->board = std::make_unique<TaskBoard>(tasks, collectives::parse_address(address).port);
  } else {
    const std::vector<int> ids = spec.task_indices("worker");
    const auto place = std::find(ids.begin(), ids.end(), impl_->cluster.task_id()) - ids.begin();
    impl_->client =
        std::make_unique<TaskClient>(tasks, static_cast<int>(place), named_task(spec, "chief", chief_id), address);
    tasks.seed = impl_->client->seed();
  }
  share_entropy(tasks.seed);
}

ParameterServerStrategy::~ParameterServerStrategy() {
  impl_->client = nullptr;
  impl_->board = nullptr;
  if (is_chief()) impl_->servers->stop();
}

bool ParameterServerStrategy::is_chief() const { return impl_->cluster.task_type() == "chief"; }
const ClusterResolver& ParameterServerStrategy::cluster_resolver() const { return impl_->cluster; }
int ParameterServerStrategy::num_parameter_servers() const { return impl_->num_servers; }

void ParameterServerStrategy::add(const Variable& variable) {
  if (!t_local) impl_->made.emplace_back(variable, false);
}

std::vector<std::shared_ptr<ServedOptimizer>> ParameterServerStrategy::Impl::living_optimizers() {
  std::erase_if(optimizers, [](const auto& each) { return each.expired(); });
  std::vector<std::shared_ptr<ServedOptimizer>> living;
  for (const auto& each : optimizers) {
    if (auto optimizer = each.lock(); optimizer && optimizer->is_served()) living.push_back(std::move(optimizer));
  }
  return living;
}

std::vector<Variable> ParameterServerStrategy::Impl::new_variables() {
  std::vector<Variable> found;
  for (auto& [weak, placed] : made) {
    const auto variable = weak.lock();
    if (variable && !std::exchange(placed, true)) found.emplace_back(variable);
  }
  return found;
}

}  // namespace lockstep::distribute
