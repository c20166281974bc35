// keras.layers: activations as layers.
#pragma once

#include <concepts>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

struct ActivationOptions {
  FieldNamesOnly names_only = {};
  ActivationArg activation = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Activation(ActivationOptions options);
// A template, because GCC would take {.activation = "relu"} for an activation.
template <std::convertible_to<ActivationArg> A = ActivationArg>
LayerHandle Activation(const A& activation, ActivationOptions options = {}) {
  options.activation = activation;
  return Activation(std::move(options));
}

struct ReLUOptions {
  std::optional<keras::Number> max_value = std::nullopt;
  keras::Number negative_slope = 0.0;
  keras::Number threshold = 0.0;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle ReLU(ReLUOptions options = {});
template <typename T>
requires std::is_arithmetic_v<T> LayerHandle ReLU(T max_value, ReLUOptions options = {}) {
  options.max_value = max_value;
  return ReLU(std::move(options));
}

struct LeakyReLUOptions {
  keras::Number negative_slope = 0.3;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle LeakyReLU(LeakyReLUOptions options = {});
template <typename T>
requires std::is_arithmetic_v<T> LayerHandle LeakyReLU(T negative_slope, LeakyReLUOptions options = {}) {
  options.negative_slope = negative_slope;
  return LeakyReLU(std::move(options));
}

struct PReLUOptions {
  InitializerArg alpha_initializer = "Zeros";
  RegularizerArg alpha_regularizer = {};
  ConstraintArg alpha_constraint = {};
  OptionalList<std::int64_t> shared_axes = std::nullopt;  // counted with the batch as axis 0
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// relu(x) - alpha · relu(-x), alpha learned.
LayerHandle PReLU(PReLUOptions options = {});

struct ELUOptions {
  keras::Number alpha = 1.0;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle ELU(ELUOptions options = {});
template <typename T>
requires std::is_arithmetic_v<T> LayerHandle ELU(T alpha, ELUOptions options = {}) {
  options.alpha = alpha;
  return ELU(std::move(options));
}

struct SoftmaxOptions {
  keras::Axes axis = -1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Over one axis or jointly over several. Masked elements come out as exactly 0.
LayerHandle Softmax(SoftmaxOptions options = {});
template <typename T>
requires std::is_integral_v<T> LayerHandle Softmax(T axis, SoftmaxOptions options = {}) {
  options.axis = axis;
  return Softmax(std::move(options));
}

}  // namespace lockstep::layers
