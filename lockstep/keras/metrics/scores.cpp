// FBetaScore, IoU, R2Score and correlations.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/losses/loss.h"
#include "lockstep/keras/metrics/fields_internal.h"
#include "lockstep/keras/metrics/mean_internal.h"
#include "lockstep/keras/metrics/metric_functions.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::metrics {
namespace {

float epsilon() { return static_cast<float>(keras::backend::epsilon()); }

void add_to(const VariablePtr& variable, const std::vector<double>& values) {
  variable->assign_add(Tensor::from_vector(std::vector<float>(values.begin(), values.end()), variable->shape()));
}

// Two equal (rows, columns) arrays and a weight for each element.
struct Table {
  HostArray y, p;
  std::vector<float> w;
  std::size_t columns = 1;
};

Table table_of(const char* who, const Tensor& y_true, const Tensor& y_pred, const Tensor& weight) {
  Table table{to_host(y_true), to_host(y_pred), {}, 1};
  if (!(table.y.shape == table.p.shape) || table.p.rank() != 2) {
    throw_invalid_argument(fmt::format("{}: y_true has shape {} and y_pred {}; both must be (batch, outputs)", who,
                                       table.y.shape.to_string(), table.p.shape.to_string()));
  }
  table.columns = static_cast<std::size_t>(table.p.shape[1]);
  table.w.assign(table.p.size(), 1.0f);
  if (weight.defined()) {
    HostArray w = to_host(weight);
    if (w.rank() == 1) w.shape.push_back(1);
    table.w = broadcast_to(w, table.p.shape, "sample_weight").values;
  }
  return table;
}

class FBetaMetric : public Metric {
 public:
  FBetaMetric(const char* class_name, FBetaOptions o)
      : Metric(o.name, o.dtype), class_name_(class_name), options_(std::move(o)) {
    if (!options_.average.empty() && options_.average != "micro" && options_.average != "macro" &&
        options_.average != "weighted") {
      throw_invalid_argument(
          fmt::format("{}: average '{}', expected none, micro, macro or weighted", class_name, options_.average));
    }
    if (!(options_.beta > 0)) throw_invalid_argument(fmt::format("{}: beta must be positive", class_name));
  }
  std::string class_name() const override { return class_name_; }
  Direction direction() const override { return Direction::kUp; }

  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight, const Tensor&) override {
    const Table t = table_of(class_name_, y_true, y_pred, weight);
    const bool micro = options_.average == "micro";
    if (variables().empty()) {
      const Shape shape = micro ? Shape{} : Shape{static_cast<std::int64_t>(t.columns)};
      for (const char* name : {"true_positives", "false_positives", "false_negatives", "intermediate_weights"}) {
        add_variable(shape, name);
      }
    }
    std::vector<std::vector<double>> sums(4, std::vector<double>(micro ? 1 : t.columns));
    for (std::size_t i = 0; i < t.p.size(); ++i) {
      const std::size_t row = i / t.columns * t.columns, at = micro ? 0 : i % t.columns;
      const float* begin = t.p.values.data() + row;
      const float p = t.p.values[i];
      const bool predicted = options_.threshold
                                 ? p > static_cast<float>(*options_.threshold)
                                 : p >= *std::max_element(begin, begin + t.columns) && std::abs(p) > 1e-9f;
      const double w = t.w[i], y = t.y.values[i];
      sums[0][at] += predicted ? w * y : 0;
      sums[1][at] += predicted ? w * (1 - y) : 0;
      sums[2][at] += predicted ? 0 : w * y;
      sums[3][at] += w * y;
    }
    for (std::size_t i = 0; i < 4; ++i) add_to(variables()[i], sums[i]);
  }

  Tensor result() const override {
    if (variables().empty()) return Tensor::scalar(0.0f);
    const auto tp = read(0), fp = read(1), fn = read(2), weights = read(3);
    const float beta_2 = static_cast<float>(options_.beta * options_.beta);
    std::vector<float> scores;
    float weight_sum = 0, sum = 0, weighted = 0;
    for (std::size_t i = 0; i < tp.size(); ++i) {
      const float precision = tp[i] / (tp[i] + fp[i] + epsilon()), recall = tp[i] / (tp[i] + fn[i] + epsilon());
      scores.push_back(precision * recall / (beta_2 * precision + recall + epsilon()) * (1.0f + beta_2));
      sum += scores.back();
      weight_sum += weights[i];
    }
    for (std::size_t i = 0; i < tp.size(); ++i) weighted += scores[i] * (weights[i] / (weight_sum + epsilon()));
    if (options_.average == "weighted") return Tensor::scalar(weighted);
    if (options_.average == "macro") return Tensor::scalar(sum / static_cast<float>(scores.size()));
    return options_.average == "micro" ? Tensor::scalar(scores[0]) : Tensor::from_vector(scores);
  }

  Json get_config() const override {
    if (std::string_view(class_name_) == "FBetaScore") return keras::with_own_fields(Metric::get_config(), options_);
    return keras::with_own_fields(Metric::get_config(), F1Options{options_.average, options_.threshold});
  }

 private:
  std::vector<float> read(std::size_t i) const { return variables()[i]->read().to_vector<float>(); }
  const char* class_name_;
  FBetaOptions options_;
};

// The family over a confusion matrix of class numbers; `extra` is the rest of its config.
class IoUMetric : public Metric {
 public:
  IoUMetric(const char* class_name, std::int64_t classes, std::vector<std::int64_t> targets, IoUOptions o, Json extra,
            std::optional<double> threshold = std::nullopt)
      : Metric(o.name.empty() ? keras::auto_name(class_name) : o.name, o.dtype.empty() ? "int64" : o.dtype),
        class_name_(class_name),
        classes_(classes),
        targets_(std::move(targets)),
        options_(std::move(o)),
        extra_(std::move(extra)),
        threshold_(threshold) {
    if (classes_ < 1) throw_invalid_argument(fmt::format("{}: num_classes must be positive", class_name));
    for (std::int64_t id : targets_) {
      if (id < 0 || id >= classes_) {
        throw_invalid_argument(
            fmt::format("{}: target class {} is not below num_classes {}", class_name, id, classes_));
      }
    }
    if (!options_.axis && !(options_.sparse_y_true && options_.sparse_y_pred))
      throw_invalid_argument(fmt::format("{}: axis is None, expected that of the classes", class_name_));
    matrix_ = add_variable(Shape{classes_, classes_}, "total_confusion_matrix");
  }
  std::string class_name() const override { return class_name_; }
  Direction direction() const override { return Direction::kUp; }

  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight, const Tensor&) override {
    HostArray y = to_host(y_true), p = to_host(y_pred);
    if (threshold_) {
      for (float& value : p.values) value = value >= static_cast<float>(*threshold_) ? 1.0f : 0.0f;
    }
    if (!options_.sparse_y_true) y = classes_of(y);
    if (!options_.sparse_y_pred) p = classes_of(p);
    if (y.size() != p.size()) {
      throw_invalid_argument(fmt::format("{}: y_true of shape {} does not fit y_pred of shape {}", class_name_,
                                         y.shape.to_string(), p.shape.to_string()));
    }
    std::vector<float> w(y.size(), 1.0f);
    if (weight.defined()) {
      HostArray given = to_host(weight);
      if (given.size() == y.size()) given.shape = y.shape;  // such as (batch, 1) of (batch)
      while (given.rank() < y.rank() && given.rank() > 0) given.shape.push_back(1);
      w = broadcast_to(given, y.shape, "sample_weight").values;
    }
    std::vector<double> counts(static_cast<std::size_t>(classes_ * classes_));
    // In a matrix of integers, which is Keras's default, classes and weights lose their fractions.
    const bool whole = dtype().starts_with("int") || dtype().starts_with("uint");
    const auto number = [&](float value) { return whole ? std::trunc(value) : value; };
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float truth = number(y.values[i]), guess = number(p.values[i]);
      if (!is_class(truth) || !is_class(guess)) continue;
      if (options_.ignore_class && truth == static_cast<float>(*options_.ignore_class)) continue;
      counts[static_cast<std::size_t>(truth) * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(guess)] +=
          number(w[i]);
    }
    add_to(matrix_, counts);
  }

  Tensor result() const override {
    const std::vector<float> m = matrix_->read().to_vector<float>();
    const auto n = static_cast<std::size_t>(classes_);
    float sum = 0, valid = 0;
    for (std::int64_t target : targets_) {
      const auto id = static_cast<std::size_t>(target);
      float row = 0, column = 0;
      for (std::size_t i = 0; i < n; ++i) {
        row += m[id * n + i];
        column += m[i * n + id];
      }
      const float hits = m[id * n + id], all = row + column - hits;
      sum += hits / (all + epsilon());
      valid += all > 0 ? 1.0f : 0.0f;
    }
    return Tensor::scalar(valid == 0 ? 0.0f : sum / valid);
  }

  Json get_config() const override {
    Json config = Metric::get_config();
    for (const auto& [key, value] : extra_.items()) config[key] = value;
    return config;
  }

 private:
  HostArray classes_of(const HostArray& scores) const { return argmax_last(move_to_end(scores, *options_.axis)); }
  // As in Keras, other numbers are left out.
  bool is_class(float value) const { return value >= 0 && value < static_cast<float>(classes_); }
  const char* class_name_;
  std::int64_t classes_;
  std::vector<std::int64_t> targets_;
  IoUOptions options_;
  Json extra_;
  std::optional<double> threshold_;
  VariablePtr matrix_;
};

IoUOptions one_hot(OneHotIoUOptions o) {
  return {.name = std::move(o.name),
          .dtype = std::move(o.dtype),
          .ignore_class = o.ignore_class,
          .sparse_y_true = false,
          .sparse_y_pred = o.sparse_y_pred,
          .axis = o.axis};
}

class R2Metric : public Metric {
 public:
  explicit R2Metric(R2Options o) : Metric(or_else(o.name, "r2_score"), o.dtype), options_(std::move(o)) {
    if (!options_.class_aggregation.empty() && options_.class_aggregation != "uniform_average" &&
        options_.class_aggregation != "variance_weighted_average") {
      throw_invalid_argument(
          fmt::format("R2Score: class_aggregation '{}', expected none, uniform_average or variance_weighted_average",
                      options_.class_aggregation));
    }
    if (options_.num_regressors < 0) throw_invalid_argument("R2Score: num_regressors must not be negative");
    add_variable(Shape{}, "num_samples");
  }
  std::string class_name() const override { return "R2Score"; }
  Direction direction() const override { return Direction::kUp; }

  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& weight, const Tensor&) override {
    const auto [targets, predictions] = losses::squeeze_or_expand_to_same_rank(y_true, y_pred);
    const Table t = table_of("R2Score", targets, predictions, weight);
    if (variables().size() == 1) {
      for (const char* name : {"squared_sum", "sum", "residual", "count"}) {
        add_variable(Shape{static_cast<std::int64_t>(t.columns)}, name);
      }
    }
    std::vector<std::vector<double>> sums(4, std::vector<double>(t.columns));
    for (std::size_t i = 0; i < t.p.size(); ++i) {
      const std::size_t at = i % t.columns;
      const double y = t.y.values[i], error = y - t.p.values[i], w = t.w[i];
      sums[0][at] += y * y * w;
      sums[1][at] += y * w;
      sums[2][at] += error * error * w;
      sums[3][at] += w;
    }
    variables()[0]->assign_add(Tensor::scalar(static_cast<float>(t.p.size())));  // numbers, not rows, in Keras
    for (std::size_t i = 0; i < 4; ++i) add_to(variables()[i + 1], sums[i]);
  }

  Tensor result() const override {
    if (variables().size() == 1) return Tensor::scalar(0.0f);
    const auto read = [&](std::size_t i) { return variables()[i]->read().to_vector<float>(); };
    const auto squared = read(1), sum = read(2), residual = read(3), count = read(4);
    std::vector<float> scores, totals;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      totals.push_back(squared[i] - sum[i] * (sum[i] / count[i]));
      const float score = 1.0f - residual[i] / totals[i];
      scores.push_back(std::isinf(score) ? 0.0f : score);
    }
    float mean = 0, weighted = 0, total = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      mean += scores[i] / static_cast<float>(scores.size());
      weighted += totals[i] * scores[i];
      total += totals[i];
    }
    if (options_.class_aggregation == "uniform_average") return Tensor::scalar(adjusted(mean));
    if (options_.class_aggregation == "variance_weighted_average") return Tensor::scalar(adjusted(weighted / total));
    for (float& score : scores) score = adjusted(score);
    return Tensor::from_vector(scores);
  }

  Json get_config() const override { return keras::with_own_fields(Metric::get_config(), options_); }

 private:
  float adjusted(float score) const {
    if (options_.num_regressors == 0) return score;
    const float n = variables()[0]->read().item<float>(), p = static_cast<float>(options_.num_regressors);
    return n - p - 1 <= 0 ? score : 1.0f - (1.0f - score) * (n - 1.0f) / (n - p - 1.0f);
  }
  R2Options options_;
};

// The axes (all without a value) as one, the last.
HostArray joined_at_end(HostArray a, const ops::Axes& axes) {
  std::set<int> places;
  for (int i = 0; i < a.rank(); ++i) {
    if (!axes) places.insert(i);
  }
  for (const std::int64_t axis : axes.value_or(ops::Ints{}))
    places.insert(static_cast<int>(axis < 0 ? axis + a.rank() : axis));
  int moved = 0;
  for (const int place : places) a = move_to_end(a, place - moved++);
  std::vector<std::int64_t> dims = a.shape.dims();
  std::int64_t width = 1;
  for (; moved > 0; --moved) {
    width *= dims.back();
    dims.pop_back();
  }
  dims.push_back(width);
  a.shape = Shape(dims);
  return a;
}

// Each line of the axis of both arrays into one number.
template <typename Line>
MeanOf::Function by_line(const char* who, const ops::Axes& axis, Line line) {
  return [who, axis, line](const Tensor& y_true, const Tensor& y_pred) {
    HostArray y = to_host(y_true), p = to_host(y_pred);
    squeeze_or_expand(y, p);
    if (!(y.shape == p.shape)) {
      throw_invalid_argument(fmt::format("{}: y_true of shape {} does not fit y_pred of shape {}", who,
                                         y.shape.to_string(), p.shape.to_string()));
    }
    y = joined_at_end(std::move(y), axis);
    p = joined_at_end(std::move(p), axis);
    const auto width = static_cast<std::size_t>(p.shape[-1]);
    std::vector<std::int64_t> dims = p.shape.dims();
    dims.pop_back();
    HostArray out{Shape(dims), {}};
    for (std::size_t at = 0; at < p.size(); at += width) {
      double y_mean = 0, p_mean = 0, y_var = 0, p_var = 0, covariance = 0;
      const double n = static_cast<double>(width);
      for (std::size_t i = at; i < at + width; ++i) y_mean += y.values[i] / n, p_mean += p.values[i] / n;
      for (std::size_t i = at; i < at + width; ++i) {
        const double a = y.values[i] - y_mean, b = p.values[i] - p_mean;
        y_var += a * a / n, p_var += b * b / n, covariance += a * b / n;
      }
      out.values.push_back(static_cast<float>(line(y_mean, p_mean, y_var, p_var, covariance)));
    }
    return out;
  };
}

}  // namespace

MetricPtr FBetaScore(FBetaOptions o) {
  o.name = or_else(o.name, "fbeta_score");
  return std::make_shared<FBetaMetric>("FBetaScore", std::move(o));
}
MetricPtr F1Score(F1Options o) {
  return std::make_shared<FBetaMetric>("F1Score",
                                       FBetaOptions{o.average, 1.0, o.threshold, or_else(o.name, "f1_score"), o.dtype});
}

MetricPtr IoU(std::int64_t num_classes, std::vector<std::int64_t> ids, IoUOptions o) {
  Json extra = keras::with_own_fields({}, IoUConfig{num_classes, ids, o});
  return std::make_shared<IoUMetric>("IoU", num_classes, std::move(ids), std::move(o), std::move(extra));
}
MetricPtr MeanIoU(std::int64_t num_classes, IoUOptions o) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < num_classes; ++i) all.push_back(i);
  Json extra = keras::with_own_fields({}, MeanIoUConfig{num_classes, o});
  return std::make_shared<IoUMetric>("MeanIoU", num_classes, std::move(all), std::move(o), std::move(extra));
}
MetricPtr OneHotIoU(std::int64_t num_classes, std::vector<std::int64_t> ids, OneHotIoUOptions o) {
  Json extra = keras::with_own_fields({}, OneHotIoUConfig{num_classes, ids, o});
  return std::make_shared<IoUMetric>("OneHotIoU", num_classes, std::move(ids), one_hot(std::move(o)), std::move(extra));
}
MetricPtr OneHotMeanIoU(std::int64_t num_classes, OneHotIoUOptions o) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < num_classes; ++i) all.push_back(i);
  Json extra = keras::with_own_fields({}, OneHotMeanIoUConfig{num_classes, o});
  return std::make_shared<IoUMetric>("OneHotMeanIoU", num_classes, std::move(all), one_hot(std::move(o)),
                                     std::move(extra));
}
MetricPtr BinaryIoU(BinaryIoUOptions o) {
  if (!o.threshold) throw_invalid_argument("BinaryIoU: threshold is None, expected a number");
  Json extra = keras::with_own_fields({}, o);
  IoUOptions options;
  options.name = o.name;
  options.dtype = o.dtype;
  return std::make_shared<IoUMetric>("BinaryIoU", 2, o.target_class_ids, std::move(options), std::move(extra),
                                     o.threshold);
}

MetricPtr R2Score(R2Options o) { return std::make_shared<R2Metric>(std::move(o)); }

namespace {

MeanOf::Function pearson(const ops::Axes& axis) {
  return by_line("PearsonCorrelation", axis, [](double, double, double y_var, double p_var, double covariance) {
    return covariance / (std::sqrt(y_var) * std::sqrt(p_var));
  });
}
MeanOf::Function concordance(const ops::Axes& axis) {
  const auto line = [](double y_mean, double p_mean, double y_var, double p_var, double covariance) {
    return 2 * covariance / (y_var + p_var + (y_mean - p_mean) * (y_mean - p_mean) + keras::backend::epsilon());
  };
  return by_line("ConcordanceCorrelation", axis, line);
}

}  // namespace

MetricPtr PearsonCorrelation(AxisOptions o) {
  return std::make_shared<MeanOf>("PearsonCorrelation", or_else(o.name, "pearson_correlation"), o.dtype,
                                  pearson(o.axis), Metric::Direction::kUp, keras::with_own_fields({}, o));
}
MetricPtr ConcordanceCorrelation(AxisOptions o) {
  return std::make_shared<MeanOf>("ConcordanceCorrelation", or_else(o.name, "concordance_correlation"), o.dtype,
                                  concordance(o.axis), Metric::Direction::kUp, keras::with_own_fields({}, o));
}
Tensor pearson_correlation(const Tensor& y_true, const Tensor& y_pred, const CorrelationKeywords& o) {
  return to_tensor(pearson(ops::Axes({o.axis}))(y_true, y_pred));
}
Tensor concordance_correlation(const Tensor& y_true, const Tensor& y_pred, const CorrelationKeywords& o) {
  return to_tensor(concordance(ops::Axes({o.axis}))(y_true, y_pred));
}

}  // namespace lockstep::metrics
