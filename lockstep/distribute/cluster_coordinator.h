// Custom training loops with parameter servers (tf.distribute.coordinator.ClusterCoordinator).
#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/distribute/parameter_server_strategy.h"

namespace lockstep::distribute {

// The result of a closure.
class RemoteValue {
 public:
  struct State;
  explicit RemoteValue(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool done() const;
  // On the chief: waits for the closure and returns its result, an undefined tensor for void. Throws its error,
  // and FailedPrecondition on a worker.
  Tensor fetch() const;

 private:
  std::shared_ptr<State> state_;
};

// Runs closures on the workers of a ParameterServerStrategy.
//
//   distribute::ClusterCoordinator coordinator(strategy);
//   auto batches = coordinator.create_per_worker_dataset([] { return make_dataset().shuffle(1000).repeat(); });
//   auto iterator = batches.begin();
//   for (int step = 0; step < 100; ++step) coordinator.schedule([&] { train_step(*iterator++); });
//   coordinator.join();
//
// Functions are not sent from process to process: each process schedules the same closures in the same order, and a
// worker runs those whose number it gets, with its own iterators. Variables made in the strategy's scope have the
// servers' values when a closure begins; models must be built by then, as variables that a closure makes stay local. An
// optimizer's apply_gradients() in a closure is done by the servers, with its learning rate at that time; it must have
// been made in the scope. Other writes of a closure to a variable are sent at its end, as the difference to the initial
// value. After join() variables have the servers' values on each process; on the chief optimizers have their slots and
// iterations, and a checkpoint that is restored there goes to the servers.
//
// An error of a closure drops the closures that are still waiting; join() throws it on each process, once.
class ClusterCoordinator {
 public:
  explicit ClusterCoordinator(ParameterServerStrategy& strategy);
  ~ClusterCoordinator();

  // Returns at once. `fn()` returns nothing, a Tensor, a PerReplica<Tensor> (as strategy.run does) or a number.
  template <typename Fn>
  RemoteValue schedule(Fn fn) {
    using R = std::decay_t<std::invoke_result_t<Fn&>>;
    return add([fn = std::move(fn)]() mutable -> Tensor {
      if constexpr (std::is_void_v<R>) {
        fn();
        return {};
      } else if constexpr (std::is_arithmetic_v<R>) {
        return Tensor::scalar(fn());
      } else if constexpr (std::is_same_v<R, PerReplica<Tensor>>) {
        return fn()[0];
      } else {
        return fn();
      }
    });
  }
  // schedule(step_fn, args=(iterator,)) of Python: `fn(iterator)`. Arguments that have a name are referred to, and must
  // exist until the closure is done; others are kept.
  template <typename Fn, typename First, typename... More>
  RemoteValue schedule(Fn fn, First&& first, More&&... more) {
    std::tuple<First, More...> arguments(std::forward<First>(first), std::forward<More>(more)...);
    return schedule([fn = std::move(fn), arguments = std::move(arguments)]() mutable {
      return std::apply([&](auto&... argument) { return fn(argument...); }, arguments);
    });
  }
  // Waits until all closures are done. Workers run theirs here.
  void join();
  // Whether all closures are done. The chief's, which may call it in a loop: while (!coordinator.done()) sleep.
  bool done() const;
  Tensor fetch(const RemoteValue& value) const { return value.fetch(); }
  Tensors fetch(const std::vector<RemoteValue>& values) const {
    Tensors results;
    for (const RemoteValue& value : values) results.push_back(value.fetch());
    return results;
  }
  // The results of `fn`, one for each worker.
  template <typename Fn>
  auto create_per_worker_dataset(Fn fn) {
    return fn();
  }

 private:
  RemoteValue add(std::function<Tensor()> closure);
  struct State;
  std::shared_ptr<State> state_;
};

namespace coordinator {
using distribute::ClusterCoordinator;
using distribute::RemoteValue;
}  // namespace coordinator
namespace experimental::coordinator {
using distribute::ClusterCoordinator;
using distribute::RemoteValue;
}  // namespace experimental::coordinator

}  // namespace lockstep::distribute
