// The training methods of keras::Model and Callback, which call the model's trainer.
#include <fmt/format.h>
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/keras/losses/function_loss_internal.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/models/one_output_internal.h"
#include "lockstep/keras/utils.h"

namespace lockstep::keras {

Trainer& ModelImpl::trainer() const {
  if (!trainer_) trainer_ = std::make_shared<Trainer>(const_cast<ModelImpl&>(*this));
  return *trainer_;
}

std::vector<VariablePtr> ModelImpl::optimizer_variables() const {
  const optimizers::OptimizerPtr& optimizer = trainer().optimizer();
  return optimizer && optimizer->built() ? optimizer->variables() : std::vector<VariablePtr>{};
}

Trainer& Model::trainer() const { return impl()->trainer(); }

void Model::compile(CompileOptions options) const { trainer().compile(std::move(options)); }
bool Model::compiled() const { return trainer().compiled(); }

History Model::fit(const Structure& x, const Structure& y, FitOptions options) const {
  return *trainer().fit(x, y, std::move(options));
}
History Model::fit(const BatchedData& data, FitOptions options) const {
  return *trainer().fit(data, std::move(options));
}

namespace {

// With return_dict Keras's results come from tf.function, which sorts the keys of dicts.
Results in_order_of_dict(Results results, bool return_dict) {
  if (return_dict) std::ranges::stable_sort(results, {}, [](const auto& entry) { return entry.first; });
  return results;
}

Structure as_arrays(const ModelImpl& model, const Structure& outputs) {
  return one_output(model, outputs).map([](const Tensor& output) { return output.numpy(); });
}

}  // namespace

Results Model::evaluate(const Structure& x, const Structure& y, EvaluateOptions options) const {
  const bool dict = options.return_dict;
  return in_order_of_dict(trainer().evaluate(x, y, std::move(options)), dict);
}
Results Model::evaluate(const BatchedData& data, EvaluateOptions options) const {
  const bool dict = options.return_dict;
  return in_order_of_dict(trainer().evaluate(data, std::move(options)), dict);
}
Predictions Model::predict(const Structure& x, PredictOptions options) const {
  return as_arrays(*impl(), trainer().predict(x, std::move(options)));
}
Predictions Model::predict(const BatchedData& data, PredictOptions options) const {
  return as_arrays(*impl(), trainer().predict(data, std::move(options)));
}
Results Model::train_on_batch(const Structure& x, const Structure& y, const BatchOptions& options) const {
  return in_order_of_dict(trainer().train_on_batch(x, y, options.sample_weight, options.class_weight),
                          options.return_dict);
}
Results Model::test_on_batch(const Structure& x, const Structure& y, const BatchOptions& options) const {
  return in_order_of_dict(trainer().test_on_batch(x, y, options.sample_weight), options.return_dict);
}
Predictions Model::predict_on_batch(const Structure& x) const {
  return as_arrays(*impl(), trainer().predict_on_batch(x));
}
Json Model::get_compile_config() const { return trainer().get_compile_config(); }
void Model::compile_from_config(const Json& config) { trainer().compile_from_config(config); }
List<std::string> Model::metrics_names() const { return trainer().metrics_names(); }
const optimizers::OptimizerPtr Model::optimizer() const { return trainer().optimizer(); }

Trainer& Callback::trainer() const {
  if (!trainer_) throw_failed_precondition("this callback is not part of a running fit, evaluate or predict");
  return *trainer_;
}
Model Callback::model() const {
  return Model(std::dynamic_pointer_cast<ModelImpl>(trainer().model().shared_from_this()));
}
Model* Callback::own_model() const { return trainer().model().object(); }
void Callback::throw_other_model(std::type_index wanted) const {
  throw_invalid_argument(
      fmt::format("callback {}: model '{}' is a {}, model<{}>() requires an object of that class, which "
                  "exists while fit runs",
                  class_name(), trainer().model().name(), trainer().model().class_name(), unqualified_name(wanted)));
}
const optimizers::OptimizerPtr& Callback::optimizer() const { return trainer().optimizer(); }
Model::StopTraining& Model::StopTraining::operator=(bool stop) {
  model_->trainer().stop_training = stop;
  return *this;
}
Model::StopTraining::operator bool() const { return model_->trainer().stop_training; }
void Callback::request_stop() const { trainer().stop_training = true; }

Results Model::train_step(const Structure& data) { return train_step(utils::unpack_x_y_sample_weight(data)); }
Results Model::test_step(const Structure& data) { return test_step(utils::unpack_x_y_sample_weight(data)); }
Structure Model::predict_step(const Structure& data) { return predict_step(utils::unpack_x_y_sample_weight(data)); }
Results Model::train_step(const Batch& batch) { return trainer().train_step(batch); }
Results Model::test_step(const Batch& batch) { return trainer().test_step(batch); }
Structure Model::predict_step(const Batch& batch) { return trainer().predict_step(batch); }
std::vector<metrics::MetricPtr> Model::metrics() const { return trainer().default_metrics(); }
void Model::reset_metrics() const { trainer().reset_metrics(); }
Results Model::get_metrics_result() const { return trainer().get_metrics_result(); }
Tensor Model::loss(const Tensor& y, const Tensor& y_pred, const Tensor& sample_weight) const {
  const LossTree& given = trainer().compile_options().loss;
  if (given.empty() || !given.is_leaf()) {
    throw_failed_precondition(fmt::format("model '{}': loss() requires one loss in compile(); found {}", name(),
                                          given.empty() ? "none" : "several: use compute_loss()"));
  }
  const losses::LossPtr loss = losses::get(given.leaf());
  if (!losses::is_function(*loss)) return loss(y, y_pred, sample_weight);
  if (sample_weight.defined()) {
    throw_invalid_argument(
        fmt::format("model '{}': loss() with sample_weight requires a loss object in compile(); "
                    "found a function of (y_true, y_pred)",
                    name()));
  }
  return loss.call(y, y_pred);
}
Tensor Model::compute_loss(const Structure& x, const Structure& y, const Structure& y_pred,
                           const Structure& sample_weight) const {
  return trainer().compute_loss(x, y, y_pred, sample_weight);
}
Results Model::compute_metrics(const Structure&, const Structure& y, const Structure& y_pred,
                               const Structure& sample_weight) const {
  return trainer().compute_metrics(y, y_pred, sample_weight);
}

void Model::CompiledMetrics::update_state(const Structure& y, const Structure& y_pred,
                                          const Structure& sample_weight) const {
  const std::vector<metrics::MetricPtr> all = model_.metrics(), compiled = model_.trainer().default_metrics();
  bool has_compiled = all == compiled;
  for (const metrics::MetricPtr& metric : all) {
    if (metric->class_name() == "Mean") {
      metric->update_state(y_pred.leaf(), sample_weight.leaf());
    } else if (std::ranges::find(compiled, metric) != compiled.end()) {
      has_compiled = true;
    } else {
      metric->update_state(y.leaf(), y_pred.leaf(), sample_weight.leaf());
    }
  }
  if (has_compiled) model_.compute_metrics({}, y, y_pred, sample_weight);
}

}  // namespace lockstep::keras
