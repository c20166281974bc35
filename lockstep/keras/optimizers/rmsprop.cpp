#include "lockstep/keras/optimizers/fused_optimizer_internal.h"

namespace lockstep::optimizers {
namespace {

class RMSpropOptimizer : public FusedOptimizer {
 public:
  explicit RMSpropOptimizer(RMSpropOptions options)
      : FusedOptimizer("RMSprop", common_options(options)),
        options_(std::move(options)),
        has_momentum_(options_.momentum > 0) {
    check_range("RMSprop", "rho", options_.rho, 0, 1);
  }
  std::string class_name() const override { return "RMSprop"; }

  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }
  bool set_hyperparameter(std::string_view name, double value) override {
    return (name != "momentum" || has_momentum_) && set_number(options_, name, value);
  }

 private:
  void create_slots() override {
    const std::size_t n = trainable_.size();
    momenta_.resize(n);
    means_.resize(n);
    for (std::size_t i = 0; i < n; ++i) velocities_.push_back(add_slot(i, "velocity"));
    for (std::size_t i = 0; i < n && has_momentum_; ++i) momenta_[i] = add_slot(i, "momentum");
    for (std::size_t i = 0; i < n && options_.centered; ++i) means_[i] = add_slot(i, "average_gradient");
  }

  ops::FusedRule rule(const Step& step) const override {
    return ops::RmspropRule{step.learning_rate,
                            static_cast<float>(options_.rho),
                            static_cast<float>(options_.momentum),
                            static_cast<float>(options_.epsilon),
                            options_.centered,
                            adds_to_root()};
  }
  Slots slots_of(std::size_t index) const override { return {velocities_[index], momenta_[index], means_[index]}; }
  bool changes_rows_only() const override { return legacy_rules() && has_momentum_; }
  // Whether epsilon is added to the root, not to what it is taken of.
  bool adds_to_root() const { return legacy_rules() && !has_momentum_; }

  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    Tensor& v = velocities_[index]->shared_value();
    w = w - w * static_cast<double>(decay);
    v = v * options_.rho + ops::gradient_square(g) * (1.0 - options_.rho);
    Tensor variance = v;
    if (options_.centered) {
      Tensor& mean = means_[index]->shared_value();
      mean = mean * options_.rho + g * (1.0 - options_.rho);
      variance = v - ops::square(mean);
    }
    const Tensor root =
        adds_to_root() ? ops::sqrt(variance) + options_.epsilon : ops::sqrt(variance + options_.epsilon);
    Tensor change = g * static_cast<double>(step.learning_rate) / root;
    if (has_momentum_) {
      Tensor& momentum = momenta_[index]->shared_value();
      change = momentum = momentum * options_.momentum + change;
    }
    w = w - change;
  }

  RMSpropOptions options_;
  bool has_momentum_;
  Variables velocities_, momenta_, means_;
};

}  // namespace

OptimizerPtr RMSprop(RMSpropOptions options) { return std::make_shared<RMSpropOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
