// Strategies: the placement of variables and the distribution of computations over replicas.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/tensor/structure.h"

namespace lockstep::data {
class Dataset;
}
namespace lockstep::collectives {
class GradientSum;
}

namespace lockstep::distribute {

class DistributedDataset;
struct InputContext;
struct InputOptions;

[[noreturn]] void throw_no_such_replica(int replica, int size);
[[noreturn]] void throw_several_values(int size);

// One value for each replica, in replica order (TensorFlow's PerReplica).
template <typename T>
class PerReplica {
 public:
  PerReplica() = default;  // of no replica
  explicit PerReplica(std::vector<T> values) : values_(std::move(values)) {}
  const std::vector<T>& values() const& { return values_; }
  std::vector<T> values() && { return std::move(values_); }
  // A reference, or the value itself of PerReplica<bool>. Throws OutOfRange.
  typename std::vector<T>::const_reference operator[](int replica) const {
    if (replica < 0 || replica >= size()) throw_no_such_replica(replica, size());
    return values_[static_cast<std::size_t>(replica)];
  }
  // batch["image"]: the replicas' values of one entry of their elements, which are dicts.
  PerReplica operator[](std::string_view name) const requires requires(const T& value) {
    { value[name] } -> std::convertible_to<T>;
  }
  {
    std::vector<T> entries;
    for (const T& value : values_) entries.push_back(value[name]);
    return PerReplica(std::move(entries));
  }
  // result["output_0"] of the maps that functions return.
  auto operator[](std::string_view name) const requires std::same_as<typename T::key_type, std::string> {
    std::vector<typename T::mapped_type> entries;
    for (const T& value : values_) entries.push_back(value.at(std::string(name)));
    return PerReplica<typename T::mapped_type>(std::move(entries));
  }
  int size() const { return static_cast<int>(values_.size()); }
  // int(step), float(loss) under a strategy of one replica, whose results are single values in TensorFlow. Throws
  // FailedPrecondition for several replicas: reduce() combines their values.
  template <typename U>
  requires(std::is_arithmetic_v<U>&& std::is_constructible_v<U, const T&>) explicit operator U() const {
    if (size() != 1) throw_several_values(size());
    return static_cast<U>((*this)[0]);
  }
  // The same of tensors: the value itself.
  operator Tensor() const requires std::is_convertible_v<const T&, Tensor> {
    if (size() != 1) throw_several_values(size());
    return (*this)[0];
  }
  Tensor numpy() const requires std::is_convertible_v<const T&, Tensor> { return Tensor(*this).numpy(); }
  // const auto& [x, y] = batch: the replicas' values of the first and of the second part of their elements, which are
  // pairs or tuples.
  template <std::size_t I>
  auto get() const {
    const auto part = [](const T& value) {
      if constexpr (requires { std::get<I>(value); }) {
        return std::get<I>(value);
      } else {
        return value.template get<I>();
      }
    };
    std::vector<decltype(part(values_.front()))> parts;
    for (const T& value : values_) parts.push_back(part(value));
    return PerReplica<decltype(part(values_.front()))>(std::move(parts));
  }

 private:
  std::vector<T> values_;
};

namespace internal {

// An argument of Strategy::run as one replica sees it; PerReplica values may also be in vectors, maps, pairs and
// tuples.
template <typename T>
struct OfReplica {
  static const T& get(const T& argument, int) { return argument; }
};
template <typename T>
struct OfReplica<PerReplica<T>> {
  static typename std::vector<T>::const_reference get(const PerReplica<T>& argument, int replica) {
    return argument[replica];
  }
};
template <typename T>
struct OfReplica<std::vector<PerReplica<T>>> {
  static std::vector<T> get(const std::vector<PerReplica<T>>& arguments, int replica) {
    std::vector<T> values;
    for (const PerReplica<T>& argument : arguments) values.push_back(argument[replica]);
    return values;
  }
};
template <typename T>
struct OfReplica<std::map<std::string, PerReplica<T>>> {
  static std::map<std::string, T> get(const std::map<std::string, PerReplica<T>>& arguments, int replica) {
    std::map<std::string, T> values;
    for (const auto& [name, argument] : arguments) values.emplace(name, argument[replica]);
    return values;
  }
};
template <typename T, typename U>
struct OfReplica<std::pair<T, U>> {
  static auto get(const std::pair<T, U>& argument, int replica) {
    return std::make_pair(OfReplica<T>::get(argument.first, replica), OfReplica<U>::get(argument.second, replica));
  }
};
template <typename... T>
struct OfReplica<std::tuple<T...>> {
  static auto get(const std::tuple<T...>& arguments, int replica) {
    return std::apply([&](const T&... each) { return std::make_tuple(OfReplica<T>::get(each, replica)...); },
                      arguments);
  }
};
template <typename T>
decltype(auto) of_replica(const T& argument, int replica) {
  return OfReplica<T>::get(argument, replica);
}

// How many structures a function takes, at most six; -1 for none of these numbers.
template <std::size_t, typename T>
using Repeated = T;
template <typename Fn, std::size_t... I>
constexpr bool takes_structures(std::index_sequence<I...>) {
  return std::is_invocable_v<Fn&, Repeated<I, const Nested<Tensor>&>...>;
}
template <typename Fn, int N = 0>
constexpr int structures_of() {
  if constexpr (N > 6) {
    return -1;
  } else if constexpr (takes_structures<Fn>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return structures_of<Fn, N + 1>();
  }
}
template <typename Fn>
inline constexpr int kStructuresOf = structures_of<std::remove_reference_t<Fn>>();
[[noreturn]] void throw_wrong_run_arguments(int expected, std::size_t found);

}  // namespace internal

// strategy.run(step, {.args = {batch}}): each argument is a structure, or one for each replica.
class RunArgument {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> RunArgument(T number) : values_{Tensor(number)} {}
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Nested<Tensor>>) RunArgument(const T& value)
      : values_{static_cast<Nested<Tensor>>(value)} {}
  template <typename T>
  requires std::is_convertible_v<const T&, Nested<Tensor>> RunArgument(const PerReplica<T>& values) {
    for (const T& value : values.values()) values_.push_back(value);
  }
  const Nested<Tensor>& of_replica(int replica) const {
    return values_[values_.size() == 1 ? 0 : static_cast<std::size_t>(replica)];
  }

 private:
  std::vector<Nested<Tensor>> values_;
};
struct RunKeywords {
  FieldNamesOnly names_only = {};
  std::vector<RunArgument> args = {};
};

struct ReduceKeywords {
  FieldNamesOnly names_only = {};
  std::optional<int> axis = std::nullopt;
};

// Which rows of a global batch a replica gets.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Divides `rows` rows into `parts` consecutive ranges whose sizes differ by at most one, larger ones first (10 in 3: 4,
// 3, 3). TensorFlow makes chunks of ceil(rows / parts), which can leave replicas idle.
std::vector<RowRange> split_rows(std::int64_t rows, int parts);

// "PerReplica:{", a line for each replica, "}", as TensorFlow prints it; one replica's value by itself.
template <typename T>
std::ostream& operator<<(std::ostream& out, const PerReplica<T>& values) {
  if (values.size() == 1) return out << values[0];
  out << "PerReplica:{\n";
  for (int i = 0; i < values.size(); ++i)
    out << "  " << i << ": " << values[i] << (i + 1 < values.size() ? ",\n" : "\n");
  return out << "}";
}

// The replica for which experimental_distribute_values_from_function computes a value
// (tf.distribute.experimental.ValueContext).
struct ValueContext {
  int num_replicas_in_sync = 1;
  int replica_id_in_sync_group = 0;
};

// tf.distribute.Strategy. The base class is the default strategy: one replica on the CPU.
class Strategy {
 public:
  Strategy() : Strategy(std::vector<std::string>{"/cpu:0"}) {}
  virtual ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  virtual std::string name() const { return "DefaultStrategy"; }
  // Of all workers.
  int num_replicas_in_sync() const { return num_local_replicas() * num_workers(); }
  // The devices of this worker.
  const std::vector<std::string>& worker_devices() const { return devices_; }

  // The name of the step runner of models that train under it (keras/trainer/step_runner_internal.h).
  virtual std::string step_runner() const { return "all_reduce"; }

  // The workers of the job; null if this process is the only one.
  virtual collectives::CommunicatorPtr workers() const { return nullptr; }
  collectives::Communicator* communicator() const { return workers().get(); }
  int num_workers() const { return communicator() ? communicator()->size() : 1; }
  int worker_index() const { return communicator() ? communicator()->rank() : 0; }
  // Whether this process prints and writes files.
  virtual bool is_chief() const { return worker_index() == 0; }
  // Replicas are numbered worker by worker; every worker has equally many.
  int num_local_replicas() const { return static_cast<int>(devices_.size()); }
  int first_local_replica() const { return worker_index() * num_local_replicas(); }

  // Variables made while the returned guard exists belong to this strategy. Throws FailedPrecondition inside the scope
  // of another strategy or inside run().
  class Scope {
   public:
    explicit Scope(Strategy* strategy);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    // Ends the scope before the end of the block, as the end of a with statement does.
    void exit();

   private:
    Strategy* previous_;
    bool ended_ = false;
  };
  [[nodiscard("the scope ends with the guard: auto scope = strategy.scope();")]] Scope scope() { return Scope(this); }

  // The strategy whose scope or run() this thread is in; null outside.
  static Strategy* current();
  // Expires with the strategy.
  std::weak_ptr<Strategy> handle() const { return handle_; }

  // Calls fn(args...) once for each replica, each on its own thread with its own ReplicaContext, and returns the
  // results in replica order; nothing for a function that returns void. Of a PerReplica argument fn gets the replica's
  // value, of any other the argument itself. The first error of a replica is rethrown here after all have ended. Throws
  // FailedPrecondition when called inside a replica.
  template <typename Fn, typename... Args>
  auto run(Fn&& fn, const Args&... args) {
    static_assert(std::is_invocable_v<Fn&, decltype(internal::of_replica(args, 0))...>,
                  "strategy.run(fn, args...): fn cannot be called with these arguments; of a PerReplica argument it "
                  "gets the value of one replica");
    using R = std::decay_t<decltype(fn(internal::of_replica(args, 0)...))>;
    const auto call = [&]() -> decltype(auto) {
      [[maybe_unused]] const int replica = current_local_replica();
      return fn(internal::of_replica(args, replica)...);
    };
    if constexpr (std::is_void_v<R>) {
      run_replicas([&](int) { call(); });
    } else {
      std::vector<std::optional<R>> slots(devices_.size());
      run_replicas([&](int) { slots[static_cast<std::size_t>(current_local_replica())].emplace(call()); });
      std::vector<R> values;
      for (auto& slot : slots) values.push_back(std::move(*slot));
      return PerReplica<R>(std::move(values));
    }
  }
  // With the arguments in a list, as Python's args=(x, y). Throws InvalidArgument for another number of them than fn
  // takes.
  template <typename Fn>
  auto run(Fn&& fn, const RunKeywords& o) {
    constexpr int kArguments = internal::kStructuresOf<Fn>;
    static_assert(kArguments >= 0, "strategy.run(fn, {.args = {...}}): fn takes tensors or structures, at most six");
    if (static_cast<int>(o.args.size()) != kArguments) internal::throw_wrong_run_arguments(kArguments, o.args.size());
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return run([&] {
        [[maybe_unused]] const int replica = current_local_replica();
        return fn(o.args[I].of_replica(replica)...);
      });
    }
    (std::make_index_sequence<static_cast<std::size_t>(kArguments)>());
  }
  // The core of run(): fn(replica) on the threads of this worker for its part of the replicas 0 … count-1 (-1: all). A
  // training step whose batch has fewer rows than replicas runs on the first replicas only. A worker without a part
  // runs fn once for its first replica, >= count, which is idle (see ReplicaRun).
  void run_replicas(const std::function<void(int)>& fn, int count = -1);
  // Calls fn in the context of a single replica, the first one of this worker, without other replicas or workers: for
  // computations that are not distributed.
  void run_alone(const std::function<void()>& fn);

  // Combines the replicas' values over `axis` and all replicas of the job (every worker calls it); axis empty:
  // elementwise over replicas only. MEAN over an axis divides by the number of elements on it over all replicas, so
  // unequal shares count as one tensor would. Integer means are float64, as in TensorFlow.
  Tensor reduce(ReduceOpArg op, const PerReplica<Tensor>& values, std::optional<int> axis = std::nullopt);
  // Of structures and lists: each of their tensors.
  Nested<Tensor> reduce(ReduceOpArg op, const PerReplica<Nested<Tensor>>& values,
                        std::optional<int> axis = std::nullopt);
  Tensors reduce(ReduceOpArg op, const PerReplica<Tensors>& values, std::optional<int> axis = std::nullopt);
  // Of numbers, which count as scalars.
  template <typename T>
  requires std::is_arithmetic_v<T> Tensor reduce(ReduceOpArg op, const PerReplica<T>& values) {
    Tensors scalars;
    for (const T value : values.values()) scalars.push_back(Tensor::scalar(value));
    return reduce(op, PerReplica<Tensor>(std::move(scalars)));
  }
  // Of a tensor, which is the value of the only replica. Throws InvalidArgument where there are several.
  template <typename V>
  requires(std::is_same_v<V, Tensor> || std::is_same_v<V, Nested<Tensor>>) Tensor
      reduce(ReduceOpArg op, const V& value, std::optional<int> axis = std::nullopt) {
    return reduce_one(op, static_cast<Tensor>(value), axis);
  }
  // strategy.reduce("MEAN", values, {.axis = 0}).
  template <typename V>
  auto reduce(ReduceOpArg op, const V& values, const ReduceKeywords& o) {
    return reduce(op, values, o.axis);
  }
  // The same for a variable, whose copies are the replicas' values. A mirrored one counts once for each replica.
  Tensor reduce(ReduceOpArg op, const VariablePtr& variable, std::optional<int> axis = std::nullopt);
  Tensor reduce_one(ReduceOpArg op, const Tensor& value, std::optional<int> axis);
  // The values of all replicas concatenated in replica order. Throws InvalidArgument for scalars.
  Tensor gather(const PerReplica<Tensor>& values, int axis);
  // Of structures: each of their tensors.
  Nested<Tensor> gather(const PerReplica<Nested<Tensor>>& values, int axis);
  template <typename V>
  auto gather(const V& values, const GatherKeywords& o) {
    return gather(values, o.axis);
  }
  // The rows of each batch divided among the replicas (split_rows). A replica without rows gets an empty batch. Include
  // lockstep/data/distributed_dataset.h to use it.
  DistributedDataset experimental_distribute_dataset(const data::Dataset& dataset);
  // Whole elements of fn's dataset to one replica after the other: fn batches for a replica itself.
  DistributedDataset distribute_datasets_from_function(const std::function<data::Dataset(const InputContext&)>& fn);
  DistributedDataset distribute_datasets_from_function(const std::function<data::Dataset(const InputContext&)>& fn,
                                                       const InputOptions& options);
  // The result of fn for each replica of this worker, one after the other.
  template <typename Fn>
  auto experimental_distribute_values_from_function(Fn&& fn) {
    std::vector<std::decay_t<std::invoke_result_t<Fn&, const ValueContext&>>> values;
    for (int i = 0; i < num_local_replicas(); ++i)
      values.push_back(fn(ValueContext{num_replicas_in_sync(), first_local_replica() + i}));
    return PerReplica(std::move(values));
  }
  // Of a variable: its copies' values.
  Tensors experimental_local_results(const VariablePtr& variable);
  // Of a value that is none of a replica: a list of it.
  template <typename T>
  requires(std::is_arithmetic_v<T> ||
           std::is_same_v<T, Tensor>) std::vector<T> experimental_local_results(const T& value) {
    return {value};
  }
  template <typename T>
  const std::vector<T>& experimental_local_results(const PerReplica<T>& values) {
    return values.values();
  }
  // for (const auto& part : strategy.experimental_local_results(strategy.run(...)))
  template <typename T>
  std::vector<T> experimental_local_results(PerReplica<T>&& values) {
    return std::move(values).values();
  }

 protected:
  explicit Strategy(std::vector<std::string> devices);

 private:
  friend struct GradientSums;
  // See GradientSums (gradient_sums_internal.h).
  virtual std::unique_ptr<collectives::GradientSum> gradient_sum(std::size_t count, bool idle);
  void run_threads(const std::function<void(int)>& fn, const ReplicaRun& run, int first, int n);
  std::shared_ptr<Strategy> handle_;  // does not own
  std::vector<std::string> devices_;
  struct Pool;
  std::unique_ptr<Pool> pool_;  // replica threads, started by the first run with several replicas
};

// Everything on one device, one replica.
class OneDeviceStrategy : public Strategy {
 public:
  // "/cpu:0". Throws NotFound for a device this machine lacks, InvalidArgument for a malformed name.
  explicit OneDeviceStrategy(const std::string& device);
  std::string name() const override { return "OneDeviceStrategy"; }
};

// tf.distribute.CrossDeviceOps: how values of replicas are added up. They share memory, and one way of adding serves
// all of them.
struct CrossDeviceOps {};
inline CrossDeviceOps NcclAllReduce(int num_packs = 1) { return static_cast<void>(num_packs), CrossDeviceOps(); }
inline CrossDeviceOps HierarchicalCopyAllReduce(int num_packs = 1) { return NcclAllReduce(num_packs); }
inline CrossDeviceOps ReductionToOneDevice() { return {}; }
struct MirroredKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::vector<std::string>> devices = std::nullopt;
  std::optional<CrossDeviceOps> cross_device_ops = std::nullopt;
};
// "/cpu:0", or as many as tf.config.set_logical_device_configuration() has made (devices.h).
std::vector<std::string> logical_cpus();

// One replica for each device of this process. CPU devices are logical: any number may be named, each
// replica is a thread, and the machine's cores are divided among them.
class MirroredStrategy : public Strategy {
 public:
  // Default: all local devices, logical_cpus().
  explicit MirroredStrategy(std::vector<std::string> devices = logical_cpus());  // InvalidArgument for duplicates
  // MirroredStrategy({.devices = {"/cpu:0", "/cpu:1"}, .cross_device_ops = HierarchicalCopyAllReduce()}).
  template <std::same_as<MirroredKeywords> K = MirroredKeywords>
  explicit MirroredStrategy(const K& o) : MirroredStrategy(o.devices ? *o.devices : logical_cpus()) {}
  template <std::same_as<MirroredKeywords> K = MirroredKeywords>
  MirroredStrategy(std::vector<std::string> devices, const K&) : MirroredStrategy(std::move(devices)) {}
  std::string name() const override { return "MirroredStrategy"; }
};

// tf.distribute.experimental.CentralStorageStrategy: replicas of one process share memory here, so that it computes
// what MirroredStrategy does.
struct CentralStorageKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::vector<std::string>> compute_devices = std::nullopt;
  std::string parameter_device = {};  // accepted
};
class CentralStorageStrategy : public MirroredStrategy {
 public:
  explicit CentralStorageStrategy(std::vector<std::string> compute_devices = logical_cpus())
      : MirroredStrategy(std::move(compute_devices)) {}
  template <std::same_as<CentralStorageKeywords> K = CentralStorageKeywords>
  explicit CentralStorageStrategy(const K& o)
      : MirroredStrategy(o.compute_devices ? *o.compute_devices : logical_cpus()) {}
  std::string name() const override { return "CentralStorageStrategy"; }
};
namespace experimental {
using distribute::CentralStorageStrategy;
}

// tf.distribute.get_strategy(): the strategy whose scope or run() this thread is in, else the default strategy.
Strategy& get_strategy();
bool has_strategy();

// "/cpu:0", "CPU:0", "/device:CPU:0", "/job:localhost/…/device:CPU:0" -> "/cpu:0".
std::string canonical_device(const std::string& device);

template <typename Fn, typename... Args>
requires std::invocable < Fn&, Strategy&, const PerReplica<Args>
&... > auto ReplicaContext::merge_call(Fn&& fn, const Args&... args) {
  using Given = std::tuple<Args...>;
  using R = std::decay_t<std::invoke_result_t<Fn&, Strategy&, const PerReplica<Args>&...>>;
  Strategy& own = strategy() ? *strategy() : get_strategy();
  return merge_call(
      [&](std::vector<Given>& given) -> R {
        return [&]<std::size_t... I>(std::index_sequence<I...>)->R {
          const auto values = [&]<std::size_t At>(std::integral_constant<std::size_t, At>) {
            std::vector<std::tuple_element_t<At, Given>> each;
            for (const Given& replica : given) each.push_back(std::get<At>(replica));
            return PerReplica<std::tuple_element_t<At, Given>>(std::move(each));
          };
          return fn(own, values(std::integral_constant<std::size_t, I>())...);
        }
        (std::index_sequence_for<Args...>());
      },
      Given(args...));
}

// Elementwise sum or mean in the order given; the mean of integers is float64.
Tensor reduce_values(ReduceOp op, const Tensors& values);
// The same over the values of all workers' replicas, `count` in all; an idle worker's values count for nothing. Without
// workers it is reduce_values.
Tensor reduce_over_job(ReduceOp op, const Tensors& local, collectives::Communicator* workers, int count,
                       bool idle = false);
Tensor concat_values(const Tensors& values, int axis);

}  // namespace lockstep::distribute

template <>
struct std::tuple_size<lockstep::distribute::PerReplica<lockstep::Nested<lockstep::Tensor>>>
    : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::distribute::PerReplica<lockstep::Nested<lockstep::Tensor>>> {
  using type = lockstep::distribute::PerReplica<lockstep::Nested<lockstep::Tensor>>;
};
template <typename T, typename U>
struct std::tuple_size<lockstep::distribute::PerReplica<std::pair<T, U>>> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I, typename T, typename U>
struct std::tuple_element<I, lockstep::distribute::PerReplica<std::pair<T, U>>> {
  using type = lockstep::distribute::PerReplica<std::tuple_element_t<I, std::pair<T, U>>>;
};
template <typename... T>
struct std::tuple_size<lockstep::distribute::PerReplica<std::tuple<T...>>>
    : std::integral_constant<std::size_t, sizeof...(T)> {};
template <std::size_t I, typename... T>
struct std::tuple_element<I, lockstep::distribute::PerReplica<std::tuple<T...>>> {
  using type = lockstep::distribute::PerReplica<std::tuple_element_t<I, std::tuple<T...>>>;
};
