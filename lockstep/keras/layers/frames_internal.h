// Overlapping pieces of signals, for short-time Fourier transforms.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/keras/serialization.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

// The pieces of `length` entries of the last axis that begin every `stride` entries: [..., pieces, length]. The extent
// of the axis may be unknown.
Tensor frames_of(const Tensor& x, std::int64_t length, std::int64_t stride);

// A window of `length` values in the middle of `whole` zeros: "hann", "hamming", a list of numbers or an array as
// Keras writes it. Throws InvalidArgument, naming `who`, for anything else.
std::vector<double> padded_window(const Json& window, std::int64_t length, std::int64_t whole, std::string_view who);

}  // namespace lockstep::keras
