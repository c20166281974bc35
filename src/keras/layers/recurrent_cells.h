// One step of each recurrent layer.
#pragma once

#include <memory>
#include <string>

#include "lockstep/keras/layers/recurrent.h"

namespace lockstep::keras {

// Factors of dropout for a whole sequence: none, one for all gates, or one for each gate.
struct RecurrentDrops {
  Tensors input;
  Tensors recurrent;
};

// The weights kernel, recurrent_kernel and bias, and how one step uses them. The part of a step that does not
// depend on the states is computed for all time steps at once.
class RecurrentCell : public Layer {
 public:
  RecurrentCell(std::string class_name, std::string name, const layers::RecurrentOptions& options, int gates, int states);

  void build(const Nested<Shape>& shapes) override;
  Json module() const override { return "keras.layers"; }
  // One step on {input, states…}: output and new states.
  Structure call(const Structure& inputs, const CallContext& context) override;

  int gates() const { return gates_; }
  int num_states() const { return states_; }
  std::int64_t units() const { return options_.units; }

  // Draws in Keras's order: the inputs' masks, then the states'.
  RecurrentDrops draw_drops(const Tensor& x, const random::SeedGeneratorPtr& seeds) const;
  // x (…, features) -> (…, gates · units), bias included. With one dropped input for each gate: per gate.
  Tensor project(const Tensor& x, const RecurrentDrops& drops) const;
  // One step from the projected input (batch, gates · units): new states, the output first.
  virtual Tensors step(const Tensor& projected, const Tensors& states, const RecurrentDrops& drops) const = 0;

 protected:
  // The gates of h · recurrent_kernel, per gate when the states are dropped gate by gate.
  Tensor recur(const Tensor& h, const RecurrentDrops& drops) const;
  Tensor activate(const Tensor& x) const { return (*options_.activation.object())(x); }
  Tensor gate(const Tensor& x) const { return (*options_.recurrent_activation.object())(x); }
  virtual Tensor initial_bias() const;
  virtual Shape bias_shape() const { return Shape{gates_ * options_.units}; }
  virtual Tensor input_bias() const { return value(bias_); }

  layers::RecurrentOptions options_;
  int gates_, states_;
  VariablePtr kernel_, recurrent_kernel_, bias_;
};

std::shared_ptr<RecurrentCell> simple_rnn_cell(const layers::RecurrentOptions& options);
std::shared_ptr<RecurrentCell> lstm_cell(const layers::RecurrentOptions& options);
std::shared_ptr<RecurrentCell> gru_cell(const layers::RecurrentOptions& options);

}  // namespace lockstep::keras
