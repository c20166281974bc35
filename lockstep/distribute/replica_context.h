// The context of a replica, and how replicas of one process synchronize.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/structure.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::distribute {

template <typename T>
class PerReplica;
class ReplicaGroup;
class Strategy;

// Also by TensorFlow's names.
enum class ReduceOp { kSum, kMean, SUM = kSum, MEAN = kMean };

struct GatherKeywords {
  FieldNamesOnly names_only = {};
  int axis = 0;
};

// An operation by its name in TensorFlow: strategy.reduce("SUM", values), context->all_reduce("sum", value).
class ReduceOpArg {
 public:
  ReduceOpArg(ReduceOp op) : op_(op) {}
  ReduceOpArg(const char* name);  // "SUM" or "MEAN", also in small letters; throws InvalidArgument for another word
  operator ReduceOp() const { return op_; }

 private:
  ReduceOp op_;
};

// One call of Strategy::run on this worker.
struct ReplicaRun {
  Strategy* strategy = nullptr;   // null in the default context
  ReplicaGroup* group = nullptr;  // this worker's replicas; null: one
  int num_replicas = 1;           // of the strategy, over all workers
  int active = 1;                 // those that take part, over all workers
  // None of this worker's replicas takes part: one of them runs, so that every worker makes the same collective calls,
  // and its values are ignored.
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
  // Its number among the replicas of this worker, which is the index in PerReplica values and in copies of variables.
  int local_replica() const { return local_replica_; }
  int num_local_replicas() const;  // of this worker, those that run
  bool idle() const { return run_.idle; }
  bool alone() const { return run_.alone; }

  // Elementwise over the replicas' tensors, which must have equal shapes; added in replica order inside a worker, then
  // over the workers, so a run repeats bit for bit. Differentiable: the gradient is the gradients of all replicas,
  // reduced likewise (so all replicas must take it).
  Tensor all_reduce(ReduceOpArg op, const Tensor& value);
  Tensors all_reduce(ReduceOpArg op, const Tensors& values);
  // The same structure with the reduced tensors: context->all_reduce("MEAN", {{"loss", loss}, {"norm", norm}}).
  template <std::same_as<Nested<Tensor>> N = Nested<Tensor>>
  N all_reduce(ReduceOpArg op, const N& values) {
    return values.pack(all_reduce(op, Tensors(values.flatten())));
  }
  // Concatenated along `axis` in replica order; sizes along it may differ.
  Tensor all_gather(const Tensor& value, int axis);
  Tensor all_gather(const Tensor& value, const GatherKeywords& o) { return all_gather(value, o.axis); }
  // Runs fn(strategy, values...) once across replicas, as TensorFlow does, with a PerReplica of each argument, and
  // returns its result to each replica. Under several workers it runs on each with the arguments of that worker's
  // replicas; see combine. Throws FailedPrecondition if replicas make different calls.
  template <typename Fn, typename... Args>
  requires std::invocable < Fn&, Strategy&, const PerReplica<Args>
  &... > auto merge_call(Fn&& fn, const Args&... args);
  // The same with fn(arguments), the arguments of all replicas in a std::vector<T>.
  template <typename Fn, typename T>
  requires std::invocable < const Fn&, std::vector<T>
  & > auto merge_call(const Fn& fn, T argument) {
    using R = std::invoke_result_t<const Fn&, std::vector<T>&>;
    if constexpr (std::is_void_v<R>) {
      exchange<bool>(std::move(argument), true, [&](std::vector<T>& arguments) { return fn(arguments), true; });
    } else {
      return exchange<R>(std::move(argument), true, fn);
    }
  }
  // Without arguments: fn().
  template <std::invocable Fn>
  auto merge_call(const Fn& fn) {
    return merge_call([&](std::vector<int>&) { return fn(); }, 0);
  }
  // Inside merge_call's function: the values of this worker's replicas, combined, and that over all workers.
  Tensor combine(ReduceOp op, const Tensors& local) const;
  // Likewise for lists of gradients, whose undefined ones are left out (on all workers alike).
  Tensors sum_lists(const std::vector<const Tensors*>& local) const;

 private:
  // The argument of one replica, and the result that it gets.
  template <typename R, typename T>
  struct Slot {
    T argument;
    std::optional<R> result;
  };
  // The result of combine(arguments), which runs once for all replicas, as merge_call describes. `across`: outside of
  // the context of a replica.
  template <typename R, typename T, typename Fn>
  R exchange(T argument, bool across, const Fn& combine) {
    Slot<R, T> own{std::move(argument), {}};
    exchange_slots(&own, typeid(own), across, [&](const std::vector<void*>& slots) {
      std::vector<T> arguments;
      for (void* slot : slots) arguments.push_back(std::move(static_cast<Slot<R, T>*>(slot)->argument));
      const R result = combine(arguments);
      for (void* slot : slots) static_cast<Slot<R, T>*>(slot)->result = result;
    });
    return std::move(*own.result);
  }
  void exchange_slots(void* own, std::type_index type, bool across,
                      const std::function<void(const std::vector<void*>&)>& combine);
  Tensors reduce_values_of_all(ReduceOp op, const Tensors& values);
  Tensor gather_values_of_all(const Tensor& value, int axis);
  const ReplicaRun& run_;
  int replica_id_;
  int local_replica_;
};

// The context of a replica, used with a dot; none (== nullptr) across replicas. The members throw FailedPrecondition
// where there is none.
class CurrentReplicaContext {
 public:
  CurrentReplicaContext(ReplicaContext* context) : context_(context) {}
  operator ReplicaContext*() const { return context_; }
  ReplicaContext* operator->() const {
    if (!context_) throw_none();
    return context_;
  }
  Strategy* strategy() const { return (*this)->strategy(); }
  int replica_id_in_sync_group() const { return (*this)->replica_id_in_sync_group(); }
  int num_replicas_in_sync() const { return (*this)->num_replicas_in_sync(); }
  Tensor all_reduce(ReduceOpArg op, const Tensor& value) const { return (*this)->all_reduce(op, value); }
  Tensors all_reduce(ReduceOpArg op, const Tensors& values) const { return (*this)->all_reduce(op, values); }
  template <std::same_as<Nested<Tensor>> N = Nested<Tensor>>
  N all_reduce(ReduceOpArg op, const N& values) const {
    return (*this)->all_reduce(op, values);
  }
  Tensor all_gather(const Tensor& value, int axis) const { return (*this)->all_gather(value, axis); }
  Tensor all_gather(const Tensor& value, const GatherKeywords& o) const { return (*this)->all_gather(value, o); }
  template <typename Fn, typename... Args>
  auto merge_call(Fn&& fn, const Args&... args) const {
    return (*this)->merge_call(std::forward<Fn>(fn), args...);
  }

 private:
  [[noreturn]] static void throw_none();
  ReplicaContext* context_;
};

// Of this thread; none in cross-replica context (inside scope() but not in run()).
CurrentReplicaContext get_replica_context();
bool in_cross_replica_context();

// ReplicaContext::local_replica of this thread; 0 unless it runs under Strategy::run.
int current_local_replica();

// Sets this thread's context while it exists.
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
