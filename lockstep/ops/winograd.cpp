#include "lockstep/ops/winograd_internal.h"

#include <algorithm>

namespace lockstep::ops {
namespace {

constexpr std::int64_t kFewestChannels = 16;
// Weights of one cell of a patch. The more there are, the less they stay in the caches for all 16 or 36 cells, so an
// image must have many tiles.
constexpr std::int64_t kFewWeights = 128 * 128, kManyWeights = 256 * 256;
constexpr std::int64_t kTilesOfTwo = 9, kTilesOfTwoForMany = 16, kTilesOfFour = 25;
constexpr std::int64_t kFewestTiles = 24;  // of a unit
// Windows of one row: tiles of one with more weights than kFewWeights.
constexpr std::int64_t kTilesOfLine = 25;
// Windows of 2 x 2.
constexpr std::int64_t kTilesOfWeights = 12;

std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// Products of a row of the output, those that a transform of a tile is worth included; four fifths of the direct ones
// are faster.
bool line_is_faster(const WindowGeometry& g) {
  if (g.stride_h * g.stride_w != 1 || g.pad_top != 0 || g.pad_bottom != 0 || g.window_w < 3 || g.out_w < 1)
    return false;
  const LineTiles line = line_tiles(g);
  const std::int64_t tiles = line.tiles * g.dilation_w, weights = g.channels * g.out_channels;
  if (line.pieces * weights > kFewWeights && tiles < kTilesOfLine) return false;
  const std::int64_t transforms = line.inputs * line.inputs * g.channels + 6 * line.inputs * g.out_channels;
  return 5 * tiles * (line.inputs * line.pieces * weights + transforms) <= 4 * g.window_w * g.out_w * weights;
}

// Windows of 2 x 2: 25 products for 4 x 4 outputs instead of 64; reading the weights is worth those of a few tiles.
bool two_by_two_is_faster(const WindowGeometry& g) {
  return 5 * 25 * (winograd_tiles(g, 4) + kTilesOfWeights) <= 4 * 4 * g.out_h * g.out_w;
}

}  // namespace

std::int64_t winograd_tiles(const WindowGeometry& g, int outputs) {
  if (is_line(g)) return g.out_h * g.dilation_w * line_tiles(g).tiles;
  return pieces(g.out_h, outputs) * pieces(g.out_w, outputs);
}

// From the GFLOP/s measured by shape; docs/performance.md has the table.
int winograd_outputs(const WindowGeometry& g) {
  if (std::min(g.channels, g.out_channels) < kFewestChannels) return 0;
  if (is_line(g)) return line_is_faster(g) ? 4 : 0;
  if (g.window_h != g.window_w || g.stride_h * g.stride_w * g.dilation_h * g.dilation_w != 1) return 0;
  if (g.window_h == 2) return two_by_two_is_faster(g) ? 4 : 0;
  if (g.window_h != 3) return 0;
  const std::int64_t two = winograd_tiles(g, 2), four = winograd_tiles(g, 4);
  const std::int64_t direct_products = 9 * g.out_h * g.out_w, two_products = 16 * two, four_products = 36 * four;
  const std::int64_t weights = g.channels * g.out_channels;
  const bool few = weights <= kFewWeights;
  if ((few || four >= kTilesOfFour) && 5 * four_products <= 4 * two_products) return 4;
  const bool enough = few || two >= (weights > kManyWeights ? kTilesOfTwoForMany : kTilesOfTwo);
  return enough && 4 * two_products <= 3 * direct_products ? 2 : 0;
}

WinogradUnits::WinogradUnits(const WindowGeometry& g, int outputs, std::int64_t images, std::int64_t wanted)
    : channels_(g.out_channels),
      rows_of_image_(pieces(g.out_h, outputs)),
      columns_(pieces(g.out_w, outputs)),
      image_pixels_(g.out_h * g.out_w),
      row_pixels_(outputs * g.out_w),
      panels_(pieces(g.out_channels, direct_kernels().panel)) {
  if (is_line(g)) {  // each row is an image, and each of its tiles a row, unless its phases mix them
    const bool whole = g.dilation_w != 1;
    rows_of_image_ = whole ? 1 : columns_, columns_ = whole ? g.dilation_w * line_tiles(g).tiles : 1;
    images *= g.out_h, image_pixels_ = g.out_w, row_pixels_ = whole ? g.out_w : outputs;
  }
  rows_ = images * rows_of_image_;
  const auto rows_with = [&](std::int64_t tiles) { return std::max<std::int64_t>(1, tiles / columns_); };
  bands_ = pieces(rows_, std::min(rows_with(kTilesTogether), std::max(rows_with(kFewestTiles), rows_ / wanted)));
  parts_ = std::clamp<std::int64_t>(wanted / bands_, 1, panels_);
}

WinogradPart WinogradUnits::operator[](std::int64_t unit) const {
  const std::int64_t band = unit / parts_, part = unit % parts_, panel = direct_kernels().panel;
  return {first_row(band) * columns_, first_row(band + 1) * columns_, part * panels_ / parts_ * panel,
          std::min(channels_, (part + 1) * panels_ / parts_ * panel)};
}

std::int64_t WinogradUnits::first_pixel(std::int64_t unit) const {
  const std::int64_t row = first_row(unit / parts_);
  return row / rows_of_image_ * image_pixels_ + row % rows_of_image_ * row_pixels_;
}

}  // namespace lockstep::ops
