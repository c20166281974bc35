// Adagrad and Adadelta.
#include "lockstep/keras/optimizers/per_variable_internal.h"

namespace lockstep::optimizers {
namespace {

class AdagradOptimizer : public PerVariableOptimizer {
 public:
  explicit AdagradOptimizer(AdagradOptions options)
      : PerVariableOptimizer("Adagrad", common_options(options)), options_(std::move(options)) {}
  std::string class_name() const override { return "Adagrad"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }

 private:
  void create_slots() override {
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      accumulators_.push_back(add_slot(i, "accumulator", options_.initial_accumulator_value));
    }
  }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, const Step& step) override {
    Tensor& a = accumulators_[index]->shared_value();
    a = a + ops::gradient_square(g);
    w = w - g * static_cast<double>(step.learning_rate) / ops::sqrt(a + options_.epsilon);
  }
  AdagradOptions options_;
  Variables accumulators_;
};

class AdadeltaOptimizer : public PerVariableOptimizer {
 public:
  explicit AdadeltaOptimizer(AdadeltaOptions options)
      : PerVariableOptimizer("Adadelta", common_options(options)), options_(std::move(options)) {}
  std::string class_name() const override { return "Adadelta"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }

 private:
  void create_slots() override {
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      gradients_.push_back(add_slot(i, "accumulated_grad"));
      deltas_.push_back(add_slot(i, "accumulated_delta_var"));
    }
  }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, const Step& step) override {
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
