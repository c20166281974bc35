// One step of an LSTM whose gates are computed by other operations, as a ConvLSTM's are by convolutions.
#pragma once

#include <optional>
#include <string>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

struct LstmStep {
  Tensor h, c;
};
// `x` and `z` [..., 4 · units] are the input's and the state's part of the gates input, forget, cell and output; `c`
// [..., units] is the cell state before the step. Activations by Keras's names. Nothing: run the plain operations.
std::optional<LstmStep> try_lstm_step(const Tensor& x, const Tensor& z, const Tensor& c, const std::string& activation,
                                      const std::string& recurrent_activation);

}  // namespace lockstep::ops
