// keras.optimizers: the optimizers themselves. Keyword names and defaults are Keras's; the learning rate
// may also stand first: Adam(1e-4), Adam({.learning_rate = 1e-4, .beta_1 = 0.8}), Adam(schedule).
//
// Formulas are those of Keras 3.15 (docs of each options struct); t counts updates from 1.
#pragma once

#include "lockstep/keras/optimizers/multi_optimizer.h"
#include "lockstep/keras/optimizers/optimizer.h"
#include "lockstep/keras/optimizers/schedule_free.h"

namespace lockstep::optimizers {

// w -= lr·g; with momentum μ: m = μ·m - lr·g, w += m; nesterov: w += μ·m - lr·g.
struct SGDOptions {
  LearningRate learning_rate = 0.01;
  double momentum = 0.0;
  bool nesterov = false;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
// m += (g - m)(1 - β1); v += (g² - v)(1 - β2); w -= lr·√(1 - β2^t)/(1 - β1^t) · m/(√v + ε); amsgrad: max of v.
struct AdamOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
// Adam with decoupled weight decay.
struct AdamWOptions {
  LearningRate learning_rate = 0.001;
  std::optional<double> weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
// v = ρv + (1 - ρ)g²; centered: d = v - a² + ε, else v + ε; step = lr·g/√d; momentum: b = μb + step.
struct RMSpropOptions {
  LearningRate learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0.0;
  double epsilon = 1e-7;
  bool centered = false;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
// a += g²; w -= lr·g/√(a + ε).
struct AdagradOptions {
  LearningRate learning_rate = 0.001;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
// G = ρG + (1 - ρ)g²; Δ = -√(D + ε)/√(G + ε)·g; D = ρD + (1 - ρ)Δ²; w += lr·Δ.
struct AdadeltaOptions {
  LearningRate learning_rate = 0.001;
  double rho = 0.95;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
// Adamax: u = max(β2·u, |g|), w -= lr·m/((1 - β1^t)(u + ε)). Nadam: Adam with Nesterov momentum. Lamb: the
// normalised Adam step times ‖w‖/‖step‖.
struct BetaOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
struct FtrlOptions {
  LearningRate learning_rate = 0.001;
  double learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0.0;
  double l2_regularization_strength = 0.0;
  double l2_shrinkage_regularization_strength = 0.0;
  double beta = 0.0;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
// w -= lr·sign(β1·m + (1 - β1)g); m = β2·m + (1 - β2)g.
struct LionOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
struct AdafactorOptions {
  LearningRate learning_rate = 0.001;
  double beta_2_decay = -0.8;
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1.0;
  bool relative_step = true;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};
// Matrices except embeddings: momentum orthogonalized by Newton-Schulz; other variables: AdamW.
struct MuonOptions {
  LearningRate learning_rate = 0.001;
  double adam_beta_1 = 0.9;
  double adam_beta_2 = 0.999;
  double adam_weight_decay = 0.004;
  double epsilon = 1e-7;
  std::optional<double> weight_decay = 0.004;
  LOCKSTEP_OPTIMIZER_OPTIONS;
  std::vector<std::string> exclude_layers = {};  // regular expressions over variable paths
  bool exclude_embeddings = true;
  double muon_a = 3.4445;
  double muon_b = -4.775;
  double muon_c = 2.0315;
  double adam_lr_ratio = 1;
  double momentum = 0.95;
  std::int64_t ns_steps = 5;
  bool nesterov = true;
  std::optional<double> rms_rate = 0.2;
};
struct LossScaleOptions {
  FieldNamesOnly names_only = {};
  OptimizerPtr inner_optimizer = {};  // where it is not given by position
  double initial_scale = 32768.0;
  std::int64_t dynamic_growth_steps = 2000;
  std::string name = {};
};

OptimizerPtr SGD(SGDOptions options = {});
OptimizerPtr Adam(AdamOptions options = {});
OptimizerPtr AdamW(AdamWOptions options = {});
OptimizerPtr RMSprop(RMSpropOptions options = {});
OptimizerPtr Adagrad(AdagradOptions options = {});
OptimizerPtr Adadelta(AdadeltaOptions options = {});
OptimizerPtr Adamax(BetaOptions options = {});
OptimizerPtr Nadam(BetaOptions options = {});
OptimizerPtr Lamb(BetaOptions options = {});
OptimizerPtr Ftrl(FtrlOptions options = {});
OptimizerPtr Lion(LionOptions options = {});
OptimizerPtr Adafactor(AdafactorOptions options = {});
OptimizerPtr Muon(MuonOptions options = {});
// Multiplies losses by a scale that grows after good steps and halves when a gradient is not finite, in
// which case the step is left out.
OptimizerPtr LossScaleOptimizer(OptimizerPtr inner_optimizer, LossScaleOptions options = {});
inline OptimizerPtr LossScaleOptimizer(const LossScaleOptions& options) {
  return LossScaleOptimizer(options.inner_optimizer, options);
}
// The inner optimizer of a LossScaleOptimizer; any other optimizer itself. compile configs hold the inner one.
OptimizerPtr inner_optimizer(const OptimizerPtr& optimizer);

// The learning rate first: Adam(1e-3), Adam(schedule, {.beta_2 = 0.98}).
#define LOCKSTEP_OPTIMIZER_BY_RATE(Name, Options)                              \
  inline OptimizerPtr Name(LearningRate learning_rate, Options options = {}) { \
    options.learning_rate = std::move(learning_rate);                          \
    return Name(std::move(options));                                           \
  }
LOCKSTEP_OPTIMIZER_BY_RATE(SGD, SGDOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Adam, AdamOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(AdamW, AdamWOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(RMSprop, RMSpropOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Adagrad, AdagradOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Adadelta, AdadeltaOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Adamax, BetaOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Nadam, BetaOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Lamb, BetaOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Ftrl, FtrlOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Lion, LionOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Adafactor, AdafactorOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(Muon, MuonOptions)
LOCKSTEP_OPTIMIZER_BY_RATE(ScheduleFreeAdamW, ScheduleFreeAdamWOptions)
#undef LOCKSTEP_OPTIMIZER_BY_RATE

}  // namespace lockstep::optimizers
