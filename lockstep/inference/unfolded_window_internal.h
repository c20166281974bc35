// A window with strides, or a large one, as a window of 2 x 2 or 3 x 3 with stride 1 over an image with more channels:
// those of all phases of the stride, and of all pieces of the window. Winograd's algorithm then needs up to 4 times
// fewer products.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/ops/direct_internal.h"

namespace lockstep::inference {

class UnfoldedWindow {
 public:
  // Nothing where the window itself is faster. `large_batch`: several images share what is read of the weights.
  static std::optional<UnfoldedWindow> of(const ops::WindowGeometry& g, bool large_batch);

  // The window of 2 x 2 or 3 x 3 over the unfolded image, which has no border.
  const ops::WindowGeometry& geometry() const { return geometry_; }
  int outputs() const { return outputs_; }  // of a tile of Winograd's algorithm along each axis

  // Weights [window_h, window_w, I, O] to those of geometry().
  void unfold_weights(const float* kernel, float* to) const;
  // Rows begin … end of the unfolded image. False where that would make infinities and NaN reach outputs that they are
  // not part of, because weights of zero fill the pieces.
  bool unfold_image(const float* x, std::int64_t begin, std::int64_t end, float* to) const;

 private:
  // The cells first, first + stride, … of the window; up to the size of geometry()'s window.
  struct Piece {
    std::int64_t first, cells;
  };
  UnfoldedWindow(const ops::WindowGeometry& g, std::int64_t size, int outputs);
  static std::vector<Piece> pieces_of(std::int64_t window, std::int64_t stride, std::int64_t size);
  std::int64_t cost(std::int64_t of_weight) const;

  ops::WindowGeometry window_, geometry_;
  int outputs_;
  std::vector<Piece> rows_, columns_;
  bool filled_;  // with weights of zero
};

}  // namespace lockstep::inference
