// One pass over all variables of an optimizer, in place, for float32 in host memory.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

// One variable of an update. A gradient with slices is taken as Keras takes it: as the dense sum of its slices, which
// is not made, with the sum of the slices' squares as its square.
//
// The variable: its value and slots are written to, so nobody else may see their memory
// (make_writable of autograd.h). `decay`: the value first loses decay times itself. `rows_only`: rows without slices
// stay as they are, with Nadam their values.
struct FusedUpdate {
  Tensor value;
  Tensor gradient;
  Tensor slots[3];
  float decay = 0;
  bool rows_only = false;
};

// Whether the fused kernels take it: dense float32 in host memory, equal shapes.
bool fusable(const Tensor& value, const Tensor& gradient);

// slots[0]: momentum.
struct SgdRule {
  float learning_rate = 0.01f;
  float momentum = 0;  // 0: no slot
  bool nesterov = false;
};

// slots: momentum, velocity, and with amsgrad the largest velocity so far.
struct AdamRule {
  float alpha = 0;  // lr · √(1 - β2^t) / (1 - β1^t)
  float one_minus_beta_1 = 0;
  float one_minus_beta_2 = 0;
  float epsilon = 0;
  bool amsgrad = false;
};

// slots: velocity, momentum (if not 0), average gradient (if centered).
struct RmspropRule {
  float learning_rate = 0;
  float rho = 0;
  float momentum = 0;
  float epsilon = 0;
  bool centered = false;
  bool adds_to_root = false;  // epsilon
};

// slots: momentum, velocity. The step is (m · of_momentum + g · of_gradient) · learning_rate / (√(v · of_velocity) +
// epsilon).
struct NadamRule {
  float learning_rate = 0;
  float one_minus_beta_1 = 0;
  float one_minus_beta_2 = 0;
  float of_momentum = 0, of_gradient = 0, of_velocity = 0;
  float epsilon = 0;
};

// slots: momentum, norm. Takes no gradients with slices. `correction`: 1 - β1^t.
struct AdamaxRule {
  float learning_rate = 0;
  float one_minus_beta_1 = 0;
  float beta_2 = 0;
  float correction = 1;
  float epsilon = 0;
};

// slots[0]: the sum of the squares.
struct AdagradRule {
  float learning_rate = 0;
  float epsilon = 0;
  bool adds_to_root = false;  // epsilon
};

// slots: averages of the squares of gradients and of steps.
struct AdadeltaRule {
  float learning_rate = 0;
  float rho = 0;
  float epsilon = 0;
};

// slots[0]: momentum.
struct LionRule {
  float learning_rate = 0;
  float beta_1 = 0, beta_2 = 0;
};

// slots: accumulator, linear. `twice_l2` includes what beta adds to it.
struct FtrlRule {
  float learning_rate = 0;
  float power = 0.5f;  // of the accumulator
  float l1 = 0, twice_l2 = 0, twice_shrinkage = 0;
};

using FusedRule =
    std::variant<SgdRule, AdamRule, RmspropRule, NadamRule, AdamaxRule, AdagradRule, AdadeltaRule, LionRule, FtrlRule>;

// slots: momentum, velocity, as in Adam; `correction_i`: 1 - β_i^t. The length of a step depends on norms of
// the whole variable, so Lamb is not an elementwise rule; neither is Adafactor.
struct LambRule {
  float learning_rate = 0;
  float one_minus_beta_1 = 0, one_minus_beta_2 = 0;
  float correction_1 = 1, correction_2 = 1;
  float epsilon = 0;
};

// slots: averages of the squares of rows [..., R] and of columns [..., C], and those of elements [..., R, C], which are
// computed from them.
struct AdafactorRule {
  float rho = 0, beta_2 = 0;
  float epsilon_1 = 0, epsilon_2 = 0, clip_threshold = 1;
};

// One variable, whose gradient has no slices; Adafactor: of rank 2 or more. `decay` is not used.
void update_by_norms(const FusedUpdate& update, const LambRule& rule);
void update_by_norms(const FusedUpdate& update, const AdafactorRule& rule);

void update_fused(std::span<const FusedUpdate> updates, const FusedRule& rule);
// Elements begin … begin+count-1 of one variable, whose gradients begin at `gradient` (FusedUpdate's is not looked at).
// The numbers do not depend on how a variable is cut.
void update_piece(const FusedUpdate& update, const FusedRule& rule, std::int64_t begin, std::int64_t count,
                  const float* gradient);

}  // namespace lockstep::ops
