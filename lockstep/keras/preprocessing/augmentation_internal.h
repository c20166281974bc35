// Shared by the layers of augmentation.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/keras/preprocessing/augmentation.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/random.h"

namespace lockstep::keras {

struct FactorRange {
  double lower = 0, upper = 0;
};
// The meaning of a factor. Throws InvalidArgument, naming `who`, beyond [least, most].
FactorRange read_factor(const Json& factor, double least, double most, const std::string& who);
// As read_factor(), and puts the two numbers in the place of the factor, as Keras's configs have them.
FactorRange resolve_factor(Json& factor, double least, double most, const std::string& who);
// Two numbers in ascending order.
void check_value_range(std::vector<double>& value_range, const std::string& who);

// Numbers drawn for each image of x: (batch, tail…), between the bounds.
// Those of another dtype are other numbers.
Tensor draw_uniform(const Tensor& x, const Ints& tail, FactorRange range, const random::SeedGeneratorPtr& generator,
                    DType dtype = DType::kFloat32);

// A number of the beta distribution (alpha, alpha) for each image of x, or one number; alpha is a scalar of their
// dtype: float16, float32 or float64.
Tensor draw_beta(const Tensor& x, bool for_each_image, const Tensor& alpha, const random::SeedGeneratorPtr& generator);
// One number between the bounds.
Tensor draw_one(FactorRange range, const random::SeedGeneratorPtr& generator, DType dtype = DType::kFloat32);
// A permutation of the images of x.
Tensor draw_order(const Tensor& x, const random::SeedGeneratorPtr& generator);

// A layer's change of images in its two steps, for layers that combine others. Images are (batch, height, width,
// channels).
class ImageChange {
 public:
  virtual ~ImageChange() = default;
  // The numbers for a batch, drawn from this generator instead of the layer's.
  virtual Tensors draw_with(const Tensor& x, const random::SeedGeneratorPtr& generator) = 0;
  virtual Tensor change(const Tensor& x, const Tensors& drawn) const = 0;
};

// Layers that draw numbers for a batch of images, and change it by them in training.
template <typename Derived, typename Options>
class AugmentationLayer : public ConfiguredLayer<Derived, Options>, public ImageChange {
 public:
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultTrue; }
  std::vector<std::string> argument_names() const override { return {"data"}; }
  // Of images, or of a dict with images, labels, segmentation_masks and bounding_boxes.
  Structure call(const Structure& inputs, const CallContext& context) override {
    const Structure* const images = inputs.is_dict() ? inputs.find("images") : &inputs;
    if (!images) throw_invalid_argument(fmt::format("invalid input of {}: the dict has no key 'images'", who()));
    const Tensor x = prepared(images->leaf());
    const bool single = images->leaf().rank() == 3;
    const bool training = context.training;
    const bool symbol = graph::stands_for_shape(x);
    const bool changes = training || works_in_inference();
    Tensors drawn;
    if (!symbol && (changes || draws_in_inference())) drawn = draw(x);
    Tensor changed = finished(symbol ? training_shape(x) : changes ? transform(x, drawn) : at_inference(x), single);
    if (!symbol && !training && keeps_dtype_in_inference()) changed = ops::cast(changed, images->leaf().dtype());
    if (!inputs.is_dict()) return changed;
    Structure::Dict out;
    for (const auto& [key, value] : inputs.entries()) {
      if (key == "images") {
        out.emplace_back(key, changed);
      } else if (key == "labels") {
        const bool mixes = training && !symbol && !single;
        out.emplace_back(key, mixes ? Structure(mixed_labels(value.leaf(), x, drawn)) : value);
      } else if (key == "segmentation_masks" && targets() == Targets::kMoved && (symbol || training)) {
        const Tensor mask = prepared(value.leaf());
        out.emplace_back(key, finished(symbol ? training_shape(mask) : transform_mask(mask, drawn), single));
      } else {
        check_target(key, training && !symbol);
        out.emplace_back(key, value);
      }
    }
    return Structure::dict(std::move(out));
  }
  Tensors draw_with(const Tensor& x, const random::SeedGeneratorPtr& generator) final {
    const random::SeedGeneratorPtr own = std::exchange(generator_, generator);
    Tensors drawn = draw(x);
    generator_ = own;
    return drawn;
  }
  Tensor change(const Tensor& x, const Tensors& drawn) const final {
    const bool first = this->options_.data_format == "channels_first" && keeps_layout();
    return first ? to_channels_last(transform(to_channels_first(x), drawn)) : transform(x, drawn);
  }

 protected:
  explicit AugmentationLayer(Options options) : ConfiguredLayer<Derived, Options>(std::move(options)) {
    normalize_data_format(this->options_.data_format, who() + ": data_format");
  }
  std::string who() const { return fmt::format("{} '{}'", Derived::kClass, this->name()); }
  // The numbers for a batch (batch, height, width, channels), in Keras's order.
  virtual Tensors draw(const Tensor& x) = 0;
  virtual Tensor transform(const Tensor& x, const Tensors& drawn) const = 0;
  // Whether Keras draws them in inference too, so that its generator advances.
  virtual bool draws_in_inference() const { return false; }
  virtual bool works_in_inference() const { return false; }
  // Whether Keras returns the images there in their dtype, instead of the policy's.
  virtual bool keeps_dtype_in_inference() const { return false; }
  // What a layer that does not work in inference makes of images there.
  virtual Tensor at_inference(const Tensor& x) const { return x; }
  // Whether transform() takes images as they come, whatever their data_format.
  virtual bool keeps_layout() const { return false; }
  // A symbol of transform()'s shape.
  virtual Tensor training_shape(const Tensor& x) const { return x; }
  // What training makes of the segmentation masks and bounding boxes of a dict: nothing, or the same as of images.
  enum class Targets { kKept, kMoved, kUnknown };
  virtual Targets targets() const { return Targets::kKept; }
  virtual Tensor transform_mask(const Tensor& x, const Tensors& drawn) const { return transform(x, drawn); }
  // The labels of a batch that was changed with these numbers; x are the images before.
  virtual Tensor mixed_labels(const Tensor& labels, const Tensor&, const Tensors&) const { return labels; }

  Tensor uniform(const Tensor& x, const Ints& tail, FactorRange range) const {
    return draw_uniform(x, tail, range, generator_);
  }
  // Of the layer's compute dtype, which Keras draws some numbers in.
  Tensor uniform_to_compute(const Tensor& x, const Ints& tail, FactorRange range) const {
    return draw_uniform(x, tail, range, generator_, this->compute_dtype());
  }
  random::SeedGeneratorPtr generator_;

 private:
  bool changes_layout() const { return this->options_.data_format == "channels_first" && !keeps_layout(); }
  // A batch of images as draw() and transform() take them.
  Tensor prepared(const Tensor& given) const {
    Tensor x = ops::cast(given, this->compute_dtype());
    if (x.rank() == 3) x = ops::expand_dims(x, 0);
    if (x.rank() != 4)
      throw_invalid_argument(
          fmt::format("invalid input of {}: found shape {}, expected images of rank 4, or one of rank 3", who(),
                      given.shape().to_string()));
    return changes_layout() ? to_channels_last(x) : x;
  }
  Tensor finished(Tensor y, bool single) const {
    if (changes_layout()) y = to_channels_first(y);
    return single ? ops::squeeze(y, {0}) : y;
  }
  void check_target(const std::string& key, bool training) const {
    const bool boxes = key == "bounding_boxes";
    if (boxes && !this->options_.bounding_box_format)
      throw_invalid_argument(
          fmt::format("{} was called with bounding boxes: it requires a bounding_box_format, such "
                      "as 'xyxy'",
                      who()));
    if (training && targets() != Targets::kKept && (boxes || key == "segmentation_masks"))
      throw_unimplemented(fmt::format("{} does not change {} in training", who(), key));
  }
};

// The beginning of a class's config.
template <typename V, typename Options>
void image_fields(V& v, Options& o) {
  v("data_format", DataFormat{o.data_format});
  v("bounding_box_format", o.bounding_box_format, o.bounding_box_format ? Field::kOptional : Field::kUnwritten);
  v.dropped("rng_type");  // Keras 2
}

// The range of values of bytes, and of numbers that stand for them.
inline const std::vector<double> kBytes = {0, 255}, kUnit = {0, 1};

// Gray images (batch, height, width, 1) of three channels.
Tensor to_grayscale(const Tensor& x);
// `yes` for the images of which `condition` (batch) holds.
Tensor choose_images(const Tensor& condition, const Tensor& yes, const Tensor& no);
// Which pixels of x are within a rectangle of each image: columns from left to right, rows from top to bottom, each
// (batch), without the ends.
Tensor in_rectangle(const Tensor& x, const Tensor& left, const Tensor& right, const Tensor& top, const Tensor& bottom);
// Values from one range to another.
Tensor change_range(const Tensor& x, const std::vector<double>& from, const std::vector<double>& to);
Tensor clip_to(const Tensor& x, const std::vector<double>& range);

}  // namespace lockstep::keras
