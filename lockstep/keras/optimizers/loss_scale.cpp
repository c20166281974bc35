#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/fields_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::optimizers {
namespace {

// Keeps its own four variables; everything else is the inner optimizer's.
class LossScaler final : public Optimizer {
 public:
  LossScaler(OptimizerPtr inner, LossScaleOptions options)
      : Optimizer("LossScaleOptimizer", own_options(options)), inner_(std::move(inner)), options_(std::move(options)) {
    if (!inner_) throw_invalid_argument("LossScaleOptimizer: the inner optimizer is missing");
    if (dynamic_cast<LossScaler*>(inner_.get())) {
      throw_invalid_argument("LossScaleOptimizer: the inner optimizer is a LossScaleOptimizer already");
    }
    inner_->set_loss_scale_factor(std::nullopt);  // gradients would be scaled twice
    step_counter_ = add_variable(Shape{}, DType::kInt64, name() + "/step_counter", 0);
    dynamic_scale_ = add_variable(Shape{}, DType::kFloat32, name() + "/dynamic_scale", options_.initial_scale);
  }
  std::string class_name() const override { return "LossScaleOptimizer"; }

  void build(const Variables& variables) override {
    trainable_ = variables;
    inner_->build(variables);
    built_ = true;
  }

  void apply_aggregated(Tensors gradients, const Variables& variables) override {
    const float scale = dynamic_scale_->numpy().item<float>();
    bool finite = true;
    for (const Tensor& gradient : gradients) {
      if (!gradient.defined()) continue;
      finite = finite && ops::reduce_all(ops::is_finite(gradient)).item<bool>();
    }
    if (!built_) build(variables);
    const std::int64_t good_steps = step_counter_->numpy().item<std::int64_t>() + 1;
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
    if (good_steps >= options_.dynamic_growth_steps) {
      set_state(0, scale * 2.0f);
    } else {
      set_state(good_steps, scale);
    }
  }

  Tensor scale_loss(const Tensor& loss) const override {
    return loss * static_cast<double>(dynamic_scale_->numpy().item<float>());
  }
  OptimizerPtr inner_optimizer() const override { return inner_; }
  void finalize_variable_values(const Variables& variables) override { inner_->finalize_variable_values(variables); }
  void exclude_from_weight_decay(const Variables& variables, const std::vector<std::string>& names) override {
    inner_->exclude_from_weight_decay(variables, names);
  }
  std::int64_t iterations() const override { return inner_->iterations(); }
  const VariablePtr& iterations_variable() const override { return inner_->iterations_variable(); }
  void set_keras2_rules(bool keras2) override { inner_->set_keras2_rules(keras2); }
  float learning_rate() const override { return inner_->learning_rate(); }
  void set_learning_rate(double value) override { inner_->set_learning_rate(value); }
  bool has_fixed_learning_rate() const override { return inner_->has_fixed_learning_rate(); }

  Variables variables() const override {
    Variables all = Optimizer::variables();
    Variables inner = inner_->variables();
    // The integers that Adafactor has in the place of factors are not among the variables of Keras's wrapped optimizer.
    std::erase_if(inner, [](const VariablePtr& v) { return v->dtype() == DType::kInt32 && v->shape().rank() == 0; });
    all.insert(all.end(), inner.begin(), inner.end());
    return all;
  }

  Json get_config() const override {
    LossScaleConfig config{inner_, options_};
    config.options.name = name();
    return keras::with_fields({}, config);
  }

  const OptimizerPtr& inner() const { return inner_; }

 private:
  static CommonOptions own_options(const LossScaleOptions& options) {
    CommonOptions common;
    common.learning_rate = 0.0;
    common.name = options.name;
    return common;
  }
  void create_slots() override {}
  void update(Step&) override {}
  void set_state(std::int64_t good_steps, float scale) {
    step_counter_->assign(Tensor::scalar<std::int64_t>(good_steps));
    dynamic_scale_->assign(Tensor::scalar(scale));
  }

  OptimizerPtr inner_;
  LossScaleOptions options_;
  VariablePtr step_counter_, dynamic_scale_;
};

}  // namespace

OptimizerPtr LossScaleOptimizer(OptimizerPtr inner, LossScaleOptions options) {
  return std::make_shared<LossScaler>(std::move(inner), std::move(options));
}

OptimizerPtr inner_optimizer(const OptimizerPtr& optimizer) {
  const auto* scaled = dynamic_cast<const LossScaler*>(optimizer.get());
  return scaled ? scaled->inner() : optimizer;
}

}  // namespace lockstep::optimizers
