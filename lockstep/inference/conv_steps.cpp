// Convolutions of whole batches: padding, what follows, and the order of loops in which weights or images stay in the
// cache.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lockstep/inference/unfolded_window_internal.h"
#include "lockstep/inference/weighted_step_internal.h"
#include "lockstep/ops/packing_internal.h"
#include "lockstep/ops/winograd_internal.h"

namespace lockstep::inference {
namespace {

constexpr std::int64_t kBand = 32768;  // floats of the result that are finished while they are in the cache

class ConvStep : public WeightedStep {
 public:
  ConvStep(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images, Constant weights,
           bool large_batch)
      : WeightedStep(x, result, std::move(dims), g, images, std::move(weights), g.out_channels),
        outputs_(ops::winograd_outputs(g)) {
    if (outputs_ == 0) unfolded_ = UnfoldedWindow::of(g, large_batch);
    if (g_.window_h * g_.window_w * g_.stride_h * g_.stride_w != 1 || g_.padded()) return;
    // Single pixels of all images are one row.
    g_.width = g_.out_w = g_.height * g_.width * images_;
    g_.height = g_.out_h = 1;
    images_ = 1;
  }

  void prepare(WeightStore& store) override {
    relu_ = following_.drop_first(Function::kRelu, own_);
    Step::prepare(store);
    if (unfolded_) return prepare_unfolded(store);
    const ops::DirectKernels& loops = ops::direct_kernels();
    const std::int64_t size = outputs_ > 0 ? ops::winograd_kernels().packed_size(g_, outputs_)
                                           : loops.packed_kernel_size(g_.taps(), g_.out_channels);
    const auto pack = [&](const float* kernel, float* packed) {
      if (outputs_ > 0) return ops::pack_winograd(g_, outputs_, kernel, false, packed);
      ops::pack_kernel(g_, kernel, packed);
    };
    prepare_weights(store, fmt::format("convolution {}", outputs_), size, pack);
  }

  std::int64_t workspace() const override {
    return outputs_ == 0 && !unfolded_ && g_.padded() ? images_ * padded_size() : 0;
  }

  void run(const Run& run) const override {
    if (unfolded_) return run_unfolded(run);
    if (outputs_ > 0) return run_winograd(run);
    const std::int64_t pixels = g_.out_h * g_.out_w;
    if (prepared_.size > kHeavy) return run_by_panels(run);
    std::int64_t band = std::max(kFewestPixels, kBand / g_.out_channels);
    band = std::min(band, std::max(kFewestPixels, images_ * pixels / wanted_parts(run)));
    const std::int64_t bands = std::max<std::int64_t>(1, (pixels + band / 2) / band);
    if (!run.alone) pad(run, 0, images_);
    for_parts(run, images_ * bands, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t n = unit / bands, at = unit % bands;
        if (run.alone && at == 0) pad(run, n, n + 1);
        const std::int64_t first = at * pixels / bands, last = (at + 1) * pixels / bands;
        convolve(run, n, first, last, 0, g_.out_channels);
        finish_pixels(run, n * pixels + first, n * pixels + last);
      }
    });
  }

 private:
  std::int64_t padded_size() const { return g_.padded_h() * g_.padded_w() * g_.channels; }
  const float* image(const Run& run, std::int64_t n) const {
    return g_.padded() ? run.workspace + n * padded_size() : input(run, 0) + n * image_size();
  }
  void pad(const Run& run, std::int64_t begin, std::int64_t end) const {
    if (!g_.padded()) return;
    for_parts(run, end - begin, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t n = begin + first; n < begin + last; ++n)
        ops::direct_kernels().pad_image(g_, input(run, 0) + n * image_size(), run.workspace + n * padded_size());
    });
  }
  // Channels c … c_end of pixels begin … end of one image; c is a multiple of the panel.
  void convolve(const Run& run, std::int64_t n, std::int64_t begin, std::int64_t end, std::int64_t c,
                std::int64_t c_end) const {
    WindowGeometry g = g_;
    g.out_channels = c_end - c;
    ops::direct_kernels().conv_forward(
        g, image(run, n), prepared_.data + c * g_.taps(), bias() ? bias() + c : nullptr, relu_, begin, end,
        {output(run) + n * output_size() + c, g_.out_channels, g_.out_w * g_.out_channels});
  }

  // Large weights are read once for all images.
  void run_by_panels(const Run& run) const {
    const std::int64_t pixels = g_.out_h * g_.out_w, panel = ops::direct_kernels().panel;
    // A few channels at the end are computed with the panel before them, because conv_forward assumes another order of
    // the packed weights for a convolution with so few channels.
    const bool few = g_.out_channels % panel <= ops::direct_kernels().width;
    const std::int64_t panels = std::max<std::int64_t>(1, g_.out_channels / panel + (few ? 0 : 1));
    pad(run, 0, images_);
    // Where there are fewer panels than threads, each works on a part of the pixels too.
    const std::int64_t parts =
        std::clamp<std::int64_t>(wanted_parts(run) / panels, 1, std::max<std::int64_t>(1, pixels / kFewestPixels));
    for_parts(run, panels * parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t unit = first; unit < last; ++unit) {
        const std::int64_t p = unit / parts, part = unit % parts;
        for (std::int64_t n = 0; n < images_; ++n)
          convolve(run, n, part * pixels / parts, (part + 1) * pixels / parts, p * panel,
                   p + 1 == panels ? g_.out_channels : (p + 1) * panel);
      }
    });
    finish_all(run);
  }

  void run_winograd(const Run& run) const {
    const ops::WinogradUnits units(g_, outputs_, images_, wanted_parts(run));
    const ops::ConvOutput to{output(run), g_.out_channels, g_.out_w * g_.out_channels, output_size()};
    for_parts(run, units.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        ops::winograd_kernels().forward(g_, outputs_, input(run, 0), prepared_.data, bias(), relu_, units[unit], to);
        if (units.has_all_channels()) finish_pixels(run, units.first_pixel(unit), units.first_pixel(unit + 1));
      }
    });
    if (!units.has_all_channels()) finish_all(run);
  }

  void prepare_unfolded(WeightStore& store) {
    const WindowGeometry& g = unfolded_->geometry();
    const std::string kind =
        fmt::format("unfolded {} {} {} {}", g_.stride_h, g_.stride_w, g.window_h, unfolded_->outputs());
    prepare_weights(store, kind, ops::winograd_kernels().packed_size(g, unfolded_->outputs()),
                    [&](const float* kernel, float* packed) {
                      const Floats unfolded = allocate(g.taps() * g.out_channels);
                      unfolded_->unfold_weights(kernel, unfolded.begin);
                      ops::pack_winograd(g, unfolded_->outputs(), unfolded.begin, false, packed);
                    });
  }

  // Several images, or some rows of one, are unfolded in the cache.
  void run_unfolded(const Run& run) const {
    const WindowGeometry& g = unfolded_->geometry();
    const int outputs = unfolded_->outputs();
    const std::int64_t rows = (g_.out_h + outputs - 1) / outputs, tiles = ops::winograd_tiles(g, outputs),
                       panel = ops::direct_kernels().panel, panels = (g_.out_channels + panel - 1) / panel;
    const std::int64_t wanted = wanted_parts(run), most = std::max<std::int64_t>(1, images_ / wanted);
    const std::int64_t together = std::clamp<std::int64_t>(ops::kTilesTogether / tiles, 1, most);
    const std::int64_t groups = (images_ + together - 1) / together;
    // Those of one image: where several are unfolded together there are groups enough.
    const std::int64_t bands = std::clamp<std::int64_t>(
        std::max(tiles / ops::kTilesTogether, std::min(wanted / groups, tiles / kFewestPixels)), 1, rows);
    const std::int64_t parts = std::clamp(wanted / (groups * bands), std::int64_t{1}, panels);
    for_parts(run, groups * bands * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t group = unit / (bands * parts), band = unit / parts % bands, part = unit % parts;
        const std::int64_t first = group * images_ / groups, last = (group + 1) * images_ / groups;
        const std::int64_t top = band * rows / bands * outputs,
                           bottom = std::min(g_.out_h, (band + 1) * rows / bands * outputs);
        WindowGeometry some = g;
        some.out_h = bottom - top, some.height = some.out_h + g.window_h - 1;
        const std::int64_t size = some.height * g.width * g.channels;
        float* const image = scratch((last - first) * size);
        for (std::int64_t n = first; n < last; ++n) {
          if (!unfolded_->unfold_image(input(run, 0) + n * image_size(), top, top + some.height,
                                       image + (n - first) * size))
            throw InvalidInput{};
        }
        const std::int64_t pixels = g_.out_h * g_.out_w;
        const ops::ConvOutput to{output(run) + first * output_size() + top * g_.out_w * g_.out_channels,
                                 g_.out_channels, g_.out_w * g_.out_channels, output_size()};
        ops::winograd_kernels().forward(
            some, outputs, image, prepared_.data, bias(), relu_,
            {0, (last - first) * ops::winograd_tiles(some, outputs), part * panels / parts * panel,
             std::min(g_.out_channels, (part + 1) * panels / parts * panel)},
            to);
        if (parts == 1) finish_pixels(run, first * pixels + top * g_.out_w, (last - 1) * pixels + bottom * g_.out_w);
      }
    });
    if (parts > 1) finish_all(run);
  }

  const int outputs_;  // of a tile along each axis, by Winograd's algorithm; or 0
  std::optional<UnfoldedWindow> unfolded_;
  bool relu_ = false;  // applied by the loops
};

class DepthwiseStep : public WeightedStep {
 public:
  DepthwiseStep(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images, Constant weights)
      : WeightedStep(x, result, std::move(dims), g, images, std::move(weights), g.out_channels) {}

  void prepare(WeightStore& store) override {
    Step::prepare(store);
    prepared_ = weights_;
    if (!scale_.empty())
      prepared_ = store.get("depthwise", weights_, scale_, weights_.size, [&](float* to) { scale_weights(to); });
  }

  void run(const Run& run) const override {
    const std::int64_t row = g_.out_w * g_.out_channels;
    std::int64_t band = std::max<std::int64_t>(1, kBand / row);
    band = std::max<std::int64_t>(1, std::min(band, images_ * g_.out_h / wanted_parts(run)));
    const std::int64_t bands = (g_.out_h + band - 1) / band;
    for_parts(run, images_ * bands, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t n = unit / bands, at = unit % bands;
        const std::int64_t first = at * g_.out_h / bands, last = (at + 1) * g_.out_h / bands;
        ops::direct_kernels().depthwise_forward(g_, input(run, 0) + n * image_size(), prepared_.data, bias(), first,
                                                last, output(run) + n * output_size());
        finish(run, n * output_size() + first * row, n * output_size() + last * row);
      }
    });
  }
};

}  // namespace

StepPtr convolution(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images, Constant weights,
                    bool depthwise, bool large_batch) {
  if (depthwise) return std::make_unique<DepthwiseStep>(x, result, std::move(dims), g, images, std::move(weights));
  return std::make_unique<ConvStep>(x, result, std::move(dims), g, images, std::move(weights), large_batch);
}

}  // namespace lockstep::inference
