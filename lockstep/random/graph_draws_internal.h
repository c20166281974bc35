// Draws of a graph that is being built: stateless operations, whose seeds the graph takes from the variables of
// generators, as the graphs of Keras do.
#pragma once

#include "lockstep/random/seed_generator.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::random {

// Whether the numbers are drawn by the graph that is being built: the shape is computed, or the state of the generator,
// which advances with each draw, is symbolic.
bool drawn_by_graph(const ShapeArg& shape, const Seed& seed);

// The seed of a stateless operation in the graph: int32, shape (2,). A generator's state advances when the graph runs.
// Undefined for the global generator, which graphs do not have.
Tensor seed_in_graph(const Seed& seed);
// The same; for the global generator, a seed that a stateful operation draws.
Tensor any_seed_in_graph(const Seed& seed);

// dropout_mask() of a shape that the graph computes.
Tensor dropout_mask_in_graph(const Tensor& shape, double rate, DType dtype, const Seed& seed);

}  // namespace lockstep::random
