// The context of a replica, and how replicas of one process synchronize.
#pragma once

#include <any>
#include <concepts>
#include <functional>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::distribute {

template <typename T>
class PerReplica;
class ReplicaGroup;
class Strategy;

enum class ReduceOp { kSum, kMean };

// One call of Strategy::run on this worker.
struct ReplicaRun {
  Strategy* strategy = nullptr;   // null in the default context
  ReplicaGroup* group = nullptr;  // this worker's replicas; null: one
  int num_replicas = 1;           // of the strategy, over all workers
  int active = 1;                 // those that take part, over all workers
  // This worker has no replica that takes part: it runs one along, so that every worker makes the same collective
  // calls, and what that one gives counts for nothing.
  bool idle = false;
  bool alone = false;  // one replica on each worker by itself, without the other workers
};

// The context of the running replica (tf.distribute.get_replica_context()). Outside of any strategy
// there is a default one: replica 0 of 1.
class ReplicaContext {
 public:
  ReplicaContext(const ReplicaRun& run, int replica_id, int local_replica)
      : run_(run), replica_id_(replica_id), local_replica_(local_replica) {}

  Strategy* strategy() const { return run_.strategy; }  // null in the default context
  int replica_id_in_sync_group() const { return replica_id_; }
  int num_replicas_in_sync() const { return run_.num_replicas; }
  // Which of this worker's replicas it is: what PerReplica values and copies of variables go by.
  int local_replica() const { return local_replica_; }
  int num_local_replicas() const;  // those of this worker's that run
  bool idle() const { return run_.idle; }
  bool alone() const { return run_.alone; }

  // Elementwise over the replicas' tensors, which must have equal shapes; added in replica order inside a worker, then
  // over the workers, so a run repeats bit for bit. Differentiable: the gradient is the gradients of all replicas,
  // reduced likewise (so all replicas must take it).
  Tensor all_reduce(ReduceOp op, const Tensor& value);
  Tensors all_reduce(ReduceOp op, const Tensors& values);
  // Concatenated along `axis` in replica order; sizes along it may differ.
  Tensor all_gather(const Tensor& value, int axis);
  // Runs fn once across replicas with all replicas' arguments and gives its result to each.
  // Under several workers it runs on each with the arguments of that worker's replicas; see combine.
  std::any merge_call(const std::function<std::any(std::vector<std::any>&)>& fn, std::any argument);
  // The same as in TensorFlow: fn(strategy, values...) gets a PerReplica of each argument.
  template <typename Fn, typename... Args>
  requires std::invocable < Fn&, Strategy&, const PerReplica<Args>
  &... > auto merge_call(Fn&& fn, const Args&... args);
  // Inside merge_call's function: the values of this worker's replicas, combined, and that over all workers.
  Tensor combine(ReduceOp op, const Tensors& local) const;
  // Likewise for lists of gradients, whose undefined ones are left out (on all workers alike).
  Tensors sum_lists(const std::vector<const Tensors*>& local) const;

 private:
  Tensors reduce_values_of_all(ReduceOp op, const Tensors& values);
  const ReplicaRun& run_;
  int replica_id_;
  int local_replica_;
};

// Null when this thread is in cross-replica context (inside scope() but not in run()).
ReplicaContext* get_replica_context();
bool in_cross_replica_context();

// ReplicaContext::local_replica of this thread; 0 unless it runs under Strategy::run.
int current_local_replica();

// Sets this thread's context while it lives.
class ScopedReplicaContext {
 public:
  explicit ScopedReplicaContext(ReplicaContext* context);
  ~ScopedReplicaContext();
  ScopedReplicaContext(const ScopedReplicaContext&) = delete;
  ScopedReplicaContext& operator=(const ScopedReplicaContext&) = delete;

 private:
  ReplicaContext* previous_;
};

}  // namespace lockstep::distribute
