#include "lockstep/ops/conv_groups_internal.h"

#include <algorithm>

#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kGroupFloats = 1 << 17;  // of the images of a group: they stay in the second cache
constexpr std::int64_t kFewestImages = 4;
constexpr std::int64_t kTilePixels = 6;
constexpr std::int64_t kMostGrouped = 24;
constexpr std::int64_t kChannelBlock = 128;
constexpr std::int64_t kFewestUnits = 8;
constexpr std::int64_t kSmallImage = 100;  // pixels
constexpr std::int64_t kManyWeights = 128 * 128;

// Cells of a window that lie inside of the image, over all outputs along one axis.
std::int64_t cells_inside(std::int64_t size, std::int64_t outputs, std::int64_t window, std::int64_t stride,
                          std::int64_t dilation, std::int64_t pad) {
  std::int64_t cells = 0;
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t i = 0; i < window; ++i) {
      const std::int64_t at = o * stride + i * dilation - pad;
      cells += at >= 0 && at < size;
    }
  }
  return cells;
}

std::int64_t products_inside(const WindowGeometry& g) {
  return cells_inside(g.height, g.out_h, g.window_h, g.stride_h, g.dilation_h, g.pad_top) *
         cells_inside(g.width, g.out_w, g.window_w, g.stride_w, g.dilation_w, g.pad_left);
}

std::int64_t largest_image(const WindowGeometry& g) {
  return std::max(g.height * g.width * g.channels, g.out_h * g.out_w * g.out_channels);
}

std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

}  // namespace

bool fits_groups(const WindowGeometry& g, std::int64_t images) {
  if (images < kFewestImages || largest_image(g) * kFewestImages > kGroupFloats) return false;
  const std::int64_t pixels = g.out_h * g.out_w, tiles = pieces(pixels, kTilePixels);
  return products_inside(g) * 16 < tiles * kTilePixels * g.window_h * g.window_w * 15;
}

void forward_in_groups(const WindowGeometry& g, std::int64_t images, const float* x, const float* packed,
                       const float* bias, bool relu, const ConvOutput& to) {
  const std::int64_t panel = direct_kernels().panel, panels = pieces(g.out_channels, panel);
  const std::int64_t most = std::clamp<std::int64_t>(kGroupFloats / largest_image(g), kFewestImages, kMostGrouped);
  const std::int64_t groups = pieces(images, most);
  parallel_for(0, groups * panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t group = unit / panels, first = group * images / groups, last = (group + 1) * images / groups;
      ConvOutput out = to;
      out.y += first * to.image;
      direct_kernels().conv_forward_group(g, last - first, x + first * g.height * g.width * g.channels, packed, bias,
                                          relu, unit % panels * panel, out);
    }
  });
}

// Each cell reads all images again, so these have to be small; where there is one cell only, many channels are enough.
bool fits_cells(const WindowGeometry& g) {
  const std::int64_t cells = g.window_h * g.window_w;
  const std::int64_t units = cells * pieces(g.out_channels, direct_kernels().panel) * pieces(g.channels, kChannelBlock);
  if (units < kFewestUnits || g.channels < 32 || g.out_channels < 32) return false;
  return cells == 1 ? g.channels * g.out_channels >= kManyWeights : g.out_h * g.out_w <= kSmallImage;
}

void filter_gradient_in_cells(const WindowGeometry& g, std::int64_t images, const float* x, const float* dy,
                              float* dk) {
  const std::int64_t panel = direct_kernels().panel, panels = pieces(g.out_channels, panel),
                     blocks = pieces(g.channels, kChannelBlock);
  parallel_for(0, g.window_h * g.window_w * panels * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t cell = unit / (panels * blocks), block = unit / panels % blocks;
      const std::int64_t first = block * g.channels / blocks, last = (block + 1) * g.channels / blocks;
      direct_kernels().conv_cell_gradient(g, images, x, dy, cell / g.window_w, cell % g.window_w, first, last - first,
                                          unit % panels * panel, dk + cell * g.channels * g.out_channels);
    }
  });
}

}  // namespace lockstep::ops
