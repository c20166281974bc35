#include "lockstep/keras/metrics/confusion_internal.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/metrics/fields_internal.h"
#include "lockstep/keras/metrics/mean_internal.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::metrics {
namespace {

constexpr float kNegInf = -1e10f;  // what Keras puts for predictions below the k largest

// Everything of one update as (rows, labels) arrays; one label unless multi_label.
struct Samples {
  std::vector<float> p, y, w;
  std::size_t labels = 1;
};

// Keeps the k largest of each row of the last axis.
void keep_top_k(HostArray& p, std::int64_t k) {
  const auto width = static_cast<std::size_t>(p.shape[-1]);
  std::vector<std::size_t> order(width);
  for (std::size_t row = 0; row + width <= p.size(); row += width) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return p.values[row + a] > p.values[row + b]; });
    for (std::size_t i = static_cast<std::size_t>(k); i < width; ++i) p.values[row + order[i]] = kNegInf;
  }
}

// Column `id` of the last axis.
HostArray column(const HostArray& a, std::int64_t id) {
  const std::int64_t width = a.rank() == 0 ? 0 : a.shape[-1];
  if (id < 0 || id >= width) {
    throw_invalid_argument(fmt::format("class_id is {}, but there are {} classes", id, width));
  }
  std::vector<std::int64_t> dims = a.shape.dims();
  dims.pop_back();
  HostArray out{Shape(dims), {}};
  for (std::size_t i = static_cast<std::size_t>(id); i < a.size(); i += static_cast<std::size_t>(width)) {
    out.values.push_back(a.values[i]);
  }
  return out;
}

Samples prepare(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight, const ConfusionOptions& options) {
  HostArray y = to_host(y_true), p = to_host(y_pred);
  squeeze_or_expand(y, p);
  if (!(y.shape == p.shape)) {
    throw_invalid_argument(
        fmt::format("y_true of shape {} does not fit y_pred of shape {}", y.shape.to_string(), p.shape.to_string()));
  }
  if (options.top_k) keep_top_k(p, *options.top_k);
  if (options.class_id) {
    y = column(y, *options.class_id);
    p = column(p, *options.class_id);
  }
  Samples samples{p.values, y.values, {}, 1};
  if (weight.defined()) {
    HostArray w = to_host(weight);
    squeeze_or_expand(w, p);
    while (w.rank() < p.rank() && w.rank() > 0) w.shape.push_back(1);  // a weight for each leading entry
    samples.w = broadcast_to(w, p.shape, "sample_weight").values;
  }
  if (options.multi_label) samples.labels = static_cast<std::size_t>(p.shape[-1]);
  return samples;
}

float weight_at(const Samples& samples, const ConfusionOptions& options, std::size_t i) {
  float weight = samples.w.empty() ? 1.0f : samples.w[i];
  if (!options.label_weights.empty()) {
    weight *= static_cast<float>(options.label_weights[i % options.label_weights.size()]);
  }
  return weight;
}

// The last threshold below a prediction, which counts as one of 0 … 1; -1 where there is none. With `margins`, those of
// AUC, the first threshold is below all predictions.
std::ptrdiff_t bucket_of(float p, std::size_t thresholds, bool margins) {
  if (std::isnan(p)) return -1;
  const float place = std::ceil(std::clamp(p, 0.0f, 1.0f) * static_cast<float>(thresholds - 1)) - 1.0f;
  return static_cast<std::ptrdiff_t>(margins ? std::max(place, 0.0f) : place);
}

// Each sample into the bucket of the last threshold below it, then sums from the top down.
void count_by_buckets(const Samples& samples, const ConfusionOptions& options, std::size_t n, ConfusionCounts& counts) {
  const std::size_t labels = samples.labels;
  std::vector<double> positives(labels), negatives(labels);
  const bool margins = options.thresholds.front() < 0 || options.thresholds.back() > 1;
  for (std::size_t i = 0; i < samples.p.size(); ++i) {
    const bool positive = samples.y[i] != 0;
    const double w = weight_at(samples, options, i);
    const std::ptrdiff_t bucket = bucket_of(samples.p[i], n, margins);
    if (bucket >= 0) {
      const std::size_t at = static_cast<std::size_t>(bucket) * labels + i % labels;
      (positive ? counts.true_positives : counts.false_positives)[at] += w;
    }
    (positive ? positives : negatives)[i % labels] += w;
  }
  for (std::size_t at = n * labels; at-- > 0;) {
    if (at + labels < n * labels) {
      counts.true_positives[at] += counts.true_positives[at + labels];
      counts.false_positives[at] += counts.false_positives[at + labels];
    }
    counts.false_negatives[at] = positives[at % labels] - counts.true_positives[at];
    counts.true_negatives[at] = negatives[at % labels] - counts.false_positives[at];
  }
}

}  // namespace

bool evenly_distributed(const std::vector<double>& thresholds) {
  const std::size_t n = thresholds.size();
  if (n < 3) return false;
  for (std::size_t i = 0; i < n; ++i) {
    const double even = static_cast<double>(i) / static_cast<double>(n - 1);
    if (std::abs(thresholds[i] - even) > 1e-7 + 1e-5 * std::abs(even)) return false;
  }
  return true;
}

ConfusionCounts count_confusion(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight,
                                const ConfusionOptions& options) {
  const Samples samples = prepare(y_true, y_pred, weight, options);
  const std::size_t n = options.thresholds.size(), labels = samples.labels;
  const bool even = evenly_distributed(options.thresholds);
  ConfusionCounts counts;
  for (auto* list :
       {&counts.true_positives, &counts.false_positives, &counts.true_negatives, &counts.false_negatives}) {
    list->assign(n * labels, 0.0);
  }
  if (even) {
    count_by_buckets(samples, options, n, counts);
    return counts;
  }
  const std::vector<float> limits(options.thresholds.begin(), options.thresholds.end());
  for (std::size_t i = 0; i < samples.p.size(); ++i) {
    const double w = weight_at(samples, options, i);
    const bool positive = samples.y[i] != 0;
    for (std::size_t t = 0; t < n; ++t) {
      auto& list = samples.p[i] > limits[t] ? (positive ? counts.true_positives : counts.false_positives)
                                            : (positive ? counts.false_negatives : counts.true_negatives);
      list[t * labels + i % labels] += w;
    }
  }
  return counts;
}

namespace {

std::vector<double> checked_thresholds(const char* who, std::vector<double> thresholds, double otherwise) {
  for (double threshold : thresholds) {
    if (!(threshold >= 0 && threshold <= 1)) {
      throw_invalid_argument(fmt::format("{}: a threshold is {}, expected 0 to 1", who, threshold));
    }
  }
  if (thresholds.empty()) thresholds.push_back(otherwise);
  return thresholds;
}

void add_counts(const VariablePtr& variable, const std::vector<double>& counts) {
  variable->assign_add(Tensor::from_vector(std::vector<float>(counts.begin(), counts.end()), variable->shape()));
}

Tensor scalar_or_vector(const std::vector<float>& values) {
  return values.size() == 1 ? Tensor::scalar(values[0]) : Tensor::from_vector(values);
}

// TruePositives and its kin.
class CountMetric : public Metric {
 public:
  CountMetric(const char* class_name, std::vector<double> ConfusionCounts::*member, ThresholdOptions o)
      : Metric(name_of(o.name, class_name), o.dtype), class_name_(class_name), member_(member), given_(o.thresholds) {
    options_.thresholds = checked_thresholds(class_name, o.thresholds, 0.5);
    accumulator_ = add_variable(Shape{static_cast<std::int64_t>(options_.thresholds.size())}, "accumulator");
  }
  std::string class_name() const override { return class_name_; }
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight, const Tensor&) override {
    if (is_symbolic(y_true, y_pred)) return;
    add_counts(accumulator_, count_confusion(y_true, y_pred, weight, options_).*member_);
  }
  Tensor result() const override { return scalar_or_vector(accumulator_->read().to_vector<float>()); }
  Json get_config() const override { return keras::with_own_fields(Metric::get_config(), ThresholdOptions{given_}); }

 private:
  const char* class_name_;
  std::vector<double> ConfusionCounts::*member_;
  std::vector<double> given_;
  ConfusionOptions options_;
  VariablePtr accumulator_;
};

// Precision and Recall.
class RatioMetric : public Metric {
 public:
  RatioMetric(bool recall, PrecisionOptions o)
      : Metric(name_of(o.name, recall ? "Recall" : "Precision"), o.dtype), recall_(recall), given_(o.thresholds) {
    options_.thresholds = checked_thresholds(recall ? "Recall" : "Precision", o.thresholds, o.top_k ? kNegInf : 0.5);
    options_.top_k = o.top_k;
    options_.class_id = o.class_id;
    const Shape shape{static_cast<std::int64_t>(options_.thresholds.size())};
    true_positives_ = add_variable(shape, "true_positives");
    others_ = add_variable(shape, recall ? "false_negatives" : "false_positives");
  }
  std::string class_name() const override { return recall_ ? "Recall" : "Precision"; }
  Direction direction() const override { return Direction::kUp; }
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight, const Tensor&) override {
    if (is_symbolic(y_true, y_pred)) return;
    const ConfusionCounts counts = count_confusion(y_true, y_pred, weight, options_);
    add_counts(true_positives_, counts.true_positives);
    add_counts(others_, recall_ ? counts.false_negatives : counts.false_positives);
  }
  Tensor result() const override {
    std::vector<float> hits = true_positives_->read().to_vector<float>();
    const std::vector<float> others = others_->read().to_vector<float>();
    for (std::size_t i = 0; i < hits.size(); ++i) hits[i] = ratio(hits[i], hits[i] + others[i]);
    return scalar_or_vector(hits);
  }
  Json get_config() const override {
    return keras::with_own_fields(Metric::get_config(), PrecisionOptions{given_, options_.top_k, options_.class_id});
  }

 private:
  bool recall_;
  std::vector<double> given_;
  ConfusionOptions options_;
  VariablePtr true_positives_, others_;
};

MetricPtr count_metric(const char* class_name, std::vector<double> ConfusionCounts::*member, ThresholdOptions o) {
  return std::make_shared<CountMetric>(class_name, member, std::move(o));
}

}  // namespace

MetricPtr TruePositives(ThresholdOptions o) {
  return count_metric("TruePositives", &ConfusionCounts::true_positives, std::move(o));
}
MetricPtr TrueNegatives(ThresholdOptions o) {
  return count_metric("TrueNegatives", &ConfusionCounts::true_negatives, std::move(o));
}
MetricPtr FalsePositives(ThresholdOptions o) {
  return count_metric("FalsePositives", &ConfusionCounts::false_positives, std::move(o));
}
MetricPtr FalseNegatives(ThresholdOptions o) {
  return count_metric("FalseNegatives", &ConfusionCounts::false_negatives, std::move(o));
}
MetricPtr Precision(PrecisionOptions o) { return std::make_shared<RatioMetric>(false, std::move(o)); }
MetricPtr Recall(RecallOptions o) { return std::make_shared<RatioMetric>(true, std::move(o)); }

}  // namespace lockstep::metrics
