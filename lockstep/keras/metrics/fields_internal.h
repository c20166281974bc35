// The arguments of each metric other than name and dtype, in the order of Keras's config.
#pragma once

#include "lockstep/keras/fields_internal.h"
#include "lockstep/keras/metrics/metrics.h"

namespace lockstep::metrics {

using keras::Field;
using keras::NullAs;

// Arguments of the constructor and options in one struct, for configs.
struct IoUConfig {
  std::int64_t num_classes = 0;
  std::vector<std::int64_t> target_class_ids;
  IoUOptions options;
};
struct MeanIoUConfig {
  std::int64_t num_classes = 0;
  IoUOptions options;
};
struct OneHotIoUConfig {
  std::int64_t num_classes = 0;
  std::vector<std::int64_t> target_class_ids;
  OneHotIoUOptions options;
};
struct OneHotMeanIoUConfig {
  std::int64_t num_classes = 0;
  OneHotIoUOptions options;
};
enum class At { kSpecificity, kSensitivity, kRecall, kPrecision };
template <At kAt>
struct AtConfig {
  static constexpr const char* kKey = kAt == At::kSpecificity   ? "specificity"
                                      : kAt == At::kSensitivity ? "sensitivity"
                                      : kAt == At::kRecall      ? "recall"
                                                                : "precision";
  double value = 0;
  AtOptions options;
};
// Numbers, or an array of tf-keras's archives.
struct Normalizer {
  std::vector<double>& values;
};
struct MeanRelativeErrorConfig {
  std::vector<double> normalizer;
  MetricOptions options;
};
struct WrapperConfig {
  Json fn;
  MetricOptions options;
};

template <typename V>
void own_fields(V&, MetricOptions&) {}

template <typename V>
void own_fields(V& v, BinaryAccuracyOptions& o) {
  v("threshold", o.threshold);
}

template <typename V>
void own_fields(V& v, TopKOptions& o) {
  v("k", o.k);
  v("from_sorted_ids", o.from_sorted_ids, o.from_sorted_ids ? Field::kOptional : Field::kUnwritten);
}

template <typename V>
void own_fields(V& v, AxisOptions& o) {
  v("axis", o.axis);
}

template <typename V>
void own_fields(V& v, BinaryCrossentropyOptions& o) {
  v("from_logits", o.from_logits);
  v("label_smoothing", keras::null_read_as(o.label_smoothing, 0));
}

template <typename V>
void own_fields(V& v, CategoricalCrossentropyOptions& o) {
  v("from_logits", o.from_logits);
  v("label_smoothing", keras::null_read_as(o.label_smoothing, 0));
  v("axis", o.axis);
}

template <typename V>
void own_fields(V& v, SparseCategoricalCrossentropyOptions& o) {
  v("from_logits", o.from_logits);
  v("ignore_class", o.ignore_class);
  v("axis", o.axis);
}

template <typename V>
void own_fields(V& v, ThresholdOptions& o) {
  v("thresholds", NullAs{o.thresholds});
}

template <typename V>
void own_fields(V& v, PrecisionOptions& o) {
  v("thresholds", NullAs{o.thresholds});
  v("top_k", o.top_k);
  v("class_id", o.class_id);
}

template <typename V>
void own_fields(V& v, AUCOptions& o) {
  v("num_thresholds", o.num_thresholds);
  v("curve", o.curve);
  v("summation_method", o.summation_method);
  v("multi_label", o.multi_label);
  v("num_labels", o.num_labels);
  v("label_weights", NullAs{o.label_weights});
  v("from_logits", o.from_logits);
  v("thresholds", NullAs{o.thresholds}, o.thresholds.empty() ? Field::kUnwritten : Field::kOptional);
}

template <typename V>
void own_fields(V& v, AtOptions& o) {
  v("class_id", o.class_id);
  v("num_thresholds", o.num_thresholds);
}
template <typename V, At kAt>
void own_fields(V& v, AtConfig<kAt>& c) {
  own_fields(v, c.options);
  v(AtConfig<kAt>::kKey, c.value, Field::kRequired);
}

template <typename V>
void own_fields(V& v, FBetaOptions& o) {
  v("average", NullAs{o.average, ""});
  v("beta", o.beta);
  v("threshold", o.threshold);
}

template <typename V>
void own_fields(V& v, F1Options& o) {
  v("average", NullAs{o.average, ""});
  v("threshold", o.threshold);
}

template <typename V>
void own_fields(V& v, IoUOptions& o) {
  v("ignore_class", o.ignore_class);
  v("sparse_y_true", o.sparse_y_true);
  v("sparse_y_pred", o.sparse_y_pred);
  v("axis", o.axis);
}
template <typename V>
void own_fields(V& v, OneHotIoUOptions& o) {
  v("ignore_class", o.ignore_class);
  v("sparse_y_pred", o.sparse_y_pred);
  v("axis", o.axis);
}
template <typename V, typename Config>
requires requires(Config c) { c.num_classes; }
void own_fields(V& v, Config& c) {
  v("num_classes", c.num_classes, Field::kRequired);
  if constexpr (requires { c.target_class_ids; }) v("target_class_ids", c.target_class_ids, Field::kRequired);
  own_fields(v, c.options);
}

template <typename V>
void own_fields(V& v, BinaryIoUOptions& o) {
  v("target_class_ids", o.target_class_ids);
  v("threshold", o.threshold);
}

template <typename V>
void own_fields(V& v, R2Options& o) {
  v("class_aggregation", NullAs{o.class_aggregation, ""});
  v("num_regressors", o.num_regressors);
}

template <typename V>
void own_fields(V& v, WrapperConfig& c) {
  v("fn", c.fn, Field::kRequired);
}

template <typename V>
void own_fields(V& v, MeanRelativeErrorConfig& c) {
  v("normalizer", Normalizer{c.normalizer}, Field::kRequired);
}

// A dtype's name, which configs may also hold as a policy.
struct MetricDtype {
  std::string& name;
};

// All arguments.
template <typename V, typename Options>
requires requires(V& v, Options& o) { own_fields(v, o); }
void fields(V& v, Options& o) {
  if constexpr (requires { o.options; }) {
    v("name", NullAs{o.options.name, ""});
    v("dtype", MetricDtype{o.options.dtype});
  } else {
    v("name", NullAs{o.name, ""});
    v("dtype", MetricDtype{o.dtype});
  }
  own_fields(v, o);
}

}  // namespace lockstep::metrics

namespace lockstep::keras {

template <>
struct FieldType<metrics::Normalizer> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "number or list of numbers"; }
  static bool read(const Json& found, const metrics::Normalizer& v) {
    const auto config = found.is_object() ? found.find("config") : found.end();
    const bool array = found.is_object() && config != found.end() && config->is_object() && config->contains("value");
    return FieldType<std::vector<double>>::read(array ? config->at("value") : found, v.values);
  }
  static Json write(const metrics::Normalizer& v) { return v.values; }
};

template <>
struct FieldType<metrics::MetricDtype> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "string or null"; }
  static bool read(const Json& found, const metrics::MetricDtype& v) {
    v.name.clear();
    if (found.is_null()) return true;
    if (const auto object = parse_object_config(found)) {
      return object->config.is_object() && object->config.contains("name") &&
             FieldType<std::string>::read(object->config["name"], v.name);
    }
    return FieldType<std::string>::read(found, v.name);
  }
  static Json write(const metrics::MetricDtype& v) { return v.name.empty() ? Json(nullptr) : Json(v.name); }
};

}  // namespace lockstep::keras
