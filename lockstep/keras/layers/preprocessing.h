// keras.layers: preprocessing that needs no vocabulary.
#pragma once

#include "lockstep/keras/layers/core.h"
#include "lockstep/tensor/optional_list.h"

namespace lockstep::layers {

struct RescalingOptions {
  FieldNamesOnly names_only = {};
  Json scale = 1.0;  // a number, or one for each channel
  Json offset = 0.0;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
LayerHandle Rescaling(RescalingOptions options);
LOCKSTEP_BY_POSITION(Rescaling, RescalingOptions, Json, scale)
// Rescaling(1.0 / 127.5, -1).
template <std::convertible_to<Json> Offset>
requires std::is_arithmetic_v<Offset> LayerHandle Rescaling(Json scale, Offset offset, RescalingOptions options = {}) {
  options.scale = std::move(scale);
  options.offset = offset;
  return Rescaling(std::move(options));
}

struct NormalizationOptions {
  OptionalList<std::int64_t> axis = -1;  // std::nullopt: one mean for all
  Json mean = nullptr;
  Json variance = nullptr;
  bool invert = false;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// (x - mean) / max(√variance, 1e-7), with statistics given here, or kept as weights.
LayerHandle Normalization(NormalizationOptions options = {});

struct CategoryEncodingOptions {
  std::int64_t num_tokens = 0;
  std::string output_mode = "multi_hot";  // "one_hot", "count"
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Integers of the last axis as one row of num_tokens columns; "one_hot" gives a row for each of them. In "count" mode
// the call takes `count_weights` of the inputs' shape.
LayerHandle CategoryEncoding(std::int64_t num_tokens, CategoryEncodingOptions options = {});
inline LayerHandle CategoryEncoding(const CategoryEncodingOptions& options) {
  return CategoryEncoding(options.num_tokens, options);
}

}  // namespace lockstep::layers
