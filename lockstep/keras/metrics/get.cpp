// Names and configs of metrics.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/losses/loss.h"
#include "lockstep/keras/metrics/mean_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::metrics {
namespace {

using keras::ConfigReader;

std::vector<double> numbers(const ConfigReader& c, const char* key) {
  const Json& value = c.raw(key);
  if (value.is_number()) return {value.get<double>()};
  std::vector<double> list;
  for (const Json& item : value) {
    if (!item.is_number())
      throw_invalid_argument(fmt::format("{}: '{}' is {}, expected numbers", c.class_name(), key, dump_json(value)));
    list.push_back(item.get<double>());
  }
  return list;
}

std::vector<std::int64_t> integers(const ConfigReader& c, const char* key) {
  std::vector<std::int64_t> list;
  for (double number : numbers(c, key)) list.push_back(static_cast<std::int64_t>(number));
  return list;
}

// Configs written by ≥ 3.x may hold a policy object for the dtype.
std::string read_dtype(const ConfigReader& c) {
  const Json& dtype = c.raw("dtype");
  if (const auto object = keras::parse_object_config(dtype)) return object->config.value("name", "");
  return dtype.is_string() ? dtype.get<std::string>() : "";
}

template <typename Options>
Options read(const ConfigReader& c) {
  Options o;
  o.name = c.string("name", "");
  o.dtype = read_dtype(c);
  if constexpr (requires { o.threshold > 0.5; }) o.threshold = c.number("threshold", 0.5);
  if constexpr (requires { o.k; }) o.k = c.integer("k", 5);
  if constexpr (requires { o.from_sorted_ids; }) o.from_sorted_ids = c.boolean("from_sorted_ids", false);
  if constexpr (requires { o.axis; }) o.axis = static_cast<int>(c.integer("axis", -1));
  if constexpr (requires { o.from_logits; }) o.from_logits = c.boolean("from_logits", false);
  if constexpr (requires { o.label_smoothing; }) o.label_smoothing = c.number("label_smoothing", 0.0);
  if constexpr (requires { o.ignore_class; }) o.ignore_class = c.integer("ignore_class");
  if constexpr (requires { o.thresholds; }) o.thresholds = numbers(c, "thresholds");
  if constexpr (requires { o.top_k; }) o.top_k = c.integer("top_k");
  if constexpr (requires { o.class_id; }) o.class_id = c.integer("class_id");
  if constexpr (requires { o.num_thresholds; }) o.num_thresholds = c.integer("num_thresholds", 200);
  if constexpr (requires { o.average; }) o.average = c.string("average", "");
  if constexpr (requires { o.beta; }) o.beta = c.number("beta", 1.0);
  if constexpr (requires { o.sparse_y_true; }) o.sparse_y_true = c.boolean("sparse_y_true", true);
  if constexpr (requires { o.sparse_y_pred; }) o.sparse_y_pred = c.boolean("sparse_y_pred", o.sparse_y_pred);
  return o;
}

double required(const ConfigReader& c, const char* key) {
  const auto value = c.number(key);
  if (!value) throw_invalid_argument(fmt::format("{}: '{}' is missing", c.class_name(), key));
  return *value;
}

MetricPtr read_auc(const ConfigReader& c) {
  AUCOptions o = read<AUCOptions>(c);
  o.curve = c.string("curve", "ROC");
  o.summation_method = c.string("summation_method", "interpolation");
  o.multi_label = c.boolean("multi_label", false);
  o.num_labels = c.integer("num_labels");
  o.label_weights = numbers(c, "label_weights");
  return AUC(std::move(o));
}

template <typename Options>
Options read_fbeta(const ConfigReader& c) {
  Options o = read<Options>(c);
  o.threshold = c.number("threshold");
  return o;
}

MetricPtr read_binary_iou(const ConfigReader& c) {
  BinaryIoUOptions o = read<BinaryIoUOptions>(c);
  if (c.has("target_class_ids")) o.target_class_ids = integers(c, "target_class_ids");
  if (c.contains("threshold")) o.threshold = c.number("threshold");
  return BinaryIoU(std::move(o));
}

MetricPtr read_r2(const ConfigReader& c) {
  R2Options o = read<R2Options>(c);
  if (c.contains("class_aggregation")) o.class_aggregation = c.string("class_aggregation", "");
  o.num_regressors = c.integer("num_regressors", 0);
  return R2Score(std::move(o));
}

MetricPtr from_function_name(const std::string& function, MetricOptions options);

// Keras 2 wraps functions: {"class_name": "MeanMetricWrapper", "config": {"name", "dtype", "fn": name}}.
MetricPtr read_wrapper(const ConfigReader& c) {
  std::string function;
  const Json& fn = c.raw("fn");
  if (fn.is_string()) function = fn.get<std::string>();
  if (const auto object = keras::parse_object_config(fn); object && object->config.is_string()) {
    function = object->config.get<std::string>();
  }
  MetricOptions options = read<MetricOptions>(c);
  if (options.name.empty()) options.name = function;
  return from_function_name(function, std::move(options));
}

struct Row {
  const char* class_name;
  const char* function;  // another name, or null
  std::vector<const char*> aliases;
  MetricPtr (*make)(const ConfigReader&);
};

#define LOCKSTEP_METRIC(Class, Options, ...)                                                                    \
  Row {                                                                                                         \
#Class, nullptr, {__VA_ARGS__ }, [](const ConfigReader& c) -> MetricPtr { return Class(read<Options>(c)); } \
  }
#define LOCKSTEP_AT(Class, key)                                                                            \
  Row {                                                                                                    \
#Class, nullptr,                                                                                       \
        {}, [](const ConfigReader& c) -> MetricPtr { return Class(required(c, key), read<AtOptions>(c)); } \
  }

const std::vector<Row>& rows() {
  static const auto* rows = new std::vector<Row>{
      LOCKSTEP_METRIC(Accuracy, MetricOptions),
      {"AUC", "auc", {}, read_auc},
      LOCKSTEP_METRIC(BinaryAccuracy, BinaryAccuracyOptions),
      LOCKSTEP_METRIC(BinaryCrossentropy, BinaryCrossentropyOptions, "bce", "BCE"),
      {"BinaryIoU", "binary_io_u", {}, read_binary_iou},
      LOCKSTEP_METRIC(CategoricalAccuracy, MetricOptions),
      LOCKSTEP_METRIC(CategoricalCrossentropy, CategoricalCrossentropyOptions),
      LOCKSTEP_METRIC(CategoricalHinge, MetricOptions),
      LOCKSTEP_METRIC(ConcordanceCorrelation, AxisOptions),
      LOCKSTEP_METRIC(CosineSimilarity, AxisOptions),
      {"F1Score", "f1_score", {}, [](const ConfigReader& c) { return F1Score(read_fbeta<F1Options>(c)); }},
      {"FBetaScore", "fbeta_score", {}, [](const ConfigReader& c) { return FBetaScore(read_fbeta<FBetaOptions>(c)); }},
      LOCKSTEP_METRIC(FalseNegatives, ThresholdOptions),
      LOCKSTEP_METRIC(FalsePositives, ThresholdOptions),
      LOCKSTEP_METRIC(Hinge, MetricOptions),
      {"IoU",
       nullptr,
       {},
       [](const ConfigReader& c) {
         return IoU(static_cast<std::int64_t>(required(c, "num_classes")), integers(c, "target_class_ids"),
                    read<IoUOptions>(c));
       }},
      LOCKSTEP_METRIC(KLDivergence, MetricOptions, "kld", "KLD", "kullback_leibler_divergence"),
      LOCKSTEP_METRIC(LogCoshError, MetricOptions, "logcosh", "log_cosh"),
      LOCKSTEP_METRIC(Mean, MetricOptions),
      LOCKSTEP_METRIC(MeanAbsoluteError, MetricOptions, "mae", "MAE"),
      LOCKSTEP_METRIC(MeanAbsolutePercentageError, MetricOptions, "mape", "MAPE"),
      {"MeanIoU",
       nullptr,
       {},
       [](const ConfigReader& c) {
         return MeanIoU(static_cast<std::int64_t>(required(c, "num_classes")), read<IoUOptions>(c));
       }},
      {"MeanMetricWrapper", nullptr, {}, read_wrapper},
      LOCKSTEP_METRIC(MeanSquaredError, MetricOptions, "mse", "MSE"),
      LOCKSTEP_METRIC(MeanSquaredLogarithmicError, MetricOptions, "msle", "MSLE"),
      {"OneHotIoU",
       nullptr,
       {},
       [](const ConfigReader& c) {
         return OneHotIoU(static_cast<std::int64_t>(required(c, "num_classes")), integers(c, "target_class_ids"),
                          read<OneHotIoUOptions>(c));
       }},
      {"OneHotMeanIoU",
       nullptr,
       {},
       [](const ConfigReader& c) {
         return OneHotMeanIoU(static_cast<std::int64_t>(required(c, "num_classes")), read<OneHotIoUOptions>(c));
       }},
      LOCKSTEP_METRIC(PearsonCorrelation, AxisOptions),
      LOCKSTEP_METRIC(Poisson, MetricOptions),
      LOCKSTEP_METRIC(Precision, PrecisionOptions),
      LOCKSTEP_AT(PrecisionAtRecall, "recall"),
      {"R2Score", "r2_score", {}, read_r2},
      LOCKSTEP_METRIC(Recall, RecallOptions),
      LOCKSTEP_AT(RecallAtPrecision, "precision"),
      LOCKSTEP_METRIC(RootMeanSquaredError, MetricOptions, "rmse"),
      LOCKSTEP_AT(SensitivityAtSpecificity, "specificity"),
      LOCKSTEP_METRIC(SparseCategoricalAccuracy, MetricOptions),
      LOCKSTEP_METRIC(SparseCategoricalCrossentropy, SparseCategoricalCrossentropyOptions),
      LOCKSTEP_METRIC(SparseTopKCategoricalAccuracy, TopKOptions),
      LOCKSTEP_AT(SpecificityAtSensitivity, "sensitivity"),
      LOCKSTEP_METRIC(SquaredHinge, MetricOptions),
      LOCKSTEP_METRIC(Sum, MetricOptions),
      LOCKSTEP_METRIC(TopKCategoricalAccuracy, TopKOptions),
      LOCKSTEP_METRIC(TrueNegatives, ThresholdOptions),
      LOCKSTEP_METRIC(TruePositives, ThresholdOptions),
  };
  return *rows;
}
#undef LOCKSTEP_METRIC
#undef LOCKSTEP_AT

bool answers_to(const Row& row, const std::string& name) {
  return name == row.class_name || name == keras::to_snake_case(row.class_name) ||
         (row.function && name == row.function) ||
         std::any_of(row.aliases.begin(), row.aliases.end(), [&](const char* alias) { return name == alias; });
}

MetricPtr make(const std::string& name, const Json& config) {
  std::vector<std::string> known;
  for (const Row& row : rows()) {
    if (answers_to(row, name)) return row.make(ConfigReader(row.class_name, config));
    known.insert(known.end(), {keras::to_snake_case(row.class_name), row.class_name});
    known.insert(known.end(), row.aliases.begin(), row.aliases.end());
  }
  // Any loss can be watched as a metric: its values' mean.
  if (losses::find_function(name)) return from_function_name(name, {.name = name});
  keras::throw_unknown_object("metric", name, known);
}

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

bool is_built_in(const std::string& name) {
  return std::any_of(rows().begin(), rows().end(), [&](const Row& row) { return answers_to(row, name); });
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

MetricPtr deserialize(const Json& config) {
  if (config.is_string()) return make(config.get<std::string>(), Json::object());
  const auto object = keras::parse_object_config(config);
  if (!object) throw_invalid_argument(fmt::format("{} is not the config of a metric", dump_json(config)));
  if (auto made = keras::make_registered<Metric>(*object, is_built_in(object->class_name))) {
    made->set_base_config(object->config);
    return made;
  }
  if (object->class_name == "function" && object->config.is_string()) {
    return from_function_name(object->config.get<std::string>(), {.name = object->config.get<std::string>()});
  }
  return make(object->class_name, object->config);
}

MetricPtr get(const MetricArg& identifier) {
  if (auto object = identifier.object()) return object;
  if (const std::string* name = identifier.name()) return make(*name, Json::object());
  if (const Json* config = identifier.config()) return deserialize(*config);
  return nullptr;
}

MetricPtr get_for_compile(const MetricArg& identifier, const Shape& y_true, const Shape& y_pred) {
  const std::string* name = identifier.name();
  if (!name) return get(identifier);
  const std::string word = lower(*name);
  const bool accuracy = word == "accuracy" || word == "acc";
  if (accuracy || word == "crossentropy" || word == "ce") {
    const bool scalar = y_pred.rank() == 0 || y_true.rank() == 0;
    const bool binary = scalar || y_pred[-1] == 1;
    const bool sparse = !binary && (y_true.rank() < y_pred.rank() || y_true[-1] == 1);
    if (accuracy) {
      if (binary) return BinaryAccuracy({.name = *name});
      return sparse ? SparseCategoricalAccuracy({.name = *name}) : CategoricalAccuracy({.name = *name});
    }
    if (binary) return BinaryCrossentropy({.name = *name});
    return sparse ? SparseCategoricalCrossentropy({.name = *name}) : CategoricalCrossentropy({.name = *name});
  }
  MetricPtr metric = get(identifier);
  metric->set_name(*name);
  return metric;
}

Json serialize(const MetricPtr& metric) {
  if (!metric) return nullptr;
  return keras::serialize_object("keras.metrics", metric->class_name(), metric->get_config(),
                                 is_built_in(metric->class_name()), typeid(*metric), metric->Metric::get_config());
}

}  // namespace lockstep::metrics
