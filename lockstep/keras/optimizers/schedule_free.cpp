#include "lockstep/keras/optimizers/schedule_free.h"

#include <algorithm>

#include "lockstep/keras/optimizers/per_variable_internal.h"

namespace lockstep::optimizers {
namespace {

class ScheduleFreeAdamWOptimizer : public PerVariableOptimizer {
 public:
  explicit ScheduleFreeAdamWOptimizer(ScheduleFreeAdamWOptions options)
      : PerVariableOptimizer("ScheduleFreeAdamW", common_options(options)), options_(std::move(options)) {
    check_range("ScheduleFreeAdamW", "beta_1", options_.beta_1, 0, 1);
    check_range("ScheduleFreeAdamW", "beta_2", options_.beta_2, 0, 1);
    if (options_.beta_1 == 0) throw_invalid_argument("ScheduleFreeAdamW: beta_1 is 0, expected a number above 0");
  }
  std::string class_name() const override { return "ScheduleFreeAdamW"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }

 private:
  void create_slots() override {
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      iterates_.push_back(add_slot(i, "momentum"));
      iterates_.back()->assign(ops::cast(trainable_[i]->read(), iterates_.back()->dtype()));
      velocities_.push_back(add_slot(i, "velocity"));
    }
  }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, const Step& step) override {
    const auto t = static_cast<float>(step.t);
    float rate = step.learning_rate;
    if (options_.warmup_steps > 0) rate *= std::min(t / static_cast<float>(options_.warmup_steps), 1.0f);
    const auto beta_1 = static_cast<float>(options_.beta_1), beta_2 = static_cast<float>(options_.beta_2);
    const double rest_1 = 1.0f - beta_1, rest_2 = 1.0f - beta_2, weight = 1.0f / t;
    Tensor& z = iterates_[index]->shared_value();
    Tensor& v = velocities_[index]->shared_value();
    v = v + (ops::gradient_square(g) - v) * rest_2;
    const Tensor root = ops::sqrt(v / (1.0f - power_of(options_.beta_2, step.t))) + options_.epsilon;
    z = z - g * static_cast<double>(rate) / root;
    // As in Keras on TensorFlow, where the iterate before the step is read after it.
    const Tensor mean = (w - z * rest_1) / static_cast<double>(beta_1);
    const Tensor next = mean * (1.0 - weight) + z * weight;
    w = z * rest_1 + next * static_cast<double>(beta_1);
  }
  ScheduleFreeAdamWOptions options_;
  Variables iterates_, velocities_;
};

}  // namespace

OptimizerPtr ScheduleFreeAdamW(ScheduleFreeAdamWOptions options) {
  return std::make_shared<ScheduleFreeAdamWOptimizer>(std::move(options));
}

}  // namespace lockstep::optimizers
