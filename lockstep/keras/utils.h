// keras.utils: labels and sequences as models take them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::utils {

// Class numbers (integers; a last axis of 1 is dropped) as rows of zeros with a one: shape + (num_classes,), float32.
// Default: the largest number + 1. Throws InvalidArgument for a number outside of [0, num_classes).
Tensor to_categorical(const Tensor& classes, std::optional<std::int64_t> num_classes = std::nullopt);

struct PadOptions {
  std::optional<std::int64_t> maxlen = std::nullopt;  // default: the longest sequence's length
  DType dtype = DType::kInt32;
  std::string_view padding = "pre";     // or "post": where `value` is put
  std::string_view truncating = "pre";  // or "post": which end is cut off
  double value = 0.0;
};
// Sequences of different lengths as one tensor, (sequences, maxlen).
Tensor pad_sequences(const std::vector<std::vector<double>>& sequences, const PadOptions& options = {});
Tensor pad_sequences(const std::vector<std::vector<std::int64_t>>& sequences, const PadOptions& options = {});
Tensor pad_sequences(const std::vector<std::vector<std::int32_t>>& sequences, const PadOptions& options = {});

}  // namespace lockstep::utils
