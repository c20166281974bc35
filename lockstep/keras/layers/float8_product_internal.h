// A product of inputs and a kernel that are rounded to numbers of 8 bits, as a member of a layer.
#pragma once

#include <functional>
#include <vector>

#include "lockstep/keras/layers/lora_internal.h"

namespace lockstep::keras {

// One for the inputs, one for the kernel and one for the gradient of the product: the numbers are divided by a scale
// before they are rounded. A step of training computes the next scale from the greatest magnitudes of past steps.
struct Float8Scale {
  VariablePtr scale;         // a number
  VariablePtr amax_history;  // the last step's greatest magnitude first

  // Of an optimizer step, in which `x` was rounded.
  void update(const Tensor& x, double greatest) const;
};

class Float8Product {
 public:
  // Makes the variables. `history_length` is that of the policy.
  void build(std::int64_t history_length, const AddWeight& add_weight);
  bool active() const { return static_cast<bool>(inputs_.scale); }

  // multiply(x, kernel) of the rounded numbers, in `dtype`. `training` changes the scales.
  using Multiply = std::function<Tensor(const Tensor& x, const Tensor& kernel)>;
  Tensor operator()(const Tensor& x, const Tensor& kernel, DType dtype, bool training, const Multiply& multiply) const;

  // In the order of Keras's files.
  std::vector<VariablePtr> variables() const;

 private:
  Float8Scale inputs_, kernel_, outputs_grad_;
};

}  // namespace lockstep::keras
