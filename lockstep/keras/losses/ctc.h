// keras.losses.CTC.
#pragma once

#include "lockstep/keras/losses/losses.h"

namespace lockstep::losses {

// Connectionist temporal classification (Graves et al. 2006): y_true (batch, labels), padded with 0, which is not a
// label; y_pred (batch, steps, classes), logits, whose class 0 stands for no label.
LossPtr CTC(LossOptions options = {});
Tensor ctc(const Tensor& y_true, const Tensor& y_pred);
// The same where both lengths are given, int32 (batch), and any class, counted from the end where it is negative,
// stands for no label: keras.ops.ctc_loss.
Tensor ctc_of_lengths(const Tensor& labels, const Tensor& y_pred, const Tensor& label_lengths, const Tensor& steps,
                      std::int64_t blank);

}  // namespace lockstep::losses
