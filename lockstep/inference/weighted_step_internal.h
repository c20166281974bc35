// What steps with weights share: folded scales and shifts, packed weights, and copies of channels.
#pragma once

#include <algorithm>
#include <vector>

#include "lockstep/inference/step_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::inference {

using ops::WindowGeometry;

inline constexpr std::int64_t kFewestPixels = 24;  // worth a thread

// The number of parts so that all threads have work; one where the run is alone.
inline std::int64_t wanted_parts(const Run& run) { return run.alone ? 1 : 2 * ops::parallel_threads(); }

// Memory of a thread, used again.
inline float* scratch(std::int64_t count) {
  static thread_local std::vector<float> floats;
  if (static_cast<std::int64_t>(floats.size()) < count) floats.resize(static_cast<std::size_t>(count));
  return floats.data();
}

// `kCount` floats, or if that is 0 `count`, for each pixel of a row.
template <int kCount>
void copy_pixels(const float* from, std::int64_t from_pixel, std::int64_t pixels, std::int64_t count, float* to,
                 std::int64_t to_pixel) {
  const std::int64_t floats = kCount > 0 ? kCount : count;
  for (std::int64_t i = 0; i < pixels; ++i) std::copy_n(from + i * from_pixel, floats, to + i * to_pixel);
}
inline void copy_channels(const float* from, std::int64_t from_pixel, std::int64_t pixels, std::int64_t count,
                          float* to, std::int64_t to_pixel) {
  switch (count) {
    case 1: return copy_pixels<1>(from, from_pixel, pixels, 1, to, to_pixel);
    case 3: return copy_pixels<3>(from, from_pixel, pixels, 3, to, to_pixel);
    case 4: return copy_pixels<4>(from, from_pixel, pixels, 4, to, to_pixel);
    case 8: return copy_pixels<8>(from, from_pixel, pixels, 8, to, to_pixel);
    case 16: return copy_pixels<16>(from, from_pixel, pixels, 16, to, to_pixel);
    case 32: return copy_pixels<32>(from, from_pixel, pixels, 32, to, to_pixel);
    default: return copy_pixels<0>(from, from_pixel, pixels, count, to, to_pixel);
  }
}

// A step with weights for each of the result's channels, of which `inner` lie next to each other. `dims` may be another
// view of the result, such as one with channels divided into heads.
class WeightedStep : public Step {
 public:
  WeightedStep(int x, int result, Dims dims, const WindowGeometry& g, std::int64_t images, Constant weights,
               std::int64_t channels, std::int64_t inner = 1)
      : Step({x}, result, std::move(dims)),
        g_(g),
        images_(images),
        channels_(channels),
        inner_(inner),
        weights_(std::move(weights)) {}

  bool fold(const std::vector<float>& scale, const std::vector<float>& shift) override {
    if (!following_.empty()) return false;
    const auto channels = static_cast<std::size_t>(channels_);
    if (scale_.empty()) scale_.assign(channels, 1.0f), bias_.assign(channels, 0.0f);
    for (std::size_t c = 0; c < channels; ++c) {
      const double s = scale[scale.size() == 1 ? 0 : c], d = shift[shift.size() == 1 ? 0 : c];
      scale_[c] = static_cast<float>(scale_[c] * s), bias_[c] = static_cast<float>(bias_[c] * s + d);
    }
    return true;
  }

  bool pays_threads() const override { return images_ * g_.out_h * g_.out_w * weights_.size >= kFewestMultiplications; }
  std::int64_t weights_read() const override { return prepared_.size; }

 protected:
  void scale_weights(float* to) const {
    for (std::int64_t at = 0; at < weights_.size;) {
      for (const float scale : scale_) {
        for (std::int64_t i = 0; i < inner_; ++i, ++at) to[at] = weights_.data[at] * scale;
      }
    }
  }
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }
  // pack(weights, packed), with the weights scaled; kept in the store.
  template <typename Pack>
  void prepare_weights(WeightStore& store, const std::string& kind, std::int64_t size, const Pack& pack) {
    prepared_ = store.get(kind, weights_, scale_, size, [&](float* packed) {
      if (scale_.empty()) return pack(weights_.data, packed);
      const Floats scaled = allocate(weights_.size);
      scale_weights(scaled.begin);
      pack(scaled.begin, packed);
    });
  }
  std::int64_t image_size() const { return g_.height * g_.width * g_.channels; }
  std::int64_t output_size() const { return g_.out_h * g_.out_w * g_.out_channels; }

  // What follows, on pixels of the result counted through all images; on all of them.
  void finish_pixels(const Run& run, std::int64_t begin, std::int64_t end) const {
    finish(run, begin * channels_, end * channels_);
  }
  void finish_all(const Run& run) const {
    if (following_.empty()) return;
    for_parts(run, product_of(dims_) / channels_, kFewestPixels,
              [&](std::int64_t begin, std::int64_t end) { finish_pixels(run, begin, end); });
  }

  WindowGeometry g_;
  std::int64_t images_, channels_, inner_;
  Constant weights_, prepared_;
  std::vector<float> scale_, bias_;
};

}  // namespace lockstep::inference
