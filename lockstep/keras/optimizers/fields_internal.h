// The arguments of optimizers in the order of Keras's config: those that all have, and those of each.
#pragma once

#include <concepts>
#include <limits>

#include "lockstep/keras/fields_internal.h"
#include "lockstep/keras/optimizers/multi_optimizer.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/optimizers/schedule_free.h"

namespace lockstep::optimizers {

// Keras 2's decay: the rate is divided by 1 + decay · step.
struct Decay {
  LearningRate& rate;
};

// An optimizer that another one contains.
struct InnerOptimizer {
  OptimizerPtr& optimizer;
};

template <typename V, typename Options>
void weight_decay_field(V& v, Options& o) {
  v("weight_decay", o.weight_decay);
}
template <typename V>
void weight_decay_field(V& v, AdamWOptions& o) {
  v("weight_decay", keras::RequiredNumber{o.weight_decay});
}

// The arguments that all optimizers have.
template <typename V, typename Options>
void common_fields(V& v, Options& o) {
  v("name", keras::NullAs{o.name, ""});
  v.renamed("lr", "learning_rate", o.learning_rate);  // Keras 2
  v("learning_rate", o.learning_rate);
  v.renamed("decay", "learning_rate", Decay{o.learning_rate});  // Keras 2
  weight_decay_field(v, o);
  v("clipnorm", o.clipnorm);
  v("global_clipnorm", o.global_clipnorm);
  v("clipvalue", o.clipvalue);
  v("use_ema", o.use_ema);
  v("ema_momentum", keras::null_unless(o.use_ema, o.ema_momentum));
  v("ema_overwrite_frequency", o.ema_overwrite_frequency);
  v("loss_scale_factor", o.loss_scale_factor);
  v("gradient_accumulation_steps", o.gradient_accumulation_steps);
  v.dropped("is_legacy_optimizer");  // Keras 2
  v.dropped("jit_compile");
}

template <typename V>
void own_fields(V& v, SGDOptions& o) {
  v("momentum", o.momentum);
  v("nesterov", o.nesterov);
}

template <typename V, typename Options>
requires std::same_as<Options, AdamOptions> || std::same_as<Options, AdamWOptions>
void own_fields(V& v, Options& o) {
  v("beta_1", o.beta_1);
  v("beta_2", o.beta_2);
  v("epsilon", o.epsilon);
  v("amsgrad", o.amsgrad);
}

template <typename V>
void own_fields(V& v, ScheduleFreeAdamWOptions& o) {
  v("beta_1", o.beta_1);
  v("beta_2", o.beta_2);
  v("epsilon", o.epsilon);
  v("warmup_steps", o.warmup_steps);
}

template <typename V>
void own_fields(V& v, RMSpropOptions& o) {
  v("rho", o.rho);
  v("momentum", o.momentum);
  v("epsilon", o.epsilon);
  v("centered", o.centered);
}

template <typename V>
void own_fields(V& v, AdagradOptions& o) {
  v("initial_accumulator_value", o.initial_accumulator_value);
  v("epsilon", o.epsilon);
}

template <typename V>
void own_fields(V& v, AdadeltaOptions& o) {
  v("rho", o.rho);
  v("epsilon", o.epsilon);
}

template <typename V>
void own_fields(V& v, BetaOptions& o) {
  v("beta_1", o.beta_1);
  v("beta_2", o.beta_2);
  v("epsilon", o.epsilon);
  v.dropped("schedule_decay");  // Nadam of Keras 1 and 2; 0.004 as here
}

template <typename V>
void own_fields(V& v, FtrlOptions& o) {
  v("learning_rate_power", o.learning_rate_power);
  v("initial_accumulator_value", o.initial_accumulator_value);
  v("l1_regularization_strength", o.l1_regularization_strength);
  v("l2_regularization_strength", o.l2_regularization_strength);
  v("l2_shrinkage_regularization_strength", o.l2_shrinkage_regularization_strength);
  v("beta", o.beta);
}

template <typename V>
void own_fields(V& v, LionOptions& o) {
  v("beta_1", o.beta_1);
  v("beta_2", o.beta_2);
}

template <typename V>
void own_fields(V& v, AdafactorOptions& o) {
  v("beta_2_decay", o.beta_2_decay);
  v("epsilon_1", o.epsilon_1);
  v("epsilon_2", o.epsilon_2);
  v("clip_threshold", o.clip_threshold);
  v("relative_step", o.relative_step);
}

template <typename V>
void own_fields(V& v, MuonOptions& o) {
  v("adam_beta_1", o.adam_beta_1);
  v("adam_beta_2", o.adam_beta_2);
  v("epsilon", o.epsilon);
  v("exclude_layers", keras::null_read_as(o.exclude_layers, {}));
  v("muon_a", o.muon_a);
  v("muon_b", o.muon_b);
  v("muon_c", o.muon_c);
  v("adam_lr_ratio", keras::WholeIfPossible{o.adam_lr_ratio});  // Keras's default is the integer 1
  v("momentum", o.momentum);
  v("ns_steps", o.ns_steps);
  v("nesterov", o.nesterov);
  v("exclude_embeddings", o.exclude_embeddings);
  v("adam_weight_decay", keras::null_read_as(o.adam_weight_decay, 0));
  v("rms_rate", o.rms_rate);
}

// As dynamic_growth_steps: a scale that never changes, which Keras 2 has (dynamic=False). Keras 3 practically keeps it.
inline constexpr std::int64_t kFixedScale = std::numeric_limits<std::int32_t>::max();

// The constructor's arguments of a LossScaleOptimizer in one struct.
struct LossScaleConfig {
  OptimizerPtr inner_optimizer;
  LossScaleOptions options;
};
template <typename V>
void fields(V& v, LossScaleConfig& c) {
  v("name", keras::NullAs{c.options.name, ""});
  v("inner_optimizer", InnerOptimizer{c.inner_optimizer}, keras::Field::kRequired);
  v("initial_scale", c.options.initial_scale);
  v("dynamic_growth_steps", c.options.dynamic_growth_steps);
  v.dropped("dynamic", true);  // Keras 2
}

// The constructor's arguments of a MultiOptimizer in one struct.
struct MultiOptimizerConfig {
  OptimizerMap optimizer_map;
  MultiOptimizerOptions options;
};
template <typename V>
void fields(V& v, MultiOptimizerConfig& c) {
  v("optimizer_map", c.optimizer_map, keras::Field::kRequired);
  v("loss_scale_factor", c.options.loss_scale_factor);
  v("name", keras::NullAs{c.options.name, ""});
}

// Of optimizers of Keras 2 until 2.10: changes a number that is a variable in their checkpoints, such as beta_1.
// Returns false if the rule does not read it again, as in tf-keras: decay, and momentum where the rule has none.
bool set_hyperparameter(Optimizer& optimizer, std::string_view name, double value);

// Changes the argument of this name, if it is a number.
struct NumberSetter {
  std::string_view name;
  double value;
  bool found = false;
  template <typename T, typename... More>
  void operator()(std::string_view key, T&& field, const More&...) {
    if constexpr (std::same_as<T, double&>) {
      if (key != name) return;
      field = value;
      found = true;
    }
  }
  template <typename... Arguments>
  void dropped(const Arguments&...) {}
};
template <typename Options>
bool set_number(Options& options, std::string_view name, double value) {
  NumberSetter setter{name, value};
  own_fields(setter, options);
  return setter.found;
}

// All arguments.
template <typename V, typename Options>
requires requires(V& v, Options& o) { own_fields(v, o); }
void fields(V& v, Options& o) {
  common_fields(v, o);
  own_fields(v, o);
}

}  // namespace lockstep::optimizers

namespace lockstep::keras {

template <>
struct FieldType<optimizers::LearningRate> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "number or schedule"; }
  static bool read(const Json& found, optimizers::LearningRate& v);
  // The value of a variable; null for a function.
  static Json write(const optimizers::LearningRate& v);
};

template <>
struct FieldType<optimizers::Decay> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "number"; }
  static bool read(const Json& found, const optimizers::Decay& v);
};

template <>
struct FieldType<optimizers::OptimizerMap> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "OptimizerMap"; }
  static bool read(const Json& found, optimizers::OptimizerMap& v);
  static Json write(const optimizers::OptimizerMap& v);
};

template <>
struct FieldType<optimizers::InnerOptimizer> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "optimizer"; }
  static bool read(const Json& found, const optimizers::InnerOptimizer& v) {
    v.optimizer = optimizers::deserialize(found);
    return true;
  }
  static Json write(const optimizers::InnerOptimizer& v) { return optimizers::serialize(v.optimizer); }
};

}  // namespace lockstep::keras
