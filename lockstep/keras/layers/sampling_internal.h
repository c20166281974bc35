// Values of arrays at places between their entries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

// How places beyond an array are read: "constant", "nearest", "wrap", "mirror" or "reflect".
struct Sampling {
  bool linear = true;  // otherwise the nearest entry
  std::string fill_mode = "constant";
  double fill_value = 0;
};

// An entry along one axis that counts for a place. `inside` is undefined unless the fill mode is "constant".
struct SampleNode {
  Tensor index, inside, weight;
};
std::vector<SampleNode> sample_nodes(const Tensor& places, std::int64_t extent, const Sampling& how);

// Images (batch, height, width, channels) of a known size at places (batch, rows, columns).
Tensor sample_images(const Tensor& images, const Tensor& rows, const Tensor& columns, const Sampling& how);
// An array of known shape at the places (axes of x, …); the result has the shape of the places without their first
// axis.
Tensor sample_array(const Tensor& x, const Tensor& places, const Sampling& how);

// (x, y) of four points of each image, (batch, 4, 2): the eight numbers of the projective transforms (batch, 8) that
// map `end` to `start`.
Tensor homography(const Tensor& start, const Tensor& end);

}  // namespace lockstep::keras
