// Synchronous training on several workers (tf.distribute.MultiWorkerMirroredStrategy).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/distribute/cluster_resolver.h"
#include "lockstep/distribute/strategy.h"

namespace lockstep::distribute {

// Numbers as in tf.distribute.experimental.CommunicationImplementation.
enum class CommunicationImplementation { kAuto, kRing, kNccl };

// tf.distribute.experimental.CommunicationOptions, and what lockstep adds.
struct CommunicationOptions {
  // kRing: TCP between all workers. kAuto: shared memory within a machine, TCP between machines. kNccl needs GPUs:
  // Unimplemented on CPU devices.
  CommunicationImplementation implementation = CommunicationImplementation::kAuto;
  // How many bytes of gradients travel together, at least one gradient; 0: 4 MiB, and each by itself in shared memory.
  std::int64_t bytes_per_pack = 0;
  // How long a worker may be silent or late before the others give up.
  std::optional<double> timeout_seconds = {};  // default: 30
  // How long workers wait for each other at the start.
  double startup_timeout_seconds = 20;
  // Float32 gradients are rounded to this, travel and are added in it; a sum beyond 65504 is infinite in float16.
  // Weights and all other tensors are never rounded.
  collectives::Compression compression = collectives::Compression::kNone;
  // Each worker keeps a part of the optimizer's state (ZeRO-1) of variables of at least 64 KiB, for SGD, Adam, AdamW
  // and RMSprop without clipping, loss scaling and accumulation. Results are the same to the bit. Checkpoints and
  // saves with `workers`, and the callbacks that save, leave the parts where they are. Other reads of a slot gather it
  // from all workers, which must then make them at the same point; fit gathers all slots at the end of each epoch where
  // a worker has callbacks of the user. Workers of a single machine hold the state once in any case.
  bool shard_optimizer_state = false;
};

struct MultiWorkerMirroredOptions {
  std::optional<ClusterResolver> cluster_resolver = {};  // default: resolve_cluster()
  CommunicationOptions communication_options = {};
  std::vector<std::string> local_devices = {"/cpu:0"};  // one replica each; equally many on every worker
  // Told while others are waited for, and of what is odd in the cluster's description; default: lines on stderr.
  std::function<void(const std::string&)> report = {};
};

// One replica for each device of each worker. The constructor returns when all workers of the cluster are there.
// Without a cluster it is a MirroredStrategy. Errors are those of collectives::join_job; InvalidArgument for a
// malformed cluster and when workers have different numbers of devices.
class MultiWorkerMirroredStrategy : public Strategy {
 public:
  explicit MultiWorkerMirroredStrategy(MultiWorkerMirroredOptions options = {});
  // Over a group that is there already, such as threads of a test.
  explicit MultiWorkerMirroredStrategy(collectives::CommunicatorPtr workers,
                                       std::vector<std::string> local_devices = {"/cpu:0"},
                                       CommunicationOptions communication_options = {});
  std::string name() const override { return "MultiWorkerMirroredStrategy"; }
  const ClusterResolver& cluster_resolver() const { return resolver_; }
  collectives::CommunicatorPtr workers() const override { return workers_; }
  std::unique_ptr<collectives::GradientSum> gradient_sum(std::size_t count, bool idle) override;

 private:
  void agree();

  ClusterResolver resolver_;
  CommunicationOptions communication_options_;
  collectives::CommunicatorPtr workers_;  // null for one worker
};

}  // namespace lockstep::distribute
