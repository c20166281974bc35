// Functions of TensorFlow and Keras with arguments by position and others by keyword behind them:
// random::uniform({2}, 0, 10, {.dtype = int32}), argmax(x, 1, {.output_type = int32}); and with more arguments by
// position than functions have where they are declared. Where an argument is given in both ways, the position counts.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/keras/nn.h"
#include "lockstep/keras/operations/operations.h"
#include "lockstep/ops/nn_functions.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/tensor_functions.h"
#include "lockstep/random/generator.h"
#include "lockstep/random/random_images.h"

namespace lockstep::ops {

inline Tensor argmax(const Tensor& x, int axis, ArgmaxKeywords o) {
  o.axis = axis;
  return argmax(x, o);
}
inline Tensor argmin(const Tensor& x, int axis, ArgmaxKeywords o) {
  o.axis = axis;
  return argmin(x, o);
}
inline Tensor cumsum(const Tensor& x, int axis, CumulativeKeywords o) {
  o.axis = axis;
  return cumsum(x, o);
}
inline Tensor cumprod(const Tensor& x, int axis, CumulativeKeywords o) {
  o.axis = axis;
  return cumprod(x, o);
}
inline Tensor l2_normalize(const Tensor& x, const Axes& axis, L2NormalizeKeywords o) {
  o.axis = axis;
  return l2_normalize(x, o);
}
inline TopK top_k(const Tensor& x, std::int64_t k, TopKKeywords o) {
  o.k = k;
  return top_k(x, o);
}
// int64, or another dtype.
struct CountNonzeroKeywords {
  FieldNamesOnly names_only = {};
  Axes axis = std::nullopt;
  bool keepdims = false;
  DTypeLike dtype = DType::kInt64;
};
template <std::same_as<CountNonzeroKeywords> K = CountNonzeroKeywords>
Tensor count_nonzero(const Tensor& x, const K& o) {
  return cast(count_nonzero(x, AxisKeywords{{}, o.axis, o.keepdims}), o.dtype);
}
inline Tensor count_nonzero(const Tensor& x, const Axes& axis, CountNonzeroKeywords o) {
  o.axis = axis;
  return count_nonzero<CountNonzeroKeywords>(x, o);
}
template <typename On, typename Off>
requires(std::is_arithmetic_v<On>&& std::is_arithmetic_v<Off>) Tensor
    one_hot(const Tensor& indices, std::int64_t depth, On on_value, Off off_value, OneHotKeywords o = {}) {
  o.on_value = static_cast<double>(on_value), o.off_value = static_cast<double>(off_value);
  return one_hot(indices, depth, o);
}
struct ConjugateTransposeKeywords {
  FieldNamesOnly names_only = {};
  Axes perm = std::nullopt;
  bool conjugate = false;
};
template <std::same_as<ConjugateTransposeKeywords> K = ConjugateTransposeKeywords>
Tensor transpose(const Tensor& x, const K& o) {
  return transpose(o.conjugate ? conj(x) : x, TransposeKeywords{{}, o.perm});
}
inline Tensor reverse_sequence(const Tensor& input, const Tensor& seq_lengths, std::int64_t seq_axis,
                               std::int64_t batch_axis = 0) {
  return reverse_sequence(input, seq_lengths, ReverseKeywords{{}, seq_axis, batch_axis});
}
template <typename T>
requires std::is_arithmetic_v<T> Tensor constant(T value, DTypeLike dtype, const Shape& shape) {
  return constant(Values(value), ConstantKeywords{{}, dtype, shape});
}
template <typename A, typename B, typename C>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>&& std::is_arithmetic_v<C>) Tensor
    range(A start, B limit, C delta, DTypeLike dtype) {
  return range(RangeKeywords{{}, Number(start), Number(limit), Number(delta), dtype});
}
template <typename A, typename B, typename C>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>&& std::is_arithmetic_v<C>) Tensor
    range(A start, B limit, C delta, RangeKeywords o) {
  o.start = Number(start), o.limit = Number(limit), o.delta = Number(delta);
  return range(o);
}
// Of coefficients in a list of tensors, which broadcast.
template <std::same_as<Tensors> T = Tensors>  // as {1.0, 2.0} is a tensor
Tensor polyval(const T& coeffs, const Tensor& x) {
  Tensor sum = zeros_like(x);
  for (const Tensor& each : coeffs) sum = sum * x + each;
  return sum;
}

// Lists of numbers and tensors.
template <std::same_as<MixedValues> L = MixedValues>
Tensor stack(const L& values, int axis = 0) {
  return values.stacked(axis);
}
template <std::same_as<MixedValues> L = MixedValues>
Tensor stack(const L& values, const OneAxisKeywords& o) {
  return values.stacked(o.axis);
}

// The initial value a number: foldl(add, x, 0.0), scan(add, x, 0.0).
#define LOCKSTEP_MIXED(function)                                                                                \
  template <typename Fn, typename N>                                                                            \
  requires std::is_arithmetic_v<N> Nested<Tensor> function(Fn fn, const Nested<Tensor>& elems, N initializer) { \
    return function(std::move(fn), elems, Nested<Tensor>(Tensor(initializer)));                                 \
  }
LOCKSTEP_MIXED(foldl)
LOCKSTEP_MIXED(foldr)
#undef LOCKSTEP_MIXED
template <typename Fn, typename T>
requires(std::is_convertible_v<const T&, Tensor> ||
         std::is_convertible_v<const T&, Nested<Tensor>>) Nested<Tensor> scan(Fn fn, const Nested<Tensor>& elems,
                                                                              const T& initializer) {
  if constexpr (std::is_arithmetic_v<T>)
    return scan(std::move(fn), elems, ScanKeywords{{}, Nested<Tensor>(Tensor(initializer))});
  else
    return scan(std::move(fn), elems, ScanKeywords{{}, initializer});
}

// Of three vectors: all (y, x, z), or with indexing "ij" (x, y, z).
inline Unpacked meshgrid(const Tensor& x, const Tensor& y, const Tensor& z, const MeshgridKeywords& o = {}) {
  const bool swapped = o.indexing == "xy";
  const Shape shape{(swapped ? y : x).dim(0), (swapped ? x : y).dim(0), z.dim(0)};
  const auto along = [&](const Tensor& vector, int axis) {
    Ints dims = {1, 1, 1};
    dims[static_cast<std::size_t>(axis)] = -1;
    return broadcast_to(reshape(vector, dims), shape);
  };
  return Tensors{along(x, swapped ? 1 : 0), along(y, swapped ? 0 : 1), along(z, 2)};
}

}  // namespace lockstep::ops

namespace lockstep::ops::random {

// Of alphas in a list.
template <int = 0>
Tensor gamma(const ShapeArg& shape, const Tensor& alpha, GammaOptions options = {}) {
  options.alpha = alpha;
  return gamma(shape, options);
}

template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) Tensor
    uniform(const ShapeArg& shape, A minval, B maxval, UniformOptions o) {
  o.minval = Number(minval), o.maxval = Number(maxval);
  return uniform(shape, o);
}
#define LOCKSTEP_MIXED(function)                                                                              \
  template <typename A, typename B>                                                                           \
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) Tensor function(const ShapeArg& shape, A mean, \
                                                                               B stddev, NormalOptions o) {   \
    o.mean = static_cast<double>(mean), o.stddev = static_cast<double>(stddev);                               \
    return function(shape, o);                                                                                \
  }                                                                                                           \
  template <typename A>                                                                                       \
  requires(std::is_arithmetic_v<A>) Tensor function(const ShapeArg& shape, A mean, NormalOptions o) {         \
    o.mean = static_cast<double>(mean);                                                                       \
    return function(shape, o);                                                                                \
  }
LOCKSTEP_MIXED(normal)
LOCKSTEP_MIXED(truncated_normal)
#undef LOCKSTEP_MIXED
template <std::integral Seed>
Tensor shuffle(const Tensor& value, Seed seed) {
  return shuffle(value, SeedOptions{{}, static_cast<std::int64_t>(seed)});
}
struct CategoricalOptions {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kInt64;
  std::optional<std::int64_t> seed = std::nullopt;
};
template <std::same_as<CategoricalOptions> O = CategoricalOptions>
Tensor categorical(const Tensor& logits, std::int64_t num_samples, const O& o) {
  return cast(categorical(logits, num_samples, SeedOptions{{}, o.seed}), o.dtype);
}

}  // namespace lockstep::ops::random

namespace lockstep::image {

template <std::convertible_to<std::string_view> Method>
Tensor resize(const Tensor& images, const ShapeArg& size, const Method& method, bool preserve_aspect_ratio = false,
              bool antialias = false) {
  return resize(images, ResizeToKeywords{{}, size, std::string_view(method), preserve_aspect_ratio, antialias});
}
template <std::convertible_to<std::string_view> Method>
Tensor resize(const Tensor& images, const ShapeArg& size, const Method& method, ResizeKeywords o) {
  o.method = std::string_view(method);
  return resize(images, size, o);
}
template <std::convertible_to<std::string_view> Method>
Tensor resize_with_pad(const Tensor& images, const Extent& target_height, const Extent& target_width,
                       const Method& method, bool antialias = false) {
  return resize_with_pad(images, target_height, target_width,
                         ResizeKeywords{{}, std::string_view(method), false, antialias});
}
template <int = 0>
Tensor extract_patches(const Tensor& images, const std::vector<std::int64_t>& sizes,
                       const std::vector<std::int64_t>& strides, const std::vector<std::int64_t>& rates,
                       const std::string& padding) {
  return extract_patches(images, PatchesKeywords{{}, sizes, strides, rates, padding});
}
template <std::convertible_to<std::string> Method>
Tensor crop_and_resize(const Tensor& image, const Tensor& boxes, const Tensor& box_indices, const Tensor& crop_size,
                       const Method& method, double extrapolation_value = 0) {
  return crop_and_resize(image, boxes, box_indices, crop_size, CropAndResizeOptions{{}, method, extrapolation_value});
}

template <std::integral Seed>
Tensor random_crop(const Tensor& value, const ShapeArg& size, Seed seed) {
  return random_crop(value, RandomCropKeywords{{}, size, static_cast<std::int64_t>(seed)});
}

}  // namespace lockstep::image

namespace lockstep::nn {

struct FormatKeywords {
  FieldNamesOnly names_only = {};
  std::string_view data_format = "NHWC";
};
template <std::same_as<FormatKeywords> K = FormatKeywords>
Tensor bias_add(const Tensor& value, const Tensor& bias, const K& o) {
  return ops::bias_add(value, bias, o.data_format);
}
#define LOCKSTEP_MIXED(function)                                                                                     \
  template <int = 0>                                                                                                 \
  Tensor function(const Tensor& input, const WindowArg& ksize, const WindowArg& strides, const std::string& padding, \
                  const FormatKeywords& o) {                                                                         \
    return function(input, PoolKeywords{{}, ksize, strides, padding, std::string(o.data_format)});                   \
  }
LOCKSTEP_MIXED(max_pool2d)
LOCKSTEP_MIXED(avg_pool2d)
LOCKSTEP_MIXED(max_pool)
LOCKSTEP_MIXED(avg_pool)
#undef LOCKSTEP_MIXED

}  // namespace lockstep::nn

namespace lockstep::keras_ops {

template <std::same_as<lockstep::ops::MixedValues> L = lockstep::ops::MixedValues>
Tensor convert_to_tensor(const L& x) {
  return convert_to_tensor(x.stacked());
}
template <std::same_as<lockstep::ops::MixedValues> L = lockstep::ops::MixedValues>
Tensor stack(const L& x, int axis = 0) {
  return x.stacked(axis);
}

struct BatchNormalizationOptions {
  FieldNamesOnly names_only = {};
  OpArgument axis = nullptr;
  Operand offset = nullptr;
  Operand scale = nullptr;
  OpArgument epsilon = 0.001;
};
inline Tensor batch_normalization(const Operand& x, const Operand& mean, const Operand& variance,
                                  const BatchNormalizationOptions& o) {
  return batch_normalization(x, mean, variance, o.axis, o.offset, o.scale, o.epsilon);
}
inline Tensor batch_normalization(const Operand& x, const Operand& mean, const Operand& variance,
                                  const OpArgument& axis, const BatchNormalizationOptions& o) {
  return batch_normalization(x, mean, variance, axis, o.offset, o.scale, o.epsilon);
}
inline Tensor pad_images(const Operand& images, const OpArgument& top_padding, PadImagesOptions o) {
  o.top_padding = top_padding;
  return pad_images(images, o);
}
inline Tensor pad_images(const Operand& images, const OpArgument& top_padding, const OpArgument& left_padding,
                         PadImagesOptions o) {
  o.left_padding = left_padding;
  return pad_images(images, top_padding, o);
}

}  // namespace lockstep::keras_ops
