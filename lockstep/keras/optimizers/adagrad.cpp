// Adagrad and Adadelta.
#include "lockstep/keras/optimizers/fused_optimizer_internal.h"

namespace lockstep::optimizers {
namespace {

class AdagradOptimizer : public FusedOptimizer {
 public:
  explicit AdagradOptimizer(AdagradOptions options)
      : FusedOptimizer("Adagrad", common_options(options)), options_(std::move(options)) {}
  std::string class_name() const override { return "Adagrad"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }

 private:
  void create_slots() override {
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      accumulators_.push_back(add_slot(i, "accumulator", options_.initial_accumulator_value));
    }
  }
  ops::FusedRule rule(const Step& step) const override {
    return ops::AdagradRule{step.learning_rate, static_cast<float>(options_.epsilon), legacy_rules() != nullptr};
  }
  Slots slots_of(std::size_t index) const override { return {accumulators_[index]}; }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    Tensor& a = accumulators_[index]->shared_value();
    w = w - w * static_cast<double>(decay);
    a = a + ops::gradient_square(g);
    const Tensor root = legacy_rules() ? ops::sqrt(a) + options_.epsilon : ops::sqrt(a + options_.epsilon);
    w = w - g * static_cast<double>(step.learning_rate) / root;
  }
  AdagradOptions options_;
  Variables accumulators_;
};

class AdadeltaOptimizer : public FusedOptimizer {
 public:
  explicit AdadeltaOptimizer(AdadeltaOptions options)
      : FusedOptimizer("Adadelta", common_options(options)), options_(std::move(options)) {}
  std::string class_name() const override { return "Adadelta"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }
  bool set_hyperparameter(std::string_view name, double value) override { return set_number(options_, name, value); }

 private:
  void create_slots() override {
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      gradients_.push_back(add_slot(i, "accumulated_grad"));
      deltas_.push_back(add_slot(i, "accumulated_delta_var"));
    }
  }
  ops::FusedRule rule(const Step& step) const override {
    return ops::AdadeltaRule{step.learning_rate, static_cast<float>(options_.rho),
                             static_cast<float>(options_.epsilon)};
  }
  Slots slots_of(std::size_t index) const override { return {gradients_[index], deltas_[index]}; }
  bool changes_rows_only() const override { return legacy_rules(); }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    w = w - w * static_cast<double>(decay);
    const double rho = options_.rho, epsilon = options_.epsilon;
    Tensor& squares = gradients_[index]->shared_value();
    Tensor& deltas = deltas_[index]->shared_value();
    squares = squares * rho + ops::gradient_square(g) * (1.0 - rho);
    const Tensor delta = ops::gradient_times(g, -(ops::sqrt(deltas + epsilon) / ops::sqrt(squares + epsilon)));
    deltas = deltas * rho + ops::gradient_square(delta) * (1.0 - rho);
    w = w + delta * static_cast<double>(step.learning_rate);
  }
  AdadeltaOptions options_;
  Variables gradients_, deltas_;
};

}  // namespace

OptimizerPtr Adagrad(AdagradOptions options) { return std::make_shared<AdagradOptimizer>(std::move(options)); }
OptimizerPtr Adadelta(AdadeltaOptions options) { return std::make_shared<AdadeltaOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
