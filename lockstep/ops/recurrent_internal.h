// The loops of recurrent layers for programs of inference, which have no tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {

// What the loops see of a layer with these options; empty where they lack its activations.
std::optional<RecurrentPass> recurrent_pass(const RecurrentOptions& options, std::int64_t steps, std::int64_t units);
// Rows of a batch that one thread takes.
std::int64_t recurrent_grain(std::int64_t batch);

// The recurrent weights [units, gates · units] as a pass without dropout reads them: their floats, to be written once,
// and where a pass finds them.
std::int64_t packed_recurrent_size(const RecurrentPass& pass);
void pack_recurrent(const RecurrentPass& pass, const float* kernel, float* packed);
void set_recurrent_weights(const float* packed, RecurrentPass& pass);

}  // namespace lockstep::ops
