// The program of a parameter server (tf.distribute.Server of a task "ps").
#pragma once

#include <memory>
#include <optional>

#include "lockstep/distribute/cluster_resolver.h"

namespace lockstep::distribute {

class ParameterServer;

struct ServerOptions {
  std::optional<ClusterResolver> cluster_resolver = {};  // default: resolve_cluster()
  double timeout_seconds = 30;
  double startup_timeout_seconds = 20;
};

// See ParameterServerStrategy.
class Server {
 public:
  // Listens on the task's port. Throws InvalidArgument for another task than a ps, Unavailable for a port in use.
  explicit Server(ServerOptions options = {});
  // Returns when the chief has ended the job. Throws DeadlineExceeded when no chief comes within the startup timeout,
  // Unavailable when it was lost and has not come back.
  void join();

 private:
  std::shared_ptr<ParameterServer> server_;
};

}  // namespace lockstep::distribute
