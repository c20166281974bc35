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

 protected:
  // An optimizer whose name is not counted; `given` is the name that the options have.
  BuiltInOptimizer(OptimizerPtr built_in, std::string given);
  BuiltInOptimizer(const char* class_name, const Json& config);
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
#undef LOCKSTEP_BASE

}  // namespace lockstep::optimizers
