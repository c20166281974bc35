// Keras's optimizers as classes, to derive from.
//
//   class Centralized : public optimizers::Adam {
//    public:
//     using Adam::Adam;
//     void update_step(const Tensor& gradient, const VariablePtr& variable, const Tensor& learning_rate) override {
//       Adam::update_step(gradient - ops::reduce_mean(gradient), variable, learning_rate);
//     }
//   };
//   model.compile({.optimizer = std::make_shared<Centralized>(1e-3)});
//
// An object of a registered class without a get_config() of its own is read again where the class inherits the
// constructors.
#pragma once

#include <concepts>
#include <string>
#include <utility>

#include "lockstep/keras/optimizers/optimizers.h"

namespace lockstep::optimizers {

// Forwards each call to the built-in optimizer that it contains.
class BuiltInOptimizer : public Optimizer {
 public:
  Json get_config() const override;
  Variables attribute_variables() const override { return built_in_->attribute_variables(); }

 protected:
  // An optimizer whose name is not counted; `given` is the name that the options have.
  BuiltInOptimizer(OptimizerPtr built_in, std::string given);
  BuiltInOptimizer(const char* class_name, const Json& config);
  // Keras's own object: optimizers::Adam::from_config({{"learning_rate", 0.01}}).
  static OptimizerPtr of_class(const char* class_name, const Json& config);
  void create_slots() override;
  void update_step(const Tensor& gradient, const VariablePtr& variable, const Tensor& learning_rate) override;
  void update(Step& step) override;
  // The options with a name that is not counted.
  template <typename Options>
  static Options unnamed(Options options) {
    options.name = "built_in";
    return options;
  }

 private:
  static const BuiltInOptimizer& plain();
  explicit BuiltInOptimizer(std::nullptr_t);

  OptimizerPtr built_in_;
};

#define LOCKSTEP_BASE(Name, Options)                                                                                   \
  class Name : public BuiltInOptimizer {                                                                               \
   public:                                                                                                             \
    explicit Name(const Options& options = {}) : BuiltInOptimizer(optimizers::Name(unnamed(options)), options.name) {} \
    explicit Name(LearningRate learning_rate, const Options& options = {})                                             \
        : BuiltInOptimizer(optimizers::Name(std::move(learning_rate), unnamed(options)), options.name) {}              \
    template <std::same_as<keras::detail::ConfigOnly> Config>                                                          \
    explicit Name(const Config& config) : BuiltInOptimizer(#Name, config.config) {}                                    \
    static OptimizerPtr from_config(const Json& config) { return of_class(#Name, config); }                            \
  };
LOCKSTEP_BASE(SGD, SGDOptions)
LOCKSTEP_BASE(Adam, AdamOptions)
LOCKSTEP_BASE(AdamW, AdamWOptions)
LOCKSTEP_BASE(RMSprop, RMSpropOptions)
LOCKSTEP_BASE(Adagrad, AdagradOptions)
LOCKSTEP_BASE(Adadelta, AdadeltaOptions)
LOCKSTEP_BASE(Adamax, BetaOptions)
LOCKSTEP_BASE(Nadam, BetaOptions)
LOCKSTEP_BASE(Lamb, BetaOptions)
LOCKSTEP_BASE(Ftrl, FtrlOptions)
LOCKSTEP_BASE(Lion, LionOptions)
LOCKSTEP_BASE(Adafactor, AdafactorOptions)
LOCKSTEP_BASE(Muon, MuonOptions)
LOCKSTEP_BASE(ScheduleFreeAdamW, ScheduleFreeAdamWOptions)
#undef LOCKSTEP_BASE

// Keeps its own variables, the scale and the number of good steps; everything else is the inner optimizer's.
class LossScaleOptimizer : public Optimizer {
 public:
  // Throws InvalidArgument without an inner optimizer, and where that is a LossScaleOptimizer.
  explicit LossScaleOptimizer(OptimizerPtr inner, LossScaleOptions options = {});
  explicit LossScaleOptimizer(const LossScaleOptions& options) : LossScaleOptimizer(options.inner_optimizer, options) {}
  template <std::same_as<keras::detail::ConfigOnly> Config>
  explicit LossScaleOptimizer(const Config& config) : LossScaleOptimizer(options_of(config.config)) {}

  void build(const Variables& variables) override;
  void apply_aggregated(Tensors gradients, const Variables& variables = {}) override;
  Tensor scale_loss(const Tensor& loss) const override;
  OptimizerPtr inner_optimizer() const override { return inner_; }
  VariablePtr dynamic_scale() const override { return dynamic_scale_; }
  VariablePtr step_counter() const override { return step_counter_; }
  void finalize_variable_values(const Variables& variables = {}) override;
  void exclude_from_weight_decay(const Variables& variables, const std::vector<std::string>& names = {}) override;
  std::int64_t iterations() const override { return inner_->iterations(); }
  const VariablePtr& iterations_variable() const override { return inner_->iterations_variable(); }
  void set_keras2_rules(bool keras2) override { inner_->set_keras2_rules(keras2); }
  float learning_rate() const override { return inner_->learning_rate(); }
  void set_learning_rate(double value) override { inner_->set_learning_rate(value); }
  bool has_fixed_learning_rate() const override { return inner_->has_fixed_learning_rate(); }
  Variables variables() const override;
  Json get_config() const override;

 private:
  static LossScaleOptions options_of(const Json& config);
  void update(Step&) override {}
  void set_state(std::int64_t good_steps, float scale);

  OptimizerPtr inner_;
  LossScaleOptions options_;
  VariablePtr step_counter_, dynamic_scale_;
};

}  // namespace lockstep::optimizers
