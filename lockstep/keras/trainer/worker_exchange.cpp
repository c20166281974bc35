// The exchange of workers in a step: one reduction of gradients, predictions and losses.
#include <algorithm>
#include <cmath>

#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"
#include "lockstep/keras/trainer/all_reduce_steps_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

// A double travels as three float32 whose sum it is, each worker's in its own place, so that it arrives exactly.
constexpr std::size_t kParts = 3;

Tensor slots(const std::vector<double>& numbers, int worker, int workers) {
  std::vector<float> out(numbers.size() * kParts * static_cast<std::size_t>(workers), 0.0f);
  std::size_t at = numbers.size() * kParts * static_cast<std::size_t>(worker);
  for (double rest : numbers) {
    for (std::size_t part = 0; part < kParts; ++part) {
      const auto piece = static_cast<float>(rest);
      out[at++] = piece;
      rest = std::isfinite(piece) ? rest - static_cast<double>(piece) : 0.0;
    }
  }
  return Tensor::from_vector(out);
}

// The sums over the workers, in their order.
std::vector<double> sum_slots(const Tensor& slots, std::size_t count) {
  const std::vector<float> values = slots.to_vector<float>();
  std::vector<double> out(count, 0.0);
  for (std::size_t at = 0; at < values.size(); at += count * kParts) {
    for (std::size_t i = 0; i < count * kParts; i += kParts) {
      double number = 0;
      for (std::size_t part = kParts; part-- > 0;) number += static_cast<double>(values[at + i + part]);
      out[i / kParts] += number;
    }
  }
  return out;
}

// `part` in its place among all rows, zeros elsewhere: the sum over the workers has all.
Tensor in_place(const Tensor& part, std::int64_t begin, std::int64_t rows, std::int64_t all_rows) {
  if (!part.defined() || rows == 0) return part;
  const std::int64_t each = part.dim(0) / rows;
  const auto padding = [&](std::int64_t count) {
    std::vector<std::int64_t> dims(part.shape().dims().begin(), part.shape().dims().end());
    dims[0] = count * each;
    return Tensor::zeros(Shape(dims), part.dtype());
  };
  return ops::concat({padding(begin), part, padding(all_rows - begin - rows)}, 0);
}

}  // namespace

// Replaces this worker's part by the whole batch's, equal on all workers. An idle worker's part counts for nothing.
void AllReduceSteps::join_workers(const Batch& batch, StepOutput& whole, Tensors& gradients,
                                  collectives::GradientSum& sum, const Updates& updates) {
  const Share share = share_of(batch);
  const std::int64_t begin = share.idle() ? 0 : share.ranges.front().begin;
  const std::int64_t rows = share.idle() ? 1 : share.ranges.back().end - begin;
  std::vector<double> numbers = whole.output_losses;
  numbers.insert(numbers.end(), {whole.total_loss, session_.preempted ? 1.0 : 0.0});
  if (share.idle()) std::fill(numbers.begin(), numbers.end() - 1, 0.0);

  Tensors exact{slots(numbers, session_.strategy->worker_index(), session_.strategy->num_workers())};
  for (const Tensor& leaf : whole.y_pred.flatten()) {
    for (const Tensor& part : {leaf, leaf.mask(), leaf.logits()}) {
      const Tensor placed = in_place(part, begin, rows, batch_rows(batch));
      exact.push_back(share.idle() && placed.defined() ? ops::zeros_like(placed) : placed);
    }
  }
  whole.others = sum.finish(gradients, exact, updates);

  const std::vector<double> sums = sum_slots(exact[0], numbers.size());
  session_.preempted = sums.back() > 0;
  whole.total_loss = sums[sums.size() - 2];
  whole.output_losses.assign(sums.begin(), sums.end() - 2);
  Tensors joined;
  for (std::size_t i = 1; i < exact.size(); i += 3) {
    Tensor leaf = exact[i];
    if (exact[i + 1].defined()) leaf.set_mask(exact[i + 1]);
    if (exact[i + 2].defined()) leaf.set_logits(exact[i + 2]);
    joined.push_back(std::move(leaf));
  }
  whole.y_pred = whole.y_pred.pack(joined);
}

}  // namespace lockstep::keras
