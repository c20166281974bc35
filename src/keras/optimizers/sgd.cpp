#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/rule.h"

namespace lockstep::optimizers {

void check_range(const char* who, const char* what, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    throw_invalid_argument(fmt::format("{}: {} is {}, expected {} to {}", who, what, value, low, high));
  }
}

namespace {

class SGDOptimizer : public Optimizer {
 public:
  explicit SGDOptimizer(SGDOptions options) : Optimizer("SGD", common_options(options)), options_(std::move(options)) {
    check_range("SGD", "momentum", options_.momentum, 0, 1);
  }
  std::string class_name() const override { return "SGD"; }

  Json config() const override { return with_fields(base_config(), options_); }

 private:
  void create_slots() override {
    momenta_.resize(trainable_.size());
    for (std::size_t i = 0; i < trainable_.size() && options_.momentum != 0; ++i) momenta_[i] = add_slot(i, "momentum");
  }

  void update(Step& step) override {
    std::vector<ops::FusedUpdate> fused;
    for (std::size_t i = 0; i < step.indices.size(); ++i) {
      const std::size_t index = step.indices[i];
      const VariablePtr& variable = trainable_[index];
      if (ops::fusable(variable->shared_value(), step.gradients[i])) {
        fused.push_back(fused_update(variable, step.gradients[i], step.decays[i], {&momenta_[index]}));
      } else {
        update_one(variable->shared_value(), momenta_[index], step.gradients[i], step.decays[i], step.learning_rate);
      }
    }
    ops::fused_sgd(fused, {step.learning_rate, static_cast<float>(options_.momentum), options_.nesterov});
  }

  void update_one(Tensor& w, const VariablePtr& slot, const Tensor& g, float decay, double rate) const {
    w = w - w * static_cast<double>(decay);
    if (!slot) {
      w = w - g * rate;
      return;
    }
    Tensor& m = slot->shared_value();
    m = m * options_.momentum - g * rate;
    w = options_.nesterov ? w + (m * options_.momentum - g * rate) : w + m;
  }

  SGDOptions options_;
  Variables momenta_;
};

}  // namespace

OptimizerPtr SGD(SGDOptions options) { return std::make_shared<SGDOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
