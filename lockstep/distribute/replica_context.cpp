#include "lockstep/distribute/replica_context.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/replica_group_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/list_sums_internal.h"

namespace lockstep::distribute {
namespace {

thread_local ReplicaContext* t_context = nullptr;

void check_alike(const Tensors& values) {
  for (const Tensor& value : values) {
    if (!(value.shape() == values[0].shape()) || value.dtype() != values[0].dtype()) {
      throw_invalid_argument(fmt::format("all_reduce: replicas gave {}{} and {}{}; shapes and dtypes must be equal",
                                         dtype_name(values[0].dtype()), values[0].shape().to_string(),
                                         dtype_name(value.dtype()), value.shape().to_string()));
    }
  }
}

}  // namespace

void ReplicaGroup::meet(int replica, void* slot, std::type_index type,
                        const std::function<void(const std::vector<void*>&)>& combine) {
  ops::ReplicaDraws::meet();
  std::unique_lock lock(mutex_);
  const auto check = [&] {
    if (failed_) throw_error(Code::kAborted, fmt::format("replica {}: another replica failed", replica));
    if (left_ > 0) {
      throw_failed_precondition(fmt::format(
          "replica {}: the replicas made different numbers of collective calls ({} of {} replicas have ended)", replica,
          left_, size_));
    }
  };
  check();
  const std::uint64_t round = round_;
  if (waiting_ == 0) {
    type_ = type;
    alike_ = true;
  }
  alike_ = alike_ && type == type_;
  slots_[static_cast<std::size_t>(replica)] = slot;
  if (++waiting_ == size_) {
    error_ = nullptr;
    try {
      if (!alike_) throw_failed_precondition("the replicas made different collective calls");
      combine(slots_);
    } catch (...) {
      error_ = std::current_exception();
    }
    waiting_ = 0;
    ++round_;
    arrived_.notify_all();
  } else {
    arrived_.wait(lock, [&] { return round_ != round || left_ > 0; });
    if (round_ == round) {
      --waiting_;
      check();
    }
  }
  if (error_) std::rethrow_exception(error_);
}

void ReplicaGroup::leave(bool failed) {
  const std::lock_guard lock(mutex_);
  ++left_;
  failed_ = failed_ || failed;
  arrived_.notify_all();
}

int ReplicaContext::num_local_replicas() const { return run_.group ? run_.group->size() : 1; }

Tensor ReplicaContext::all_reduce(ReduceOpArg op, const Tensor& value) {
  return all_reduce(op, Tensors{value}).front();
}

ReduceOpArg::ReduceOpArg(const char* name) {
  const std::string_view word = name;
  const bool mean = word == "MEAN" || word == "mean";
  if (!mean && word != "SUM" && word != "sum")
    throw_invalid_argument(fmt::format("invalid reduce_op '{}': expected \"SUM\" or \"MEAN\"", word));
  op_ = mean ? ReduceOp::kMean : ReduceOp::kSum;
}

Tensors ReplicaContext::all_reduce(ReduceOpArg op, const Tensors& values) {
  if (!run_.group || run_.num_replicas == 1) return values;
  Tensors cut;
  for (const Tensor& value : values) cut.push_back(ops::requires_grad(value) ? ops::detach(value) : value);
  Tensors reduced = reduce_values_of_all(op, cut);
  if (!ops::grad_enabled()) return reduced;
  for (std::size_t i = 0; i < values.size(); ++i) {
    reduced[i] = ops::with_adjoint(values[i], reduced[i],
                                   [this, op](const Tensor& gradient) { return all_reduce(op, gradient); });
  }
  return reduced;
}

Tensors ReplicaContext::reduce_values_of_all(ReduceOp op, const Tensors& values) {
  return exchange<Tensors>(values, false, [op, this](const std::vector<Tensors>& lists) {
    Tensors reduced;
    for (std::size_t i = 0; i < lists[0].size(); ++i) {
      Tensors parts;
      for (const Tensors& list : lists) {
        if (list.size() != lists[0].size())
          throw_invalid_argument("all_reduce: replicas gave different numbers of tensors");
        parts.push_back(list[i]);
      }
      check_alike(parts);
      reduced.push_back(combine(op, parts));
    }
    return reduced;
  });
}

Tensor ReplicaContext::all_gather(const Tensor& value, int axis) {
  if (!run_.group || run_.num_replicas == 1) return value;
  const Tensor gathered = gather_values_of_all(ops::requires_grad(value) ? ops::detach(value) : value, axis);
  if (!ops::grad_enabled()) return gathered;
  // As in TensorFlow: the sum of the gradients of all replicas, of which each takes its own part.
  return ops::with_adjoint(value, gathered, [this, axis, own = value.dim(axis)](const Tensor& gradient) {
    const Tensor sum = all_reduce(ReduceOp::kSum, gradient);
    const std::vector<std::int64_t> parts = gather_values_of_all(Tensor{own}, 0).to_vector<std::int64_t>();
    const auto before = parts.begin() + (run_.alone ? local_replica_ : replica_id_);
    const std::int64_t first = std::accumulate(parts.begin(), before, std::int64_t{0});
    std::vector<std::int64_t> places(static_cast<std::size_t>(own));
    std::iota(places.begin(), places.end(), first);
    return ops::gather(sum, Tensor::from_vector(places), axis);
  });
}

Tensor ReplicaContext::gather_values_of_all(const Tensor& value, int axis) {
  return exchange<Tensor>(value, false, [axis, this](const Tensors& parts) {
    const Tensor local = concat_values(parts, axis);
    collectives::Communicator* const workers = run_.alone ? nullptr : run_.strategy->communicator();
    if (!workers) return local;
    Tensors all;
    for (Tensor& part : collectives::gather(*workers, run_.idle ? Tensor() : local)) {
      if (part.defined()) all.push_back(std::move(part));
    }
    return concat_values(all, axis);
  });
}

void ReplicaContext::exchange_slots(void* own, std::type_index type, bool across,
                                    const std::function<void(const std::vector<void*>&)>& combine) {
  const auto run = [&](const std::vector<void*>& slots) {
    const ScopedReplicaContext context(across ? nullptr : t_context);
    combine(slots);
  };
  if (!run_.group) return run({own});
  run_.group->meet(local_replica_, own, type, run);
}

Tensor ReplicaContext::combine(ReduceOp op, const Tensors& local) const {
  collectives::Communicator* const workers = run_.alone || !run_.strategy ? nullptr : run_.strategy->communicator();
  return reduce_over_job(op, local, workers, run_.active, run_.idle);
}

Tensors ReplicaContext::sum_lists(const std::vector<const Tensors*>& local) const {
  for (const Tensors* const list : local) {
    if (list->size() != local[0]->size())
      throw_invalid_argument(fmt::format("replicas gave {} and {} tensors to add", local[0]->size(), list->size()));
  }
  Tensors sums = ops::sum_lists(local);
  collectives::Communicator* const workers = run_.alone || !run_.strategy ? nullptr : run_.strategy->communicator();
  if (workers) collectives::sum(*workers, sums, {.idle = run_.idle});
  return sums;
}

void CurrentReplicaContext::throw_none() {
  throw_failed_precondition(
      "get_replica_context: this thread is in cross-replica context, as in strategy.scope(); call it in a function "
      "that strategy.run runs");
}

CurrentReplicaContext get_replica_context() {
  static const ReplicaRun nothing;
  static thread_local ReplicaContext default_context(nothing, 0, 0);
  if (t_context) return t_context;
  return Strategy::current() ? nullptr : &default_context;
}

bool in_cross_replica_context() { return get_replica_context() == nullptr; }

int current_local_replica() { return t_context ? t_context->local_replica() : 0; }

ScopedReplicaContext::ScopedReplicaContext(ReplicaContext* context) : previous_(t_context) { t_context = context; }
ScopedReplicaContext::~ScopedReplicaContext() { t_context = previous_; }

}  // namespace lockstep::distribute
