// The loss of connectionist temporal classification as tf.nn.ctc_loss computes it for dense labels; keras.losses.CTC
// and keras.ops.ctc_loss use the same algorithm.
#pragma once

#include <cstdint>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// Of logits float32 [time, batch, classes], labels int32 [batch, labels] and the lengths of both, int32 [batch]; one
// value for each row of the batch. Labels are not checked, as in TensorFlow: a label equal to the blank has the blank's
// probability, a label outside of the classes has probability 1. Labels that do not fit into the steps cost as much as
// log(1e-307) more than those that do.
Tensor dense_ctc_loss(const Tensor& logits, const Tensor& labels, const Tensor& label_lengths,
                      const Tensor& logit_lengths, std::int64_t blank);

}  // namespace lockstep::ops
