#include "lockstep/ops/conv_adjoint_internal.h"

#include <algorithm>

#include "lockstep/ops/conv_groups_internal.h"

namespace lockstep::ops {

const float* padded(const WindowGeometry& g, const float* x, Scratch& scratch) {
  if (!g.padded()) return x;
  float* const to = scratch.of(padded_size(g));
  direct_kernels().pad_image(g, x, to);
  return to;
}

// The loops read whole vectors of dy, beyond its end: a copy with room for that where it is needed.
const float* readable(const float* dy, std::int64_t size, std::int64_t channels, Scratch& scratch) {
  const std::int64_t width = direct_kernels().width;
  if (channels % width == 0) return dy;
  float* const to = scratch.of(size + width);
  std::copy_n(dy, size, to);
  return to;
}

Adjoint::Adjoint(const WindowGeometry& g, const at::Tensor& kernel)
    : g_(g), plan_(g), packed_(at::empty({plan_.packed_size}, kernel.options())) {
  plan_.pack(g, kernel.const_data_ptr<float>(), packed_.mutable_data_ptr<float>());
}

bool Adjoint::fits_groups(std::int64_t images) const {
  return std::ranges::any_of(plan_.phases, [&](const ConvPhase& p) { return ops::fits_groups(p.bare, images); });
}

void Adjoint::images(std::int64_t count, const float* dy, const float* bias, bool relu, float* dx) const {
  for (const ConvPhase& p : plan_.phases) {
    forward_in_groups(p.bare, count, dy, packed_.const_data_ptr<float>() + p.packed, bias, relu,
                      {dx + p.to, g_.stride_w * g_.channels, g_.stride_h * g_.width * g_.channels,
                       g_.height * g_.width * g_.channels});
  }
}

void Adjoint::image(const float* dy, const float* bias, bool relu, std::int64_t part, std::int64_t parts,
                    float* dx) const {
  static thread_local Scratch scratch;
  padded_image(padded(plan_.border, dy, scratch), bias, relu, false, part, parts, dx);
}

void Adjoint::padded_image(const float* dy, const float* bias, bool relu, bool adds, std::int64_t part,
                           std::int64_t parts, float* dx) const {
  plan_.run(g_, packed_.const_data_ptr<float>(), dy, bias, relu, adds, part, parts, dx);
}

bool has_direct_adjoint(const at::Tensor& kernel, const ConvWindow& w) {
  return w.groups == 1 && has_phases(window_geometry(kernel, w));
}

}  // namespace lockstep::ops
