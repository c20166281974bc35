#include "lockstep/keras/trainer/trainer.h"

#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/trainer/dataset_batches_internal.h"
#include "lockstep/keras/trainer/step_runner_internal.h"

namespace lockstep::keras {
namespace {

// How many samples stay for training: the last floor part goes to validation.
std::int64_t training_rows(std::int64_t rows, double split) {
  if (!(split > 0 && split < 1))
    throw_invalid_argument(fmt::format("invalid validation_split: found {}, expected a number between 0 and 1", split));
  const auto kept = static_cast<std::int64_t>(std::floor(static_cast<double>(rows) * (1.0 - split)));
  if (kept == 0 || kept == rows) {
    throw_invalid_argument(fmt::format(
        "invalid validation_split: {} of {} samples leaves {} for training and {} for validation; give more data "
        "or another split",
        split, rows, kept, rows - kept));
  }
  return kept;
}

std::int64_t batch_size_for(const std::optional<std::int64_t>& given, const std::optional<std::int64_t>& steps,
                            std::int64_t rows) {
  if (given) return *given;
  return steps && *steps > 0 ? (rows + *steps - 1) / *steps : 32;
}

}  // namespace

ShuffleArg::ShuffleArg(const char* text) : mode(Shuffle::kBatch) {
  if (std::string_view(text) != "batch")
    throw_invalid_argument(fmt::format("invalid shuffle: found '{}', expected true, false or \"batch\"", text));
}

Verbose::Verbose(const char* text) : level_(-1) {
  if (std::string_view(text) != "auto")
    throw_invalid_argument(fmt::format("invalid verbose: found '{}', expected \"auto\", 0, 1 or 2", text));
}

ValidationFreq::ValidationFreq(int every) : every_(every) {
  if (every < 1) {
    throw_invalid_argument(
        fmt::format("invalid validation_freq: found {}, expected a positive number or a list of epochs", every));
  }
}

bool ValidationFreq::includes(int epoch) const {
  return listed_ ? std::find(epochs_.begin(), epochs_.end(), epoch + 1) != epochs_.end() : (epoch + 1) % every_ == 0;
}

ValidationData::ValidationData(ValidationArrays arrays)
    : arrays_(std::make_shared<const ValidationArrays>(std::move(arrays))) {}
ValidationData::ValidationData(BatchedData data, std::nullptr_t)
    : batches_(std::make_shared<const BatchedData>(std::move(data))) {}
ValidationData::ValidationData(Structure x, Structure y, Structure sample_weight)
    : ValidationData(ValidationArrays{std::move(x), std::move(y), std::move(sample_weight)}) {}

Trainer::Trainer(ModelImpl& model)
    : session_(std::make_unique<TrainingSession>(model)), steps_(make_step_runner(*session_)) {}
Trainer::~Trainer() = default;

void Trainer::compile(CompileOptions options) {
  const auto use = session_->use(true);
  session_->compile(std::move(options));
  steps_ = make_step_runner(*session_);
}

bool Trainer::compiled() const { return session_->compiled != nullptr; }
ModelImpl& Trainer::model() { return session_->model; }
const optimizers::OptimizerPtr& Trainer::optimizer() const { return session_->optimizer; }
void Trainer::set_optimizer(optimizers::OptimizerPtr optimizer) { session_->optimizer = std::move(optimizer); }
const CompileOptions& Trainer::compile_options() const { return session_->options; }
distribute::Strategy* Trainer::strategy() const { return session_->strategy; }
bool Trainer::preempted() const { return session_->preempted; }
std::vector<metrics::MetricPtr> Trainer::metrics() const { return session_->metrics(); }
std::vector<metrics::MetricPtr> Trainer::default_metrics() const { return session_->default_metrics(); }
void Trainer::reset_metrics() { session_->reset_metrics(); }
Results Trainer::metric_results() const { return session_->metric_results(); }

Results Trainer::get_metrics_result() const { return session_->get_metrics_result(); }

Results Trainer::train_step(const Batch& batch) { return steps_->train_step(batch); }
Results Trainer::test_step(const Batch& batch) { return steps_->test_step(batch); }
Structure Trainer::predict_step(const Batch& batch) { return steps_->predict_step(batch); }
Tensor Trainer::compute_loss(const Structure&, const Structure& y, const Structure& y_pred,
                             const Structure& sample_weight) {
  return steps_->compute_loss(y, y_pred, sample_weight);
}

Results Trainer::compute_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight) {
  return steps_->compute_metrics(y, y_pred, sample_weight);
}

Json Trainer::get_compile_config() const {
  if (!session_->compiled) return Json::object();
  const optimizers::OptimizerPtr inner = session_->optimizer->inner_optimizer();
  const bool wrapped_by_compile = inner && inner == session_->options.optimizer.object();
  Json config = compile_config(session_->options, wrapped_by_compile ? inner : session_->optimizer);
  Json& weights = config["loss_weights"];
  if (session_->model.keras_version() < 3 && session_->options.loss.is_list() && weights.is_object()) {
    // Keras 3 gives weights by name to a list of losses in the order of the names; those of Keras 2 belong to outputs.
    Json in_order = Json::array();
    for (const std::string& name : session_->output_names()) in_order.push_back(weights.value(name, Json(1.0)));
    weights = std::move(in_order);
  }
  return config;
}

void Trainer::compile_from_config(const Json& config) {
  if (config.is_null() || config == Json::object()) return;
  compile(parse_compile_config(config));
}

void Trainer::build_optimizer() {
  const auto scope = session_->enter_strategy();
  if (session_->optimizer && !session_->optimizer->built())
    session_->optimizer->build(session_->model.trainable_weights());
}

std::vector<std::string> Trainer::metrics_names() const {
  std::vector<std::string> names{"loss"};
  if (session_->compiled && !session_->compiled->metrics().empty()) names.push_back("compile_metrics");
  if (session_->compiled) {
    for (std::string& name : session_->compiled->output_loss_names()) names.push_back(std::move(name));
  }
  for (const auto& metric : session_->layer_metrics()) names.push_back(metric->name());
  return names;
}

std::shared_ptr<History> Trainer::fit(const Structure& x, const Structure& y, FitOptions options) {
  session_->require_compiled("fit");
  Batch data{x, y, options.sample_weight};
  std::unique_ptr<BatchSource> validation;
  const auto* arrays = options.validation_data.arrays();
  const auto* batches = options.validation_data.batches();
  const std::int64_t batch_size = batch_size_for(options.batch_size, options.steps_per_epoch, batch_rows(data));
  const std::int64_t validation_batch = options.validation_batch_size.value_or(batch_size);
  if (arrays) {
    validation = array_batches({arrays->x, arrays->y, arrays->sample_weight}, {.batch_size = validation_batch});
  } else if (batches) {
    validation = batches_of(*batches, session_->strategy);
  } else if (options.validation_split != 0.0) {
    const std::int64_t rows = batch_rows(data), kept = training_rows(rows, options.validation_split);
    validation = array_batches(batch_slice(data, kept, rows), {.batch_size = validation_batch});
    data = batch_slice(data, 0, kept);
  }
  const auto source = array_batches(std::move(data), {batch_size, options.shuffle.mode, options.class_weight});
  return run_fit(*source, std::move(options), validation.get());
}

std::shared_ptr<History> Trainer::fit(const BatchedData& data, FitOptions options) {
  session_->require_compiled("fit");
  if (options.validation_split != 0.0) throw_invalid_argument("validation_split requires arrays; give validation_data");
  std::unique_ptr<BatchSource> validation;
  if (const auto* arrays = options.validation_data.arrays()) {
    validation = array_batches({arrays->x, arrays->y, arrays->sample_weight},
                               {.batch_size = options.validation_batch_size.value_or(options.batch_size.value_or(32))});
  } else if (const auto* other = options.validation_data.batches()) {
    validation = batches_of(*other, session_->strategy);
  }
  const bool shuffle = options.shuffle.mode != Shuffle::kNone;
  const auto source = batches_of(data, session_->strategy, shuffle, options.class_weight);
  return run_fit(*source, std::move(options), validation.get());
}

Results Trainer::evaluate(const Structure& x, const Structure& y, EvaluateOptions options) {
  session_->require_compiled("evaluate");
  const auto use = session_->use(false);
  Batch data{x, y, options.sample_weight};
  const std::int64_t batch_size = batch_size_for(options.batch_size, options.steps, batch_rows(data));
  return session_->in_order(run_evaluate(*array_batches(std::move(data), {.batch_size = batch_size}), options));
}

Results Trainer::evaluate(const BatchedData& data, EvaluateOptions options) {
  session_->require_compiled("evaluate");
  const auto use = session_->use(false);
  return session_->in_order(run_evaluate(*batches_of(data, session_->strategy), options));
}

Structure Trainer::predict(const Structure& x, PredictOptions options) {
  Batch data{x, {}, {}};
  const std::int64_t batch_size = batch_size_for(options.batch_size, options.steps, batch_rows(data));
  return run_predict(*array_batches(std::move(data), {.batch_size = batch_size}), options);
}

Structure Trainer::predict(const BatchedData& data, PredictOptions options) {
  return run_predict(*batches_of(data, session_->strategy), options);
}

Results Trainer::train_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight,
                                const std::map<std::int64_t, double>& class_weight) {
  session_->require_compiled("train_on_batch");
  if (!class_weight.empty() && !(sample_weight.is_leaf() && !sample_weight.leaf().defined()))
    throw_invalid_argument("train_on_batch: found sample_weight and class_weight, expected one of them");
  const auto use = session_->use(true);
  session_->reset_metrics();
  const TrainingSession::OnBatch on_batch(*session_);
  return session_->in_order(
      train({x, y, class_weight.empty() ? sample_weight : apply_class_weight(y, sample_weight, class_weight)}));
}

Results Trainer::test_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight) {
  session_->require_compiled("test_on_batch");
  const auto use = session_->use(false);
  session_->reset_metrics();
  const TrainingSession::OnBatch on_batch(*session_);
  return session_->in_order(test({x, y, sample_weight}));
}

Structure Trainer::predict_on_batch(const Structure& x) {
  const auto use = session_->use(false);
  const TrainingSession::OnBatch on_batch(*session_);
  return predict_batch({x, {}, {}});
}

}  // namespace lockstep::keras
