#include "lockstep/keras/metrics/mean_internal.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/losses/losses.h"
#include "lockstep/keras/metrics/fields_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::metrics {

Tensor weight_and_mask(const Tensor& sample_weight, const Tensor& mask) {
  if (!mask.defined()) return sample_weight;
  const Tensor valid = ops::cast(mask, DType::kFloat32);
  if (!sample_weight.defined()) return valid;
  const auto [a, b] = losses::squeeze_or_expand_to_same_rank(valid, ops::cast(sample_weight, DType::kFloat32));
  return a * b;
}

namespace {

// As in Keras, a mask of the values counts where there are weights only.
Tensor mask_of_values(const Tensor& values, const Tensor& sample_weight, const Tensor& mask) {
  return mask.defined() || !sample_weight.defined() ? mask : values.mask();
}

}  // namespace

MeanMetric::MeanMetric(std::string class_name, std::string name, std::string dtype)
    : Metric(std::move(name), std::move(dtype)), class_name_(std::move(class_name)) {
  total_ = add_variable(Shape{}, "total");
  count_ = add_variable(Shape{}, "count");
}

void MeanMetric::add_to_state(double total, double count) {
  total_->assign_add(Tensor::scalar(static_cast<float>(total)));
  count_->assign_add(Tensor::scalar(static_cast<float>(count)));
}

void MeanMetric::add(HostArray values, const Tensor& weight) {
  double total = 0, count = 0;
  if (!weight.defined()) {
    const HostArray samples = mean_from(values, 1);
    for (float value : samples.values) total += value;
    count = values.rank() > 0 ? static_cast<double>(values.shape[0]) : 1.0;
    add_to_state(total, count);
    rows_ = count;
    scalar_ = values.rank() == 0;
    return;
  }
  rows_ = 0;
  HostArray weights = to_host(weight);
  squeeze_or_expand(values, weights);
  if (values.rank() > weights.rank()) values = mean_from(values, weights.rank());
  weights = broadcast_to(weights, values.shape, "sample_weight");
  for (std::size_t i = 0; i < values.size(); ++i) values.values[i] *= weights.values[i];
  for (float value : mean_from(values, 1).values) total += value;
  for (float value : mean_from(weights, 1).values) count += value;
  add_to_state(total, count);
}

void MeanMetric::count_again(bool static_rows) {
  if (rows_ > 0 && (static_rows || scalar_)) add_to_state(0, rows_);
}

float MeanMetric::mean() const {
  const float total = total_->read().item<float>(), count = count_->read().item<float>();
  return count == 0 ? 0.0f : total / count;
}

void MeanMetric::update_state(const Tensor& values, const Tensor& sample_weight, const Tensor&, const Tensor& mask) {
  if (values.is_symbolic()) return;
  add(to_host(values), weight_and_mask(sample_weight, mask_of_values(values, sample_weight, mask)));
}

MeanOf::MeanOf(std::string class_name, std::string name, std::string dtype, Function function, Direction direction,
               Json extra)
    : MeanMetric(std::move(class_name), std::move(name), std::move(dtype)),
      function_(std::move(function)),
      direction_(direction),
      extra_(std::move(extra)) {}

void MeanOf::update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight, const Tensor& mask) {
  if (!y_pred.defined())
    throw_invalid_argument(fmt::format("{}: update_state() needs y_true and y_pred", class_name()));
  if (is_symbolic(y_true, y_pred)) return;
  const bool enabled = ops::grad_enabled();
  ops::set_grad_enabled(false);
  struct Restore {
    bool enabled;
    ~Restore() { ops::set_grad_enabled(enabled); }
  } restore{enabled};
  add(function_(y_true, y_pred), weight_and_mask(sample_weight, mask.defined() ? mask : y_pred.mask()));
}

Json MeanOf::get_config() const {
  Json config = Metric::get_config();
  for (const auto& [key, value] : extra_.items()) config[key] = value;
  return config;
}

namespace {

class SumMetric : public Metric {
 public:
  SumMetric(std::string name, std::string dtype) : Metric(std::move(name), std::move(dtype)) {
    total_ = add_variable(Shape{}, "total");
  }
  std::string class_name() const override { return "Sum"; }
  void update_state(const Tensor& values, const Tensor& sample_weight, const Tensor&, const Tensor& mask) override {
    HostArray array = to_host(values);
    const Tensor weight = weight_and_mask(sample_weight, mask_of_values(values, sample_weight, mask));
    if (weight.defined()) {
      HostArray weights = to_host(weight);
      squeeze_or_expand(array, weights);
      if (array.rank() > weights.rank()) array = sum_from(array, weights.rank());
      weights = broadcast_to(weights, array.shape, "sample_weight");
      for (std::size_t i = 0; i < array.size(); ++i) array.values[i] *= weights.values[i];
    }
    double total = 0;
    for (float value : array.values) total += value;
    total_->assign_add(Tensor::scalar(static_cast<float>(total)));
  }
  Tensor result() const override { return Tensor::scalar(total_->read().item<float>()); }

 private:
  VariablePtr total_;
};

class RootMeanSquaredErrorMetric : public MeanMetric {
 public:
  using MeanMetric::MeanMetric;
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight, const Tensor&) override {
    HostArray y = to_host(y_true), p = to_host(y_pred);
    squeeze_or_expand(y, p);
    y = broadcast_to(y, p.shape, "y_true");
    for (std::size_t i = 0; i < p.size(); ++i) {
      const float error = p.values[i] - y.values[i];
      p.values[i] = error * error;
    }
    add(std::move(p), sample_weight);
  }
  Tensor result() const override { return Tensor::scalar(std::sqrt(mean())); }
  Direction direction() const override { return Direction::kDown; }
};

template <typename Call>
MeanOf::Function of_values(Call call) {
  return [call](const Tensor& y_true, const Tensor& y_pred) {
    const Tensor p = is_floating(y_pred.dtype()) ? y_pred : ops::cast(y_pred, DType::kFloat32);
    return to_host(call(y_true, p));
  };
}

MetricPtr of_loss(const char* class_name, const char* name, const MetricOptions& options,
                  Tensor (*function)(const Tensor&, const Tensor&)) {
  return std::make_shared<MeanOf>(class_name, or_else(options.name, name), options.dtype, of_values(function),
                                  Metric::Direction::kDown);
}

}  // namespace

MetricPtr Mean(MetricOptions o) { return std::make_shared<MeanMetric>("Mean", or_else(o.name, "mean"), o.dtype); }
MetricPtr Mean(const char* name) { return Mean(MetricOptions{.name = name}); }
MetricPtr Sum(MetricOptions o) { return std::make_shared<SumMetric>(or_else(o.name, "sum"), o.dtype); }
namespace {

// A registered function, which files name.
class RegisteredFunctionMetric : public MeanOf {
 public:
  RegisteredFunctionMetric(const std::string& registered_name, MetricFunction function)
      : MeanOf("function", registered_name.substr(registered_name.find('>') + 1), {}, of_values(std::move(function)),
               Direction::kUnknown),
        registered_name_(registered_name) {}
  Json get_config() const override { return registered_name_; }

 private:
  std::string registered_name_;
};

}  // namespace

MetricPtr Metric::of_function(MetricFunction function) {
  if (const std::string name = keras::function_name(function); !name.empty())
    return std::make_shared<RegisteredFunctionMetric>(name, std::move(function));
  return MeanMetricWrapper(std::move(function), {.name = "lambda"});
}
MetricPtr MeanMetricWrapper(MetricFunction function, MetricOptions o) {
  Json extra = Json::object();
  if (const std::string name = keras::function_name(function); !name.empty()) {
    extra["fn"] = {
        {"module", "builtins"}, {"class_name", "function"}, {"config", name}, {"registered_name", "function"}};
  }
  return std::make_shared<MeanOf>("MeanMetricWrapper", or_else(o.name, "mean_metric_wrapper"), o.dtype,
                                  of_values(std::move(function)), Metric::Direction::kUnknown, std::move(extra));
}

MetricPtr MeanSquaredError(MetricOptions o) {
  return of_loss("MeanSquaredError", "mean_squared_error", o, losses::mean_squared_error);
}
MetricPtr RootMeanSquaredError(MetricOptions o) {
  return std::make_shared<RootMeanSquaredErrorMetric>("RootMeanSquaredError",
                                                      or_else(o.name, "root_mean_squared_error"), o.dtype);
}
MetricPtr MeanAbsoluteError(MetricOptions o) {
  return of_loss("MeanAbsoluteError", "mean_absolute_error", o, losses::mean_absolute_error);
}
MetricPtr MeanAbsolutePercentageError(MetricOptions o) {
  return of_loss("MeanAbsolutePercentageError", "mean_absolute_percentage_error", o,
                 losses::mean_absolute_percentage_error);
}
MetricPtr MeanSquaredLogarithmicError(MetricOptions o) {
  return of_loss("MeanSquaredLogarithmicError", "mean_squared_logarithmic_error", o,
                 losses::mean_squared_logarithmic_error);
}
MetricPtr MeanRelativeError(std::vector<double> normalizer, MetricOptions o) {
  const auto function = [normalizer](const Tensor& y_true, const Tensor& y_pred) {
    HostArray y = to_host(y_true), p = to_host(y_pred);
    squeeze_or_expand(y, p);
    y = broadcast_to(y, p.shape, "y_true");
    const std::size_t n = normalizer.size();
    if (n != 1 && (p.rank() == 0 || p.shape[-1] != static_cast<std::int64_t>(n)))
      throw_invalid_argument(
          fmt::format("MeanRelativeError: the normalizer has {} values, y_pred has shape {}", n, p.shape.to_string()));
    for (std::size_t i = 0; i < p.size(); ++i) {
      const auto by = static_cast<float>(normalizer[i % n]);
      p.values[i] = by == 0 ? 0.0f : std::abs(y.values[i] - p.values[i]) / by;
    }
    return p;
  };
  return std::make_shared<MeanOf>("MeanRelativeError", or_else(o.name, "mean_relative_error"), o.dtype, function,
                                  Metric::Direction::kDown, Json{{"normalizer", normalizer}});
}
MetricPtr LogCoshError(MetricOptions o) { return of_loss("LogCoshError", "logcosh", o, losses::log_cosh); }
MetricPtr KLDivergence(MetricOptions o) { return of_loss("KLDivergence", "kl_divergence", o, losses::kl_divergence); }
MetricPtr Poisson(MetricOptions o) { return of_loss("Poisson", "poisson", o, losses::poisson); }
MetricPtr Hinge(MetricOptions o) { return of_loss("Hinge", "hinge", o, losses::hinge); }
MetricPtr SquaredHinge(MetricOptions o) { return of_loss("SquaredHinge", "squared_hinge", o, losses::squared_hinge); }
MetricPtr CategoricalHinge(MetricOptions o) {
  return of_loss("CategoricalHinge", "categorical_hinge", o, losses::categorical_hinge);
}

MetricPtr CosineSimilarity(AxisOptions o) {
  const auto function = [axis = o.axis](const Tensor& y, const Tensor& p) {
    return -losses::cosine_similarity(y, p, axis);
  };
  // Keras 3 leaves the axis out, which changes the metric that it loads.
  Json written = Json::object();
  if (!o.axis || *o.axis != keras::Ints{-1}) written = keras::with_own_fields({}, o);
  return std::make_shared<MeanOf>("CosineSimilarity", or_else(o.name, "cosine_similarity"), o.dtype,
                                  of_values(function), Metric::Direction::kUp, std::move(written));
}

MetricPtr BinaryCrossentropy(BinaryCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return losses::binary_crossentropy(y, p, o.from_logits, o.label_smoothing);
  };
  return std::make_shared<MeanOf>("BinaryCrossentropy", or_else(o.name, "binary_crossentropy"), o.dtype,
                                  of_values(function), Metric::Direction::kDown, keras::with_own_fields({}, o));
}

MetricPtr CategoricalCrossentropy(CategoricalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return losses::categorical_crossentropy(y, p, o.from_logits, o.label_smoothing, o.axis);
  };
  return std::make_shared<MeanOf>("CategoricalCrossentropy", or_else(o.name, "categorical_crossentropy"), o.dtype,
                                  of_values(function), Metric::Direction::kDown, keras::with_own_fields({}, o));
}

namespace {

class SparseCrossentropyMetric : public MeanOf {
 public:
  SparseCrossentropyMetric(const SparseCategoricalCrossentropyOptions& o, Function function)
      : MeanOf("SparseCategoricalCrossentropy", or_else(o.name, "sparse_categorical_crossentropy"), o.dtype,
               std::move(function), Direction::kDown, keras::with_own_fields({}, o)),
        ignored_(o.ignore_class) {}
  // As in Keras, an ignored class is left out of the mean where there are weights, else it counts as 0.
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                    const Tensor& mask) override {
    const bool weighted = ignored_ && sample_weight.defined() && y_pred.defined() && !is_symbolic(y_true, y_pred);
    const Tensor valid = weighted ? not_ignored(y_true, y_pred, static_cast<double>(*ignored_)) : Tensor();
    MeanOf::update_state(y_true, y_pred, weight_and_mask(sample_weight, valid), mask);
  }

 private:
  std::optional<std::int64_t> ignored_;
};

}  // namespace

Tensor not_ignored(const Tensor& y_true, const Tensor& y_pred, double ignored) {
  const bool column = y_true.rank() == y_pred.rank() && y_true.dim(-1) == 1;
  return ops::not_equal(ops::cast(column ? ops::squeeze(y_true, {-1}) : y_true, DType::kFloat32), ignored);
}

MetricPtr SparseCategoricalCrossentropy(SparseCategoricalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return losses::sparse_categorical_crossentropy(y, p, o.from_logits, o.ignore_class, o.axis);
  };
  return std::make_shared<SparseCrossentropyMetric>(o, of_values(function));
}

}  // namespace lockstep::metrics
