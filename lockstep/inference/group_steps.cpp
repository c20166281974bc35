// Convolutions of groups of channels, and transposed ones: several plain convolutions for each image.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/inference/weighted_step_internal.h"
#include "lockstep/ops/conv_groups_internal.h"
#include "lockstep/ops/conv_phases_internal.h"
#include "lockstep/ops/packing_internal.h"

namespace lockstep::inference {
namespace {

// Memory of a thread, used again.
float* scratch(std::int64_t count) {
  static thread_local std::vector<float> floats;
  if (static_cast<std::int64_t>(floats.size()) < count) floats.resize(static_cast<std::size_t>(count));
  return floats.data();
}

// `kCount` floats, or if that is 0 `count`, for each pixel of a row.
template <int kCount>
void copy_pixels(const float* from, std::int64_t from_pixel, std::int64_t pixels, std::int64_t count, float* to) {
  const std::int64_t floats = kCount > 0 ? kCount : count;
  for (std::int64_t i = 0; i < pixels; ++i) std::copy_n(from + i * from_pixel, floats, to + i * floats);
}

// The channels of a group are copied into their own image, with its border.
class GroupedStep : public WeightedStep {
 public:
  GroupedStep(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images, Constant weights)
      : WeightedStep(x, result, std::move(dims), g, images, std::move(weights), g.out_channels), part_(g) {
    part_.channels = weights_.size / (g.window_h * g.window_w * g.out_channels);
    groups_ = g.channels / part_.channels;
    part_.out_channels = g.out_channels / groups_;
    packed_ = ops::direct_kernels().packed_kernel_size(part_.taps(), part_.out_channels);
  }

  void prepare(WeightStore& store) override {
    prepare_weights(store, fmt::format("groups {}", groups_), groups_ * packed_,
                    [&](const float* kernel, float* packed) {
                      std::vector<float> of_group(static_cast<std::size_t>(part_.taps() * part_.out_channels));
                      for (std::int64_t k = 0; k < groups_; ++k) {
                        copy_pixels<0>(kernel + k * part_.out_channels, g_.out_channels, part_.taps(),
                                       part_.out_channels, of_group.data());
                        ops::pack_kernel(part_, of_group.data(), packed + k * packed_);
                      }
                    });
    relu_ = following_.drop_first(Function::kRelu, own_);
    Step::prepare(store);
  }

  void run(const Run& run) const override {
    const std::int64_t pixels = g_.out_h * g_.out_w, parts = images_ >= wanted_parts(run) ? 1 : groups_;
    for_parts(run, images_ * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t n = unit / parts, part = unit % parts;
        for (std::int64_t k = part * groups_ / parts; k < (part + 1) * groups_ / parts; ++k) convolve(run, n, k);
        if (parts == 1) finish_pixels(run, n * pixels, (n + 1) * pixels);
      }
    });
    if (parts > 1) finish_all(run);
  }

 private:
  void convolve(const Run& run, std::int64_t n, std::int64_t group) const {
    const std::int64_t row = part_.padded_w() * part_.channels;
    float* const image = scratch(part_.padded_h() * row);
    if (part_.padded()) std::fill_n(image, part_.padded_h() * row, 0.0f);
    const float* const from = input(run, 0) + n * image_size() + group * part_.channels;
    for (std::int64_t y = 0; y < g_.height; ++y) {
      copy_row(from + y * g_.width * g_.channels, image + (y + part_.pad_top) * row + part_.pad_left * part_.channels);
    }
    const std::int64_t channel = group * part_.out_channels;
    ops::direct_kernels().conv_forward(
        part_, image, prepared_.data + group * packed_, bias() ? bias() + channel : nullptr, relu_, 0,
        g_.out_h * g_.out_w, {output(run) + n * output_size() + channel, g_.out_channels, g_.out_w * g_.out_channels});
  }
  void copy_row(const float* from, float* to) const {
    switch (part_.channels) {
      case 4: return copy_pixels<4>(from, g_.channels, g_.width, 4, to);
      case 8: return copy_pixels<8>(from, g_.channels, g_.width, 8, to);
      case 16: return copy_pixels<16>(from, g_.channels, g_.width, 16, to);
      default: return copy_pixels<0>(from, g_.channels, g_.width, part_.channels, to);
    }
  }

  WindowGeometry part_;  // of one group
  std::int64_t groups_ = 1, packed_ = 0;
  bool relu_ = false;
};

class TransposedStep : public WeightedStep {
 public:
  TransposedStep(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images, Constant weights)
      : WeightedStep(x, result, std::move(dims), g, images, std::move(weights), g.channels, g.out_channels),
        phases_(g) {}

  void prepare(WeightStore& store) override {
    // The phases follow from the strides and from where the window starts.
    const std::string kind = fmt::format("transposed {} {} {} {}", g_.stride_h, g_.stride_w, g_.pad_top, g_.pad_left);
    prepare_weights(store, kind, phases_.packed_size,
                    [&](const float* kernel, float* packed) { phases_.pack(g_, kernel, packed); });
    relu_ = following_.drop_first(Function::kRelu, own_);
    Step::prepare(store);
  }

  void run(const Run& run) const override {
    // With few channels the order of the sums differs if images are not computed together, so results would depend on
    // the number of images and therefore of threads.
    const bool few = g_.channels <= ops::direct_kernels().width / 2;
    const auto side_by_side = [&](const ops::ConvPhase& p) { return !few && ops::fits_groups(p.bare, images_); };
    if (std::ranges::any_of(phases_.phases, side_by_side)) {
      for (const ops::ConvPhase& p : phases_.phases) {
        ops::forward_in_groups(
            p.bare, images_, input(run, 0), prepared_.data + p.packed, bias(), relu_,
            {output(run) + p.to, g_.stride_w * g_.channels, g_.stride_h * g_.width * g_.channels, image_size()});
      }
      return finish_all(run);
    }
    const std::int64_t parts = std::clamp<std::int64_t>(wanted_parts(run) / images_, 1, g_.height);
    for_parts(run, images_ * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t n = unit / parts, pixels = g_.height * g_.width;
        const WindowGeometry& border = phases_.border;
        const float* image = input(run, 0) + n * output_size();
        if (border.padded()) {
          float* const extended = scratch(border.padded_h() * border.padded_w() * border.channels);
          ops::direct_kernels().pad_image(border, image, extended);
          image = extended;
        }
        phases_.run(g_, prepared_.data, image, bias(), relu_, false, unit % parts, parts,
                    output(run) + n * image_size());
        if (parts == 1) finish_pixels(run, n * pixels, (n + 1) * pixels);
      }
    });
    if (parts > 1) finish_all(run);
  }

 private:
  const ops::ConvPhases phases_;
  bool relu_ = false;
};

}  // namespace

StepPtr grouped_convolution(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images,
                            Constant weights) {
  return std::make_unique<GroupedStep>(x, result, std::move(dims), g, images, std::move(weights));
}

StepPtr transposed_convolution(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images,
                               Constant weights) {
  return std::make_unique<TransposedStep>(x, result, std::move(dims), g, images, std::move(weights));
}

}  // namespace lockstep::inference
