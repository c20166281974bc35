// Steps of user classes, in each replica.
#include <algorithm>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/keras/trainer/all_reduce_steps_internal.h"
#include "lockstep/keras/trainer/metric_state_internal.h"
#include "lockstep/keras/trainer/overrides_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::keras {
namespace {

// All numbers of some results.
std::vector<double> numbers_of_results(const Results& results) {
  std::vector<double> numbers;
  for (const auto& [name, value] : results)
    numbers.insert(numbers.end(), value.numbers().begin(), value.numbers().end());
  return numbers;
}

bool same_names(const Results& a, const Results& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& left, const auto& right) { return left.first == right.first; });
}

}  // namespace

// Runs the step in each replica that gets rows, and averages what the replicas of all workers return, as Keras does.
Results AllReduceSteps::run_in_replicas(const Batch& batch, const std::function<Results(const Batch&)>& step, bool) {
  session_.make_loss_tracker();
  prepare_metrics(batch);
  const Share share = share_of(batch);
  std::vector<Results> parts(std::max<std::size_t>(share.ranges.size(), 1));
  // A worker without rows takes part in collective calls, with a row that does not count.
  const Json metrics_before = share.idle() ? session_.save_own_metrics() : Json(nullptr);
  const Json layers_before = share.idle() ? session_.save_layer_metrics() : Json(nullptr);
  const auto replica_step = [&](std::size_t local) {
    const distribute::RowRange range = share.idle() ? distribute::RowRange{0, 1} : share.ranges[local];
    parts[local] = step(one_replica() ? batch : batch_slice(batch, range.begin, range.end));
  };
  own_rows_ = first_rows(batch);
  struct Reset {
    std::int64_t& rows;
    ~Reset() { rows = 0; }
  } const reset{own_rows_};
  if (session_.strategy) {
    session_.strategy->run_replicas(
        [&](int) { replica_step(static_cast<std::size_t>(distribute::current_local_replica())); }, share.replicas);
  } else {
    replica_step(0);
  }
  if (share.idle()) {
    session_.restore_own_metrics(metrics_before);
    session_.restore_layer_metrics(layers_before);
  }
  session_.last_step_was_own = true;
  session_.preempted = session_.preemption.requested();
  return mean_of_replicas(parts, share);
}

// Metrics of compile are made for the shapes of targets and outputs, and know their variables once they have seen a
// batch: before the first step, and after a restore, they see a row. The outputs of a model without call() are known to
// its steps only: it has the metrics that do not depend on them.
void AllReduceSteps::prepare_metrics(const Batch& batch) {
  if (!session_.compiled) return;
  if (!session_.has_call()) {
    if (session_.compiled->expects_metrics() && !session_.compiled->resolved() &&
        !session_.compiled->metrics_depend_on_outputs())
      session_.run_alone([&] { session_.compiled->resolve(session_.output_names(), Tensor(), Tensor()); });
    return;
  }
  const bool restored = session_.compiled->has_restored_metrics();
  const bool unresolved = !session_.compiled->resolved() && session_.compiled->expects_metrics();
  if (!restored && !unresolved) return;
  const Batch one = batch_slice(batch, 0, std::min<std::int64_t>(1, first_rows(batch)));
  const random::PausedGenerators no_draws;
  const Json layers_before = session_.save_layer_metrics();
  session_.run_alone([&] {
    Structure y_pred;
    try {
      y_pred = session_.forward(one.x, false);
    } catch (const Error&) {
      // The step calls the model on other values than the batch's; compute_metrics() makes the metrics then.
      if (session_.strategy) throw;
      return;
    }
    session_.compiled->resolve(session_.output_names(), one.y, y_pred);
    if (restored) session_.compiled->restore_metrics(one.y, y_pred, one.sample_weight);
  });
  session_.restore_layer_metrics(layers_before);
}

Results AllReduceSteps::compute_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight) {
  session_.require_compiled("compute_metrics");
  session_.compiled->resolve(session_.output_names(), y, y_pred);
  if (session_.compiled->has_restored_metrics()) session_.compiled->restore_metrics(y, y_pred, sample_weight);
  session_.compiled->update_metrics(y, y_pred, sample_weight);
  Results results = session_.compiled->results();
  if (session_.loss_tracker) results.front().second = metric_log_value(*session_.loss_tracker);
  const bool own = object_overriding(session_.model, &Model::metrics) != nullptr;
  for (const auto& metric : own ? session_.metrics() : session_.layer_metrics()) {
    const auto known = std::ranges::find(results, metric->name(), [](const auto& item) { return item.first; });
    if (known == results.end()) results.emplace_back(metric->name(), metric_log_value(*metric));
  }
  return results;
}

// Keras's own step, of one replica: that of Model, called by an override, or of a class that overrides the loss or the
// metrics. The losses that the replicas report have the
// batch's loss as their mean, weighted by their rows.
Results AllReduceSteps::step_of_replica(const Batch& batch, bool training) {
  const distribute::ReplicaContext* const context = distribute::get_replica_context();
  std::optional<GradientTape> tape;
  if (training) tape.emplace().watch_trained_only();
  const Structure y_pred = session_.forward(batch.x, training);
  session_.compiled->resolve(session_.output_names(), batch.y, y_pred);
  const Model* const own_loss = object_overriding(session_.model, kComputeLoss);
  const Tensor loss = own_loss ? own_loss->compute_loss(batch.x, batch.y, y_pred, batch.sample_weight)
                               : compute_loss(batch.y, y_pred, batch.sample_weight);
  if (training) {
    if (!loss.defined()) throw_no_loss();
    const auto variables = session_.model.trainable_weights();
    const Tensors gradients = tape->gradient(session_.optimizer->scale_loss(loss), variables);
    tape->end_recording();
    session_.optimizer->apply_gradients(zip(gradients, variables));
  }
  session_.make_loss_tracker();
  if (loss.defined()) {
    const auto rows = static_cast<double>(batch_rows(batch));
    const double all_rows =
        own_rows_ > 0 ? static_cast<double>(own_rows_) : rows * (context ? context->num_replicas_in_sync() : 1);
    session_.loss_tracker.update_state(ops::detach(loss) * (all_rows / rows), Tensor::scalar(rows, loss.dtype()));
  }
  if (!own_loss) {
    std::vector<double> output_losses;
    for (const LossPart& part : session_.compiled->loss_parts(batch.y, y_pred, batch.sample_weight))
      output_losses.push_back(ops::reduce_mean(losses::Loss::finish(part.reduced)).item<double>());
    session_.compiled->add_output_losses(output_losses, batch_rows(batch));
  }
  const Model* const own_metrics = object_overriding(session_.model, kComputeMetrics);
  return own_metrics ? own_metrics->compute_metrics(batch.x, batch.y, y_pred, batch.sample_weight)
                     : compute_metrics(batch.y, y_pred, batch.sample_weight);
}

Results AllReduceSteps::mean_of_replicas(const std::vector<Results>& parts, const Share& share) {
  if (parts.size() == 1 && !session_.communicator()) return parts[0];
  Tensors values;
  for (const Results& part : parts) {
    if (!same_names(part, parts[0]))
      throw_invalid_argument("invalid results of train_step or test_step: their names differ between replicas");
    std::vector<double> numbers = numbers_of_results(part);
    numbers.push_back(session_.preempted ? 1.0 : 0.0);  // workers agree on it
    values.push_back(Tensor::from_vector(numbers));
  }
  const std::vector<double> means = distribute::reduce_over_job(distribute::ReduceOp::kMean, values,
                                                                session_.communicator(), share.replicas, share.idle())
                                        .to_vector<double>();
  session_.preempted = means.back() > 0;
  Results results;
  if (parts[0].flat()) results.set_flat();
  auto next = means.begin();
  for (const auto& [name, value] : parts[0]) {
    const auto end = next + static_cast<std::ptrdiff_t>(value.numbers().size());
    results.emplace_back(name, value.is_vector() ? LogValue(std::vector<double>(next, end)) : LogValue(*next));
    next = end;
  }
  return results;
}

}  // namespace lockstep::keras
