// Metrics that are a mean of values: total and count.
#pragma once

#include "lockstep/keras/metrics/host_array_internal.h"
#include "lockstep/keras/metrics/metrics.h"

namespace lockstep::metrics {

// `given`, or the default name where it is empty.
inline std::string or_else(const std::string& given, const char* otherwise) {
  return given.empty() ? otherwise : given;
}

// sample_weight times mask where both are there; undefined where neither is.
Tensor weight_and_mask(const Tensor& sample_weight, const Tensor& mask);

// Which targets, (batch, …) or (batch, …, 1), are not this class.
Tensor not_ignored(const Tensor& y_true, const Tensor& y_pred, double ignored);

class MeanMetric : public Metric {
 public:
  MeanMetric(std::string class_name, std::string name, std::string dtype);
  std::string class_name() const override { return class_name_; }
  void update_state(const Tensor& values, const Tensor& sample_weight, const Tensor&, const Tensor& mask) override;
  Tensor result() const override { return Tensor::scalar(mean()); }
  // The count of the last update that does not depend on its data: one for a scalar, or the number of rows if a graph
  // knows it. TensorFlow counts it in a step at the end of the data.
  void count_again(bool static_rows);

 protected:
  // Adds per-sample means of values, weighted as Keras's reduce_to_samplewise_values does.
  void add(HostArray values, const Tensor& weight);
  float mean() const;

 private:
  void add_to_state(double total, double count);
  std::string class_name_;
  VariablePtr total_, count_;
  double rows_ = 0;  // of the last update without weights; 0 for another one
  bool scalar_ = false;
};

// The mean of the values of a function of (y_true, y_pred).
class MeanOf : public MeanMetric {
 public:
  using Function = std::function<HostArray(const Tensor& y_true, const Tensor& y_pred)>;
  MeanOf(std::string class_name, std::string name, std::string dtype, Function function, Direction direction,
         Json extra = Json::object());
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                    const Tensor& mask) override;
  Direction direction() const override { return direction_; }
  Json get_config() const override;

 private:
  Function function_;
  Direction direction_;
  Json extra_;
};

// Per-sample values of the accuracies, by their name as functions; empty for an unknown name.
MeanOf::Function find_accuracy_function(std::string_view name);

// Whether get_for_compile() requires the shapes of targets and outputs for this name: "crossentropy".
bool depends_on_outputs(const std::string& name);

}  // namespace lockstep::metrics
