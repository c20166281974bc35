// keras.layers: shapes. Paddings and croppings take one number for all sides, one for each axis
// ({1, 2}), or a pair for each axis ({{1, 0}, {2, 2}}).
#pragma once

#include "lockstep/keras/layers/convolution.h"

namespace lockstep::layers {

struct FlattenOptions {
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Flatten(FlattenOptions options = {});

struct ReshapeOptions {
  std::vector<std::int64_t> target_shape = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// `target_shape` is without the batch; one entry may be -1.
LayerHandle Reshape(std::vector<std::int64_t> target_shape, ReshapeOptions options = {});

struct PermuteOptions {
  std::vector<std::int64_t> dims = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Axes counted from 1, the batch excluded.
LayerHandle Permute(std::vector<std::int64_t> dims, PermuteOptions options = {});

struct RepeatVectorOptions {
  std::int64_t n = 1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RepeatVector(std::int64_t n, RepeatVectorOptions options = {});

struct ZeroPaddingOptions {
  Json padding = nullptr;  // default: 1 on every side
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle ZeroPadding1D(Json padding = 1, ZeroPaddingOptions options = {});
LayerHandle ZeroPadding2D(Json padding = 1, ZeroPaddingOptions options = {});
LayerHandle ZeroPadding3D(Json padding = 1, ZeroPaddingOptions options = {});

struct CroppingOptions {
  Json cropping = nullptr;  // default: 1 on every side, 0 for Cropping2D
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Cropping1D(Json cropping = 1, CroppingOptions options = {});
LayerHandle Cropping2D(Json cropping = 0, CroppingOptions options = {});
LayerHandle Cropping3D(Json cropping = 1, CroppingOptions options = {});

struct UpSamplingOptions {
  FieldNamesOnly names_only = {};
  Window size = 2;
  std::string data_format = {};
  std::string interpolation = "nearest";  // UpSampling2D also "bilinear", "bicubic", "lanczos3", "lanczos5"
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle UpSampling1D(UpSamplingOptions options = {});
LayerHandle UpSampling2D(UpSamplingOptions options = {});
LayerHandle UpSampling3D(UpSamplingOptions options = {});
LOCKSTEP_WINDOW_BY_POSITION(UpSampling1D, UpSamplingOptions, size)
LOCKSTEP_WINDOW_BY_POSITION(UpSampling2D, UpSamplingOptions, size)
LOCKSTEP_WINDOW_BY_POSITION(UpSampling3D, UpSamplingOptions, size)

}  // namespace lockstep::layers
