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

// A ConvLSTM over all steps: `projected` [batch, steps, h, w, 4 · units] is the input's part of the gates, `kernel`
// [kh, kw, units, 4 · units] the recurrent weights, which are applied with padding SAME; `h` and `c` [batch, h, w,
// units] the states, undefined: zeros.
struct ConvLstmOptions {
  std::string activation, recurrent_activation;
  bool sequences = false, backwards = false;
};
struct ConvLstmResult {
  Tensor output;  // [batch, steps, h, w, units] in the order of computing, or that of the last step
  Tensor h, c;
};
std::optional<ConvLstmResult> try_conv_lstm(const Tensor& projected, const Tensor& kernel, const Tensor& h,
                                            const Tensor& c, const ConvLstmOptions& options);

}  // namespace lockstep::ops
