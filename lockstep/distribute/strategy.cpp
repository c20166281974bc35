#include "lockstep/distribute/strategy.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/threads_internal.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/replica_group_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/ops/pooled_loops_internal.h"
#include "lockstep/ops/shared_memory_limit_internal.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::distribute {
namespace {

thread_local Strategy* t_strategy = nullptr;

}  // namespace

void internal::throw_wrong_run_arguments(int expected, std::size_t found) {
  throw_invalid_argument(fmt::format("strategy.run: args has {} arguments, the function takes {}", found, expected));
}

namespace {

int num_cores() {
  static const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return cores;
}

// Waits until ready() holds: for a moment by asking again and again, since a wake-up by the system takes tens of
// microseconds, then by `park`.
template <typename Ready, typename Park>
void wait_until(const Ready& ready, const Park& park) {
  constexpr auto kMoment = std::chrono::microseconds(50);
  constexpr int kChecks = 64;  // between two looks at the clock
  const auto begin = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kChecks; ++i) {
      if (ready()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() - begin < kMoment);
  while (!ready()) park();
}

}  // namespace

// Replica threads that wait for work. Replica 0 runs on the caller's own thread.
struct Strategy::Pool {
  using Job = std::function<void(int)>;

  explicit Pool(int threads) : seats(static_cast<std::size_t>(threads)) {
    try {
      for (int i = 0; i < threads; ++i) {
        workers.push_back(start_thread([this, i] { work(i + 1, seats[static_cast<std::size_t>(i)]); }));
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Pool() { stop(); }
  void stop() {
    stopping = true;
    for (Seat& seat : seats) seat.call();
    for (std::thread& worker : workers) worker.join();
  }
  // job(0) on this thread and job(1) … job(n - 1) on theirs; returns when all have ended.
  void run(int n, const Job& given) {
    job = &given;
    running = n - 1;
    for (int i = 0; i + 1 < n; ++i) seats[static_cast<std::size_t>(i)].call();
    given(0);
    wait_until([&] { return running.load() == 0; },
               [&] {
                 if (const int left = running.load(); left > 0) running.wait(left);
               });
  }

 private:
  // Where a thread waits; the count goes up with each call.
  struct alignas(64) Seat {
    std::atomic<std::uint32_t> calls = 0;
    void call() {
      calls.fetch_add(1);
      calls.notify_one();
    }
  };
  void work(int id, Seat& seat) {
    ops::initialize_engine();
    for (std::uint32_t seen = 0;; ++seen) {
      wait_until([&] { return seat.calls.load() != seen; }, [&] { seat.calls.wait(seen); });
      if (stopping) return;
      (*job)(id);
      if (running.fetch_sub(1) == 1) running.notify_one();
    }
  }

  std::vector<Seat> seats;
  std::vector<std::thread> workers;
  const Job* job = nullptr;
  std::atomic<int> running = 0;
  std::atomic<bool> stopping = false;
};

void throw_no_such_replica(int replica, int size) {
  throw_out_of_range(fmt::format("PerReplica: replica {} of {} does not exist on this worker", replica, size));
}

void throw_several_values(int size) {
  throw_failed_precondition(fmt::format(
      "PerReplica: a number requires one replica, found {}; combine their values with strategy.reduce()", size));
}

std::vector<RowRange> split_rows(std::int64_t rows, int parts) {
  std::vector<RowRange> ranges;
  std::int64_t begin = 0;
  for (int i = 0; i < parts; ++i) {
    const std::int64_t size = rows / parts + (i < rows % parts ? 1 : 0);
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

Strategy::Strategy(std::vector<std::string> devices) : handle_(this, [](Strategy*) {}), devices_(std::move(devices)) {
  ops::initialize_engine();
}
Strategy::~Strategy() = default;

std::unique_ptr<collectives::GradientSum> Strategy::gradient_sum(std::size_t, bool) { return nullptr; }

Strategy* Strategy::current() { return t_strategy; }

namespace {

// Made by its first use, which may be inside a GradientTape: the thread keeps recording.
struct DefaultStrategy {
  const bool recording = ops::grad_enabled();
  Strategy strategy;
  DefaultStrategy() { ops::set_grad_enabled(recording); }
};

}  // namespace

Strategy& get_strategy() {
  if (t_strategy) return *t_strategy;
  static DefaultStrategy made;
  return made.strategy;
}

bool has_strategy() { return t_strategy != nullptr; }

Strategy::Scope::Scope(Strategy* strategy) : previous_(t_strategy) {
  if (t_strategy && t_strategy != strategy) {
    throw_failed_precondition(fmt::format("scope() of a {} inside that of another {}: strategies cannot be mixed",
                                          strategy->name(), t_strategy->name()));
  }
  if (t_strategy && get_replica_context()) {
    throw_failed_precondition("scope() was called inside run(); it must be called across replicas");
  }
  t_strategy = strategy;
}
Strategy::Scope::~Scope() { exit(); }
void Strategy::Scope::exit() {
  if (ended_) return;
  t_strategy = previous_;
  ended_ = true;
}

void Strategy::run_replicas(const std::function<void(int)>& fn, int count) {
  if (t_strategy && get_replica_context()) {
    throw_failed_precondition("run() was called inside a replica; it must be called across replicas");
  }
  const int active = count < 0 ? num_replicas_in_sync() : std::min(count, num_replicas_in_sync());
  const int first = first_local_replica();
  const int share = std::clamp(active - first, 0, num_local_replicas());
  const bool idle = share == 0 && active > 0;
  const int n = idle ? 1 : share;
  ReplicaGroup group(std::max(n, 1));
  run_threads(fn, {this, &group, num_replicas_in_sync(), active, idle, false}, first, n);
}

void Strategy::run_alone(const std::function<void()>& fn) {
  if (t_strategy && get_replica_context()) return fn();
  ReplicaGroup group(1);
  run_threads([&](int) { fn(); }, {this, &group, 1, 1, false, true}, first_local_replica(), 1);
}

void Strategy::run_threads(const std::function<void(int)>& fn, const ReplicaRun& run, int first, int n) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(n));
  ops::FunctionDraws* const draws = ops::FunctionDraws::current();
  std::optional<ops::ReplicaSeeds> seeds;
  if (draws && n > 1) seeds.emplace(n);
  const auto replica = [&](int local) {
    const ops::ReplicaDraws own_draws(first + local, local, seeds ? &*seeds : nullptr);
    std::optional<ops::FunctionDraws::Call> call;
    if (draws && !ops::FunctionDraws::active()) call.emplace(*seeds);
    ReplicaContext context(run, first + local, local);
    const ScopedReplicaContext scoped(&context);
    Strategy* const previous = std::exchange(t_strategy, this);
    bool failed = false;
    try {
      fn(first + local);
    } catch (...) {
      errors[static_cast<std::size_t>(local)] = std::current_exception();
      failed = true;
    }
    ops::ReplicaDraws::meet();
    run.group->leave(failed);
    t_strategy = previous;
  };
  if (n == 1) {
    replica(0);
  } else if (n > 1) {
    const int threads = std::max(1, num_cores() / n);
    if (!pool_) pool_ = std::make_unique<Pool>(num_local_replicas() - 1);
    const int own_threads = ops::intra_op_threads();
    const auto memory = ops::current_memory_limit();
    pool_->run(n, [&](int local) {
      const ops::SharedMemoryLimit limit(memory);
      if (ops::intra_op_threads() != threads) ops::set_intra_op_threads(threads);
      const ops::PooledLoops loops(true);
      replica(local);
    });
    if (own_threads != threads) ops::set_intra_op_threads(own_threads);
  }
  std::exception_ptr consequence;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const Error& e) {
      if (e.code() != Code::kAborted) throw;  // the cause, not what followed from it
      consequence = error;
    } catch (const std::bad_function_call&) {
      throw_invalid_argument("strategy.run: an empty std::function was called; a function is expected");
    }
  }
  if (consequence) std::rethrow_exception(consequence);
}

Tensor reduce_values(ReduceOp op, const Tensors& values) {
  if (op == ReduceOp::kSum) {
    if (Tensor rows = ops::sum_of_slices(values); rows.defined()) return rows;
  }
  Tensor sum = values.size() == 1 ? values[0] : ops::call1("AddN", std::span<const Tensor>(values));
  if (op == ReduceOp::kSum) return sum;
  if (is_integer(sum.dtype()) || sum.dtype() == DType::kBool) {
    sum = ops::call1("Cast", {sum}, {{"DstT", DType::kFloat64}});
  }
  return ops::call1("RealDiv", {sum, Tensor::scalar(static_cast<double>(values.size()), sum.dtype())});
}

Tensor reduce_over_job(ReduceOp op, const Tensors& local, collectives::Communicator* workers, int count, bool idle) {
  if (!workers) return reduce_values(op, local);
  Tensor sum = reduce_values(ReduceOp::kSum, local);
  if (op == ReduceOp::kMean && (is_integer(sum.dtype()) || sum.dtype() == DType::kBool)) {
    sum = ops::call1("Cast", {sum}, {{"DstT", DType::kFloat64}});
  }
  Tensors sums{sum};
  collectives::sum(*workers, sums, {.idle = idle});
  if (op == ReduceOp::kSum) return sums[0];
  return ops::call1("RealDiv", {sums[0], Tensor::scalar(static_cast<double>(count), sums[0].dtype())});
}

Tensor concat_values(const Tensors& values, int axis) {
  if (values.size() == 1) return values[0];
  Tensors inputs = values;
  inputs.push_back(Tensor::scalar(static_cast<std::int32_t>(axis)));
  return ops::call1("ConcatV2", std::span<const Tensor>(inputs));
}

Tensor Strategy::reduce(ReduceOpArg op, const PerReplica<Tensor>& values, std::optional<int> axis) {
  if (values.size() != num_local_replicas()) {
    throw_invalid_argument(fmt::format("reduce: found {} values, expected one for each of {} replicas", values.size(),
                                       num_local_replicas()));
  }
  if (!axis) {
    for (const Tensor& value : values.values()) {
      if (!(value.shape() == values[0].shape())) {
        throw_invalid_argument(fmt::format("reduce: replicas hold shapes {} and {}; give an axis to reduce over it",
                                           values[0].shape().to_string(), value.shape().to_string()));
      }
    }
    return reduce_over_job(op, values.values(), communicator(), num_replicas_in_sync());
  }
  Tensors sums;
  std::int64_t count = 0;
  for (const Tensor& value : values.values()) {
    const int at = *axis < 0 ? *axis + value.rank() : *axis;
    if (at < 0 || at >= value.rank()) {
      throw_invalid_argument(
          fmt::format("reduce: axis {} is beyond a value of shape {}", *axis, value.shape().to_string()));
    }
    count += value.dim(at);
    sums.push_back(ops::call1("Sum", {value, Tensor::scalar(static_cast<std::int32_t>(at))}));
  }
  Tensor total = reduce_over_job(ReduceOp::kSum, sums, communicator(), num_replicas_in_sync());
  const Tensors counts{Tensor::scalar(count)};
  count = reduce_over_job(ReduceOp::kSum, counts, communicator(), num_replicas_in_sync()).item<std::int64_t>();
  if (op == ReduceOp::kSum) return total;
  if (is_integer(total.dtype())) total = ops::call1("Cast", {total}, {{"DstT", DType::kFloat64}});
  return ops::call1("RealDiv", {total, Tensor::scalar(static_cast<double>(count), total.dtype())});
}

Tensors Strategy::reduce(ReduceOpArg op, const PerReplica<Tensors>& values, std::optional<int> axis) {
  Tensors reduced;
  for (std::size_t i = 0; i < values[0].size(); ++i) {
    Tensors parts;
    for (const Tensors& list : values.values()) {
      if (list.size() != values[0].size()) {
        throw_invalid_argument(
            fmt::format("reduce: replicas hold {} and {} tensors, expected as many", values[0].size(), list.size()));
      }
      parts.push_back(list[i]);
    }
    reduced.push_back(reduce(op, PerReplica<Tensor>(std::move(parts)), axis));
  }
  return reduced;
}

Nested<Tensor> Strategy::reduce(ReduceOpArg op, const PerReplica<Nested<Tensor>>& values, std::optional<int> axis) {
  std::vector<Tensors> lists;
  for (const Nested<Tensor>& value : values.values()) lists.push_back(value.flatten());
  return values[0].pack(reduce(op, PerReplica<Tensors>(std::move(lists)), axis));
}

Tensors Strategy::experimental_local_results(const VariablePtr& variable) {
  Tensors values;
  for (int replica = 0; replica < variable->num_copies(); ++replica) values.push_back(variable->copy(replica));
  return values;
}
Tensor Strategy::reduce_one(ReduceOpArg op, const Tensor& value, std::optional<int> axis) {
  if (num_replicas_in_sync() != 1) {
    throw_invalid_argument(fmt::format(
        "reduce: found one tensor, expected the values of {} replicas, as run() returns them", num_replicas_in_sync()));
  }
  return reduce(op, PerReplica<Tensor>(Tensors{value}), axis);
}
Tensor Strategy::reduce(ReduceOpArg op, const VariablePtr& variable, std::optional<int> axis) {
  variable->require_made_under(*this);
  Tensors copies;
  for (int replica = 0; replica < num_local_replicas(); ++replica) copies.push_back(variable->copy(replica));
  return reduce(op, PerReplica<Tensor>(std::move(copies)), axis);
}

Tensor Strategy::gather(const PerReplica<Tensor>& values, int axis) {
  if (values[0].rank() == 0)
    throw_invalid_argument("gather: scalars have no axis to gather along; reshape them to (1,)");
  const Tensor local = concat_values(values.values(), axis);
  return communicator() ? concat_values(collectives::gather(*communicator(), local), axis) : local;
}

Nested<Tensor> Strategy::gather(const PerReplica<Nested<Tensor>>& values, int axis) {
  std::vector<Tensors> lists;
  for (const Nested<Tensor>& value : values.values()) lists.push_back(value.flatten());
  Tensors whole;
  for (std::size_t i = 0; i < lists[0].size(); ++i) {
    Tensors parts;
    for (const Tensors& list : lists) parts.push_back(list.at(i));
    whole.push_back(gather(PerReplica<Tensor>(std::move(parts)), axis));
  }
  return values[0].pack(whole);
}

std::string canonical_device(const std::string& device) {
  std::string text;
  for (const char c : device) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t slash = text.rfind('/');
  std::string last = slash == std::string::npos ? text : text.substr(slash + 1);
  if (last.starts_with("device:")) last = last.substr(7);
  const std::size_t colon = last.find(':');
  const std::string type = last.substr(0, colon);
  const std::string index = colon == std::string::npos ? "0" : last.substr(colon + 1);
  const bool digits = !index.empty() && index.size() < 5 &&
                      std::all_of(index.begin(), index.end(), [](unsigned char c) { return std::isdigit(c); });
  if ((type != "cpu" && type != "gpu") || !digits) {
    throw_invalid_argument(fmt::format("device '{}' is not understood; expected a name such as \"/cpu:0\"", device));
  }
  if (type == "gpu") throw_not_found(fmt::format("device '{}': this build runs on CPU devices only", device));
  return "/" + type + ":" + std::to_string(std::stoi(index));
}

OneDeviceStrategy::OneDeviceStrategy(const std::string& device)
    : Strategy(std::vector<std::string>{canonical_device(device)}) {}

namespace {

std::vector<std::string> checked_devices(std::vector<std::string> devices) {
  if (devices.empty()) throw_invalid_argument("MirroredStrategy: the list of devices is empty");
  std::set<std::string> seen;
  for (std::string& device : devices) {
    device = canonical_device(device);
    if (!seen.insert(device).second)
      throw_invalid_argument(fmt::format("MirroredStrategy: device '{}' is named twice", device));
  }
  return devices;
}

}  // namespace

MirroredStrategy::MirroredStrategy(std::vector<std::string> devices) : Strategy(checked_devices(std::move(devices))) {}

}  // namespace lockstep::distribute
