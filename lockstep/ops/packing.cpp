#include "lockstep/ops/packing_internal.h"

#include <algorithm>

#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/winograd_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kPiece = 32768;  // floats that are worth another thread

// Calls work(begin, end) for panels of columns; each column has `rows` floats.
template <typename Work>
void for_panels(std::int64_t columns, std::int64_t rows, const Work& work) {
  const std::int64_t panel = direct_kernels().panel, panels = (columns + panel - 1) / panel;
  parallel_for(0, panels, 1 + kPiece / std::max<std::int64_t>(1, rows * panel),
               [&](std::int64_t begin, std::int64_t end) { work(begin * panel, std::min(columns, end * panel)); });
}

}  // namespace

void pack_kernel(const WindowGeometry& g, const float* kernel, float* packed) {
  for_panels(g.out_channels, g.taps(), [&](std::int64_t begin, std::int64_t end) {
    direct_kernels().pack_kernel(g, kernel, begin, end, packed);
  });
}

void pack_flipped_kernel(const WindowGeometry& g, const float* kernel, WindowCells rows, WindowCells columns,
                         float* packed) {
  for_panels(g.channels, rows.count * columns.count * g.out_channels, [&](std::int64_t begin, std::int64_t end) {
    direct_kernels().pack_flipped_kernel(g, kernel, rows, columns, begin, end, packed);
  });
}

void pack_winograd(const WindowGeometry& g, int outputs, const float* kernel, bool flipped, float* packed) {
  for_panels(g.out_channels, g.taps(), [&](std::int64_t begin, std::int64_t end) {
    winograd_kernels().pack(g, outputs, kernel, flipped, begin, end, packed);
  });
}

void finish_filter_gradient(const WindowGeometry& g, int outputs, const float* sums, float* dk) {
  parallel_for(0, g.channels, 1 + kPiece / (g.window_h * g.window_w * g.out_channels),
               [&](std::int64_t begin, std::int64_t end) {
                 winograd_kernels().finish_filter_gradient(g, outputs, sums, begin, end, dk);
               });
}

void add_parts(std::int64_t parts, std::int64_t size, const float* from, float* to) {
  if (parts == 0) return fill_zero(size, to);
  constexpr std::int64_t kBlock = 2048;
  parallel_for(0, size, kPiece, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; block += kBlock) {
      const std::int64_t last = std::min(end, block + kBlock);
      std::copy(from + block, from + last, to + block);
      for (std::int64_t part = 1; part < parts; ++part)
        for (std::int64_t i = block; i < last; ++i) to[i] += from[part * size + i];
    }
  });
}

void fill_zero(std::int64_t size, float* to) {
  parallel_for(0, size, kPiece, [&](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, 0.0F); });
}

}  // namespace lockstep::ops
