// AUC and the metrics that look for the best threshold.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/metrics/confusion_internal.h"
#include "lockstep/keras/metrics/fields_internal.h"
#include "lockstep/keras/metrics/mean_internal.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::metrics {
namespace {

// Four counts for each threshold.
class CurveMetric : public Metric {
 public:
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight, const Tensor&) override {
    if (is_symbolic(y_true, y_pred)) return;
    if (!true_positives_) create_state(options_.multi_label ? y_pred.dim(-1) : 0);
    const ConfusionCounts counts = count_confusion(y_true, y_pred, weight, options_);
    add(true_positives_, counts.true_positives);
    add(false_positives_, counts.false_positives);
    add(true_negatives_, counts.true_negatives);
    add(false_negatives_, counts.false_negatives);
  }
  Direction direction() const override { return Direction::kUp; }

 protected:
  CurveMetric(std::string name, std::string dtype) : Metric(std::move(name), std::move(dtype)) {}

  // labels 0: one curve over everything.
  void create_state(std::int64_t labels) {
    Shape shape{static_cast<std::int64_t>(options_.thresholds.size())};
    if (labels > 0) shape.push_back(labels);
    true_positives_ = add_variable(shape, "true_positives");
    false_positives_ = add_variable(shape, "false_positives");
    true_negatives_ = add_variable(shape, "true_negatives");
    false_negatives_ = add_variable(shape, "false_negatives");
  }

  struct Curve {
    std::vector<float> tp, fp, tn, fn;
  };
  // The counts of one label.
  Curve curve(std::size_t label, std::size_t labels) const {
    const auto pick = [&](const VariablePtr& variable) {
      const std::vector<float> all = variable->read().to_vector<float>();
      std::vector<float> own;
      for (std::size_t i = label; i < all.size(); i += labels) own.push_back(all[i]);
      return own;
    };
    return {pick(true_positives_), pick(false_positives_), pick(true_negatives_), pick(false_negatives_)};
  }

  ConfusionOptions options_;
  VariablePtr true_positives_, false_positives_, true_negatives_, false_negatives_;

 private:
  static void add(const VariablePtr& variable, const std::vector<double>& counts) {
    if (static_cast<std::int64_t>(counts.size()) != *variable->shape().num_elements()) {
      throw_invalid_argument("AUC: the number of labels differs from that of the first batch");
    }
    variable->assign_add(Tensor::from_vector(std::vector<float>(counts.begin(), counts.end()), variable->shape()));
  }
};

class AUCMetric : public CurveMetric {
 public:
  explicit AUCMetric(AUCOptions o) : CurveMetric(name_of(o.name, "AUC"), o.dtype), given_(std::move(o)) {
    check();
    if (given_.thresholds.empty()) {
      for (std::int64_t i = 1; i + 1 < given_.num_thresholds; ++i) {
        options_.thresholds.push_back(static_cast<double>(i) / static_cast<double>(given_.num_thresholds - 1));
      }
    } else {
      options_.thresholds = given_.thresholds;
      std::sort(options_.thresholds.begin(), options_.thresholds.end());
    }
    options_.thresholds.insert(options_.thresholds.begin(), -keras::backend::epsilon());
    options_.thresholds.push_back(1.0 + keras::backend::epsilon());
    options_.multi_label = given_.multi_label;
    if (!given_.multi_label) {
      options_.label_weights = given_.label_weights;
      create_state(0);
    } else if (given_.num_labels) {
      create_state(*given_.num_labels);
    }
  }
  std::string class_name() const override { return "AUC"; }

  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight, const Tensor& mask) override {
    if (is_symbolic(y_true, y_pred)) return;
    if (!given_.from_logits) return CurveMetric::update_state(y_true, y_pred, weight, mask);
    HostArray p = to_host(y_pred);
    for (float& value : p.values) value = 1.0f / (1.0f + std::exp(-value));
    CurveMetric::update_state(y_true, to_tensor(p), weight, mask);
  }

  Tensor result() const override {
    if (!true_positives_) return Tensor::scalar(0.0f);
    if (!given_.multi_label) return Tensor::scalar(area(curve(0, 1)));
    const auto labels = static_cast<std::size_t>(true_positives_->shape()[1]);
    double sum = 0, weights = 0;
    for (std::size_t label = 0; label < labels; ++label) {
      const double weight =
          given_.label_weights.empty() ? 1.0 : given_.label_weights[label % given_.label_weights.size()];
      sum += weight * area(curve(label, labels));
      weights += weight;
    }
    return Tensor::scalar(static_cast<float>(weights == 0 ? 0 : sum / weights));
  }

  Json get_config() const override {
    AUCOptions written = given_;
    if (!given_.thresholds.empty()) {
      written.num_thresholds = static_cast<std::int64_t>(given_.thresholds.size() + 2);
      written.thresholds.assign(options_.thresholds.begin() + 1, options_.thresholds.end() - 1);
    }
    Json config = keras::with_own_fields(Metric::get_config(), written);
    // Keras writes a list, of one threshold too.
    if (!written.thresholds.empty()) config["thresholds"] = written.thresholds;
    if (!written.label_weights.empty()) config["label_weights"] = written.label_weights;
    return config;
  }

 private:
  void check() const {
    if (given_.curve != "ROC" && given_.curve != "PR") {
      throw_invalid_argument(fmt::format("AUC: curve '{}', expected ROC or PR", given_.curve));
    }
    if (given_.summation_method != "interpolation" && given_.summation_method != "minoring" &&
        given_.summation_method != "majoring") {
      throw_invalid_argument(fmt::format("AUC: summation_method '{}', expected interpolation, minoring or majoring",
                                         given_.summation_method));
    }
    if (given_.thresholds.empty() && given_.num_thresholds <= 1) {
      throw_invalid_argument(fmt::format("AUC: num_thresholds is {}, expected more than 1", given_.num_thresholds));
    }
  }

  float area(const Curve& c) const {
    if (given_.curve == "PR" && given_.summation_method == "interpolation") return precision_recall_area(c);
    std::vector<float> x, y;
    for (std::size_t i = 0; i < c.tp.size(); ++i) {
      const float recall = ratio(c.tp[i], c.tp[i] + c.fn[i]);
      x.push_back(given_.curve == "ROC" ? ratio(c.fp[i], c.fp[i] + c.tn[i]) : recall);
      y.push_back(given_.curve == "ROC" ? recall : ratio(c.tp[i], c.tp[i] + c.fp[i]));
    }
    double sum = 0;
    for (std::size_t i = 0; i + 1 < x.size(); ++i) {
      float height = (y[i] + y[i + 1]) / 2.0f;
      if (given_.summation_method == "minoring") height = std::min(y[i], y[i + 1]);
      if (given_.summation_method == "majoring") height = std::max(y[i], y[i + 1]);
      sum += static_cast<double>((x[i] - x[i + 1]) * height);
    }
    return static_cast<float>(sum);
  }

  // Davis and Goadrich, "The relationship between precision-recall and ROC curves", ICML 2006.
  static float precision_recall_area(const Curve& c) {
    double sum = 0;
    for (std::size_t i = 0; i + 1 < c.tp.size(); ++i) {
      const float p = c.tp[i] + c.fp[i], p_next = c.tp[i + 1] + c.fp[i + 1];
      const float dtp = c.tp[i] - c.tp[i + 1];
      const float slope = ratio(dtp, std::max(p - p_next, 0.0f));
      const float intercept = c.tp[i + 1] - slope * p_next;
      const float safe = p > 0 && p_next > 0 ? p / p_next : 1.0f;
      sum += ratio(slope * (dtp + intercept * std::log(safe)), std::max(c.tp[i + 1] + c.fn[i + 1], 0.0f));
    }
    return static_cast<float>(sum);
  }

  AUCOptions given_;
};

// The largest `wanted` where `held` reaches a value.
template <At kAt>
class AtMetric : public CurveMetric {
 public:
  AtMetric(const char* class_name, double value, AtOptions o)
      : CurveMetric(name_of(o.name, class_name), o.dtype), class_name_(class_name), given_{value, std::move(o)} {
    if (!(value >= 0 && value <= 1)) {
      throw_invalid_argument(fmt::format("{}: {} is {}, expected 0 to 1", class_name, AtConfig<kAt>::kKey, value));
    }
    const std::int64_t count = given_.options.num_thresholds;
    if (count < 1) throw_invalid_argument(fmt::format("{}: num_thresholds must be positive", class_name));
    if (count == 1) {
      this->options_.thresholds = {0.5};
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        this->options_.thresholds.push_back(static_cast<double>(i) / static_cast<double>(count - 1));
      }
    }
    this->options_.class_id = given_.options.class_id;
    this->create_state(0);
  }
  std::string class_name() const override { return class_name_; }

  Tensor result() const override {
    const Curve c = this->curve(0, 1);
    float best = 0;
    bool found = false;
    for (std::size_t i = 0; i < c.tp.size(); ++i) {
      if (held(c, i) < static_cast<float>(given_.value)) continue;
      best = found ? std::max(best, wanted(c, i)) : wanted(c, i);
      found = true;
    }
    return Tensor::scalar(best);
  }

  Json get_config() const override { return keras::with_own_fields(Metric::get_config(), given_); }

 private:
  static float sensitivity(const Curve& c, std::size_t i) { return ratio(c.tp[i], c.tp[i] + c.fn[i]); }
  static float specificity(const Curve& c, std::size_t i) { return ratio(c.tn[i], c.tn[i] + c.fp[i]); }
  static float precision(const Curve& c, std::size_t i) { return ratio(c.tp[i], c.tp[i] + c.fp[i]); }
  float held(const Curve& c, std::size_t i) const {
    if (kAt == At::kSpecificity) return specificity(c, i);
    return kAt == At::kPrecision ? precision(c, i) : sensitivity(c, i);
  }
  float wanted(const Curve& c, std::size_t i) const {
    if (kAt == At::kSensitivity) return specificity(c, i);
    return kAt == At::kRecall ? precision(c, i) : sensitivity(c, i);
  }

  const char* class_name_;
  AtConfig<kAt> given_;
};

}  // namespace

MetricPtr AUC(AUCOptions o) { return std::make_shared<AUCMetric>(std::move(o)); }
MetricPtr SensitivityAtSpecificity(double specificity, AtOptions o) {
  return std::make_shared<AtMetric<At::kSpecificity>>("SensitivityAtSpecificity", specificity, std::move(o));
}
MetricPtr SpecificityAtSensitivity(double sensitivity, AtOptions o) {
  return std::make_shared<AtMetric<At::kSensitivity>>("SpecificityAtSensitivity", sensitivity, std::move(o));
}
MetricPtr PrecisionAtRecall(double recall, AtOptions o) {
  return std::make_shared<AtMetric<At::kRecall>>("PrecisionAtRecall", recall, std::move(o));
}
MetricPtr RecallAtPrecision(double precision, AtOptions o) {
  return std::make_shared<AtMetric<At::kPrecision>>("RecallAtPrecision", precision, std::move(o));
}

}  // namespace lockstep::metrics
