// What workers of a job say to each other: collectives over a fixed group of ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::collectives {

// A collective under way. Dropping it without wait() leaves the tensor it works on in an unknown state.
class Pending {
 public:
  virtual ~Pending() = default;
  // Returns when the result is there, at once when it was there before; throws what the collective would have thrown.
  virtual void wait() = 0;
};

// One tensor of a sum of several.
struct Addend {
  Tensor value;        // contiguous
  bool counts = true;  // else it stands for zeros of its shape
  bool ours = false;   // the sum may be written over it
};

// What ranks make together of a float32 addend's sum, each of the share that it adds. make(begin, count, piece):
// `piece` holds the sums of elements begin … begin+count-1; make replaces them by what they become, and writes that to
// `target` too, whose other elements come from the other ranks. `target` is contiguous, of the addend's shape. `make`
// must not hold what waits for it.
struct ShardedUpdate {
  Tensor target;
  std::function<void(std::int64_t begin, std::int64_t count, float* piece)> make;
};

// A sum of several tensors under way.
class PendingSum {
 public:
  virtual ~PendingSum() = default;
  // Only among ranks that share memory; every rank says so of the same addends, before it waits for this sum or a later
  // one.
  virtual void update(std::size_t addend, ShardedUpdate update);
  // Returns when this rank has made its share of the updates: nobody waits for this rank any more. wait() then waits
  // for the others.
  virtual void make_share() {}
  // The sums, in the order of the addends; undefined where an update was made of one. `targets`: where they may be put;
  // none, or contiguous tensors of the addends' shapes, some perhaps undefined. Sums are waited for in the order in
  // which they were begun.
  virtual Tensors wait(const Tensors& targets = {}) = 0;
};

// A group of workers, ranks 0 … size-1. Every rank makes the same calls in the same order, each from one thread at a
// time. Ranks may be processes (GlooCommunicator) or threads of one process (ThreadGroup, for tests).
//
// A worker that is lost, stopped or stuck never makes the others wait for ever: calls throw Unavailable (a worker is
// gone, or has said that it failed) or DeadlineExceeded (it lives but does not arrive in time), naming the worker. A
// group that has thrown one of these is broken: every later call throws the same at once.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "worker 1 (10.0.0.2:2222)".
  virtual std::string member_name(int rank) const = 0;

  // Adds the ranks' tensors elementwise, in place and in an order that is the same in every run. Floating and integer
  // dtypes; shapes must be equal on all ranks.
  virtual std::unique_ptr<Pending> all_reduce_async(const Tensor& value) = 0;
  void all_reduce(const Tensor& value) { all_reduce_async(value)->wait(); }
  // The same for tensors of one dtype that travel together; the addends are not written to, but for those that are
  // `ours`. The memory of the addends must stay as it is until the sum is there. Sums `aside` may be waited for after
  // others that were begun later.
  virtual std::unique_ptr<PendingSum> sum_async(std::vector<Addend> addends, bool aside = false);
  // Whether sums go through memory that all ranks see: one of several tensors costs no more than one of all of them
  // together.
  virtual bool shares_memory() const { return false; }
  // Memory that all ranks see, of zeros at first, while any of them holds it. Null on every rank where they do not
  // share memory or the machine has no room for it. Every rank calls it.
  virtual std::shared_ptr<std::byte> shared_memory(std::size_t bytes);
  // Each rank's bytes, by rank; sizes may differ.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  // Rank root's bytes, on every rank.
  virtual std::string broadcast(const std::string& bytes, int root) = 0;
  // Rank root's values into every rank's tensor, in place.
  virtual void broadcast(const Tensor& value, int root) = 0;
  // Returns when every rank has arrived.
  virtual void barrier() = 0;

  // Tells the others that this rank cannot go on, so that they throw Unavailable with `reason` instead of waiting.
  virtual void fail(const std::string& reason) noexcept = 0;
  // A group of the same ranks that may be used from another thread. Every rank calls it, with equal names.
  virtual std::shared_ptr<Communicator> duplicate(const std::string& name) = 0;
};

using CommunicatorPtr = std::shared_ptr<Communicator>;

// all_gather that makes sure the ranks mean the same: throws FailedPrecondition on every rank, naming two of them, when
// their programs have come to different calls. `what`: "the initial value of variable 'w'".
std::vector<std::string> labelled_gather(Communicator& group, const std::string& what, const std::string& bytes);

// Makes sure that all ranks hold the same facts ("version", "seed", …). Throws InvalidArgument on every rank where one
// differs from rank 0's, naming the fact, the worker and both values.
void require_equal(Communicator& group, const std::map<std::string, std::string>& facts);

}  // namespace lockstep::collectives
