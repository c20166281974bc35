// Asynchronous training with parameter servers (tf.distribute.ParameterServerStrategy).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/distribute/cluster_resolver.h"
#include "lockstep/distribute/partitioners.h"
#include "lockstep/distribute/strategy.h"

namespace lockstep::distribute {

struct ParameterServerStrategyOptions {
  std::optional<ClusterResolver> cluster_resolver = {};  // default: resolve_cluster()
  Partitioner variable_partitioner = {};                 // default: no variable is cut
  // How long a process may be silent before it counts as lost.
  double timeout_seconds = 30;
  // How long processes wait for each other at the start, and for one that was lost and is started again.
  double startup_timeout_seconds = 20;
  // Receives messages about processes that are awaited or lost; default: lines on stderr.
  std::function<void(const std::string&)> report = {};
};

// Variables made in the scope are stored on the tasks "ps" of the cluster, which apply the optimizers' updates; tasks
// "worker" compute gradients, each at its own pace; the task "chief" hands out the work. One replica on each worker.
//
// Each process runs the same program: the chief and the workers make this strategy, the same models and the same calls
// of fit, or of ClusterCoordinator; tasks "ps" call Server::join() and nothing else
// (lockstep/keras/optimizers/server.h):
//
//   distribute::ClusterResolver cluster = distribute::resolve_cluster();
//   if (cluster.task_type() == "ps") return distribute::Server({.cluster_resolver = cluster}).join(), 0;
//   distribute::ParameterServerStrategy strategy({.cluster_resolver = cluster});
//
// Under this strategy fit returns on the chief when all steps are done and the model has the values of the servers, and
// on workers after that. Callbacks run on the chief. evaluate and predict compute on the process that calls them.
//
// If a worker is lost, another worker repeats its task, and no update is made twice. It may be started again. After the
// loss of a server the chief waits until it is started again, and sends its own copy of all values to the servers: that
// of the last epoch, checkpoint or join().
class ParameterServerStrategy : public Strategy {
 public:
  // Connects a worker to the chief. Throws InvalidArgument for a cluster without a chief, workers or servers and on a
  // task "ps"; DeadlineExceeded when the chief does not answer; Unavailable when the chief's port is in use.
  explicit ParameterServerStrategy(ParameterServerStrategyOptions options = {});
  // As in TensorFlow: ParameterServerStrategy(resolver, {.variable_partitioner = partitioner}).
  explicit ParameterServerStrategy(ClusterResolver cluster_resolver, ParameterServerStrategyOptions options = {})
      : ParameterServerStrategy(with_cluster(std::move(cluster_resolver), std::move(options))) {}
  // The chief waits for the workers, and ends the servers.
  ~ParameterServerStrategy() override;

  std::string name() const override { return "ParameterServerStrategy"; }
  std::string step_runner() const override { return "parameter_server"; }
  bool is_chief() const override;
  const ClusterResolver& cluster_resolver() const;
  int num_parameter_servers() const;

  // While an object of it exists, variables made on this thread stay in their process.
  class LocalVariables {
   public:
    LocalVariables();
    ~LocalVariables();
    LocalVariables(const LocalVariables&) = delete;
    LocalVariables& operator=(const LocalVariables&) = delete;

   private:
    bool previous_;
  };

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  static ParameterServerStrategyOptions with_cluster(ClusterResolver cluster, ParameterServerStrategyOptions options) {
    options.cluster_resolver = std::move(cluster);
    return options;
  }
  friend class Variable;
  void add(const Variable& variable);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::distribute
