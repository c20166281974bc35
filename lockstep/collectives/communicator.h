// Communication between the workers of a job: collectives over a fixed group of ranks.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::collectives {

class Pending;
class PendingSum;
struct Addend;
enum class Channel : bool;

// The dtype to which gradients are rounded for the transfer; they are added in this dtype too.
enum class Compression { kNone, kFloat16, kBFloat16 };

// A group of workers, ranks 0 … size-1. Every rank makes the same calls in the same order, each from one thread at a
// time. Ranks may be processes (join_job) or threads of one process (make_thread_group, for tests).
//
// If a worker is lost, stopped or stuck, calls on the others throw Unavailable (the worker is lost or has reported a
// failure) or DeadlineExceeded (it is alive but does not arrive in time), naming the worker. After one of these errors
// the group is broken: every later call throws the same error at once.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "worker 1 (10.0.0.2:2222)".
  virtual std::string member_name(int rank) const = 0;

  // All-reduce (sum) in place; the order of addition is the same in every run. Floating and integer dtypes; shapes must
  // be equal on all ranks.
  void all_reduce(const Tensor& value);
  // Each rank's bytes, by rank; sizes may differ.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  // The bytes of rank root, on every rank.
  virtual std::string broadcast(const std::string& bytes, int root) = 0;
  // Copies the values of rank root into the tensor of every rank.
  virtual void broadcast(const Tensor& value, int root) = 0;
  // Returns when every rank has arrived.
  virtual void barrier() = 0;

  // Reports that this rank cannot continue: the others throw Unavailable with `reason` instead of waiting.
  virtual void fail(const std::string& reason) noexcept = 0;
  // A group of the same ranks for use by another thread. Every rank calls it, with equal names.
  virtual std::shared_ptr<Communicator> duplicate(const std::string& name) = 0;

 protected:
  friend struct Transport;
  // See Transport (pending_internal.h).
  virtual std::unique_ptr<Pending> all_reduce_async(const Tensor& value) = 0;
  virtual std::unique_ptr<PendingSum> sum_async(std::vector<Addend> addends, Channel channel);
  virtual bool shares_memory() const { return false; }
  virtual std::shared_ptr<std::byte> shared_memory(std::size_t bytes);
};

using CommunicatorPtr = std::shared_ptr<Communicator>;

// all_gather with a check that all ranks make the same call: throws FailedPrecondition on every rank, naming two ranks,
// if their programs have reached different calls. `what`: "the initial value of variable 'w'".
std::vector<std::string> labelled_gather(Communicator& group, const std::string& what, const std::string& bytes);

// Checks that all ranks have the same facts ("version", "seed", …). Throws InvalidArgument on every rank if one differs
// from rank 0's, naming the fact, the worker and both values.
void require_equal(Communicator& group, const std::map<std::string, std::string>& facts);

}  // namespace lockstep::collectives
