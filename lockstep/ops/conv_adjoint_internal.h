// The gradient of a convolution's output taken to that of its input, image by image, and the memory that loops over
// images use. Includes LibTorch: for sources of lockstep/ops only.
#pragma once

#include <vector>

#include "lockstep/ops/conv_direct_internal.h"
#include "lockstep/ops/conv_phases_internal.h"

namespace lockstep::ops {

inline std::int64_t image_size(const WindowGeometry& g) { return g.height * g.width * g.channels; }
inline std::int64_t padded_size(const WindowGeometry& g) { return g.padded_h() * g.padded_w() * g.channels; }
inline std::int64_t output_size(const WindowGeometry& g) { return g.out_h * g.out_w * g.out_channels; }

// Memory for one loop of a thread, used again by the next; grows only.
class Scratch {
 public:
  float* of(std::int64_t count) {
    if (count > static_cast<std::int64_t>(floats_.size())) floats_.resize(static_cast<std::size_t>(count));
    return floats_.data();
  }

 private:
  std::vector<float> floats_;
};

// x with the border of g; x itself where g has none.
const float* padded(const WindowGeometry& g, const float* x, Scratch& scratch);
// The loops read whole vectors of dy, beyond its end: a copy with room for that where it is needed.
const float* readable(const float* dy, std::int64_t size, std::int64_t channels, Scratch& scratch);

// From the gradient of a convolution's output to that of its input, by ConvPhases. `kernel` is contiguous.
class Adjoint {
 public:
  Adjoint(const WindowGeometry& g, const at::Tensor& kernel);

  bool fits_groups(std::int64_t images) const;
  // All images of a batch in groups.
  void images(std::int64_t count, const float* dy, const float* bias, bool relu, float* dx) const;
  // One of `parts` equal parts of one image: dx = act(adjoint of dy + bias).
  void image(const float* dy, const float* bias, bool relu, std::int64_t part, std::int64_t parts, float* dx) const;

  // The border that dy needs; and one image from such a dy. `adds`: to what is in dx, before bias and act.
  const WindowGeometry& border() const { return plan_.border; }
  void padded_image(const float* dy, const float* bias, bool relu, bool adds, std::int64_t part, std::int64_t parts,
                    float* dx) const;

 private:
  const WindowGeometry g_;
  ConvPhases plan_;
  at::Tensor packed_;
};

}  // namespace lockstep::ops
