// What BatchNormalization over one axis and over several have in common. Internal.
#pragma once

#include <utility>

#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/layers/normalization.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

// The keys from "momentum" to "gamma_constraint".
template <typename V>
void batch_normalization_fields(V& v, layers::BatchNormalizationOptions& o) {
  v("momentum", o.momentum);
  v("epsilon", o.epsilon);
  v("center", o.center);
  v("scale", o.scale);
  v("beta_initializer", o.beta_initializer);
  v("gamma_initializer", o.gamma_initializer);
  v("moving_mean_initializer", o.moving_mean_initializer);
  v("moving_variance_initializer", o.moving_variance_initializer);
  v("beta_regularizer", o.beta_regularizer);
  v("gamma_regularizer", o.gamma_regularizer);
  v("beta_constraint", o.beta_constraint);
  v("gamma_constraint", o.gamma_constraint);
}

// A weight that is trained.
inline WeightOptions affine_weight(const char* name, const Shape& shape,
                                   const initializers::InitializerArg& initializer,
                                   const regularizers::RegularizerArg& regularizer,
                                   const constraints::ConstraintArg& constraint) {
  return {.shape = shape,
          .initializer = initializer.object(),
          .autocast = false,
          .regularizer = regularizer.object(),
          .constraint = constraint.object(),
          .name = name};
}
// One that steps update.
inline WeightOptions moving_weight(const char* name, const Shape& shape,
                                   const initializers::InitializerArg& initializer) {
  return {.shape = shape,
          .initializer = initializer.object(),
          .trainable = false,
          .autocast = false,
          .aggregation = distribute::VariableAggregation::kMean,
          .name = name};
}

// gamma and beta are null where the layer has none.
struct BatchNormalizationWeights {
  VariablePtr gamma, beta, moving_mean, moving_variance;
};
// Made by `add`, in Keras's order.
template <typename Add>
BatchNormalizationWeights add_batch_normalization_weights(const layers::BatchNormalizationOptions& o,
                                                          const Shape& shape, const Add& add) {
  BatchNormalizationWeights made;
  if (o.scale)
    made.gamma = add(affine_weight("gamma", shape, o.gamma_initializer, o.gamma_regularizer, o.gamma_constraint));
  if (o.center)
    made.beta = add(affine_weight("beta", shape, o.beta_initializer, o.beta_regularizer, o.beta_constraint));
  made.moving_mean = add(moving_weight("moving_mean", shape, o.moving_mean_initializer));
  made.moving_variance = add(moving_weight("moving_variance", shape, o.moving_variance_initializer));
  return made;
}

// The dtype of the computation: 16-bit floats are normalized in float32.
inline DType wide(DType dtype) { return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }
inline Tensor read_as(const VariablePtr& variable, DType dtype) {
  return variable ? ops::cast(variable->read(), dtype) : Tensor();
}
inline Tensor moving_average(const Tensor& old, const Tensor& batch, double momentum) {
  return ops::stop_gradient(old * momentum + batch * (1.0 - momentum));
}
inline void assign_as(const VariablePtr& variable, const Tensor& value) {
  variable->assign(ops::cast(value, variable->dtype()));
}

}  // namespace lockstep::keras
