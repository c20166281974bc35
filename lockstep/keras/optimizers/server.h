// The program of a parameter server (tf.distribute.Server of a task "ps").
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/field_names_only.h"
#include "lockstep/distribute/cluster_resolver.h"

namespace lockstep::distribute {

class ParameterServer;

struct ServerOptions {
  std::optional<ClusterResolver> cluster_resolver = {};  // default: resolve_cluster()
  double timeout_seconds = 30;
  double startup_timeout_seconds = 20;
};

// As in TensorFlow: Server(resolver.cluster_spec(), {.job_name = "ps", .task_index = 0}).
struct ServerKeywords {
  FieldNamesOnly names_only = {};
  std::string job_name = {};
  std::optional<int> task_index = std::nullopt;
  std::string protocol = "grpc";  // has no effect
  bool start = true;              // has no effect: a server listens once it is made
};

// See ParameterServerStrategy.
class Server {
 public:
  // Listens on the task's port. Throws InvalidArgument for another task than a ps, Unavailable for a port in use.
  explicit Server(ServerOptions options = {});
  Server(ClusterSpec cluster_spec, const ServerKeywords& o)
      : Server(ServerOptions{ClusterResolver(std::move(cluster_spec), o.job_name, o.task_index)}) {}
  // Returns when the chief has ended the job. Throws DeadlineExceeded when no chief comes within the startup timeout,
  // Unavailable when it was lost and has not come back.
  void join();

 private:
  std::shared_ptr<ParameterServer> server_;
};

}  // namespace lockstep::distribute
