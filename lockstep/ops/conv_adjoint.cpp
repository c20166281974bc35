#include "lockstep/ops/conv_adjoint_internal.h"

#include <algorithm>

#include "lockstep/ops/conv_groups_internal.h"

namespace lockstep::ops {
namespace {

// Along one axis, the outputs of an adjoint at the positions first, first + stride, …: they see the same cells of the
// window.
struct AxisPhase {
  std::int64_t first, outputs;
  WindowCells cells;
  std::int64_t before, after;  // what the smaller image has to be extended by; negative: has too much
};

// `large` and `small` are the sizes of the convolution's input and output. Stride or dilation is 1.
std::vector<AxisPhase> axis_phases(std::int64_t large, std::int64_t small, std::int64_t window, std::int64_t stride,
                                   std::int64_t dilation, std::int64_t pad) {
  std::vector<AxisPhase> phases;
  for (std::int64_t p = 0; p < std::min(stride, large); ++p) {
    const std::int64_t cell = (p + pad) % stride, shift = (p + pad) / stride;
    const std::int64_t count = cell < window ? (window - cell + stride - 1) / stride : 0;
    const std::int64_t outputs = (large - p + stride - 1) / stride;
    AxisPhase phase{p, outputs, {cell, stride, count}, 0, 0};
    if (count > 0) phase.before = (count - 1) * dilation - shift, phase.after = outputs + shift - small;
    phases.push_back(phase);
  }
  return phases;
}

std::vector<AxisPhase> row_phases(const WindowGeometry& g) {
  return axis_phases(g.height, g.out_h, g.window_h, g.stride_h, g.dilation_h, g.pad_top);
}
std::vector<AxisPhase> column_phases(const WindowGeometry& g) {
  return axis_phases(g.width, g.out_w, g.window_w, g.stride_w, g.dilation_w, g.pad_left);
}

}  // namespace

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

Adjoint::Adjoint(const WindowGeometry& g, const at::Tensor& kernel) : g_(g) {
  const DirectKernels& loops = direct_kernels();
  const std::vector<AxisPhase> rows = row_phases(g), columns = column_phases(g);
  border_.height = g.out_h, border_.width = g.out_w, border_.channels = g.out_channels;
  for (const AxisPhase& p : rows)
    border_.pad_top = std::max(border_.pad_top, p.before), border_.pad_bottom = std::max(border_.pad_bottom, p.after);
  for (const AxisPhase& p : columns)
    border_.pad_left = std::max(border_.pad_left, p.before), border_.pad_right = std::max(border_.pad_right, p.after);
  std::int64_t floats = 0;
  for (const AxisPhase& row : rows) {
    for (const AxisPhase& column : columns) {
      Phase phase{border_, row.cells, column.cells, 0, (row.first * g.width + column.first) * g.channels, floats};
      phase.g.window_h = row.cells.count, phase.g.window_w = column.cells.count;
      phase.g.dilation_h = g.dilation_h, phase.g.dilation_w = g.dilation_w;
      phase.g.out_h = row.outputs, phase.g.out_w = column.outputs, phase.g.out_channels = g.channels;
      if (phase.g.taps() > 0) {
        phase.from =
            ((border_.pad_top - row.before) * border_.padded_w() + border_.pad_left - column.before) * border_.channels;
      }
      floats += loops.packed_kernel_size(phase.g.taps(), g.channels);
      phase.bare = phase.g;
      phase.bare.pad_top = row.before, phase.bare.pad_left = column.before;
      phases_.push_back(phase);
    }
  }
  packed_ = at::empty({floats}, kernel.options());
  for (const Phase& p : phases_)
    loops.pack_flipped_kernel(g, kernel.const_data_ptr<float>(), p.rows, p.columns,
                              packed_.mutable_data_ptr<float>() + p.packed);
}

bool Adjoint::fits_groups(std::int64_t images) const {
  return std::any_of(phases_.begin(), phases_.end(), [&](const Phase& p) { return ops::fits_groups(p.bare, images); });
}

void Adjoint::images(std::int64_t count, const float* dy, const float* bias, bool relu, float* dx) const {
  for (const Phase& p : phases_) {
    forward_in_groups(p.bare, count, dy, packed_.const_data_ptr<float>() + p.packed, bias, relu,
                      {dx + p.to, g_.stride_w * g_.channels, g_.stride_h * g_.width * g_.channels,
                       g_.height * g_.width * g_.channels});
  }
}

void Adjoint::image(const float* dy, const float* bias, bool relu, std::int64_t part, std::int64_t parts,
                    float* dx) const {
  static thread_local Scratch scratch;
  padded_image(padded(border_, dy, scratch), bias, relu, false, part, parts, dx);
}

void Adjoint::padded_image(const float* dy, const float* bias, bool relu, bool adds, std::int64_t part,
                           std::int64_t parts, float* dx) const {
  const float* const packed = packed_.const_data_ptr<float>();
  for (const Phase& p : phases_) {
    const std::int64_t pixels = p.g.out_h * p.g.out_w;
    const ConvOutput to{dx + p.to, g_.stride_w * g_.channels, g_.stride_h * g_.width * g_.channels, 0, adds};
    direct_kernels().conv_forward(p.g, dy + p.from, packed + p.packed, bias, relu, part * pixels / parts,
                                  (part + 1) * pixels / parts, to);
  }
}

// Phases multiply with the zeros around small images too; where these are most of the work, the loops do not pay.
bool has_direct_adjoint(const at::Tensor& kernel, const ConvWindow& w) {
  if (w.groups != 1) return false;
  for (std::size_t i = 0; i < 2; ++i) {
    if (w.strides[i] > 1 && w.dilations[i] > 1) return false;
  }
  const WindowGeometry g = window_geometry(kernel, w);
  const auto pixels = [](const std::vector<AxisPhase>& phases) {
    std::int64_t products = 0;
    for (const AxisPhase& p : phases) products += p.outputs * p.cells.count;
    return products;
  };
  return pixels(row_phases(g)) * pixels(column_phases(g)) <= 3 * g.out_h * g.out_w * g.window_h * g.window_w;
}

}  // namespace lockstep::ops
