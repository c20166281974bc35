// Convolutions of groups of channels, of volumes, and transposed ones: several plain convolutions for each image.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/inference/weighted_step_internal.h"
#include "lockstep/ops/conv_groups_internal.h"
#include "lockstep/ops/conv_phases_internal.h"
#include "lockstep/ops/packing_internal.h"
#include "lockstep/ops/winograd_internal.h"

namespace lockstep::inference {
namespace {

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
                                       part_.out_channels, of_group.data(), part_.out_channels);
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
    for (std::int64_t y = 0; y < g_.height; ++y)
      copy_channels(from + y * g_.width * g_.channels, g_.channels, g_.width, part_.channels,
                    image + (y + part_.pad_top) * row + part_.pad_left * part_.channels, part_.channels);
    const std::int64_t channel = group * part_.out_channels;
    ops::direct_kernels().conv_forward(
        part_, image, prepared_.data + group * packed_, bias() ? bias() + channel : nullptr, relu_, 0,
        g_.out_h * g_.out_w, {output(run) + n * output_size() + channel, g_.out_channels, g_.out_w * g_.out_channels});
  }

  WindowGeometry part_;  // of one group
  std::int64_t groups_ = 1, packed_ = 0;
  bool relu_ = false;
};

// A slice of the result is the convolution of an image whose channels are those of all slices that it depends on.
class VolumeStep : public WeightedStep {
 public:
  VolumeStep(int x, int result, Dims dims, const VolumeWindow& window, std::int64_t volumes, Constant weights)
      : WeightedStep(x, result, std::move(dims), window.slice, volumes * window.output, std::move(weights),
                     window.slice.out_channels),
        window_(window),
        joined_(window.slice) {
    joined_.channels *= window.cells;
    outputs_ = ops::winograd_outputs(joined_);
  }

  void prepare(WeightStore& store) override {
    const std::int64_t size = outputs_ > 0
                                  ? ops::winograd_kernels().packed_size(joined_, outputs_)
                                  : ops::direct_kernels().packed_kernel_size(joined_.taps(), joined_.out_channels);
    const std::string kind = fmt::format("volume {} {}", outputs_, window_.cells);
    prepare_weights(store, kind, size, [&](const float* kernel, float* packed) {
      // [cells, h, w, I, O] to [h, w, cells, I, O].
      const std::int64_t taps = g_.window_h * g_.window_w, row = g_.channels * g_.out_channels;
      std::vector<float> ordered(static_cast<std::size_t>(taps * window_.cells * row));
      for (std::int64_t cell = 0; cell < window_.cells; ++cell)
        copy_pixels<0>(kernel + cell * taps * row, row, taps, row, ordered.data() + cell * row, window_.cells * row);
      if (outputs_ > 0) return ops::pack_winograd(joined_, outputs_, ordered.data(), false, packed);
      ops::pack_kernel(joined_, ordered.data(), packed);
    });
    relu_ = following_.drop_first(Function::kRelu, own_);
    Step::prepare(store);
  }

  void run(const Run& run) const override {
    const std::int64_t pixels = g_.out_h * g_.out_w;
    for_parts(run, images_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slice = begin; slice < end; ++slice) {
        const float* const image = join(run, slice);
        const ops::ConvOutput to{output(run) + slice * output_size(), g_.out_channels, g_.out_w * g_.out_channels};
        if (outputs_ > 0) {
          ops::winograd_kernels().forward(joined_, outputs_, image, prepared_.data, bias(), relu_,
                                          {0, ops::winograd_tiles(joined_, outputs_), 0, g_.out_channels}, to);
        } else {
          ops::direct_kernels().conv_forward(joined_, image, prepared_.data, bias(), relu_, 0, pixels, to);
        }
        finish_pixels(run, slice * pixels, (slice + 1) * pixels);
      }
    });
  }

 private:
  const float* join(const Run& run, std::int64_t slice) const {
    const bool border = outputs_ == 0 && joined_.padded();
    const std::int64_t height = border ? joined_.padded_h() : g_.height, width = border ? joined_.padded_w() : g_.width;
    const std::int64_t row = width * joined_.channels;
    float* const image = scratch(height * row);
    if (border) std::fill_n(image, height * row, 0.0f);
    float* const inner = border ? image + g_.pad_top * row + g_.pad_left * joined_.channels : image;
    const std::int64_t volume = slice / window_.output,
                       first = slice % window_.output * window_.stride - window_.before;
    for (std::int64_t cell = 0; cell < window_.cells; ++cell) {
      const std::int64_t depth = first + cell * window_.dilation;
      const bool inside = depth >= 0 && depth < window_.input;
      if (!inside && border) continue;
      const float* const from = input(run, 0) + (volume * window_.input + depth) * image_size();
      for (std::int64_t y = 0; y < g_.height; ++y) {
        float* const to = inner + y * row + cell * g_.channels;
        if (inside) {
          copy_channels(from + y * g_.width * g_.channels, g_.channels, g_.width, g_.channels, to, joined_.channels);
        } else {
          for (std::int64_t x = 0; x < g_.width; ++x) std::fill_n(to + x * joined_.channels, g_.channels, 0.0f);
        }
      }
    }
    return image;
  }

  const VolumeWindow window_;
  WindowGeometry joined_;
  int outputs_ = 0;  // of a tile along each axis, by Winograd's algorithm; or 0
  bool relu_ = false;
};

class TransposedStep : public WeightedStep {
 public:
  TransposedStep(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images, Constant weights,
                 bool large_batch)
      : WeightedStep(x, result, std::move(dims), g, images, std::move(weights), g.channels, g.out_channels),
        phases_(g) {
    const auto has_tiles = [](const ops::ConvPhase& p) { return ops::winograd_outputs(p.bare) > 0; };
    // The packed weights are larger, which pays where several images share them.
    winograd_ = large_batch && std::ranges::all_of(phases_.phases, has_tiles);
  }

  void prepare(WeightStore& store) override {
    // The phases follow from the strides and from where the window starts.
    std::string kind = fmt::format("transposed {} {} {} {}", g_.stride_h, g_.stride_w, g_.pad_top, g_.pad_left);
    std::int64_t size = phases_.packed_size;
    if (winograd_) {
      size = 0;
      for (const ops::ConvPhase& p : phases_.phases) {
        packed_.push_back(size), outputs_.push_back(ops::winograd_outputs(p.bare));
        size += aligned(ops::winograd_kernels().packed_size(p.bare, outputs_.back()));
        kind += fmt::format(" {}", outputs_.back());
      }
    }
    prepare_weights(store, kind, size, [&](const float* kernel, float* packed) {
      if (winograd_) return pack_winograd(kernel, packed);
      phases_.pack(g_, kernel, packed);
    });
    relu_ = following_.drop_first(Function::kRelu, own_);
    Step::prepare(store);
  }

  void run(const Run& run) const override {
    if (winograd_) return run_winograd(run);
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
  void pack_winograd(const float* kernel, float* packed) const {
    for (std::size_t i = 0; i < phases_.phases.size(); ++i) {
      const ops::ConvPhase& p = phases_.phases[i];
      const std::int64_t row = p.columns.count, cell = g_.channels * g_.out_channels;
      const Floats cells = allocate(p.rows.count * row * cell);
      for (std::int64_t y = 0; y < p.rows.count; ++y) {
        const float* const from = kernel + ((p.rows.first + y * p.rows.step) * g_.window_w + p.columns.first) * cell;
        copy_channels(from, p.columns.step * cell, row, cell, cells.begin + y * row * cell, cell);
      }
      ops::pack_winograd(p.bare, outputs_[i], cells.begin, true, packed + packed_[i]);
    }
  }
  void run_winograd(const Run& run) const {
    for (std::size_t i = 0; i < phases_.phases.size(); ++i) {
      const ops::ConvPhase& p = phases_.phases[i];
      const ops::WinogradUnits units(p.bare, outputs_[i], images_, wanted_parts(run));
      const ops::ConvOutput to{output(run) + p.to, g_.stride_w * g_.channels, g_.stride_h * g_.width * g_.channels,
                               image_size()};
      for_parts(run, units.count(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit)
          ops::winograd_kernels().forward(p.bare, outputs_[i], input(run, 0), prepared_.data + packed_[i], bias(),
                                          relu_, units[unit], to);
      });
    }
    finish_all(run);
  }

  const ops::ConvPhases phases_;
  bool winograd_ = false;  // for all phases
  std::vector<int> outputs_;
  std::vector<std::int64_t> packed_;
  bool relu_ = false;
};

}  // namespace

StepPtr grouped_convolution(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images,
                            Constant weights) {
  return std::make_unique<GroupedStep>(x, result, std::move(dims), g, images, std::move(weights));
}

StepPtr volume_convolution(int x, int result, Dims dims, const VolumeWindow& window, std::int64_t volumes,
                           Constant weights) {
  return std::make_unique<VolumeStep>(x, result, std::move(dims), window, volumes, std::move(weights));
}

StepPtr transposed_convolution(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images,
                               Constant weights, bool large_batch) {
  return std::make_unique<TransposedStep>(x, result, std::move(dims), g, images, std::move(weights), large_batch);
}

}  // namespace lockstep::inference
