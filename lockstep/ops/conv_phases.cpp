#include "lockstep/ops/conv_phases_internal.h"

#include <algorithm>

#include "lockstep/ops/packing_internal.h"

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

ConvPhases::ConvPhases(const WindowGeometry& g) {
  const std::vector<AxisPhase> rows = row_phases(g), columns = column_phases(g);
  border.height = g.out_h, border.width = g.out_w, border.channels = g.out_channels;
  for (const AxisPhase& p : rows)
    border.pad_top = std::max(border.pad_top, p.before), border.pad_bottom = std::max(border.pad_bottom, p.after);
  for (const AxisPhase& p : columns)
    border.pad_left = std::max(border.pad_left, p.before), border.pad_right = std::max(border.pad_right, p.after);
  for (const AxisPhase& row : rows) {
    for (const AxisPhase& column : columns) {
      ConvPhase phase{border,      row.cells, column.cells, 0, (row.first * g.width + column.first) * g.channels,
                      packed_size, {}};
      phase.g.window_h = row.cells.count, phase.g.window_w = column.cells.count;
      phase.g.dilation_h = g.dilation_h, phase.g.dilation_w = g.dilation_w;
      phase.g.out_h = row.outputs, phase.g.out_w = column.outputs, phase.g.out_channels = g.channels;
      if (phase.g.taps() > 0) {
        phase.from =
            ((border.pad_top - row.before) * border.padded_w() + border.pad_left - column.before) * border.channels;
      }
      packed_size += direct_kernels().packed_kernel_size(phase.g.taps(), g.channels);
      phase.bare = phase.g;
      phase.bare.pad_top = row.before, phase.bare.pad_left = column.before;
      phases.push_back(phase);
    }
  }
}

void ConvPhases::pack(const WindowGeometry& g, const float* kernel, float* packed) const {
  for (const ConvPhase& p : phases) pack_flipped_kernel(g, kernel, p.rows, p.columns, packed + p.packed);
}

void ConvPhases::run(const WindowGeometry& g, const float* packed, const float* dy, const float* bias, bool relu,
                     bool adds, std::int64_t part, std::int64_t parts, float* dx) const {
  for (const ConvPhase& p : phases) {
    const std::int64_t pixels = p.g.out_h * p.g.out_w;
    const ConvOutput to{dx + p.to, g.stride_w * g.channels, g.stride_h * g.width * g.channels, 0, adds};
    direct_kernels().conv_forward(p.g, dy + p.from, packed + p.packed, bias, relu, part * pixels / parts,
                                  (part + 1) * pixels / parts, to);
  }
}

bool has_phases(const WindowGeometry& g) {
  if ((g.stride_h > 1 && g.dilation_h > 1) || (g.stride_w > 1 && g.dilation_w > 1)) return false;
  const auto products = [](const std::vector<AxisPhase>& phases) {
    std::int64_t sum = 0;
    for (const AxisPhase& p : phases) sum += p.outputs * p.cells.count;
    return sum;
  };
  return products(row_phases(g)) * products(column_phases(g)) <= 3 * g.out_h * g.out_w * g.window_h * g.window_w;
}

}  // namespace lockstep::ops
