// Low-rank adaptation (LoRA): a layer's kernel stays as it is, and the product of two small matrices is added to it.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/initializers/initializers.h"
#include "lockstep/keras/numbers.h"

namespace lockstep::keras {

// The arguments of layer.enable_lora(). The kernel that the layer uses is kernel + lora_alpha / rank · (a · b), where a
// has the kernel's shape with `rank` instead of its last extent, and b has the shape (rank, last extent).
struct LoraOptions {
  FieldNamesOnly names_only = {};
  std::int64_t rank = 0;                            // at least 1
  std::optional<Number> lora_alpha = std::nullopt;  // default: rank
  initializers::InitializerArg a_initializer = "he_uniform";
  initializers::InitializerArg b_initializer = "zeros";
};

}  // namespace lockstep::keras
