// Stateful random operations in functions of datasets and in tf.function.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "lockstep/base/json.h"
#include "lockstep/ops/philox_internal.h"

namespace lockstep::ops {

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
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend class FunctionDraws;
    Call* const before_;    // on this thread
    Call* const outer_;     // null: this is the outermost one
    FunctionDraws& draws_;  // of the outermost call
    std::string path_;
    int inner_calls_ = 0;
    std::int64_t without_seed_ = 0;
    std::map<std::tuple<std::string, std::int64_t, std::int64_t>, int> nodes_;  // so far, by name and seeds
  };
  static bool active() { return current() != nullptr; }
  // Those of the outermost call on this thread; null outside of calls.
  static FunctionDraws* current();
  // The seed of an operation of the current call that has none: how many of these came before.
  static std::int64_t next_seed();
  // Where an operation of the current call draws, which uses so many blocks.
  static PhiloxState advance(const std::string& operation, std::int64_t seed, std::int64_t seed2, std::uint64_t blocks);

 private:
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, PhiloxState> states_;
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
  explicit ReplicaDraws(int replica);
  ~ReplicaDraws();
  ReplicaDraws(const ReplicaDraws&) = delete;
  ReplicaDraws& operator=(const ReplicaDraws&) = delete;

 private:
  int outer_;
};

}  // namespace lockstep::ops
