// The adjoint of a convolution, which takes the gradient of its output to that of its input and is a transposed
// convolution itself, as convolutions of stride 1: one for each phase of rows and columns, positions first, first +
// stride, … of the larger image, which see the same cells of the window. Plain numbers, no LibTorch.
#pragma once

#include <vector>

#include "lockstep/ops/direct_internal.h"

namespace lockstep::ops {

struct ConvPhase {
  WindowGeometry g;  // over an image with the border of all phases
  WindowCells rows, columns;
  std::int64_t from, to, packed;  // offsets in floats: of the image with border, of the larger image, of weights
  WindowGeometry bare;            // over an image without border
};

// Stride or dilation of `g` is 1 along each axis.
struct ConvPhases {
  explicit ConvPhases(const WindowGeometry& g);

  WindowGeometry border;  // of the smaller image, that the phases need
  std::vector<ConvPhase> phases;
  std::int64_t packed_size = 0;  // floats of the weights of all phases

  // `kernel` [h, w, I, O] of g.
  void pack(const WindowGeometry& g, const float* kernel, float* packed) const;
  // One of `parts` equal parts of an image: act(adjoint of dy + bias). dy has the border. `adds`: to what is in dx,
  // before bias and act.
  void run(const WindowGeometry& g, const float* packed, const float* dy, const float* bias, bool relu, bool adds,
           std::int64_t part, std::int64_t parts, float* dx) const;
};

// Whether these loops have the adjoint of `g`: phases multiply with the zeros around small images too, and where these
// are most of the work they do not pay.
bool has_phases(const WindowGeometry& g);

}  // namespace lockstep::ops
