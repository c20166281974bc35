// keras.layers: recurrent layers, called on (batch, time, features).
#pragma once

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

// Of LSTM, GRU, SimpleRNN and their cells; keywords that a class lacks are ignored by it. Of cells, those
// from return_sequences to zero_output_for_mask mean nothing.
struct RNNOptions {
  std::int64_t units = 0;
  ActivationArg activation = "tanh";
  ActivationArg recurrent_activation = "sigmoid";  // not SimpleRNN
  bool use_bias = true;
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg recurrent_initializer = "orthogonal";
  InitializerArg bias_initializer = "zeros";
  bool unit_forget_bias = true;  // LSTM: the forget gate's bias starts at 1
  RegularizerArg kernel_regularizer = {};
  RegularizerArg recurrent_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg recurrent_constraint = {};
  ConstraintArg bias_constraint = {};
  keras::Number dropout = 0.0;
  keras::Number recurrent_dropout = 0.0;
  std::optional<std::int64_t> seed = std::nullopt;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool unroll = false;
  bool reset_after = true;  // GRU
  bool zero_output_for_mask = false;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
using LSTMOptions = RNNOptions;
using GRUOptions = RNNOptions;
using SimpleRNNOptions = RNNOptions;

// Masked steps repeat the output and state before them. Output: the last step's, or all with
// return_sequences; with return_state also the states.
LayerHandle LSTM(std::int64_t units, RNNOptions options = {});
LayerHandle GRU(std::int64_t units, RNNOptions options = {});
LayerHandle SimpleRNN(std::int64_t units, RNNOptions options = {});
LayerHandle LSTMCell(std::int64_t units, RNNOptions options = {});
LayerHandle GRUCell(std::int64_t units, RNNOptions options = {});
LayerHandle SimpleRNNCell(std::int64_t units, RNNOptions options = {});
LayerHandle StackedRNNCells(std::vector<LayerHandle> cells, NamedOptions options = {});

// Base of cells of the user's, which RNN runs: build() gets the shape of one step, (batch, features).
//
//   class MinimalRNNCell : public layers::Cell {
//    public:
//     explicit MinimalRNNCell(std::int64_t units) : units(units) {}
//     std::vector<std::int64_t> state_size() const override { return {units}; }
//     void build(const keras::Nested<Shape>& input_shape) override { kernel = add_weight({...}); }
//     keras::Structure call(const keras::Structure& inputs, const keras::Structure& states) override {
//       const auto output = ops::matmul(inputs, kernel) + states[0];
//       return {output, {output}};
//     }
//   };
//   auto x = layers::RNN(keras::make_layer<MinimalRNNCell>(4))(sequences);
class Cell : public keras::Layer {
 public:
  // The size of each state (cell.state_size in Python). The first is the output's too, unless output_size() is another.
  virtual std::vector<std::int64_t> state_size() const = 0;
  virtual std::int64_t output_size() const { return state_size().at(0); }
  // The states with which a sequence of `batch_size` rows begins: zeros.
  keras::Structure get_initial_state(const Extent& batch_size) const override;
  // call(self, inputs, states) of Python: the output, and the list of the next states; with `training=False` the one
  // with `context.training`. A class overrides one of the two.
  virtual keras::Structure call(const keras::Structure& inputs, const keras::Structure& states);
  virtual keras::Structure call(const keras::Structure& inputs, const keras::Structure& states,
                                const keras::CallContext& context);
  keras::Structure call(const keras::Structure& given, const keras::CallContext& context) override;
  std::vector<std::string> argument_names() const override { return {"inputs", "states"}; }

 protected:
  using Layer::Layer;
};

struct GenericRNNOptions {
  FieldNamesOnly names_only = {};
  LayerHandle cell = {};
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool unroll = false;
  bool zero_output_for_mask = false;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Runs a cell over the time steps.
LayerHandle RNN(GenericRNNOptions options);
LOCKSTEP_BY_POSITION(RNN, GenericRNNOptions, LayerHandle, cell)
// Of several cells, one upon the other.
template <typename = void>
LayerHandle RNN(std::vector<LayerHandle> cells, GenericRNNOptions options = {}) {
  return RNN(StackedRNNCells(std::move(cells)), std::move(options));
}

struct BidirectionalOptions {
  FieldNamesOnly names_only = {};
  LayerHandle layer = {};
  std::optional<std::string> merge_mode = "concat";  // "sum", "mul", "ave", or nothing: two outputs
  LayerHandle backward_layer = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Two copies of a recurrent layer, one from each end.
LayerHandle Bidirectional(BidirectionalOptions options);
LOCKSTEP_BY_POSITION(Bidirectional, BidirectionalOptions, LayerHandle, layer)

struct TimeDistributedOptions {
  FieldNamesOnly names_only = {};
  LayerHandle layer = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Applies a layer to each time step.
LayerHandle TimeDistributed(TimeDistributedOptions options);
LOCKSTEP_BY_POSITION(TimeDistributed, TimeDistributedOptions, LayerHandle, layer)

}  // namespace lockstep::layers
