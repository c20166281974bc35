#include "lockstep/keras/layers/images.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/images_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

Tensor cut(const Tensor& x, const Box& box) {
  return ops::slice(x, {0, box.top, box.left, 0}, {-1, box.size.height, box.size.width, -1});
}

namespace {

// A side of the largest part with the target's aspect ratio, rounded as Keras rounds.
std::int64_t scaled_side(std::int64_t other, std::int64_t target, std::int64_t other_target) {
  return static_cast<std::int64_t>(static_cast<float>(other * target) / static_cast<float>(other_target));
}

}  // namespace

Box aspect_crop(Size given, Size target) {
  const Size part = {std::clamp<std::int64_t>(scaled_side(given.width, target.height, target.width), 1, given.height),
                     std::clamp<std::int64_t>(scaled_side(given.height, target.width, target.height), 1, given.width)};
  return {(given.height - part.height) / 2, (given.width - part.width) / 2, part};
}

Tensor aspect_pad(const Tensor& x, Size given, Size target, double value) {
  const std::int64_t height = std::max(given.height, scaled_side(given.width, target.height, target.width));
  const std::int64_t width = std::max(given.width, scaled_side(given.height, target.width, target.height));
  const std::int64_t top = (height - given.height) / 2, left = (width - given.width) / 2;
  return ops::pad(x, {{0, 0}, {top, top}, {left, left}, {0, 0}}, value);
}

namespace {

// The same of images whose size is known when a graph runs: a scalar of int32.
Tensor scaled_side(const Tensor& other, std::int64_t target, std::int64_t other_target) {
  const auto number = [](std::int64_t n) { return Tensor::scalar(static_cast<float>(n)); };
  return ops::cast(ops::cast(other * static_cast<double>(target), DType::kFloat32) / number(other_target),
                   DType::kInt32);
}

Tensor aspect_crop_in_graph(const Tensor& x, Size target) {
  const Tensor zero = Tensor::scalar(std::int32_t{0}), rest = Tensor::scalar(std::int32_t{-1});
  const Tensor height = ops::dim_of(x, 1), width = ops::dim_of(x, 2);
  const auto part = [](const Tensor& side, const Tensor& extent) {
    return ops::maximum(ops::minimum(side, extent), Tensor::scalar(std::int32_t{1}));
  };
  const Tensor rows = part(scaled_side(width, target.height, target.width), height);
  const Tensor columns = part(scaled_side(height, target.width, target.height), width);
  return ops::slice(x, ops::stack({zero, ops::floor_div(height - rows, 2), ops::floor_div(width - columns, 2), zero}),
                    ops::stack({rest, rows, columns, rest}));
}

Tensor aspect_pad_in_graph(const Tensor& x, Size target, double value) {
  const Tensor zero = Tensor::scalar(std::int32_t{0});
  const Tensor height = ops::dim_of(x, 1), width = ops::dim_of(x, 2);
  const auto border = [](const Tensor& side, const Tensor& extent) {
    return ops::floor_div(ops::maximum(side, extent) - extent, 2);
  };
  const Tensor top = border(scaled_side(width, target.height, target.width), height);
  const Tensor left = border(scaled_side(height, target.width, target.height), width);
  const Tensor paddings = ops::reshape(ops::stack({zero, zero, top, top, left, left, zero, zero}), {4, 2});
  return ops::call1("PadV2", {x, paddings, ops::cast(Tensor::scalar(value), x.dtype())});
}

// As tf.image.resize: kernels of several pixels, widened by antialiasing where the image gets smaller.
Tensor resize_by_kernel(const Tensor& x, const Tensor& size, const std::string& kernel, bool antialias) {
  const Tensor given = ops::cast(ops::slice_axis(ops::shape_of(x), 0, 1, 3), DType::kFloat32);
  const Tensor scale = ops::cast(size, DType::kFloat32) / given;
  return ops::call1("ScaleAndTranslate", {x, size, scale, ops::zeros_like(scale)},
                    {{"kernel_type", kernel}, {"antialias", antialias}});
}

}  // namespace

Tensor resize_images(const Tensor& x, const Tensor& size, const std::string& interpolation, bool antialias) {
  if (interpolation.starts_with("lanczos") || interpolation == "gaussian" || interpolation == "mitchellcubic")
    return resize_by_kernel(x, size, interpolation, antialias);
  if (antialias && interpolation == "bilinear") return resize_by_kernel(x, size, "triangle", true);
  if (antialias && interpolation == "bicubic") return resize_by_kernel(x, size, "keyscubic", true);
  if (interpolation == "area") return ops::call1("ResizeArea", {x, size});
  const char* name = interpolation == "nearest"    ? "ResizeNearestNeighbor"
                     : interpolation == "bilinear" ? "ResizeBilinear"
                                                   : "ResizeBicubic";
  return ops::call1(name, {x, size}, {{"half_pixel_centers", true}});
}

Tensor resize_images(const Tensor& x, Size target, const std::string& interpolation, bool antialias) {
  return resize_images(x, ops::constant_ints({target.height, target.width}), interpolation, antialias);
}

Tensor in_dtype_of_images(const Tensor& resized, DType dtype) {
  return ops::saturate_cast(is_integer(dtype) && is_floating(resized.dtype()) ? ops::round(resized) : resized, dtype);
}

namespace {

using namespace layers;

// Layers on a batch of images, or on one.
template <typename Derived, typename Options>
class ImageLayer : public ConfiguredLayer<Derived, Options> {
 public:
  std::vector<std::string> argument_names() const override { return {"data"}; }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultTrue; }
  // Of images, or of a dict with images, labels and segmentation_masks.
  Structure call(const Structure& inputs, const CallContext&) override {
    if (!inputs.is_dict()) return changed(inputs.leaf(), false);
    if (!inputs.find("images"))
      throw_invalid_argument(fmt::format("invalid input of {}: the dict has no key 'images'", who()));
    Structure::Dict out;
    for (const auto& [key, value] : inputs.entries()) {
      if (key == "bounding_boxes") throw_unimplemented(fmt::format("{} does not change bounding_boxes", who()));
      const bool mask = key == "segmentation_masks";
      out.emplace_back(key, mask || key == "images" ? Structure(changed(value.leaf(), mask)) : value);
    }
    return Structure::dict(std::move(out));
  }

 protected:
  Tensor changed(const Tensor& given, bool mask) const {
    Tensor x = prepared(given);
    const bool single = x.rank() == 3;
    if (single) x = ops::expand_dims(x, 0);
    if (x.rank() != 4) {
      throw_invalid_argument(
          fmt::format("{} takes images of rank 4, or one of rank 3, found shape {}", who(), x.shape().to_string()));
    }
    const bool first = this->options_.data_format == "channels_first";
    if (first) x = to_channels_last(x);
    const bool shapes_only = graph::stands_for_shape(x);  // the images will have a size
    Tensor y = has_unknown_size(x) && shapes_only ? resize_images(x, target(), "nearest") : transform(x, mask);
    if (first) y = to_channels_first(y);
    return single ? ops::squeeze(y, {0}) : y;
  }
  explicit ImageLayer(Options options) : ConfiguredLayer<Derived, Options>(std::move(options)) {
    auto& o = this->options_;
    normalize_data_format(o.data_format, who() + ": data_format");
    if (o.height < 1 || o.width < 1) {
      throw_invalid_argument(fmt::format("{}: height {} and width {} must be at least 1", who(), o.height, o.width));
    }
  }
  std::string who() const { return fmt::format("{} '{}'", Derived::kClass, this->name()); }
  Size target() const { return {this->options_.height, this->options_.width}; }
  // Of channels-last images.
  static bool has_unknown_size(const Tensor& x) { return x.dim(1) == kUnknownDim || x.dim(2) == kUnknownDim; }
  static Size size_of(const Tensor& x) { return {x.dim(1), x.dim(2)}; }
  virtual Tensor prepared(const Tensor& x) const { return x; }
  virtual Tensor transform(const Tensor& x, bool mask) const = 0;
};

class CenterCropLayer : public ImageLayer<CenterCropLayer, CenterCropOptions> {
 public:
  static constexpr const char* kClass = "CenterCrop";
  template <typename V>
  static void fields(V& v, CenterCropOptions& o) {
    v("height", o.height, Field::kRequired);
    v("width", o.width, Field::kRequired);
    v("data_format", DataFormat{o.data_format});
  }
  explicit CenterCropLayer(CenterCropOptions options) : ImageLayer(std::move(options)) {}

 private:
  Tensor prepared(const Tensor& x) const override { return ops::cast(x, compute_dtype()); }
  Tensor transform(const Tensor& x, bool) const override {
    const Size wanted = target();
    if (has_unknown_size(x)) {  // in a graph, which as Keras's only cuts
      const auto start = [&](int axis, std::int64_t extent) {
        return ops::floor_div(ops::dim_of(x, axis) - static_cast<double>(extent), 2);
      };
      const Tensor zero = Tensor::scalar(std::int32_t{0});
      return ops::slice(x, ops::stack({zero, start(1, wanted.height), start(2, wanted.width), zero}),
                        ops::constant_ints({-1, wanted.height, wanted.width, -1}));
    }
    const Size given = size_of(x);
    if (given.height >= wanted.height && given.width >= wanted.width) {
      return cut(x, {(given.height - wanted.height) / 2, (given.width - wanted.width) / 2, wanted});
    }
    return resize_images(cut(x, aspect_crop(given, wanted)), wanted, "bilinear");
  }
};

class ResizingLayer : public ImageLayer<ResizingLayer, ResizingOptions>, public OldRules {
 public:
  static constexpr const char* kClass = "Resizing";
  template <typename V>
  static void fields(V& v, ResizingOptions& o) {
    v("height", o.height, Field::kRequired);
    v("width", o.width, Field::kRequired);
    v("interpolation", o.interpolation);
    v("crop_to_aspect_ratio", o.crop_to_aspect_ratio);
    v("pad_to_aspect_ratio", o.pad_to_aspect_ratio);
    v("fill_mode", o.fill_mode);
    v("fill_value", null_unless(o.pad_to_aspect_ratio, o.fill_value));
    v("antialias", o.antialias);
    v("data_format", DataFormat{o.data_format});
  }
  explicit ResizingLayer(ResizingOptions options) : ImageLayer(std::move(options)) {
    // The last two are Keras 2's.
    normalize_choice(options_.interpolation,
                     {"bilinear", "nearest", "lanczos3", "lanczos5", "bicubic", "area", "gaussian", "mitchellcubic"},
                     who() + ": interpolation");
    normalize_choice(options_.fill_mode, {"constant"}, who() + ": fill_mode");
    if (options_.crop_to_aspect_ratio && options_.pad_to_aspect_ratio) {
      throw_invalid_argument(who() + ": only one of crop_to_aspect_ratio and pad_to_aspect_ratio can be set");
    }
  }
  // Images of integers become numbers of the layer's dtype, in Keras 2.
  void use_own_dtype() { own_dtype_ = true; }

 private:
  Tensor prepared(const Tensor& x) const override {
    if (!own_dtype_) return runs_in_graph(x) ? ops::cast(x, compute_dtype()) : x;
    return ops::cast(x, options_.interpolation == "nearest" ? compute_dtype() : DType::kFloat32);
  }
  Tensor transform(const Tensor& given, bool mask) const override {
    Tensor x = given;
    const bool in_graph = has_unknown_size(x);
    if (options_.crop_to_aspect_ratio)
      x = in_graph ? aspect_crop_in_graph(x, target()) : cut(x, aspect_crop(size_of(x), target()));
    if (options_.pad_to_aspect_ratio)
      x = in_graph ? aspect_pad_in_graph(x, target(), options_.fill_value)
                   : aspect_pad(x, size_of(x), target(), options_.fill_value);
    const Tensor y = resize_images(x, target(), mask ? "nearest" : options_.interpolation, options_.antialias);
    return own_dtype_ ? ops::cast(y, compute_dtype()) : in_dtype_of_images(y, given.dtype());
  }
  // As in Keras, integers become numbers of the layer's dtype in functions of datasets, in tf.function and in fit(),
  // evaluate() and predict(), but not in a call of their own.
  static bool runs_in_graph(const Tensor& x) {
    return x.is_symbolic() ? !graph::stands_for_shape(x) : ops::FunctionDraws::active();
  }
  bool own_dtype_ = false;
};

}  // namespace

void register_image_layers(ClassTable& registry) {
  registry.add(layer_row<CenterCropLayer>());
  registry.add(
      flagged_row<ResizingLayer>("own_dtype", [](ResizingLayer& layer, const Json&) { layer.use_own_dtype(); }));
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle CenterCrop(std::int64_t height, std::int64_t width, CenterCropOptions options) {
  options.height = height;
  options.width = width;
  return std::make_shared<keras::CenterCropLayer>(std::move(options));
}
LayerHandle Resizing(std::int64_t height, std::int64_t width, ResizingOptions options) {
  options.height = height;
  options.width = width;
  return std::make_shared<keras::ResizingLayer>(std::move(options));
}

}  // namespace lockstep::layers
