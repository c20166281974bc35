#include "lockstep/distribute/replica_context.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/replica_group_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"

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

std::any ReplicaGroup::meet(int replica, std::any value,
                            const std::function<std::any(std::vector<std::any>&)>& combine) {
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
  inputs_[static_cast<std::size_t>(replica)] = std::move(value);
  if (++waiting_ == size_) {
    error_ = nullptr;
    try {
      const std::any& first = inputs_[0];
      if (!std::ranges::all_of(inputs_, [&](const std::any& input) { return input.type() == first.type(); }))
        throw_failed_precondition("the replicas made different collective calls");
      output_ = combine(inputs_);
    } catch (...) {
      error_ = std::current_exception();
    }
    for (std::any& input : inputs_) input.reset();
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
  return output_;
}

void ReplicaGroup::leave(bool failed) {
  const std::lock_guard lock(mutex_);
  ++left_;
  failed_ = failed_ || failed;
  arrived_.notify_all();
}

int ReplicaContext::num_local_replicas() const { return run_.group ? run_.group->size() : 1; }

Tensor ReplicaContext::all_reduce(ReduceOp op, const Tensor& value) { return all_reduce(op, Tensors{value}).front(); }

Tensors ReplicaContext::all_reduce(ReduceOp op, const Tensors& values) {
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
  const std::any result =
      run_.group->meet(local_replica_, values, [op, this](std::vector<std::any>& inputs) -> std::any {
        std::vector<const Tensors*> lists;
        for (const std::any& input : inputs) lists.push_back(std::any_cast<Tensors>(&input));
        Tensors reduced;
        for (std::size_t i = 0; i < lists[0]->size(); ++i) {
          Tensors parts;
          for (const Tensors* list : lists) {
            if (list->size() != lists[0]->size())
              throw_invalid_argument("all_reduce: replicas gave different numbers of tensors");
            parts.push_back((*list)[i]);
          }
          check_alike(parts);
          reduced.push_back(combine(op, parts));
        }
        return reduced;
      });
  return std::any_cast<Tensors>(result);
}

Tensor ReplicaContext::all_gather(const Tensor& value, int axis) {
  if (!run_.group || run_.num_replicas == 1) return value;
  const std::any result =
      run_.group->meet(local_replica_, value, [axis, this](std::vector<std::any>& inputs) -> std::any {
        Tensors parts;
        for (const std::any& input : inputs) parts.push_back(std::any_cast<Tensor>(input));
        const Tensor local = concat_values(parts, axis);
        collectives::Communicator* const workers = run_.alone ? nullptr : run_.strategy->communicator();
        if (!workers) return local;
        Tensors all;
        for (Tensor& part : collectives::gather(*workers, run_.idle ? Tensor() : local)) {
          if (part.defined()) all.push_back(std::move(part));
        }
        return concat_values(all, axis);
      });
  return std::any_cast<Tensor>(result);
}

std::any ReplicaContext::merge_call(const std::function<std::any(std::vector<std::any>&)>& fn, std::any argument) {
  const auto across = [&](std::vector<std::any>& arguments) {
    const ScopedReplicaContext cross(nullptr);
    return fn(arguments);
  };
  if (!run_.group) {
    std::vector<std::any> arguments{std::move(argument)};
    return across(arguments);
  }
  return run_.group->meet(local_replica_, std::move(argument), across);
}

Tensor ReplicaContext::combine(ReduceOp op, const Tensors& local) const {
  collectives::Communicator* const workers = run_.alone || !run_.strategy ? nullptr : run_.strategy->communicator();
  return reduce_over_job(op, local, workers, run_.active, run_.idle);
}

Tensors ReplicaContext::sum_lists(const std::vector<const Tensors*>& local) const {
  Tensors sums;
  for (std::size_t i = 0; i < local[0]->size(); ++i) {
    Tensors parts;
    for (const Tensors* list : local) {
      if (list->size() != local[0]->size()) {
        throw_invalid_argument(fmt::format("replicas gave {} and {} tensors to add", local[0]->size(), list->size()));
      }
      if ((*list)[i].defined()) parts.push_back((*list)[i]);
    }
    sums.push_back(parts.empty() ? Tensor() : reduce_values(ReduceOp::kSum, parts));
  }
  collectives::Communicator* const workers = run_.alone || !run_.strategy ? nullptr : run_.strategy->communicator();
  if (workers) collectives::sum(*workers, sums, {.idle = run_.idle});
  return sums;
}

ReplicaContext* get_replica_context() {
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
