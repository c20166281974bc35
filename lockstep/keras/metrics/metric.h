// keras.metrics.Metric: numbers gathered over batches.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/keras/dtype_arg.h"
#include "lockstep/keras/handle.h"
#include "lockstep/keras/initializers/initializers.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::metrics {

using distribute::VariablePtr;

class MetricPtr;

// Of Metric::add_variable().
struct MetricVariableOptions {
  FieldNamesOnly names_only = {};
  Shape shape = {};
  initializers::InitializerArg initializer = "zeros";
  keras::DTypeArg dtype = DType::kFloat32;
  std::string name = {};
};

//   const auto accuracy = metrics::SparseCategoricalAccuracy();
//   accuracy.update_state(y_true, y_pred);
//   std::cout << accuracy.result();
//
// The state is float32 variables, which each replica updates separately and that are summed over replicas
// when read across them (synchronization kOnRead, aggregation kSum).
class Metric {
 public:
  using KerasFamily = Metric;
  // Per-sample values of (y_true, y_pred), of which the metric is the mean.
  using KerasFunction = Tensor(const Tensor&, const Tensor&);
  static MetricPtr of_function(std::function<KerasFunction> function);
  virtual ~Metric();
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;
  Metric& operator=(Metric&&) = delete;

  // By default the name of the C++ class.
  virtual std::string class_name() const { return keras::unqualified_name(typeid(*this)); }
  std::string name() const;
  void set_name(std::string name) { name_ = std::move(name); }

  // Takes a batch in: (y_true, y_pred, sample_weight); Mean and Sum take (values, sample_weight). `mask`, of y_pred,
  // counts as a weight in Mean, Sum and the means of functions (accuracies, losses); the other classes ignore it, as
  // in Keras 3. Never part of a tape. Throws InvalidArgument for shapes that do not fit.
  // A class overrides one of the two.
  virtual void update_state(const Tensor& y_true, const Tensor& y_pred = {}, const Tensor& sample_weight = {});
  virtual void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                            const Tensor& mask);
  // Over all replicas' state when called across replicas. A float32 scalar unless the class documents otherwise.
  virtual Tensor result() const = 0;
  virtual void reset_state();
  // update_state, then result.
  Tensor operator()(const Tensor& y_true, const Tensor& y_pred = {}, const Tensor& sample_weight = {});

  const std::vector<VariablePtr>& variables() const { return variables_; }
  // Which direction is better, for callbacks with mode "auto".
  enum class Direction { kUnknown, kUp, kDown };
  virtual Direction direction() const { return Direction::kUnknown; }
  // {"name", "dtype", …} as Keras 3.15 writes it.
  virtual Json get_config() const;

 protected:
  struct Options {
    FieldNamesOnly names_only = {};
    std::string name = {};   // default: the class's in snake case
    std::string dtype = {};  // default: float32
  };
  Metric() : Metric(Options{}) {}
  explicit Metric(const Options& options) : name_(options.name), dtype_(options.dtype) {}
  // A template, because GCC would take {.dtype = "int64"} for a name.
  template <std::convertible_to<std::string> Name>
  explicit Metric(Name&& name, std::string dtype = {}) : name_(std::forward<Name>(name)), dtype_(std::move(dtype)) {}
  // Of an object that is given as a value: compile({.metrics = {MyMetric()}}).
  Metric(Metric&&) = default;
  // Zeros, unless an initializer is given. Both are the same: add_weight is the older name.
  VariablePtr add_variable(const Shape& shape, std::string_view name, DType dtype = DType::kFloat32);
  VariablePtr add_variable(const MetricVariableOptions& options);
  VariablePtr add_weight(const MetricVariableOptions& options) { return add_variable(options); }
  // A metric that is an attribute of this one: its variables are this one's too, as in Keras.
  MetricPtr track(const std::string& attribute, const MetricPtr& metric);
  template <std::derived_from<Metric> M>
  std::shared_ptr<M> track(const std::string&, std::shared_ptr<M> metric) {
    track_variables(*metric);
    return metric;
  }
  std::string dtype() const { return dtype_.empty() ? "float32" : dtype_; }  // as in get_config()

 private:
  friend class BuiltInMetric;
  friend MetricPtr deserialize(const Json& config);
  void set_base_config(const Json& config);
  void track_variables(const Metric& metric);

  std::string name_, dtype_;
  std::vector<VariablePtr> variables_;
};

// A handle of a metric, which functions return and take.
class MetricPtr : public keras::Handle<Metric> {
 public:
  using Handle::Handle;
  Tensor operator()(const Tensor& y_true, const Tensor& y_pred = {}, const Tensor& sample_weight = {}) const {
    return object()(y_true, y_pred, sample_weight);
  }
  void update_state(const Tensor& y_true, const Tensor& y_pred = {}, const Tensor& sample_weight = {},
                    const Tensor& mask = {}) const {
    object().update_state(y_true, y_pred, sample_weight, mask);
  }
  // Of a number: mean.update_state(0.5).
  template <typename V>
  requires std::is_convertible_v<const V&, double> &&
      (!std::is_convertible_v<const V&, Tensor>)void update_state(const V& value) const {
    object().update_state(Tensor::scalar(static_cast<double>(value), DType::kFloat32));
  }
  Tensor result() const { return object().result(); }
  void reset_state() const { object().reset_state(); }
  void reset_states() const { object().reset_state(); }  // its name in tf-keras
  std::string name() const { return object().name(); }
  const std::vector<VariablePtr>& variables() const { return object().variables(); }
  Json get_config() const { return object().get_config(); }
};
using MetricArg = keras::ObjectArg<Metric>;

// From a class name, snake-case name, function name ("mse", "mean_squared_error"), a config or an object;
// null for none. "accuracy" gives Accuracy; compile's rule is get_for_compile. Throws InvalidArgument
// for an unknown name, with the nearest known one.
MetricPtr get(const MetricArg& identifier);
// As compile resolves strings: "accuracy" / "acc" become BinaryAccuracy, SparseCategoricalAccuracy or
// CategoricalAccuracy by the shapes of targets and predictions (and "crossentropy" / "ce" likewise). An accuracy of
// shapes of unknown rank selects in each update_state(). The metric's name is the string that was given; Keras 2 names
// a metric of a class by its default name.
MetricPtr get_for_compile(const MetricArg& identifier, const Shape& y_true, const Shape& y_pred, int keras_version = 3);
MetricPtr get_named(const std::string& name, int keras_version);
MetricPtr deserialize(const Json& config);
Json serialize(const MetricPtr& metric);
// Of an object of a user-defined class.
template <std::derived_from<Metric> T>
Json serialize(const T& object) {
  return serialize(MetricPtr(std::shared_ptr<Metric>(std::shared_ptr<Metric>(), const_cast<T*>(&object))));
}

}  // namespace lockstep::metrics
