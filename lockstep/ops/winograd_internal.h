// Convolutions with stride 1 in Winograd's algorithm, by windows of 3 x 3 and 2 x 2 with dilation 1 and by windows
// of one row with any dilation: plain pointers, no LibTorch. Compiled twice (AVX2 and AVX-512); winograd_kernels()
// picks for this CPU. Outputs whose tile is not finite are computed directly, so an infinite input changes only those
// that it is part of; in gradients of weights it makes all that they share with it NaN.
#pragma once

#include "lockstep/ops/direct_internal.h"

namespace lockstep::ops {

// The pixels of a tile along each axis with which Winograd's algorithm is the fastest for images of `g`, or 0: the
// direct algorithm is. Depends on one image, not on how many there are, so that results do not depend on how a batch is
// cut.
int winograd_outputs(const WindowGeometry& g);
// A window of one row. Each dilation_w-th output of a row is one of a phase, whose tiles are 4 outputs; the window is
// cut into pieces of `taps` cells, of which a tile takes `inputs` products.
struct LineTiles {
  std::int64_t taps, inputs, pieces, tiles;  // tiles: of each phase
};
inline bool is_line(const WindowGeometry& g) { return g.window_h == 1; }
inline LineTiles line_tiles(const WindowGeometry& g) {
  const std::int64_t taps = g.window_w == 3 || g.window_w == 5 ? g.window_w : 4;
  const std::int64_t of_phase = (g.out_w + g.dilation_w - 1) / g.dilation_w;
  return {taps, taps + 3, (g.window_w + taps - 1) / taps, (of_phase + 3) / 4};
}

// Tiles of one image.
std::int64_t winograd_tiles(const WindowGeometry& g, int outputs);
// Tiles that are worth being computed together, so that the weights are read once for all of them.
inline constexpr std::int64_t kTilesTogether = 72;

// Some tiles of a convolution's output, counted through all images, each row by row, and in a row phase by phase; and
// some of its channels.
// column_begin is a multiple of DirectKernels::panel.
struct WinogradPart {
  std::int64_t tile_begin = 0, tile_end = 0, column_begin = 0, column_end = 0;
};

// `outputs`: pixels of a tile along each axis, 2 or 4; 4 for windows of one row and of 2 x 2.
struct WinogradKernels {
  // Floats of packed weights; the weights of `g` [window_h, window_w, channels, out_channels], or (`flipped`) those
  // [window_h, window_w, out_channels, channels] of the convolution whose input's gradient `g` computes from that of
  // its output. Of the output channels, begin … end; begin is a multiple of DirectKernels::panel.
  std::int64_t (*packed_size)(const WindowGeometry& g, int outputs);
  void (*pack)(const WindowGeometry& g, int outputs, const float* kernel, bool flipped, std::int64_t begin,
               std::int64_t end, float* packed);
  // act(bias + sum over taps) from images without border; bias may be null. However tiles are cut into parts, each
  // number comes out the same.
  void (*forward)(const WindowGeometry& g, int outputs, const float* x, const float* packed, const float* bias,
                  bool relu, const WinogradPart& part, const ConvOutput& to);
  // The weights' gradient from that of the output, of tiles tile_begin … tile_end: `sums`, packed_size() floats that
  // are zero at first, are added to; at the end dk, of the shape of the weights, is computed from them, the input
  // channels begin … end of it.
  void (*filter_gradient)(const WindowGeometry& g, int outputs, const float* x, const float* dy,
                          std::int64_t tile_begin, std::int64_t tile_end, float* sums);
  void (*finish_filter_gradient)(const WindowGeometry& g, int outputs, const float* sums, std::int64_t begin,
                                 std::int64_t end, float* dk);
};

const WinogradKernels& winograd_kernels();

// The tiles of a batch of images in units of work: rows of tiles (single tiles of windows of one row without dilation),
// and parts of the channels too where there would be fewer units than `wanted`.
class WinogradUnits {
 public:
  WinogradUnits(const WindowGeometry& g, int outputs, std::int64_t images, std::int64_t wanted);

  std::int64_t count() const { return bands_ * parts_; }
  WinogradPart operator[](std::int64_t unit) const;
  // Whether a unit has all channels of its pixels, which are first_pixel(unit) … first_pixel(unit + 1), counted through
  // all images.
  bool has_all_channels() const { return parts_ == 1; }
  std::int64_t first_pixel(std::int64_t unit) const;

 private:
  std::int64_t first_row(std::int64_t band) const { return band * rows_ / bands_; }

  std::int64_t channels_;
  std::int64_t rows_of_image_, columns_, rows_;  // of tiles
  std::int64_t image_pixels_, row_pixels_;       // of an image, and of a row of its tiles
  std::int64_t panels_, bands_, parts_;
};

}  // namespace lockstep::ops
