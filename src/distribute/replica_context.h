// What a replica knows of itself and how replicas of one process meet.
#pragma once

#include <any>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::distribute {

class Strategy;

enum class ReduceOp { kSum, kMean };

// Where the replica threads of one Strategy::run meet. Every replica must make the same calls in the
// same order; when one ends early or fails, those that wait get an Aborted error instead of hanging.
class ReplicaGroup {
 public:
  explicit ReplicaGroup(int size) : size_(size), inputs_(static_cast<std::size_t>(size)) {}
  int size() const { return size_; }

  // Gives every replica the result of `combine` over all replicas' values in replica order; it runs once.
  std::any meet(int replica, std::any value, const std::function<std::any(std::vector<std::any>&)>& combine);
  // Called when a replica's function has returned or thrown.
  void leave(bool failed);

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::any> inputs_;
  std::any output_;
  std::exception_ptr error_;
  int waiting_ = 0;
  int left_ = 0;
  bool failed_ = false;
  std::uint64_t round_ = 0;
};

// The context of the running replica (tf.distribute.get_replica_context()). Outside of any strategy
// there is a default one: replica 0 of 1.
class ReplicaContext {
 public:
  ReplicaContext(Strategy* strategy, ReplicaGroup* group, int replica_id, int num_replicas)
      : strategy_(strategy), group_(group), replica_id_(replica_id), num_replicas_(num_replicas) {}

  Strategy* strategy() const { return strategy_; }  // null in the default context
  int replica_id_in_sync_group() const { return replica_id_; }
  int num_replicas_in_sync() const { return num_replicas_; }

  // Elementwise over the replicas' tensors, which must have equal shapes; added in replica order, so a
  // run repeats bit for bit. Not differentiable unless `differentiable` is asked for (the gradient of a
  // sum over replicas is the sum of the replicas' gradients).
  Tensor all_reduce(ReduceOp op, const Tensor& value);
  Tensors all_reduce(ReduceOp op, const Tensors& values);
  // Concatenated along `axis` in replica order; sizes along it may differ.
  Tensor all_gather(const Tensor& value, int axis);
  // Runs fn once across replicas with all replicas' arguments and gives its result to each.
  std::any merge_call(const std::function<std::any(std::vector<std::any>&)>& fn, std::any argument);

 private:
  Strategy* strategy_;
  ReplicaGroup* group_;
  int replica_id_;
  int num_replicas_;
};

// Null when this thread is in cross-replica context (inside scope() but not in run()).
ReplicaContext* get_replica_context();
bool in_cross_replica_context();

// Replica 0 of 1 unless this thread runs under Strategy::run.
int current_replica_id();

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
