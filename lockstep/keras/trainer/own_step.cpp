// Steps of user classes, in each replica.
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/keras/trainer/all_reduce_steps_internal.h"

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
Results AllReduceSteps::run_in_replicas(const Batch& batch, const std::function<Results(const Batch&)>& step) {
  session_.make_loss_tracker();
  const Share share = share_of(batch);
  std::vector<Results> parts(std::max<std::size_t>(share.ranges.size(), 1));
  // A worker without rows takes part in collective calls, with a row that does not count.
  const Json metrics_before = share.idle() ? session_.save_own_metrics() : Json(nullptr);
  const auto replica_step = [&](std::size_t local) {
    const distribute::RowRange range = share.idle() ? distribute::RowRange{0, 1} : share.ranges[local];
    parts[local] = step(batch_slice(batch, range.begin, range.end));
  };
  if (session_.strategy) {
    session_.strategy->run_replicas(
        [&](int) { replica_step(static_cast<std::size_t>(distribute::current_local_replica())); }, share.replicas);
  } else {
    replica_step(0);
  }
  if (share.idle()) session_.restore_own_metrics(metrics_before);
  session_.last_step_was_own = true;
  session_.preempted = session_.preemption.requested();
  return mean_of_replicas(parts, share);
}

Results AllReduceSteps::mean_of_replicas(const std::vector<Results>& parts, const Share& share) {
  if (parts.size() == 1 && !session_.communicator()) return parts[0];
  Tensors values;
  for (const Results& part : parts) {
    if (!same_names(part, parts[0]))
      throw_invalid_argument("a step of the model's class returned different results in different replicas");
    std::vector<double> numbers = numbers_of_results(part);
    numbers.push_back(session_.preempted ? 1.0 : 0.0);  // workers agree on it
    values.push_back(Tensor::from_vector(numbers));
  }
  const std::vector<double> means = distribute::reduce_over_job(distribute::ReduceOp::kMean, values,
                                                                session_.communicator(), share.replicas, share.idle())
                                        .to_vector<double>();
  session_.preempted = means.back() > 0;
  Results results;
  auto next = means.begin();
  for (const auto& [name, value] : parts[0]) {
    const auto end = next + static_cast<std::ptrdiff_t>(value.numbers().size());
    results.emplace_back(name, value.is_vector() ? LogValue(std::vector<double>(next, end)) : LogValue(*next));
    next = end;
  }
  return results;
}

}  // namespace lockstep::keras
