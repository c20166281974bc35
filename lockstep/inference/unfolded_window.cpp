#include "lockstep/inference/unfolded_window_internal.h"

#include <algorithm>
#include <cstring>

#include "lockstep/inference/weighted_step_internal.h"
#include "lockstep/ops/winograd_internal.h"

namespace lockstep::inference {
namespace {

constexpr std::int64_t kFewestChannels = 16;  // of the unfolded image, and of the result
// What a weight that is read, for one image or shared by several, and an element of a transformed patch or product take
// in comparison with a product.
constexpr std::int64_t kCostOfWeight = 48, kCostOfSharedWeight = 6, kCostOfInput = 4, kCostOfOutput = 3;

// Looks at bits, so that the compiler makes vectors of the loop.
bool all_finite(const float* x, std::int64_t count) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    most = std::max(most, bits & 0x7fffffffu);
  }
  return most < 0x7f800000u;
}

}  // namespace

std::vector<UnfoldedWindow::Piece> UnfoldedWindow::pieces_of(std::int64_t window, std::int64_t stride,
                                                             std::int64_t size) {
  std::vector<Piece> pieces;
  for (std::int64_t phase = 0; phase < std::min(stride, window); ++phase) {
    const std::int64_t cells = (window - phase + stride - 1) / stride;
    for (std::int64_t cell = 0; cell < cells; cell += size)
      pieces.push_back({phase + cell * stride, std::min(size, cells - cell)});
  }
  return pieces;
}

UnfoldedWindow::UnfoldedWindow(const WindowGeometry& g, std::int64_t size, int outputs)
    : window_(g),
      geometry_(g),
      outputs_(outputs),
      rows_(pieces_of(g.window_h, g.stride_h, size)),
      columns_(pieces_of(g.window_w, g.stride_w, size)) {
  const auto count = static_cast<std::int64_t>(rows_.size() * columns_.size());
  filled_ = count * size * size > g.window_h * g.window_w;
  geometry_.height = g.out_h + size - 1, geometry_.width = g.out_w + size - 1, geometry_.channels = count * g.channels;
  geometry_.window_h = geometry_.window_w = size, geometry_.stride_h = geometry_.stride_w = 1;
  geometry_.pad_top = geometry_.pad_bottom = geometry_.pad_left = geometry_.pad_right = 0;
}

// In products.
std::int64_t UnfoldedWindow::cost(std::int64_t of_weight) const {
  const WindowGeometry& g = geometry_;
  const std::int64_t inputs = outputs_ + g.window_h - 1, weights = g.channels * g.out_channels;
  const std::int64_t tiles = ops::winograd_tiles(g, outputs_);
  return inputs * inputs *
         (tiles * (weights + kCostOfInput * g.channels + kCostOfOutput * g.out_channels) + of_weight * weights);
}

std::optional<UnfoldedWindow> UnfoldedWindow::of(const WindowGeometry& g, bool large_batch) {
  const std::int64_t of_weight = large_batch ? kCostOfSharedWeight : kCostOfWeight;
  const bool has_own = g.stride_h * g.stride_w == 1 && g.window_h == g.window_w && g.window_h <= 3;
  if (has_own || g.window_h == 1 || g.window_w == 1 || g.dilation_h * g.dilation_w != 1) return std::nullopt;
  if (g.out_channels < kFewestChannels || g.out_h < 1 || g.out_w < 1) return std::nullopt;
  std::optional<UnfoldedWindow> best;
  for (const auto& [size, outputs] : {std::pair{3, 4}, {3, 2}, {2, 4}}) {
    UnfoldedWindow way(g, size, outputs);
    if (way.geometry_.channels >= kFewestChannels && (!best || way.cost(of_weight) < best->cost(of_weight)))
      best = std::move(way);
  }
  const std::int64_t direct = g.out_h * g.out_w * g.taps() * g.out_channels;
  if (best && 5 * best->cost(of_weight) > 4 * direct) best.reset();
  return best;
}

void UnfoldedWindow::unfold_weights(const float* kernel, float* to) const {
  const std::int64_t size = geometry_.window_h, block = window_.channels * window_.out_channels;
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < size; ++j) {
      for (const Piece& row : rows_) {
        for (const Piece& column : columns_) {
          const std::int64_t cell =
              (row.first + i * window_.stride_h) * window_.window_w + column.first + j * window_.stride_w;
          if (i < row.cells && j < column.cells) {
            std::copy_n(kernel + cell * block, block, to);
          } else {
            std::fill_n(to, block, 0.0f);
          }
          to += block;
        }
      }
    }
  }
}

bool UnfoldedWindow::unfold_image(const float* x, std::int64_t begin, std::int64_t end, float* to) const {
  const WindowGeometry& w = window_;
  const std::int64_t pixels = geometry_.width, pixel = geometry_.channels, step = w.stride_w * w.channels;
  bool finite = true;
  for (std::int64_t y = begin; y < end; ++y, to += pixels * pixel) {
    float* part = to;
    for (const Piece& piece : rows_) {
      const std::int64_t row = y * w.stride_h + piece.first - w.pad_top;
      const bool inside = row >= 0 && row < w.height;
      const float* const from = x + row * w.width * w.channels;
      if (inside && filled_) finite = finite && all_finite(from, w.width * w.channels);
      for (const Piece& column : columns_) {
        // The pixels of the row that are inside of the image.
        const std::int64_t left = column.first - w.pad_left;
        const std::int64_t first = left >= 0 ? 0 : std::min(pixels, (-left + w.stride_w - 1) / w.stride_w);
        const std::int64_t last =
            inside ? std::clamp<std::int64_t>((w.width - left + w.stride_w - 1) / w.stride_w, first, pixels) : first;
        for (std::int64_t i = 0; i < first; ++i) std::fill_n(part + i * pixel, w.channels, 0.0f);
        copy_channels(from + left * w.channels + first * step, step, last - first, w.channels, part + first * pixel,
                      pixel);
        for (std::int64_t i = last; i < pixels; ++i) std::fill_n(part + i * pixel, w.channels, 0.0f);
        part += w.channels;
      }
    }
  }
  return finite;
}

}  // namespace lockstep::inference
