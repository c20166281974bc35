// keras.layers: normalization.
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

struct BatchNormalizationOptions {
  std::int64_t axis = -1;
  keras::Number momentum = 0.99;
  keras::Number epsilon = 0.001;
  bool center = true;
  bool scale = true;
  InitializerArg beta_initializer = "zeros";
  InitializerArg gamma_initializer = "ones";
  InitializerArg moving_mean_initializer = "zeros";
  InitializerArg moving_variance_initializer = "ones";
  RegularizerArg beta_regularizer = {};
  RegularizerArg gamma_regularizer = {};
  ConstraintArg beta_constraint = {};
  ConstraintArg gamma_constraint = {};
  bool renorm = false;
  Json renorm_clipping = nullptr;  // {"rmax": …, "rmin": …, "dmax": …}, each optional
  keras::Number renorm_momentum = 0.99;
  bool synchronized = false;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// In training: with the batch's mean and biased variance over all axes but `axis`, of each replica's part
// or, if synchronized, of the whole batch; moving ← moving · momentum + batch · (1 - momentum), averaged
// over replicas. In inference, and where trainable is false: with the moving statistics. With renorm, training corrects
// the batch's statistics by moving ones (batch renormalization).
LayerHandle BatchNormalization(BatchNormalizationOptions options = {});

struct LayerNormalizationOptions {
  keras::Axes axis = -1;
  keras::Number epsilon = 0.001;
  bool center = true;
  bool scale = true;
  bool rms_scaling = false;
  InitializerArg beta_initializer = "zeros";
  InitializerArg gamma_initializer = "ones";
  RegularizerArg beta_regularizer = {};
  RegularizerArg gamma_regularizer = {};
  ConstraintArg beta_constraint = {};
  ConstraintArg gamma_constraint = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle LayerNormalization(LayerNormalizationOptions options = {});

struct GroupNormalizationOptions {
  std::int64_t groups = 32;  // -1: one for each channel
  std::int64_t axis = -1;
  keras::Number epsilon = 0.001;
  bool center = true;
  bool scale = true;
  InitializerArg beta_initializer = "zeros";
  InitializerArg gamma_initializer = "ones";
  RegularizerArg beta_regularizer = {};
  RegularizerArg gamma_regularizer = {};
  ConstraintArg beta_constraint = {};
  ConstraintArg gamma_constraint = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle GroupNormalization(GroupNormalizationOptions options = {});

struct UnitNormalizationOptions {
  keras::Axes axis = -1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle UnitNormalization(UnitNormalizationOptions options = {});

struct RMSNormalizationOptions {
  keras::Axes axis = -1;
  keras::Number epsilon = 1e-6;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RMSNormalization(RMSNormalizationOptions options = {});

struct SpectralNormalizationOptions {
  LayerHandle layer = {};
  std::int64_t power_iterations = 1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Divides the kernel or the embeddings of `layer` by their largest singular value, estimated by power iterations, at
// each call in training.
LayerHandle SpectralNormalization(LayerHandle layer, SpectralNormalizationOptions options = {});

}  // namespace lockstep::layers
