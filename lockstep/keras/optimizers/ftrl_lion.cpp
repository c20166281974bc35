#include "lockstep/keras/optimizers/fused_optimizer_internal.h"

namespace lockstep::optimizers {
namespace {

// McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013.
class FtrlOptimizer : public FusedOptimizer {
 public:
  explicit FtrlOptimizer(FtrlOptions options)
      : FusedOptimizer("Ftrl", common_options(options)), options_(std::move(options)) {}
  std::string class_name() const override { return "Ftrl"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }
  bool set_hyperparameter(std::string_view name, double value) override { return set_number(options_, name, value); }

 private:
  void create_slots() override {
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      accumulators_.push_back(add_slot(i, "accumulator", options_.initial_accumulator_value));
      linears_.push_back(add_slot(i, "linear"));
    }
  }
  double twice_l2(const Step& step) const {
    return 2.0 * (options_.l2_regularization_strength + options_.beta / (2.0 * step.learning_rate));
  }
  ops::FusedRule rule(const Step& step) const override {
    return ops::FtrlRule{step.learning_rate, static_cast<float>(-options_.learning_rate_power),
                         static_cast<float>(options_.l1_regularization_strength), static_cast<float>(twice_l2(step)),
                         static_cast<float>(2.0 * options_.l2_shrinkage_regularization_strength)};
  }
  Slots slots_of(std::size_t index) const override { return {accumulators_[index], linears_[index]}; }
  bool changes_rows_only() const override { return legacy_rules(); }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    w = w - w * static_cast<double>(decay);
    const double rate = step.learning_rate, power = -options_.learning_rate_power;
    const double l1 = options_.l1_regularization_strength;
    Tensor& accumulator = accumulators_[index]->shared_value();
    Tensor& linear = linears_[index]->shared_value();
    const Tensor shrunk = g + w * (2.0 * options_.l2_shrinkage_regularization_strength);
    const Tensor grown = accumulator + ops::gradient_square(g);
    const Tensor grown_power = ops::pow(grown, power);
    linear = linear + shrunk - (grown_power - ops::pow(accumulator, power)) / rate * w;
    const Tensor quadratic = grown_power / rate + twice_l2(step);
    w = (ops::clip_by_value(linear, -l1, l1) - linear) / quadratic;
    accumulator = grown;
  }
  FtrlOptions options_;
  Variables accumulators_, linears_;
};

// Chen et al., "Symbolic discovery of optimization algorithms", 2023.
class LionOptimizer : public FusedOptimizer {
 public:
  explicit LionOptimizer(LionOptions options)
      : FusedOptimizer("Lion", common_options(options)), options_(std::move(options)) {
    check_range("Lion", "beta_1", options_.beta_1, 1e-300, 1);
  }
  std::string class_name() const override { return "Lion"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }

 private:
  void create_slots() override {
    for (std::size_t i = 0; i < trainable_.size(); ++i) momenta_.push_back(add_slot(i, "momentum"));
  }
  ops::FusedRule rule(const Step& step) const override {
    return ops::LionRule{step.learning_rate, static_cast<float>(options_.beta_1), static_cast<float>(options_.beta_2)};
  }
  Slots slots_of(std::size_t index) const override { return {momenta_[index]}; }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    w = w - w * static_cast<double>(decay);
    Tensor& m = momenta_[index]->shared_value();
    const Tensor direction = ops::sign(m * options_.beta_1 + g * (1.0 - options_.beta_1));
    w = w - direction * static_cast<double>(step.learning_rate);
    m = m * options_.beta_2 + g * (1.0 - options_.beta_2);
  }
  LionOptions options_;
  Variables momenta_;
};

}  // namespace

OptimizerPtr Ftrl(FtrlOptions options) { return std::make_shared<FtrlOptimizer>(std::move(options)); }
OptimizerPtr Lion(LionOptions options) { return std::make_shared<LionOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
