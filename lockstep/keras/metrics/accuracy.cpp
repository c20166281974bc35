// Accuracies: shares of right answers.
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/metrics/fields_internal.h"
#include "lockstep/keras/metrics/mean_internal.h"
#include "lockstep/keras/metrics/metric_functions.h"

namespace lockstep::metrics {
namespace {

[[noreturn]] void refuse(const char* who, const Shape& y, const Shape& p) {
  throw_invalid_argument(
      fmt::format("{}: y_true of shape {} does not fit y_pred of shape {}", who, y.to_string(), p.to_string()));
}

// 1 where the two arrays agree; `y` takes the shape of `p` where it can be broadcast.
HostArray agreement(const char* who, HostArray y, HostArray p) {
  squeeze_or_expand(y, p);
  if (!(y.shape == p.shape)) {
    if (y.size() > p.size()) std::swap(y, p);
    if (y.rank() > p.rank()) refuse(who, y.shape, p.shape);
    y = broadcast_to(y, p.shape, "y_true");
  }
  for (std::size_t i = 0; i < p.size(); ++i) p.values[i] = p.values[i] == y.values[i] ? 1.0f : 0.0f;
  return p;
}

HostArray accuracy(const Tensor& y_true, const Tensor& y_pred) {
  return agreement("accuracy", to_host(y_true), to_host(y_pred));
}

HostArray binary_agreement(const Tensor& y_true, const Tensor& y_pred, float threshold) {
  HostArray p = to_host(y_pred);
  for (float& value : p.values) value = value > threshold ? 1.0f : 0.0f;
  return agreement("binary_accuracy", to_host(y_true), std::move(p));
}

HostArray categorical_agreement(const Tensor& y_true, const Tensor& y_pred) {
  if (y_true.rank() != y_pred.rank()) refuse("categorical_accuracy", y_true.shape(), y_pred.shape());
  return agreement("categorical_accuracy", argmax_last(y_true), argmax_last(y_pred));
}

// Class numbers of y_true in the shape of y_pred without its last axis.
HostArray class_numbers(const char* who, const Tensor& y_true, const Shape& p) {
  HostArray y = to_host(y_true);
  std::vector<std::int64_t> dims = p.dims();
  if (dims.empty()) refuse(who, y.shape, p);
  dims.pop_back();
  Shape rows(dims);
  if (y.rank() == p.rank() && y.shape[-1] == 1) y.shape = rows;
  if (!(y.shape == rows)) refuse(who, y.shape, p);
  return y;
}

HostArray sparse_agreement(const Tensor& y_true, const Tensor& y_pred) {
  HostArray y = class_numbers("sparse_categorical_accuracy", y_true, y_pred.shape());
  HostArray right = agreement("sparse_categorical_accuracy", std::move(y), argmax_last(y_pred));
  if (right.rank() > 1 && right.shape[-1] == 1) {
    std::vector<std::int64_t> dims = right.shape.dims();
    dims.pop_back();
    right.shape = Shape(dims);
  }
  return right;
}

// Whether the class is among the k largest, as tf.math.in_top_k decides: fewer than k are larger, and no
// value seen on the way is infinite or NaN.
bool in_top_k(const float* row, std::size_t width, float label, std::int64_t k) {
  if (!(label >= 0) || static_cast<std::size_t>(label) >= width) return false;
  const float target = row[static_cast<std::size_t>(label)];
  if (!std::isfinite(target)) return false;
  std::int64_t larger = 0;
  for (std::size_t i = 0; i < width; ++i) {
    if (!std::isfinite(row[i])) return false;
    larger += row[i] > target;
  }
  return larger < k;
}

HostArray top_k_of(HostArray labels, const HostArray& p, std::int64_t k, bool from_sorted_ids) {
  const auto width = static_cast<std::size_t>(p.shape[-1]);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float* row = p.values.data() + i * width;
    bool hit = false;
    if (from_sorted_ids) {
      const std::size_t limit = std::min(width, static_cast<std::size_t>(k));
      for (std::size_t j = 0; j < limit; ++j) hit = hit || row[j] == labels.values[i];
    } else {
      hit = in_top_k(row, width, labels.values[i], k);
    }
    labels.values[i] = hit ? 1.0f : 0.0f;
  }
  return labels;
}

HostArray sparse_top_k(const Tensor& y_true, const Tensor& y_pred, std::int64_t k, bool from_sorted_ids) {
  const HostArray p = to_host(y_pred);
  return top_k_of(class_numbers("sparse_top_k_categorical_accuracy", y_true, p.shape), p, k, from_sorted_ids);
}

HostArray top_k(const Tensor& y_true, const Tensor& y_pred, std::int64_t k) {
  const HostArray y = to_host(y_true), p = to_host(y_pred);
  if (!(y.shape == p.shape)) refuse("top_k_categorical_accuracy", y.shape, p.shape);
  return top_k_of(argmax_last(y), p, k, false);
}

MetricPtr make(const char* class_name, std::string name, std::string dtype, MeanOf::Function function,
               Json extra = Json::object()) {
  return std::make_shared<MeanOf>(class_name, std::move(name), std::move(dtype), std::move(function),
                                  Metric::Direction::kUp, std::move(extra));
}

}  // namespace

Tensor binary_accuracy(const Tensor& y_true, const Tensor& y_pred, const ThresholdKeywords& o) {
  return to_tensor(binary_agreement(y_true, y_pred, static_cast<float>(o.threshold)));
}
Tensor categorical_accuracy(const Tensor& y_true, const Tensor& y_pred) {
  return to_tensor(categorical_agreement(y_true, y_pred));
}
Tensor sparse_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred) {
  return to_tensor(sparse_agreement(y_true, y_pred));
}
Tensor top_k_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred, const TopKKeywords& o) {
  return to_tensor(top_k(y_true, y_pred, o.k));
}
Tensor sparse_top_k_categorical_accuracy(const Tensor& y_true, const Tensor& y_pred, const TopKKeywords& o) {
  return to_tensor(sparse_top_k(y_true, y_pred, o.k, false));
}

MeanOf::Function find_accuracy_function(std::string_view name) {
  if (name == "accuracy") return accuracy;
  if (name == "binary_accuracy") return [](const Tensor& y, const Tensor& p) { return binary_agreement(y, p, 0.5f); };
  if (name == "categorical_accuracy") return categorical_agreement;
  if (name == "sparse_categorical_accuracy") return sparse_agreement;
  if (name == "top_k_categorical_accuracy") return [](const Tensor& y, const Tensor& p) { return top_k(y, p, 5); };
  if (name == "sparse_top_k_categorical_accuracy") {
    return [](const Tensor& y, const Tensor& p) { return sparse_top_k(y, p, 5, false); };
  }
  return nullptr;
}

MetricPtr Accuracy(MetricOptions o) { return make("Accuracy", or_else(o.name, "accuracy"), o.dtype, accuracy); }

MetricPtr BinaryAccuracy(BinaryAccuracyOptions o) {
  const auto function = [threshold = static_cast<float>(o.threshold)](const Tensor& y, const Tensor& p) {
    return binary_agreement(y, p, threshold);
  };
  return make("BinaryAccuracy", or_else(o.name, "binary_accuracy"), o.dtype, function, keras::with_own_fields({}, o));
}

MetricPtr CategoricalAccuracy(MetricOptions o) {
  return make("CategoricalAccuracy", or_else(o.name, "categorical_accuracy"), o.dtype, categorical_agreement);
}

MetricPtr SparseCategoricalAccuracy(MetricOptions o) {
  return make("SparseCategoricalAccuracy", or_else(o.name, "sparse_categorical_accuracy"), o.dtype, sparse_agreement);
}

MetricPtr TopKCategoricalAccuracy(TopKOptions o) {
  const auto function = [k = o.k](const Tensor& y, const Tensor& p) { return top_k(y, p, k); };
  return make("TopKCategoricalAccuracy", or_else(o.name, "top_k_categorical_accuracy"), o.dtype, function,
              keras::with_own_fields({}, TopKOptions{.k = o.k}));
}

MetricPtr TopKCategoricalAccuracy(std::int64_t k, TopKOptions o) {
  o.k = k;
  return TopKCategoricalAccuracy(std::move(o));
}

MetricPtr SparseTopKCategoricalAccuracy(std::int64_t k, TopKOptions o) {
  o.k = k;
  return SparseTopKCategoricalAccuracy(std::move(o));
}

MetricPtr SparseTopKCategoricalAccuracy(TopKOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) { return sparse_top_k(y, p, o.k, o.from_sorted_ids); };
  return make("SparseTopKCategoricalAccuracy", or_else(o.name, "sparse_top_k_categorical_accuracy"), o.dtype, function,
              keras::with_own_fields({}, o));
}

}  // namespace lockstep::metrics
