// Adam and AdamW.
#include "lockstep/keras/optimizers/fused_optimizer_internal.h"

namespace lockstep::optimizers {
namespace {

template <typename Options>
class AdamOptimizer : public FusedOptimizer {
 public:
  AdamOptimizer(std::string class_name, Options options)
      : FusedOptimizer(class_name, common_options(options)),
        class_name_(std::move(class_name)),
        options_(std::move(options)) {
    check_range(class_name_.c_str(), "beta_1", options_.beta_1, 0, 1);
    check_range(class_name_.c_str(), "beta_2", options_.beta_2, 0, 1);
  }
  std::string class_name() const override { return class_name_; }

  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }
  bool set_hyperparameter(std::string_view name, double value) override { return set_number(options_, name, value); }

 private:
  void create_slots() override {
    tops_.resize(trainable_.size());
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      momenta_.push_back(add_slot(i, "momentum"));
      velocities_.push_back(add_slot(i, "velocity"));
    }
    for (std::size_t i = 0; i < trainable_.size() && options_.amsgrad; ++i) tops_[i] = add_slot(i, "velocity_hat");
  }

  ops::FusedRule rule(const Step& step) const override {
    return ops::AdamRule{alpha(step), static_cast<float>(1.0 - options_.beta_1),
                         static_cast<float>(1.0 - options_.beta_2), static_cast<float>(options_.epsilon),
                         options_.amsgrad};
  }
  Slots slots_of(std::size_t index) const override { return {momenta_[index], velocities_[index], tops_[index]}; }

  float alpha(const Step& step) const {
    const auto beta_1 = static_cast<float>(options_.beta_1), beta_2 = static_cast<float>(options_.beta_2),
               t = static_cast<float>(step.t);
    return step.learning_rate * std::sqrt(1.0f - std::pow(beta_2, t)) / (1.0f - std::pow(beta_1, t));
  }

  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    Tensor& m = momenta_[index]->shared_value();
    Tensor& v = velocities_[index]->shared_value();
    w = w - w * static_cast<double>(decay);
    m = m + (g - m) * (1.0 - options_.beta_1);
    v = v + (ops::gradient_square(g) - v) * (1.0 - options_.beta_2);
    Tensor largest = v;
    if (options_.amsgrad) {
      Tensor& top = tops_[index]->shared_value();
      largest = top = ops::maximum(top, v);
    }
    w = w - (m * static_cast<double>(alpha(step))) / (ops::sqrt(largest) + options_.epsilon);
  }

  std::string class_name_;
  Options options_;
  Variables momenta_, velocities_, tops_;
};

}  // namespace

OptimizerPtr Adam(AdamOptions options) {
  return std::make_shared<AdamOptimizer<AdamOptions>>("Adam", std::move(options));
}
OptimizerPtr AdamW(AdamWOptions options) {
  if (!options.weight_decay) throw_invalid_argument("AdamW: weight_decay is None, expected a number");
  return std::make_shared<AdamOptimizer<AdamWOptions>>("AdamW", std::move(options));
}

}  // namespace lockstep::optimizers
