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
  FieldNamesOnly names_only = {};
  keras::Extents target_shape = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// `target_shape` is without the batch; one entry may be -1.
LayerHandle Reshape(ReshapeOptions options);
LOCKSTEP_BY_POSITION(Reshape, ReshapeOptions, keras::Extents, target_shape)

struct PermuteOptions {
  FieldNamesOnly names_only = {};
  std::vector<std::int64_t> dims = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Axes counted from 1, the batch excluded.
LayerHandle Permute(PermuteOptions options);
LOCKSTEP_BY_POSITION(Permute, PermuteOptions, std::vector<std::int64_t>, dims)

struct RepeatVectorOptions {
  std::int64_t n = 1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle RepeatVector(std::int64_t n, RepeatVectorOptions options = {});

struct ZeroPaddingOptions {
  FieldNamesOnly names_only = {};
  Json padding = nullptr;  // default: 1 on every side
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle ZeroPadding1D(ZeroPaddingOptions options = {});
LayerHandle ZeroPadding2D(ZeroPaddingOptions options = {});
LayerHandle ZeroPadding3D(ZeroPaddingOptions options = {});
LOCKSTEP_BY_POSITION(ZeroPadding1D, ZeroPaddingOptions, Json, padding)
LOCKSTEP_BY_POSITION(ZeroPadding2D, ZeroPaddingOptions, Json, padding)
LOCKSTEP_BY_POSITION(ZeroPadding3D, ZeroPaddingOptions, Json, padding)

struct CroppingOptions {
  FieldNamesOnly names_only = {};
  Json cropping = nullptr;  // default: 1 on every side, 0 for Cropping2D
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Cropping1D(CroppingOptions options = {});
LayerHandle Cropping2D(CroppingOptions options = {});
LayerHandle Cropping3D(CroppingOptions options = {});
LOCKSTEP_BY_POSITION(Cropping1D, CroppingOptions, Json, cropping)
LOCKSTEP_BY_POSITION(Cropping2D, CroppingOptions, Json, cropping)
LOCKSTEP_BY_POSITION(Cropping3D, CroppingOptions, Json, cropping)

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
