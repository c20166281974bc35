// keras.losses.CTC.
#pragma once

#include "lockstep/keras/losses/losses.h"

namespace lockstep::losses {

// Connectionist temporal classification (Graves et al. 2006): y_true (batch, labels), padded with 0, which is not a
// label; y_pred (batch, steps, classes), logits, whose class 0 stands for no label.
LossPtr CTC(LossOptions options = {});
Tensor ctc(const Tensor& y_true, const Tensor& y_pred);

}  // namespace lockstep::losses
