// Shape rules that many operations share; see ShapeRule in op.h. All of them respect unknown dimensions.
#pragma once

#include <algorithm>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

using Shapes = std::vector<Shape>;

// The shape of the first input.
Shapes same_shape(const Call& call);
// NumPy's broadcast of two shapes; throws InvalidArgument when they cannot be.
Shape broadcast_shape(const Shape& a, const Shape& b);
Shapes broadcast_rule(const Call& call);      // of the first two inputs
Shapes broadcast_all_rule(const Call& call);  // of all inputs
Shapes scalar_rule(const Call& call);
Shapes no_outputs(const Call& call);
// A shape given as the value of input `i`; unknown dimensions as far as it is known.
Shape shape_from_input(const Call& call, int i);
ShapeRule shape_of_input(int i);  // the rule that all outputs have the shape in input i's value

// The number of an integer scalar input when known while building.
std::optional<std::int64_t> known_int(const Call& call, int i);
std::optional<std::vector<std::int64_t>> known_ints(const Call& call, int i);

// The common part of both shapes; throws InvalidArgument for incompatible ones.
Shape merge_shapes(const Shape& a, const Shape& b);
// The sum and product of dimensions, unknown when one is.
std::int64_t add_dims(std::int64_t a, std::int64_t b);
std::int64_t mul_dims(std::int64_t a, std::int64_t b);

// The extent of a convolution's or pool's output along one axis; unknown for an unknown input. `before`
// and `after` are the explicit padding. Throws InvalidArgument for an unknown padding name.
std::int64_t window_output(std::int64_t input, std::int64_t window, std::int64_t stride, std::int64_t dilation,
                           const std::string& padding, std::int64_t before = 0, std::int64_t after = 0);
// The cells that SAME adds along one axis for `output` windows, which reach over `window` cells, dilations included.
inline std::int64_t same_padding(std::int64_t input, std::int64_t window, std::int64_t stride, std::int64_t output) {
  return std::max<std::int64_t>((output - 1) * stride + window - input, 0);
}

}  // namespace lockstep::ops
