// The parts of a ParameterServerStrategy.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/distribute/parameter_server_strategy.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/distribute/task_board_internal.h"

namespace lockstep::distribute {

// An optimizer of this process that was made in the strategy's scope. Its updates are made by the servers, where its
// slots are; chief and workers know the same one by its name.
class ServedOptimizer {
 public:
  virtual ~ServedOptimizer() = default;
  virtual const std::string& name() const = 0;
  // False for one that others do the work of.
  virtual bool is_served() const = 0;
  virtual bool built() const = 0;
  // Makes the slots, as Optimizer::build.
  virtual void build(const std::vector<Variable>& variables) = 0;
  virtual const RemoteOptimizer& remote() const = 0;
  // Nothing for one that is a schedule, a function, or a variable of the user.
  virtual std::optional<double> own_learning_rate() const = 0;
  virtual void set_learning_rate(double rate) = 0;
};

struct ParameterServerStrategy::Impl {
  ClusterResolver cluster;
  TaskOptions tasks;
  std::unique_ptr<ParameterServers> servers;
  std::unique_ptr<TaskBoard> board;    // the chief's
  std::unique_ptr<TaskClient> client;  // a worker's
  int num_servers = 0;
  bool uploaded = false;

  // Variables made in the scope that still live, in their order. Each once.
  std::vector<std::pair<std::weak_ptr<VariableImpl>, bool>> made;
  std::vector<Variable> new_variables();
  std::vector<std::weak_ptr<ServedOptimizer>> optimizers;
  std::vector<std::shared_ptr<ServedOptimizer>> living_optimizers();
};

}  // namespace lockstep::distribute
