// One step of training or evaluation, spread over the replicas of a strategy.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/gradient_sums_internal.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"
#include "lockstep/keras/trainer/all_reduce_steps_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/list_sums_internal.h"
#include "lockstep/ops/slices_internal.h"
#include "lockstep/random/batch_slice.h"

namespace lockstep::keras {

namespace {

Tensor sum_over_replicas(const Tensor& value) {
  distribute::ReplicaContext* const context = distribute::get_replica_context();
  if (!context || context->num_replicas_in_sync() == 1) return value;
  return context->all_reduce(distribute::ReduceOp::kSum, value);
}

// A loss of a replica's rows, divided by what the whole batch of `all_rows` divides by; the replicas ask each other
// if that is not known.
Tensor share_of_loss(losses::Reduced reduced, std::optional<std::int64_t> all_rows) {
  if (reduced.per_row > 0 && all_rows) {
    reduced.denominator =
        Tensor::full(Shape({}), reduced.per_row * static_cast<double>(*all_rows), reduced.denominator.dtype());
  } else if (reduced.denominator.defined()) {
    reduced.denominator = sum_over_replicas(ops::detach(reduced.denominator));
  }
  return losses::Loss::finish(reduced);
}

// A term of add_loss(), summed as Keras does, of which a replica takes its share.
Tensor share_of_added(const Tensor& term, double share) {
  Tensor loss = is_floating(term.dtype()) ? term : ops::cast(term, DType::kFloat32);
  if (loss.rank() > 0) loss = ops::reduce_sum(loss);
  return share == 1.0 ? loss : loss * share;
}

// A replica's rows, which begin at `offset`, with those of the others. Rows of zeros are added up, so that it works
// across workers, and an idle one, and is differentiable.
Tensor gather_rows(const Tensor& rows, std::int64_t offset, std::int64_t all) {
  std::vector<std::pair<std::int64_t, std::int64_t>> around(static_cast<std::size_t>(rows.rank()), {0, 0});
  around[0] = {offset, all - offset - rows.dim(0)};
  return sum_over_replicas(ops::pad(rows, around));
}

// The structure of the first part with the rows of all parts.
Structure concat_rows(const std::vector<const Structure*>& parts) {
  if (parts.size() == 1) return *parts[0];
  std::vector<Tensors> leaves;
  for (const Structure* part : parts) leaves.push_back(part->flatten());
  Tensors joined;
  for (std::size_t i = 0; i < leaves[0].size(); ++i) {
    Tensors rows, masks, logits;
    for (const Tensors& part : leaves) {
      rows.push_back(part[i]);
      masks.push_back(part[i].mask());
      logits.push_back(part[i].logits());
    }
    Tensor whole = ops::concat(rows, 0);
    if (masks[0].defined()) whole.set_mask(ops::concat(masks, 0));
    if (logits[0].defined()) whole.set_logits(ops::concat(logits, 0));
    joined.push_back(std::move(whole));
  }
  return parts[0]->pack(joined);
}

Structure detached(const Structure& structure) {
  return structure.map([](const Tensor& leaf) {
    if (!leaf.defined() || !ops::requires_grad(leaf)) return leaf;
    Tensor cut = ops::detach(leaf);
    if (const Tensor mask = leaf.mask(); mask.defined()) cut.set_mask(mask);
    if (const Tensor logits = leaf.logits(); logits.defined()) cut.set_logits(ops::detach(logits));
    return cut;
  });
}

}  // namespace

// Calls step(local replica, its rows, the first row's number) for each of this worker's replicas that gets rows of the
// batch. The last replicas are left out of a batch with fewer rows than replicas; a worker whose replicas all are runs
// the first row along, idle.
void AllReduceSteps::spread(const Batch& batch,
                            const std::function<void(std::size_t, const Batch&, std::int64_t)>& step,
                            const std::function<void(std::size_t)>& prepare) {
  const Share share = share_of(batch);
  const Json metrics_before = share.idle() ? session_.save_layer_metrics() : Json(nullptr);
  prepare(std::max<std::size_t>(share.ranges.size(), 1));
  const auto replica_step = [&](std::size_t local) {
    const distribute::RowRange range =
        share.idle() ? distribute::RowRange{0, std::min<std::int64_t>(1, batch_rows(batch))} : share.ranges[local];
    step(local, batch_slice(batch, range.begin, range.end), range.begin);
  };
  if (!one_replica()) {
    session_.strategy->run_replicas(
        [&](int) { replica_step(static_cast<std::size_t>(distribute::current_local_replica())); }, share.replicas);
  } else {
    replica_step(0);
  }
  if (share.idle()) session_.restore_layer_metrics(metrics_before);
}

bool AllReduceSteps::one_replica() const {
  return !session_.strategy || session_.strategy->num_replicas_in_sync() == 1;
}

AllReduceSteps::Share AllReduceSteps::share_of(const Batch& batch) const {
  const std::int64_t rows = one_replica() ? first_rows(batch) : batch_rows(batch);
  const int all = session_.strategy ? session_.strategy->num_replicas_in_sync() : 1;
  Share share;
  share.replicas = static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(rows, 1), all));
  const auto ranges = distribute::split_rows(rows, share.replicas);
  const int first = session_.strategy ? session_.strategy->first_local_replica() : 0;
  const int local = session_.strategy ? session_.strategy->num_local_replicas() : 1;
  for (int id = first; id < std::min(first + local, share.replicas); ++id)
    share.ranges.push_back(ranges[static_cast<std::size_t>(id)]);
  return share;
}

// The model's losses of `part`, which is rows offset … of `whole`. Each loss is divided by the denominator of the
// whole batch, and terms that belong to no sample (weight penalties, add_loss) count by the part's share of the
// rows, so the replicas' losses and gradients add up to those of one replica.
AllReduceSteps::StepOutput AllReduceSteps::forward_loss(const Batch& part, const Batch& whole, std::int64_t offset,
                                                        bool training) {
  ModelImpl& model = session_.model;
  const std::int64_t rows = batch_rows(part), all_rows = batch_rows(whole);
  const random::BatchSlice slice(offset, rows, all_rows);
  model.clear_losses();
  StepOutput out;
  out.y_pred = session_.forward(part.x, training);
  session_.compiled->resolve(session_.output_names(), part.y, out.y_pred);
  const int replicas = share_of(whole).replicas;
  const WholeBatch mixed{whole.y, whole.sample_weight,
                         [&](const Tensor& mine) { return gather_rows(mine, offset, all_rows); }};
  const auto parts =
      session_.compiled->loss_parts(part.y, out.y_pred, part.sample_weight, replicas > 1 ? &mixed : nullptr);
  Tensors values;
  for (const LossPart& item : parts) {
    const bool of_whole = item.of_whole_batch;
    values.push_back(of_whole ? losses::Loss::finish(item.reduced) / static_cast<double>(replicas)
                              : share_of_loss(item.reduced, all_rows));
    const double counted = static_cast<double>(of_whole ? all_rows : rows);
    if (const Tensor& value = values.back(); value.rank() > 0 && rows > 0)
      out.numbers_per_row = std::max(out.numbers_per_row, static_cast<double>(value.num_elements()) / counted);
  }
  const double numbers = out.numbers_per_row * static_cast<double>(all_rows);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Tensor value = values[i];
    const bool unreduced = value.rank() > 0;
    const double own = unreduced ? static_cast<double>(value.num_elements()) *
                                       (parts[i].of_whole_batch || rows == 0
                                            ? 1.0
                                            : static_cast<double>(all_rows) / static_cast<double>(rows))
                                 : 1.0;
    if (unreduced) value = ops::reduce_sum(value);
    out.output_losses.push_back(ops::detach(value).item<double>() / std::max(own, 1.0));
    if (!unreduced && numbers > 0) value = value * numbers;  // Keras adds it to each of the numbers of the others
    if (parts[i].weight != 1.0) value = value * parts[i].weight;
    out.loss = out.loss.defined() ? out.loss + value : value;
  }
  double share = all_rows > 0 ? static_cast<double>(rows) / static_cast<double>(all_rows) : 1.0;
  if (out.numbers_per_row > 0) share = out.numbers_per_row * static_cast<double>(rows);  // added to each of the numbers
  for (const Tensor& extra : model.losses()) {
    const Tensor term = share_of_added(extra, share);
    out.loss = out.loss.defined() ? out.loss + ops::cast(term, out.loss.dtype()) : term;
  }
  return out;
}

std::unique_ptr<collectives::GradientSum> AllReduceSteps::gradient_sum(const Batch& batch, std::size_t count) const {
  return session_.strategy ? distribute::GradientSums::begin(*session_.strategy, count, share_of(batch).idle())
                           : nullptr;
}

void AllReduceSteps::throw_no_loss() {
  throw_invalid_argument("training requires a loss: compile the model with a loss, or add one in a layer (add_loss)");
}

// With one replica per worker, `sum` receives gradients as they are computed.
Tensors AllReduceSteps::train_replicas(const Batch& batch, std::vector<StepOutput>& outputs,
                                       collectives::GradientSum* sum) {
  const auto variables = session_.model.trainable_weights();
  std::vector<Tensors> gradients;
  GradientTape::Ready ready;
  if (sum && session_.strategy->num_local_replicas() == 1)
    ready = [sum](std::size_t i, const Tensor& gradient) { sum->ready(i, gradient); };
  const auto replica_step = [&](std::size_t replica, const Batch& part, std::int64_t offset) {
    const ops::ScopedPoolFusion fused;  // only variables' gradients are requested
    GradientTape tape;
    tape.watch_trained_only();
    StepOutput& out = outputs[replica];
    out = forward_loss(part, batch, offset, true);
    if (!out.loss.defined()) {
      throw_no_loss();
    }
    if (!variables.empty())
      gradients[replica] = tape.gradient(session_.optimizer->scale_loss(out.loss), variables, {}, ready);
    tape.end_recording();
    out.loss = ops::detach(out.loss);
    out.y_pred = detached(out.y_pred);
  };
  spread(batch, replica_step, [&](std::size_t count) {
    outputs.resize(count);
    gradients.resize(count);
  });
  return sum_replicas(gradients);
}

Tensors AllReduceSteps::sum_replicas(std::vector<Tensors>& gradients) {
  if (gradients.size() == 1) return std::move(gradients[0]);
  std::vector<const Tensors*> lists;
  for (const Tensors& list : gradients) lists.push_back(&list);
  Tensors sums = ops::sum_lists(lists);
  gradients.clear();
  return sums;
}

void AllReduceSteps::test_replicas(const Batch& batch, std::vector<StepOutput>& outputs) {
  spread(
      batch,
      [&](std::size_t replica, const Batch& part, std::int64_t offset) {
        outputs[replica] = forward_loss(part, batch, offset, false);
      },
      [&](std::size_t count) { outputs.resize(count); });
}

// The combined results of the replicas, and then of the workers.
AllReduceSteps::StepOutput AllReduceSteps::join(const Batch& batch, const std::vector<StepOutput>& outputs,
                                                Tensors& gradients, collectives::GradientSum* sum,
                                                const Updates& updates) {
  StepOutput whole;
  whole.output_losses.assign(outputs[0].output_losses.size(), 0.0);
  std::vector<const Structure*> predictions;
  for (const StepOutput& out : outputs) {
    if (out.loss.defined()) whole.total_loss += out.loss.item<double>();
    whole.numbers_per_row = std::max(whole.numbers_per_row, out.numbers_per_row);
    for (std::size_t i = 0; i < whole.output_losses.size(); ++i) whole.output_losses[i] += out.output_losses[i];
    predictions.push_back(&out.y_pred);
  }
  whole.y_pred = concat_rows(predictions);
  session_.preempted = session_.preemption.requested();
  if (sum) join_workers(batch, whole, gradients, *sum, updates);
  return whole;
}

Results AllReduceSteps::finish_step(const Batch& batch, const StepOutput& whole) {
  const std::int64_t rows = batch_rows(batch);
  const double numbers = whole.numbers_per_row > 0 ? whole.numbers_per_row * static_cast<double>(rows) : 1.0;
  const auto update = [&] {
    session_.compiled->update(batch.y, whole.y_pred, batch.sample_weight, whole.total_loss / numbers,
                              whole.output_losses, rows);
  };
  // Metrics take the whole batch at once, in one replica: their sums over replicas are then those of one.
  session_.run_alone(update);
  return session_.metric_results();
}

namespace {

bool in_one_of_several_replicas() {
  const distribute::ReplicaContext* const context = distribute::get_replica_context();
  return context && context->num_replicas_in_sync() > 1;
}

}  // namespace

Results AllReduceSteps::train_step(const Batch& batch) {
  session_.require_compiled("train");
  if (own_rows_ > 0 || in_one_of_several_replicas()) return step_of_replica(batch, true);
  std::vector<StepOutput> outputs;
  const auto sum = gradient_sum(batch, session_.model.trainable_weights().size());
  Tensors gradients = train_replicas(batch, outputs, sum.get());
  std::optional<optimizers::ShardedStep> sharded;
  if (sum && !gradients.empty())
    sharded = optimizers::StepAccess::shard(*session_.optimizer, session_.strategy->workers(), *sum, gradients,
                                            session_.model.trainable_weights());
  const StepOutput whole = join(batch, outputs, gradients, sum.get(), sharded ? sharded->updates : Updates());
  session_.optimizer->set_keras2_rules(session_.model.keras_version() < 3);
  if (sharded) {
    sharded->commit(gradients, whole.others);
  } else if (!gradients.empty()) {
    session_.optimizer->apply_aggregated(std::move(gradients), session_.model.trainable_weights());
  }
  return finish_step(batch, whole);
}

Results AllReduceSteps::test_step(const Batch& batch) {
  session_.require_compiled("evaluate");
  if (own_rows_ > 0 || in_one_of_several_replicas()) return step_of_replica(batch, false);
  std::vector<StepOutput> outputs;
  test_replicas(batch, outputs);
  Tensors none;
  return finish_step(batch, join(batch, outputs, none, gradient_sum(batch, 0).get()));
}

Structure AllReduceSteps::predict_step(const Batch& batch) {
  const auto step = [this](const Batch& part) { return session_.forward(part.x, false); };
  return in_one_of_several_replicas() ? step(batch) : predict_in_replicas(batch, step);
}

Structure AllReduceSteps::predict_in_replicas(const Batch& batch, const std::function<Structure(const Batch&)>& step) {
  std::vector<Structure> parts;
  spread(
      batch, [&](std::size_t replica, const Batch& part, std::int64_t) { parts[replica] = step(part); },
      [&](std::size_t count) { parts.resize(count); });
  std::vector<const Structure*> pointers;
  for (const Structure& part : parts) pointers.push_back(&part);
  StepOutput whole;
  whole.y_pred = concat_rows(pointers);
  Tensors none;
  if (const auto sum = gradient_sum(batch, 0)) join_workers(batch, whole, none, *sum);
  return whole.y_pred;
}

Tensor AllReduceSteps::compute_loss(const Structure& y, const Structure& y_pred, const Structure& sample_weight) {
  session_.require_compiled("compute_loss");
  session_.compiled->resolve(session_.output_names(), y, y_pred);
  Tensor loss;
  for (const LossPart& item : session_.compiled->loss_parts(y, y_pred, sample_weight)) {
    Tensor value = share_of_loss(item.reduced, std::nullopt);
    if (item.weight != 1.0) value = value * item.weight;
    loss = loss.defined() ? loss + value : value;
  }
  const distribute::ReplicaContext* const context = distribute::get_replica_context();
  const double share = context ? 1.0 / context->num_replicas_in_sync() : 1.0;
  for (const Tensor& extra : session_.model.losses()) {
    const Tensor term = share_of_added(extra, share);
    loss = loss.defined() ? loss + ops::cast(term, loss.dtype()) : term;
  }
  return loss;
}

}  // namespace lockstep::keras
