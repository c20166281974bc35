// keras.layers: noise and penalties, active in training only. Random numbers are Keras's (keras/random).
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

struct DropoutOptions {
  keras::Number rate = 0.5;
  OptionalList<std::int64_t> noise_shape = std::nullopt;  // kUnknownDim: the input's extent
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Dropout(double rate, DropoutOptions options = {});
LayerHandle AlphaDropout(double rate, DropoutOptions options = {});

struct SpatialDropoutOptions {
  keras::Number rate = 0.5;
  std::string data_format = {};
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Whole channels are dropped.
LayerHandle SpatialDropout1D(double rate, SpatialDropoutOptions options = {});
LayerHandle SpatialDropout2D(double rate, SpatialDropoutOptions options = {});
LayerHandle SpatialDropout3D(double rate, SpatialDropoutOptions options = {});

struct GaussianDropoutOptions {
  keras::Number rate = 0.5;
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// x · N(1, √(rate / (1 - rate))).
LayerHandle GaussianDropout(double rate, GaussianDropoutOptions options = {});

struct GaussianNoiseOptions {
  keras::Number stddev = 1.0;
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle GaussianNoise(double stddev, GaussianNoiseOptions options = {});

struct ActivityRegularizationOptions {
  keras::Number l1 = 0.0;
  keras::Number l2 = 0.0;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Passes its input on and adds l1 · Σ|x| + l2 · Σx², divided by the batch size, to the loss.
LayerHandle ActivityRegularization(ActivityRegularizationOptions options = {});

}  // namespace lockstep::layers
