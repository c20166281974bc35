// Stateful random operations in functions of datasets and in tf.function.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/ops/philox_internal.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

class ReplicaSeeds;

// The states of the stateful random operations of a function. In TensorFlow each operation is a node with its own
// state, which begins at its seeds for each iterator of a dataset and for each tf.function; outside of functions,
// operations with the same seeds share a state. Here the n-th operation of a call with the same name, attributes and
// seeds is one node.
class FunctionDraws {
 public:
  // restore() takes what save() gave; it throws InvalidArgument for something else.
  Json save() const;
  void restore(const Json& state);
  bool empty() const;  // none of its calls has drawn

  // A call on this thread. The operations of a call within another one are nodes of the outermost function, others for
  // each call, as TensorFlow expands functions; but not those of a call apart.
  enum class Nesting { kExpanded, kApart };
  class Call {
   public:
    explicit Call(FunctionDraws& draws, Nesting nesting = Nesting::kExpanded);
    // Of a replica on a thread of its own, in the call that made `seeds`.
    explicit Call(ReplicaSeeds& seeds);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend class FunctionDraws;
    friend class LoopDraws;
    friend class ReplicaSeeds;
    Call* const before_;    // on this thread
    Call* const outer_;     // null: this is the outermost one
    FunctionDraws& draws_;  // of the outermost call
    std::string path_;
    int inner_calls_ = 0, runs_ = 0;
    std::int64_t without_seed_ = 0;
    ReplicaSeeds* seeds_ = nullptr;                                             // while replicas run
    std::map<std::tuple<std::string, std::int64_t, std::int64_t>, int> nodes_;  // so far, by name and seeds
  };
  static bool active() { return current() != nullptr; }
  // Those of the outermost call on this thread; null outside of calls.
  static FunctionDraws* current();
  static Call* current_call();
  // The seed of an operation of the current call that has none: how many of these came before, in the order in which
  // TensorFlow traces replicas.
  static std::int64_t next_seed();
  // Where an operation of the current call draws, which uses so many blocks.
  static PhiloxState advance(const std::string& operation, std::int64_t seed, std::int64_t seed2, std::uint64_t blocks);
  // What Python's generator draws in a function: TensorFlow calls it while it traces the function, so later calls use
  // the numbers of the first one. Outside of functions, a number of its own each time.
  static std::int64_t traced(const std::function<std::int64_t()>& draw);

 private:
  friend class ReplicaSeeds;
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, PhiloxState> states_;
  std::map<std::string, std::int64_t> traced_;
  // How many operations without a seed a replica has between two meetings, by the place of the run in the function.
  std::map<std::string, std::vector<std::int64_t>> replica_counts_;
};

// A loop in a function, which TensorFlow traces as a function of its own: the operations of its body are the same nodes
// in each iteration, and their states continue. Outside of functions it only calls the body.
class LoopDraws {
 public:
  LoopDraws();
  template <typename Body>
  auto iteration(const Body& body) {
    begin();
    const EndOfIteration end{*this};
    return body();
  }
  void begin();
  void end() { iteration_.reset(); }

 private:
  struct EndOfIteration {
    ~EndOfIteration() { draws.end(); }
    LoopDraws& draws;
  };
  FunctionDraws::Call* const call_;
  const int place_;  // among the inner calls
  std::optional<FunctionDraws::Call> iteration_;
};
// The same of `for (const Tensor& row : x)` in a function; null outside of functions.
std::shared_ptr<TensorRows::Loop> loop_in_function();

// The seeds of operations without a seed in the replicas of one run() in a function. TensorFlow traces the replicas one
// after the other, each up to the point where all of them meet, so that each has operations of its own. Replicas run
// the same function: how many such operations it has is known once the first one has met the others, and for later
// calls.
class ReplicaSeeds {
 public:
  // In the current call.
  explicit ReplicaSeeds(int replicas);
  ~ReplicaSeeds();
  ReplicaSeeds(const ReplicaSeeds&) = delete;
  ReplicaSeeds& operator=(const ReplicaSeeds&) = delete;

 private:
  friend class FunctionDraws;
  friend class ReplicaDraws;
  std::int64_t next(int replica);
  void meet(int replica);

  FunctionDraws::Call& call_;
  const std::string path_;
  std::vector<std::int64_t>& known_;  // of earlier calls
  const std::int64_t start_;
  struct Place {
    std::size_t segment = 0;
    std::int64_t drawn = 0;
  };
  std::mutex mutex_;
  std::condition_variable met_;
  std::vector<Place> places_;         // by replica
  std::vector<std::int64_t> counts_;  // of the segments that the first replica has ended
};

// The states of the traces of a function, by what they were made for. Where it reduces retracing, calls with other
// shapes than the first one share a trace.
class TracedDraws {
 public:
  explicit TracedDraws(bool reduce_retracing = false) : reduces_(reduce_retracing) {}
  void reduce_retracing() { reduces_ = true; }
  FunctionDraws& of(const std::string& exact, const std::string& without_shapes);

 private:
  std::mutex mutex_;
  bool reduces_;
  std::map<std::string, std::string> first_;  // exact keys, by those without shapes
  std::map<std::string, FunctionDraws> draws_;
};

// Seeds drawn from the system where both are zero.
PhiloxState philox_of_op_seeds(std::int64_t seed, std::int64_t seed2);

// The replica whose operations run on this thread: nodes of replicas are not the same.
class ReplicaDraws {
 public:
  // `local`: its number among the replicas of this worker, which share `seeds`; these may be null.
  explicit ReplicaDraws(int replica, int local, ReplicaSeeds* seeds);
  ~ReplicaDraws();
  ReplicaDraws(const ReplicaDraws&) = delete;
  ReplicaDraws& operator=(const ReplicaDraws&) = delete;

  // The replica of this thread meets the others, or ends.
  static void meet();
  // The number of the device on which it runs, 0 outside of replicas.
  static int device();

 private:
  int outer_, outer_local_;
  ReplicaSeeds* outer_seeds_;
};

}  // namespace lockstep::ops
