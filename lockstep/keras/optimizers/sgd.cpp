#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/fused_optimizer_internal.h"

namespace lockstep::optimizers {

void check_range(const char* who, const char* what, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    throw_invalid_argument(fmt::format("{}: {} is {}, expected {} to {}", who, what, value, low, high));
  }
}

void update_rows(const Tensor& gradient, Tensor& value, std::span<const VariablePtr> slots,
                 const std::function<void(const Tensor&)>& update) {
  std::vector<Tensor*> changed = {&value};
  for (const VariablePtr& slot : slots) {
    if (slot) changed.push_back(&slot->shared_value());
  }
  const Tensors whole = ops::exchange_rows(gradient, changed);
  update(ops::slices_of(gradient)->values);
  ops::put_rows(gradient, changed, whole);
}

namespace {

class SGDOptimizer : public FusedOptimizer {
 public:
  explicit SGDOptimizer(SGDOptions options)
      : FusedOptimizer("SGD", common_options(options)),
        options_(std::move(options)),
        has_momentum_(options_.momentum != 0) {
    check_range("SGD", "momentum", options_.momentum, 0, 1);
  }
  std::string class_name() const override { return "SGD"; }

  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }
  bool set_hyperparameter(std::string_view name, double value) override {
    return (name != "momentum" || has_momentum_) && set_number(options_, name, value);
  }

 private:
  void create_slots() override {
    momenta_.resize(trainable_.size());
    for (std::size_t i = 0; i < trainable_.size() && has_momentum_; ++i) momenta_[i] = add_slot(i, "momentum");
  }

  ops::FusedRule rule(const Step& step) const override {
    return ops::SgdRule{step.learning_rate, static_cast<float>(options_.momentum), options_.nesterov};
  }
  Slots slots_of(std::size_t index) const override { return {momenta_[index]}; }
  bool changes_rows_only() const override { return legacy_rules() && has_momentum_; }

  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    const VariablePtr& slot = momenta_[index];
    const double rate = step.learning_rate;
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
  bool has_momentum_;
  Variables momenta_;
};

}  // namespace

OptimizerPtr SGD(SGDOptions options) { return std::make_shared<SGDOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
