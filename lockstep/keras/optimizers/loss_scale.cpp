#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/bases.h"
#include "lockstep/keras/optimizers/fields_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::optimizers {
namespace {

using Scaler = class LossScaleOptimizer;  // the function of that name hides the class

CommonOptions own_options(const LossScaleOptions& options) {
  CommonOptions common;
  common.learning_rate = 0.0;
  common.name = options.name;
  return common;
}

}  // namespace

Scaler::LossScaleOptimizer(OptimizerPtr inner, LossScaleOptions options)
    : Optimizer("LossScaleOptimizer", own_options(options)), inner_(std::move(inner)), options_(std::move(options)) {
  if (!inner_) throw_invalid_argument("LossScaleOptimizer: the inner optimizer is missing");
  if (dynamic_cast<Scaler*>(inner_.get())) {
    throw_invalid_argument("LossScaleOptimizer: the inner optimizer is a LossScaleOptimizer already");
  }
  inner_->set_loss_scale_factor(std::nullopt);  // gradients would be scaled twice
  step_counter_ = add_variable(Shape{}, DType::kInt64, name() + "/step_counter", 0);
  dynamic_scale_ = add_variable(Shape{}, DType::kFloat32, name() + "/dynamic_scale", options_.initial_scale);
}

LossScaleOptions Scaler::options_of(const Json& config) {
  auto read = keras::read_fields<LossScaleConfig>("LossScaleOptimizer", config);
  read.options.inner_optimizer = std::move(read.inner_optimizer);
  return std::move(read.options);
}

void Scaler::build(const Variables& variables) {
  trainable_ = variables;
  inner_->build(variables);
  built_ = true;
}

void Scaler::apply_aggregated(Tensors gradients, const Variables& variables) {
  const float scale = dynamic_scale_->numpy().item<float>();
  const bool keras2 = inner_->has_keras2_rules();
  const bool fixed = keras2 && options_.dynamic_growth_steps == kFixedScale;  // gradients are not checked
  bool finite = true;
  for (const Tensor& gradient : gradients) {
    if (!gradient.defined() || fixed) continue;
    finite = finite && ops::reduce_all(ops::is_finite(gradient)).item<bool>();
  }
  if (!built_) build(variables);
  const std::int64_t good_steps = step_counter_->numpy().item<std::int64_t>() + 1;
  if (!finite && keras2) {  // the step counts, and the scale does not sink below 1
    inner_->iterations_variable()->assign(Tensor::scalar<std::int64_t>(inner_->iterations() + 1));
    set_state(0, std::max(scale * 0.5f, 1.0f));
    return;
  }
  if (!finite) {
    set_state(0, scale * 0.5f);
    return;
  }
  for (Tensor& gradient : gradients) {
    if (gradient.defined())
      gradient = ops::slicewise(gradient, [&](const Tensor& g) { return g / static_cast<double>(scale); });
  }
  if (inner_->has_own_apply()) {
    inner_->apply(gradients, variables);
  } else {
    inner_->apply_aggregated(std::move(gradients), variables);
  }
  if (fixed) return;
  if (good_steps >= options_.dynamic_growth_steps) {
    set_state(0, keras2 && !std::isfinite(scale * 2.0f) ? scale : scale * 2.0f);
  } else {
    set_state(good_steps, scale);
  }
}

Tensor Scaler::scale_loss(const Tensor& loss) const {
  return loss * static_cast<double>(dynamic_scale_->numpy().item<float>());
}

void Scaler::finalize_variable_values(const Variables& variables) { inner_->finalize_variable_values(variables); }

void Scaler::exclude_from_weight_decay(const Variables& variables, const std::vector<std::string>& names) {
  inner_->exclude_from_weight_decay(variables, names);
}

Variables Scaler::variables() const {
  Variables all = Optimizer::variables();
  Variables inner = inner_->variables();
  // Keras's wrapped optimizer does not list the integers that Adafactor has in place of factors among its variables.
  std::erase_if(inner, [](const VariablePtr& v) { return v->dtype() == DType::kInt32 && v->shape().rank() == 0; });
  all.insert(all.end(), inner.begin(), inner.end());
  return all;
}

Json Scaler::get_config() const {
  LossScaleConfig config{inner_, options_};
  config.options.name = name();
  return keras::with_fields({}, config);
}

void Scaler::set_state(std::int64_t good_steps, float scale) {
  step_counter_->assign(Tensor::scalar<std::int64_t>(good_steps));
  dynamic_scale_->assign(Tensor::scalar(scale));
}

OptimizerPtr LossScaleOptimizer(OptimizerPtr inner, LossScaleOptions options) {
  return std::make_shared<Scaler>(std::move(inner), std::move(options));
}

OptimizerPtr inner_optimizer(const OptimizerPtr& optimizer) {
  const auto* scaled = dynamic_cast<const Scaler*>(optimizer.get());
  return scaled ? scaled->inner_optimizer() : optimizer;
}

}  // namespace lockstep::optimizers
