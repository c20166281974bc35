// Layers that move values without changing them: Flatten, Reshape, padding, cropping, repetition.
#pragma once

#include "lockstep/keras/layers/layer.h"

namespace lockstep::layers {

struct FlattenOptions {
  std::optional<std::string> data_format = std::nullopt;  // channels_last (default) or channels_first
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// (batch, …) to (batch, product). channels_first inputs are brought into channels_last order before.
keras::LayerHandle Flatten(FlattenOptions options = {});

struct ReshapeOptions {
  std::vector<std::int64_t> target_shape = {};  // without the batch; at most one -1
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
keras::LayerHandle Reshape(std::vector<std::int64_t> target_shape, ReshapeOptions options = {});

struct PermuteOptions {
  std::vector<std::int64_t> dims = {};  // axes counted from 1, the batch excluded
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
keras::LayerHandle Permute(std::vector<std::int64_t> dims, PermuteOptions options = {});

struct RepeatVectorOptions {
  std::int64_t n = 1;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// (batch, features) to (batch, n, features).
keras::LayerHandle RepeatVector(std::int64_t n, RepeatVectorOptions options = {});

// Amounts are one number for all sides, a number for each axis, or a pair {before, after} for each axis.
struct Padding1DOptions {
  Json padding = 1;
  std::optional<std::string> data_format = std::nullopt;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
struct Padding2DOptions {
  Json padding = {1, 1};
  std::optional<std::string> data_format = std::nullopt;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
keras::LayerHandle ZeroPadding1D(Padding1DOptions options = {});
keras::LayerHandle ZeroPadding2D(Padding2DOptions options = {});

struct Cropping1DOptions {
  Json cropping = {1, 1};
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
struct Cropping2DOptions {
  Json cropping = {{0, 0}, {0, 0}};
  std::optional<std::string> data_format = std::nullopt;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// Throw InvalidArgument when nothing would be left.
keras::LayerHandle Cropping1D(Cropping1DOptions options = {});
keras::LayerHandle Cropping2D(Cropping2DOptions options = {});

struct UpSampling1DOptions {
  std::int64_t size = 2;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
struct UpSampling2DOptions {
  Json size = {2, 2};
  std::optional<std::string> data_format = std::nullopt;
  std::string interpolation = "nearest";  // or "bilinear"
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
keras::LayerHandle UpSampling1D(UpSampling1DOptions options = {});
keras::LayerHandle UpSampling2D(UpSampling2DOptions options = {});

}  // namespace lockstep::layers
