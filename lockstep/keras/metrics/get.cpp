// The table of metrics.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/keras/losses/loss.h"
#include "lockstep/keras/metrics/fields_internal.h"
#include "lockstep/keras/metrics/mean_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::metrics {
namespace {

MetricPtr from_function_name(const std::string& function, MetricOptions options) {
  if (MeanOf::Function accuracy = find_accuracy_function(function)) {
    return std::make_shared<MeanOf>("MeanMetricWrapper", options.name, options.dtype, std::move(accuracy),
                                    Metric::Direction::kUp, Json{{"fn", function}});
  }
  losses::LossFunction loss = losses::find_function(function);
  if (!loss) throw_invalid_argument(fmt::format("MeanMetricWrapper: unknown function '{}'", function));
  const auto values = [loss](const Tensor& y_true, const Tensor& y_pred) {
    return to_host(loss(y_true, is_floating(y_pred.dtype()) ? y_pred : ops::cast(y_pred, DType::kFloat32)));
  };
  return std::make_shared<MeanOf>("MeanMetricWrapper", options.name, options.dtype, values, Metric::Direction::kDown,
                                  Json{{"fn", function}});
}

// Keras 2 wraps functions: {"class_name": "MeanMetricWrapper", "config": {"name", "dtype", "fn": name}}.
MetricPtr wrapper_of(WrapperConfig c) {
  std::string function;
  if (c.fn.is_string()) function = c.fn.get<std::string>();
  if (const auto object = keras::parse_object_config(c.fn); object && object->config.is_string()) {
    function = object->config.get<std::string>();
  }
  if (auto own = keras::function_named<Metric::KerasFunction>(function))
    return MeanMetricWrapper(std::move(own), std::move(c.options));
  if (c.options.name.empty()) c.options.name = function;
  // A metric of this name, not the loss with the opposite sign.
  if (c.fn.is_string() && (function == "cosine_similarity" || function == "cosine_proximity"))
    return CosineSimilarity({.name = c.options.name, .dtype = c.options.dtype});
  return from_function_name(function, std::move(c.options));
}

// A metric by a name that is not the name of a class: any loss can be watched as a metric, which is its values' mean.
MetricPtr of_loss_function(const std::string& name) {
  return losses::find_function(name) ? from_function_name(name, {.name = name}) : nullptr;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

template <At kAt>
void add_at(keras::ClassFamily<Metric>& table, const char* name, MetricPtr (*make)(double, AtOptions)) {
  table.add<AtConfig<kAt>>(name, {}, [make](AtConfig<kAt> c) { return make(c.value, std::move(c.options)); });
}

}  // namespace

const keras::ClassFamily<Metric>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<Metric>("metric", "keras.metrics", keras::ClassNames::kSnakeCase);
    t->add<AUCOptions>("AUC", {"auc"}, AUC);
    t->add<MetricOptions>("Accuracy", {}, Accuracy);
    t->add<BinaryAccuracyOptions>("BinaryAccuracy", {}, BinaryAccuracy);
    t->add<BinaryCrossentropyOptions>("BinaryCrossentropy", {"bce", "BCE"}, BinaryCrossentropy);
    t->add<BinaryIoUOptions>("BinaryIoU", {"binary_io_u"}, BinaryIoU);
    t->add<MetricOptions>("CategoricalAccuracy", {}, CategoricalAccuracy);
    t->add<CategoricalCrossentropyOptions>("CategoricalCrossentropy", {}, CategoricalCrossentropy);
    t->add<MetricOptions>("CategoricalHinge", {}, CategoricalHinge);
    t->add<AxisOptions>("ConcordanceCorrelation", {}, ConcordanceCorrelation);
    t->add<AxisOptions>("CosineSimilarity", {}, CosineSimilarity);
    t->add<F1Options>("F1Score", {"f1_score"}, F1Score);
    t->add<FBetaOptions>("FBetaScore", {"fbeta_score"}, FBetaScore);
    t->add<ThresholdOptions>("FalseNegatives", {}, FalseNegatives);
    t->add<ThresholdOptions>("FalsePositives", {}, FalsePositives);
    t->add<MetricOptions>("Hinge", {}, Hinge);
    t->add<IoUConfig>("IoU", {}, [](IoUConfig c) { return IoU(c.num_classes, c.target_class_ids, c.options); });
    t->add<MetricOptions>("KLDivergence", {"kld", "KLD", "kullback_leibler_divergence"}, KLDivergence);
    t->add<MetricOptions>("LogCoshError", {"logcosh", "log_cosh"}, LogCoshError);
    t->add<MetricOptions>("Mean", {}, [](MetricOptions o) { return Mean(std::move(o)); });
    t->add<MetricOptions>("MeanAbsoluteError", {"mae", "MAE"}, MeanAbsoluteError);
    t->add<MetricOptions>("MeanAbsolutePercentageError", {"mape", "MAPE"}, MeanAbsolutePercentageError);
    t->add<MeanRelativeErrorConfig>("MeanRelativeError", {}, [](MeanRelativeErrorConfig c) {
      return MeanRelativeError(std::move(c.normalizer), std::move(c.options));
    });
    t->add<MeanIoUConfig>("MeanIoU", {}, [](MeanIoUConfig c) { return MeanIoU(c.num_classes, c.options); });
    t->add<WrapperConfig>("MeanMetricWrapper", {}, wrapper_of);
    t->add<MetricOptions>("MeanSquaredError", {"mse", "MSE"}, MeanSquaredError);
    t->add<MetricOptions>("MeanSquaredLogarithmicError", {"msle", "MSLE"}, MeanSquaredLogarithmicError);
    t->add<OneHotIoUConfig>("OneHotIoU", {},
                            [](OneHotIoUConfig c) { return OneHotIoU(c.num_classes, c.target_class_ids, c.options); });
    t->add<OneHotMeanIoUConfig>("OneHotMeanIoU", {},
                                [](OneHotMeanIoUConfig c) { return OneHotMeanIoU(c.num_classes, c.options); });
    t->add<AxisOptions>("PearsonCorrelation", {}, PearsonCorrelation);
    t->add<MetricOptions>("Poisson", {}, Poisson);
    t->add<PrecisionOptions>("Precision", {}, Precision);
    add_at<At::kRecall>(*t, "PrecisionAtRecall", PrecisionAtRecall);
    t->add<R2Options>("R2Score", {"r2_score"}, R2Score);
    t->add<RecallOptions>("Recall", {}, Recall);
    add_at<At::kPrecision>(*t, "RecallAtPrecision", RecallAtPrecision);
    t->add<MetricOptions>("RootMeanSquaredError", {"rmse"}, RootMeanSquaredError);
    add_at<At::kSpecificity>(*t, "SensitivityAtSpecificity", SensitivityAtSpecificity);
    t->add<MetricOptions>("SparseCategoricalAccuracy", {}, SparseCategoricalAccuracy);
    t->add<SparseCategoricalCrossentropyOptions>("SparseCategoricalCrossentropy", {}, SparseCategoricalCrossentropy);
    t->add<TopKOptions>("SparseTopKCategoricalAccuracy", {},
                        [](TopKOptions o) -> MetricPtr { return SparseTopKCategoricalAccuracy(std::move(o)); });
    add_at<At::kSensitivity>(*t, "SpecificityAtSensitivity", SpecificityAtSensitivity);
    t->add<MetricOptions>("SquaredHinge", {}, SquaredHinge);
    t->add<MetricOptions>("Sum", {}, Sum);
    t->add<TopKOptions>("TopKCategoricalAccuracy", {},
                        [](TopKOptions o) -> MetricPtr { return TopKCategoricalAccuracy(std::move(o)); });
    t->add<ThresholdOptions>("TrueNegatives", {}, TrueNegatives);
    t->add<ThresholdOptions>("TruePositives", {}, TruePositives);
    return t;
  }();
  return *table;
}

MetricPtr deserialize(const Json& config) {
  if (config.is_string() && !classes().contains(config.get<std::string>())) {
    if (MetricPtr metric = of_loss_function(config.get<std::string>())) return metric;
  }
  if (const auto object = keras::parse_object_config(config);
      object && object->class_name == "function" && object->config.is_string()) {
    if (auto function = keras::function_named<Metric::KerasFunction>(object->config.text()))
      return Metric::of_function(std::move(function));
    return from_function_name(object->config.get<std::string>(), {.name = object->config.get<std::string>()});
  }
  return classes().deserialize(config, [](Metric& made, const Json& base) { made.set_base_config(base); });
}

MetricPtr get(const MetricArg& identifier) {
  if (const std::string* name = identifier.name()) return deserialize(*name);
  if (const Json* config = identifier.config()) return deserialize(*config);
  return classes().get(identifier);
}

MetricPtr get_named(const std::string& name, int keras_version) {
  MetricPtr metric = get(name);
  const bool of_class = classes().contains(name) && classes().find(name)->name == name;
  metric->set_name(keras_version >= 3 || !of_class ? name : keras::to_snake_case(name));
  return metric;
}

bool depends_on_outputs(const std::string& name) {
  const std::string word = lower(name);
  return word == "crossentropy" || word == "ce";
}

namespace {

enum class Targets { kBinary, kSparse, kCategorical };
Targets targets_of(const Shape& y_true, const Shape& y_pred) {
  if (y_pred.rank() == 0 || y_true.rank() == 0 || y_pred[-1] == 1) return Targets::kBinary;
  return y_true.rank() < y_pred.rank() || y_true[-1] == 1 ? Targets::kSparse : Targets::kCategorical;
}

// Of targets and outputs whose shapes are known in update_state().
MetricPtr accuracy_of_any(const std::string& name) {
  const auto function = [](const Tensor& y_true, const Tensor& y_pred) {
    const Targets targets = targets_of(y_true.shape(), y_pred.shape());
    return find_accuracy_function(targets == Targets::kBinary   ? "binary_accuracy"
                                  : targets == Targets::kSparse ? "sparse_categorical_accuracy"
                                                                : "categorical_accuracy")(y_true, y_pred);
  };
  return std::make_shared<MeanOf>("Accuracy", name, std::string(), function, Metric::Direction::kUp);
}

}  // namespace

MetricPtr get_for_compile(const MetricArg& identifier, const Shape& y_true, const Shape& y_pred, int keras_version) {
  const std::string* name = identifier.name();
  if (!name) return get(identifier);
  const std::string word = lower(*name);
  const bool accuracy = word == "accuracy" || word == "acc";
  if (!accuracy && !depends_on_outputs(word)) return get_named(*name, keras_version);
  if (accuracy && !y_pred.known_rank()) return accuracy_of_any(*name);
  switch (targets_of(y_true, y_pred)) {
    case Targets::kBinary: return accuracy ? BinaryAccuracy({.name = *name}) : BinaryCrossentropy({.name = *name});
    case Targets::kSparse:
      return accuracy ? SparseCategoricalAccuracy({.name = *name}) : SparseCategoricalCrossentropy({.name = *name});
    default: return accuracy ? CategoricalAccuracy({.name = *name}) : CategoricalCrossentropy({.name = *name});
  }
}

Json serialize(const MetricPtr& metric) {
  return classes().serialize(metric, metric ? metric->Metric::get_config() : Json());
}

}  // namespace lockstep::metrics
