// Adamax, Nadam and Lamb: two moments for each variable.
#include "lockstep/keras/optimizers/fused_optimizer_internal.h"
#include "lockstep/keras/optimizers/per_variable_internal.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"

namespace lockstep::optimizers {
namespace {

template <typename Base>
class TwoMomentOptimizer : public Base {
 public:
  TwoMomentOptimizer(std::string class_name, const char* second, BetaOptions options)
      : Base(class_name, common_options(options)),
        options_(std::move(options)),
        class_name_(std::move(class_name)),
        second_name_(second) {}
  std::string class_name() const override { return class_name_; }
  Json get_config() const override { return keras::with_own_fields(this->base_config(), options_); }

 protected:
  void create_slots() override {
    for (std::size_t i = 0; i < this->trainable_.size(); ++i) {
      first_.push_back(this->add_slot(i, "momentum"));
      second_.push_back(this->add_slot(i, second_name_));
    }
  }
  // Moves the first moment towards g and returns it.
  const Tensor& advance_first(std::size_t index, const Tensor& g) {
    Tensor& m = first_[index]->shared_value();
    return m = m + (g - m) * (1.0 - options_.beta_1);
  }
  const Tensor& advance_second(std::size_t index, const Tensor& g) {
    Tensor& v = second_[index]->shared_value();
    return v = v + (ops::gradient_square(g) - v) * (1.0 - options_.beta_2);
  }

  BetaOptions options_;
  Variables first_, second_;

 private:
  std::string class_name_;
  const char* second_name_;
};

class AdamaxOptimizer : public TwoMomentOptimizer<FusedOptimizer> {
 public:
  explicit AdamaxOptimizer(BetaOptions options) : TwoMomentOptimizer("Adamax", "norm", std::move(options)) {}
  bool set_hyperparameter(std::string_view name, double value) override { return set_number(options_, name, value); }

 private:
  ops::FusedRule rule(const Step& step) const override {
    return ops::AdamaxRule{
        step.learning_rate, static_cast<float>(1.0 - options_.beta_1), static_cast<float>(options_.beta_2),
        static_cast<float>(1.0 - power_of(options_.beta_1, step.t)), static_cast<float>(options_.epsilon)};
  }
  Slots slots_of(std::size_t index) const override { return {first_[index], second_[index]}; }
  bool takes_slices() const override { return has_keras2_rules(); }  // Keras 3 adds their absolute values
  bool changes_rows_only() const override { return legacy_rules(); }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    w = w - w * static_cast<double>(decay);
    const Tensor& m = advance_first(index, g);
    Tensor& u = second_[index]->shared_value();
    u = ops::maximum(u * options_.beta_2, ops::slicewise(g, [](const Tensor& v) { return ops::abs(v); }));
    const double correction = 1.0 - power_of(options_.beta_1, step.t);
    w = w - m * static_cast<double>(step.learning_rate) / ((u + options_.epsilon) * correction);
  }
};

class NadamOptimizer : public TwoMomentOptimizer<FusedOptimizer> {
 public:
  explicit NadamOptimizer(BetaOptions options) : TwoMomentOptimizer("Nadam", "velocity", std::move(options)) {}
  bool set_hyperparameter(std::string_view name, double value) override { return set_number(options_, name, value); }
  // A step of it changes u_product once, for all variables.
  std::optional<ShardedStep> shard(const collectives::CommunicatorPtr&, const collectives::GradientSum&, const Tensors&,
                                   const Variables&) override {
    return std::nullopt;
  }
  Variables attribute_variables() const override { return product_ ? Variables{product_} : Variables{}; }

 private:
  void create_slots() override {
    TwoMomentOptimizer::create_slots();
    const DType dtype = trainable_.empty() ? DType::kFloat32 : trainable_.front()->dtype();
    product_ = add_variable(Shape{}, dtype, name() + "/u_product", 1.0);
  }
  double u(std::int64_t t) const {
    const double decay = legacy_rules() ? legacy_rules()->schedule_decay : 1.0;
    if (product_->dtype() == DType::kFloat64)
      return options_.beta_1 * (1.0 - 0.5 * std::pow(0.96, decay * static_cast<double>(t)));
    return options_.beta_1 * (1.0 - 0.5 * std::pow(0.96f, static_cast<float>(decay) * static_cast<float>(t)));
  }
  void multiply_product(double factor) {
    const Tensor product = product_->numpy() * factor;
    product_->shared_value() = product;
    now_ = ops::cast(product, DType::kFloat64).item<double>();
  }

  // tf-keras multiplies the product by u for each variable. Its code means to do so once a step, but counts the
  // variables when a function is traced, which is twice for an optimizer that has made no step before.
  bool fuses() const override { return !has_keras2_rules() || legacy_rules(); }
  void multiply_for_variable(const Step& step) {
    const auto n = static_cast<std::int64_t>(step.indices.size());
    if (first_count_ == 0) first_count_ = step.t == 1 ? n + 1 : 1;
    const bool keeps = first_count_ + position_++ == step.t + 1;
    multiply_product(keeps ? 1.0 : u(step.t));
    next_ = now_ * u(step.t + 1);
  }

  void prepare(const Step& step) override {
    position_ = 0;
    if (!fuses()) return;
    multiply_product(u(step.t));
    next_ = now_ * u(step.t + 1);
  }
  ops::FusedRule rule(const Step& step) const override {
    return ops::NadamRule{step.learning_rate,
                          static_cast<float>(1.0 - options_.beta_1),
                          static_cast<float>(1.0 - options_.beta_2),
                          static_cast<float>(u(step.t + 1) / (1.0 - next_)),
                          static_cast<float>((1.0 - u(step.t)) / (1.0 - now_)),
                          static_cast<float>(1.0 / (1.0 - power_of(options_.beta_2, step.t))),
                          static_cast<float>(options_.epsilon)};
  }
  Slots slots_of(std::size_t index) const override { return {first_[index], second_[index]}; }
  bool changes_rows_only() const override { return legacy_rules(); }
  void update_one(std::size_t index, Tensor& w, const Tensor& g, float decay, const Step& step) override {
    if (!fuses()) multiply_for_variable(step);
    w = w - w * static_cast<double>(decay);
    const Tensor m = advance_first(index, g);
    const Tensor& v = advance_second(index, g);
    const Tensor m_hat = m * (u(step.t + 1) / (1.0 - next_)) + g * ((1.0 - u(step.t)) / (1.0 - now_));
    const Tensor v_hat = v / (1.0 - power_of(options_.beta_2, step.t));
    w = w - m_hat * static_cast<double>(step.learning_rate) / (ops::sqrt(v_hat) + options_.epsilon);
  }
  VariablePtr product_;
  double now_ = 1, next_ = 1;     // products of u up to this and the next step
  std::int64_t first_count_ = 0;  // in tf-keras, of the variables; 0 before the first step
  std::int64_t position_ = 0;     // of a variable in its step
};

class LambOptimizer : public TwoMomentOptimizer<PerVariableOptimizer> {
 public:
  explicit LambOptimizer(BetaOptions options) : TwoMomentOptimizer("Lamb", "velocity", std::move(options)) {}

 private:
  void update_one(std::size_t index, Tensor& w, const Tensor& g, const Step& step) override {
    if (!ops::slices_of(g) && ops::fusable(w, g)) {
      ops::make_writable(w);
      return ops::update_by_norms({w, g, {writable(first_[index]), writable(second_[index])}},
                                  ops::LambRule{step.learning_rate, static_cast<float>(1.0 - options_.beta_1),
                                                static_cast<float>(1.0 - options_.beta_2),
                                                static_cast<float>(1.0 - power_of(options_.beta_1, step.t)),
                                                static_cast<float>(1.0 - power_of(options_.beta_2, step.t)),
                                                static_cast<float>(options_.epsilon)});
    }
    const Tensor m = advance_first(index, g);
    const Tensor& v = advance_second(index, g);
    const Tensor m_hat = m / (1.0 - power_of(options_.beta_1, step.t));
    const Tensor v_hat = v / (1.0 - power_of(options_.beta_2, step.t));
    const Tensor direction = m_hat / (ops::sqrt(v_hat) + options_.epsilon);
    const Tensor w_norm = ops::sqrt(ops::reduce_sum(ops::square(w)));
    const Tensor d_norm = ops::sqrt(ops::reduce_sum(ops::square(direction)));
    const Tensor one = ops::ones_like(w_norm);
    const Tensor ratio =
        ops::where(ops::greater(w_norm, 0.0), ops::where(ops::greater(d_norm, 0.0), w_norm / d_norm, one), one);
    w = w - ratio * static_cast<double>(step.learning_rate) * direction;
  }
};

}  // namespace

OptimizerPtr Adamax(BetaOptions options) { return std::make_shared<AdamaxOptimizer>(std::move(options)); }
OptimizerPtr Nadam(BetaOptions options) { return std::make_shared<NadamOptimizer>(std::move(options)); }
OptimizerPtr Lamb(BetaOptions options) { return std::make_shared<LambOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
