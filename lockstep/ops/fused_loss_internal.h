// Losses that have one kernel on values, as the composites of fused_internal.h.
#pragma once

#include <optional>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

// Cross entropy of softmax(logits) [rows, classes] for each row: by class numbers [rows] (int32 or int64; throws
// InvalidArgument where one is out of range), or by float labels of the logits' shape.
std::optional<Tensor> try_softmax_cross_entropy(const Tensor& logits, const Tensor& labels);

}  // namespace lockstep::ops
