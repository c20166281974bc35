// keras.layers: images of one size.
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

struct CenterCropOptions {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::string data_format = {};  // "channels_last" by default
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// The middle of (batch, height, width, channels) or of one image. Images that are smaller on one side lose what keeps
// them from the wanted aspect ratio and are resized.
LayerHandle CenterCrop(std::int64_t height, std::int64_t width, CenterCropOptions options = {});

struct ResizingOptions {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::string interpolation = "bilinear";  // "nearest", "bicubic", "area"
  bool crop_to_aspect_ratio = false;
  bool pad_to_aspect_ratio = false;
  std::string fill_mode = "constant";
  keras::Number fill_value = 0.0;
  bool antialias = false;
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Pixels are sampled at their centres. Integer images are rounded and stay integers.
LayerHandle Resizing(std::int64_t height, std::int64_t width, ResizingOptions options = {});

}  // namespace lockstep::layers
