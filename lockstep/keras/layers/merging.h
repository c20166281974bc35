// keras.layers: layers with several inputs, called on a list.
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

// Elementwise; inputs of lower rank get axes after the batch.
LayerHandle Add(NamedOptions options = {});
LayerHandle Subtract(NamedOptions options = {});  // two inputs
LayerHandle Multiply(NamedOptions options = {});
LayerHandle Average(NamedOptions options = {});
LayerHandle Maximum(NamedOptions options = {});
LayerHandle Minimum(NamedOptions options = {});

struct ConcatenateOptions {
  FieldNamesOnly names_only = {};
  std::int64_t axis = -1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Concatenate(ConcatenateOptions options = {});
inline LayerHandle Concatenate(std::int64_t axis, ConcatenateOptions options = {}) {
  options.axis = axis;
  return Concatenate(std::move(options));
}

struct DotOptions {
  FieldNamesOnly names_only = {};
  keras::Axes axes = keras::Ints{};
  bool normalize = false;  // to unit length first
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Products over one axis of each input, for each sample.
// One axis is that of both.
LayerHandle Dot(DotOptions options);
LOCKSTEP_BY_POSITION(Dot, DotOptions, keras::Axes, axes)

// The same as functions: layers::add({a, b}) is layers::Add()({a, b}).
Tensor add(const std::vector<Tensor>& inputs, NamedOptions options = {});
Tensor subtract(const std::vector<Tensor>& inputs, NamedOptions options = {});
Tensor multiply(const std::vector<Tensor>& inputs, NamedOptions options = {});
Tensor average(const std::vector<Tensor>& inputs, NamedOptions options = {});
Tensor maximum(const std::vector<Tensor>& inputs, NamedOptions options = {});
Tensor minimum(const std::vector<Tensor>& inputs, NamedOptions options = {});
Tensor concatenate(const std::vector<Tensor>& inputs, std::int64_t axis = -1, ConcatenateOptions options = {});
Tensor concatenate(const std::vector<Tensor>& inputs, ConcatenateOptions options);
Tensor dot(const std::vector<Tensor>& inputs, DotOptions options);
template <typename = void>
Tensor dot(const std::vector<Tensor>& inputs, keras::Axes axes, DotOptions options = {}) {
  options.axes = std::move(axes);
  return dot(inputs, std::move(options));
}

}  // namespace lockstep::layers
