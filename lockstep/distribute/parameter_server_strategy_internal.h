// The parts of a ParameterServerStrategy.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/distribute/parameter_server_strategy.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/distribute/task_board_internal.h"

namespace lockstep::distribute {

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
};

}  // namespace lockstep::distribute
