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
enum class CommunicationImplementation { kAuto, kRing, kNccl, AUTO = kAuto, RING = kRing, NCCL = kNccl };

// tf.distribute.experimental.CommunicationOptions, with additional options.
struct CommunicationOptions {
  // Bytes of a bucket of gradients, at least one gradient; 0: 4 MiB, and one gradient in shared memory.
  std::int64_t bytes_per_pack = 0;
  // The time for which a worker may be silent or late before the others throw.
  std::optional<double> timeout_seconds = {};  // default: 30
  // kRing: TCP between all workers. kAuto: shared memory within a machine, TCP between machines. kNccl needs GPUs:
  // Unimplemented on CPU devices.
  CommunicationImplementation implementation = CommunicationImplementation::kAuto;
  // The time for which workers wait for each other at the start.
  double startup_timeout_seconds = 20;
  // The dtype to which float32 gradients are rounded for transfer and in which they are added; a sum beyond 65504 is
  // infinite in float16. Weights and all other tensors are never rounded.
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
  // Receives messages about workers that are awaited, and warnings about the cluster's description; default: lines on
  // stderr.
  std::function<void(const std::string&)> report = {};
};

// One replica for each device of each worker. The constructor returns when all workers of the cluster have joined.
// Without a cluster it is a MirroredStrategy. Errors are those of collectives::join_job; InvalidArgument for a
// malformed cluster and when workers have different numbers of devices.
class MultiWorkerMirroredStrategy : public Strategy {
 public:
  explicit MultiWorkerMirroredStrategy(MultiWorkerMirroredOptions options = {});
  // With an existing group of workers, such as threads of a test.
  explicit MultiWorkerMirroredStrategy(collectives::CommunicatorPtr workers,
                                       std::vector<std::string> local_devices = {"/cpu:0"},
                                       CommunicationOptions communication_options = {});
  std::string name() const override { return "MultiWorkerMirroredStrategy"; }
  const ClusterResolver& cluster_resolver() const { return resolver_; }
  collectives::CommunicatorPtr workers() const override { return workers_; }

 private:
  std::unique_ptr<collectives::GradientSum> gradient_sum(std::size_t count, bool idle) override;
  void agree();

  ClusterResolver resolver_;
  CommunicationOptions communication_options_;
  collectives::CommunicatorPtr workers_;  // null for one worker
};

namespace experimental {
using distribute::CommunicationImplementation;
using distribute::CommunicationOptions;
}  // namespace experimental

}  // namespace lockstep::distribute
