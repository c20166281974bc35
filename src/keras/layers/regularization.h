// Layers that draw random numbers while training: the Dropout family and noise. At inference they pass their input on.
//
// A layer draws from its own SeedGenerator, one draw a call, so a seeded run has Keras's masks; replicas draw their rows
// of the one mask of the global batch.
#pragma once

#include "lockstep/keras/layers/layer.h"

namespace lockstep::layers {

struct DropoutOptions {
  double rate = 0.5;  // share of elements set to 0; the others are scaled by 1 / (1 - rate)
  std::optional<std::int64_t> seed = std::nullopt;
  Json noise_shape = nullptr;  // shape of the mask, null entries take the input's; it broadcasts
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
keras::LayerHandle Dropout(double rate, DropoutOptions options = {});
// Keeps mean and variance of SELU's outputs: dropped elements become its negative saturation value.
keras::LayerHandle AlphaDropout(double rate, DropoutOptions options = {});

struct SpatialDropoutOptions {
  double rate = 0.5;
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  keras::DTypePolicy dtype = {};
  std::optional<std::string> data_format = std::nullopt;  // 2D
};
// Drops whole channels.
keras::LayerHandle SpatialDropout1D(double rate, SpatialDropoutOptions options = {});
keras::LayerHandle SpatialDropout2D(double rate, SpatialDropoutOptions options = {});

struct NoiseOptions {
  double amount = 0;  // the class's own argument
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// Adds normal noise of this standard deviation.
keras::LayerHandle GaussianNoise(double stddev, NoiseOptions options = {});
// Multiplies by normal noise around 1 with standard deviation sqrt(rate / (1 - rate)).
keras::LayerHandle GaussianDropout(double rate, NoiseOptions options = {});

struct ActivityRegularizationOptions {
  double l1 = 0.0;
  double l2 = 0.0;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// Passes its input on and adds (l1 Σ|x| + l2 Σx²) / batch size to the losses.
keras::LayerHandle ActivityRegularization(ActivityRegularizationOptions options = {});

}  // namespace lockstep::layers
