#include "lockstep/ops/dense_ctc_internal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

// One row of the batch. A path begins at label state 0, which emits nothing, and visits label states and blanks; state
// k is that of label k, counted from 1, or of the blank behind it.
class CtcLattice {
 public:
  static constexpr double kNone = -std::numeric_limits<double>::infinity();
  // The log probability of a path that ends elsewhere; finite, so that labels that do not fit have a loss and a
  // gradient.
  static inline const double kElsewhere = static_cast<double>(static_cast<float>(std::log(1e-307)));

  // `logs`: logarithms of the classes' probabilities, the blank first, of `steps` steps.
  CtcLattice(std::vector<double> logs, std::vector<std::int32_t> labels, std::int64_t classes, std::int64_t steps)
      : logs_(std::move(logs)), labels_(std::move(labels)), classes_(classes), steps_(steps) {}

  // Returns the loss; adds to `occupied` [steps, classes] the probabilities of being in each class, the blank first.
  double run(std::int64_t length, std::vector<double>& occupied) const {
    const std::size_t n = labels_.size() + 1, width = 2 * n, steps = static_cast<std::size_t>(steps_);
    std::vector<double> after((steps + 1) * width, kElsewhere);  // of the rest of the path, of each step and state
    double* row = after.data() + steps * width;
    if (length >= 0 && length < static_cast<std::int64_t>(n))
      row[length] = row[n + static_cast<std::size_t>(length)] = 0;
    for (std::size_t t = steps; t-- > 0;) {
      const double* const next = after.data() + (t + 1) * width;
      double* const now = after.data() + t * width;
      const auto label_next = [&](std::size_t k) { return next[k] + of_label(t, k); };
      const auto blank_next = [&](std::size_t k) { return next[n + k] + of_blank(t); };
      for (std::size_t k = 0; k < n; ++k) {
        const double onward = k + 1 < n ? label_next(k + 1) : kNone;
        now[k] = sum(sum(label_next(k), blank_next(k)), k + 1 < n && may_follow(k + 1) ? onward : kNone);
        now[n + k] = sum(blank_next(k), onward);
      }
    }
    std::vector<double> before(width, kElsewhere), now(width);
    before[0] = 0;
    for (std::size_t t = 0; t < steps; ++t) {
      for (std::size_t k = 0; k < n; ++k) {
        double reached = before[k];
        if (k > 0) reached = sum(reached, before[n + k - 1]);
        if (k > 0 && may_follow(k)) reached = sum(reached, before[k - 1]);
        now[k] = reached + of_label(t, k);
        now[n + k] = sum(before[n + k], before[k]) + of_blank(t);
      }
      occupy(t, now, after.data() + (t + 1) * width, occupied);
      std::swap(before, now);
    }
    return -after[0];
  }

 private:
  static double sum(double a, double b) {
    if (a < b) std::swap(a, b);
    return b == kNone ? a : a + std::log1p(std::exp(b - a));
  }
  bool is_class(std::size_t k) const { return labels_[k - 1] >= 0 && labels_[k - 1] < classes_; }
  double of_label(std::size_t t, std::size_t k) const {
    if (k == 0) return kNone;
    return is_class(k) ? logs_[t * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(labels_[k - 1])] : 0.0;
  }
  double of_blank(std::size_t t) const { return logs_[t * static_cast<std::size_t>(classes_)]; }
  // Whether label state k may follow the one before it at once.
  bool may_follow(std::size_t k) const { return k == 1 || labels_[k - 1] != labels_[k - 2]; }

  void occupy(std::size_t t, const std::vector<double>& reached, const double* rest,
              std::vector<double>& occupied) const {
    const std::size_t n = labels_.size() + 1;
    double all = kNone;
    for (std::size_t s = 0; s < 2 * n; ++s) all = sum(all, reached[s] + rest[s]);
    double* const classes = occupied.data() + t * static_cast<std::size_t>(classes_);
    for (std::size_t k = 0; k < n; ++k) {
      // As in TensorFlow, labels that are blanks do not contribute to the gradient.
      if (k > 0 && is_class(k) && labels_[k - 1] > 0)
        classes[static_cast<std::size_t>(labels_[k - 1])] += std::exp(reached[k] + rest[k] - all);
      classes[0] += std::exp(reached[n + k] + rest[n + k] - all);
    }
  }

  std::vector<double> logs_;
  std::vector<std::int32_t> labels_;
  std::int64_t classes_, steps_;
};

}  // namespace

Tensor dense_ctc_loss(const Tensor& logits, const Tensor& labels, const Tensor& label_lengths,
                      const Tensor& logit_lengths, std::int64_t blank) {
  const at::Tensor x = dense(logits).detach().contiguous();
  const auto of_batch = [&](const Tensor& t, int rank) { return t.rank() == rank && t.dim(0) == logits.dim(1); };
  if (logits.dim(2) < 1 || !of_batch(labels, 2) || !of_batch(label_lengths, 1) || !of_batch(logit_lengths, 1))
    throw_invalid_argument(fmt::format(
        "CTC: found logits of shape {}, labels of shape {} and lengths of shapes {} and {}, expected (batch, "
        "steps, classes), (batch, labels) and twice (batch,)",
        ops::transpose(logits, {1, 0, 2}).shape().to_string(), labels.shape().to_string(),
        label_lengths.shape().to_string(), logit_lengths.shape().to_string()));
  const auto integers = [](const Tensor& t) { return dense(t).to(at::kInt).contiguous(); };
  const at::Tensor label = integers(labels), counts = integers(label_lengths), lengths = integers(logit_lengths);
  const std::int64_t time = x.size(0), batch = x.size(1), classes = x.size(2), most = label.size(1);
  const at::Tensor logs = at::log_softmax(x.to(at::kDouble), 2).contiguous();
  at::Tensor gradient = at::softmax(x, 2).contiguous(), loss = at::empty({batch}, x.options());
  // The blank comes first, then the other classes in their order; so labels below it have the next number.
  const auto place = [blank](std::int64_t c) { return c == blank ? 0 : c < blank ? c + 1 : c; };
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t steps = std::clamp<std::int64_t>(lengths.const_data_ptr<std::int32_t>()[b], 0, time);
    std::vector<double> own(static_cast<std::size_t>(steps * classes)), occupied(own.size(), 0.0);
    for (std::int64_t t = 0; t < steps; ++t) {
      const double* const row = logs.const_data_ptr<double>() + (t * batch + b) * classes;
      for (std::int64_t c = 0; c < classes; ++c) own[static_cast<std::size_t>(t * classes + place(c))] = row[c];
    }
    const std::int32_t* const given = label.const_data_ptr<std::int32_t>() + b * most;
    std::vector<std::int32_t> numbers(given, given + most);
    for (std::int32_t& number : numbers) number += blank > 0 && number < blank ? 1 : 0;
    const CtcLattice lattice(std::move(own), std::move(numbers), classes, steps);
    loss.mutable_data_ptr<float>()[b] =
        static_cast<float>(lattice.run(counts.const_data_ptr<std::int32_t>()[b], occupied));
    for (std::int64_t t = 0; t < time; ++t) {
      float* const slopes = gradient.mutable_data_ptr<float>() + (t * batch + b) * classes;
      for (std::int64_t c = 0; c < classes; ++c)
        slopes[c] = t < steps
                        ? slopes[c] - static_cast<float>(occupied[static_cast<std::size_t>(t * classes + place(c))])
                        : 0.0F;
    }
  }
  const auto scaled = [](const Tensors& dys, const Tensors& captured) {
    if (!dys[0].defined()) return Tensors{Tensor()};
    return Tensors{wrap(dense(captured[0]) * dense(dys[0]).unsqueeze(0).unsqueeze(2))};
  };
  return with_gradients({logits}, {wrap(loss)}, {wrap(gradient)}, scaled)[0];
}

}  // namespace lockstep::ops
