#include "lockstep/keras/optimizers/rule.h"

namespace lockstep::optimizers {
namespace {

class RMSpropOptimizer : public Optimizer {
 public:
  explicit RMSpropOptimizer(RMSpropOptions options)
      : Optimizer("RMSprop", common_options(options)), options_(std::move(options)) {
    check_range("RMSprop", "rho", options_.rho, 0, 1);
  }
  std::string class_name() const override { return "RMSprop"; }

  Json config() const override { return with_fields(base_config(), options_); }

 private:
  void create_slots() override {
    const std::size_t n = trainable_.size();
    momenta_.resize(n);
    means_.resize(n);
    for (std::size_t i = 0; i < n; ++i) velocities_.push_back(add_slot(i, "velocity"));
    for (std::size_t i = 0; i < n && options_.momentum > 0; ++i) momenta_[i] = add_slot(i, "momentum");
    for (std::size_t i = 0; i < n && options_.centered; ++i) means_[i] = add_slot(i, "average_gradient");
  }

  void update(Step& step) override {
    std::vector<ops::FusedUpdate> fused;
    for (std::size_t i = 0; i < step.indices.size(); ++i) {
      const std::size_t index = step.indices[i];
      const VariablePtr& variable = trainable_[index];
      if (fusable(variable, step.gradients[i])) {
        fused.push_back(fused_update(variable, step.gradients[i], step.decays[i],
                                     {&velocities_[index], &momenta_[index], &means_[index]}));
      } else {
        update_one(index, step.gradients[i], step.decays[i], step.learning_rate);
      }
    }
    ops::fused_rmsprop(fused, {step.learning_rate, static_cast<float>(options_.rho),
                               static_cast<float>(options_.momentum), static_cast<float>(options_.epsilon),
                               options_.centered});
  }

  void update_one(std::size_t index, const Tensor& g, float decay, double rate) {
    Tensor& w = trainable_[index]->shared_value();
    Tensor& v = velocities_[index]->shared_value();
    w = w - w * static_cast<double>(decay);
    v = v * options_.rho + ops::gradient_square(g) * (1.0 - options_.rho);
    Tensor denominator = v + options_.epsilon;
    if (options_.centered) {
      Tensor& mean = means_[index]->shared_value();
      mean = mean * options_.rho + g * (1.0 - options_.rho);
      denominator = v - ops::square(mean) + options_.epsilon;
    }
    Tensor step = g * rate / ops::sqrt(denominator);
    if (options_.momentum > 0) {
      Tensor& momentum = momenta_[index]->shared_value();
      step = momentum = momentum * options_.momentum + step;
    }
    w = w - step;
  }

  RMSpropOptions options_;
  Variables velocities_, momenta_, means_;
};

}  // namespace

OptimizerPtr RMSprop(RMSpropOptions options) { return std::make_shared<RMSpropOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
