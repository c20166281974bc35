// Recurrent layers: SimpleRNN, LSTM, GRU, and the wrappers Bidirectional and TimeDistributed.
//
// Inputs are (batch, time, features), outputs (batch, units), or (batch, time, units) with return_sequences;
// return_state adds the final states. A mask (batch, time) makes masked steps repeat the last output and states.
// An initial state comes as the keyword `initial_state` or as further inputs: lstm({x, h, c}).
#pragma once

#include "lockstep/keras/activations.h"
#include "lockstep/keras/layers/layer.h"

namespace lockstep::layers {

// The keywords shared by all three, in Keras's order of config; each class leaves some out of its own.
struct RecurrentOptions {
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;  // time runs backwards; outputs stay in reversed order
  bool stateful = false;      // a batch starts from the states the last one left
  bool unroll = false;        // no effect on results
  bool zero_output_for_mask = false;
  activations::ActivationArg activation = "tanh";
  activations::ActivationArg recurrent_activation = "sigmoid";  // not of SimpleRNN
  bool use_bias = true;
  initializers::InitializerArg kernel_initializer = "glorot_uniform";
  initializers::InitializerArg recurrent_initializer = "orthogonal";
  initializers::InitializerArg bias_initializer = "zeros";
  bool unit_forget_bias = true;  // LSTM: the forget gate's bias starts at 1
  regularizers::RegularizerArg kernel_regularizer = {};
  regularizers::RegularizerArg recurrent_regularizer = {};
  regularizers::RegularizerArg bias_regularizer = {};
  regularizers::RegularizerArg activity_regularizer = {};
  constraints::ConstraintArg kernel_constraint = {};
  constraints::ConstraintArg recurrent_constraint = {};
  constraints::ConstraintArg bias_constraint = {};
  double dropout = 0.0;            // of the inputs
  double recurrent_dropout = 0.0;  // of the states
  bool reset_after = true;         // GRU
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
  std::int64_t units = 0;  // set by the functions below
};

keras::LayerHandle SimpleRNN(std::int64_t units, RecurrentOptions options = {});
keras::LayerHandle LSTM(std::int64_t units, RecurrentOptions options = {});
keras::LayerHandle GRU(std::int64_t units, RecurrentOptions options = {});

struct BidirectionalOptions {
  std::optional<std::string> merge_mode = "concat";  // concat, sum, mul, ave, or nothing: both outputs
  keras::LayerHandle layer = {};
  keras::LayerHandle backward_layer = {};  // default: a copy of the layer that runs backwards
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
keras::LayerHandle Bidirectional(keras::LayerHandle layer, BidirectionalOptions options = {});

struct TimeDistributedOptions {
  keras::LayerHandle layer = {};
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
};
// The layer applied at each index of axis 1.
keras::LayerHandle TimeDistributed(keras::LayerHandle layer, TimeDistributedOptions options = {});

}  // namespace lockstep::layers
