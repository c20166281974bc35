// Loops over rows of float32: recurrent layers, normalizations and activations, forward and back. As the loops of
// direct_internal.h: plain pointers, one thread, compiled for AVX2 and AVX-512, and each number comes out the same
// however the rows are cut.
#pragma once

#include <cstdint>

namespace lockstep::ops {

enum class RecurrentCell { kLstm, kGru, kGruResetBefore, kSimple };
// Activations whose derivative is a function of their value.
enum class Squash { kLinear, kTanh, kSigmoid, kRelu, kHardSigmoid };

constexpr int recurrent_gates(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kSimple ? 1 : 3;
}

// Shared by both directions of a recurrent layer. Tensors are row-major; [batch, steps, …] in the order of the input.
struct RecurrentPass {
  RecurrentCell cell = RecurrentCell::kLstm;
  Squash activation = Squash::kTanh, recurrent_activation = Squash::kSigmoid;
  std::int64_t steps = 0, units = 0;
  bool backwards = false;              // from the last step to the first
  bool zero_output = false;            // the output of masked steps is 0, else the output before
  const std::uint8_t* mask = nullptr;  // [batch, steps], 0: the step changes nothing; or null
  // Recurrent dropout: factors of the state in the product of each gate [batch, gates, units], the same in all steps;
  // or null.
  const float* dropped = nullptr;
  // The recurrent weights as pack_matrix() gives them, with `dropped` gate after gate; kGruResetBefore: of the two
  // gates.
  const float* kernel = nullptr;
  const float* candidate_kernel = nullptr;  // kGruResetBefore
  // Kept by the way forward for the way back (null: not needed).
  float* gates = nullptr;      // [batch, steps, gates · units]; kGru: 4 · units, the last is the product before reset
  float* before = nullptr;     // [batch, steps, units]: the state before the step
  float* cells = nullptr;      // kLstm: the cell state before the step
  float* activated = nullptr;  // kLstm: the activation of the cell state after the step
};

struct RecurrentForward : RecurrentPass {
  const float* projected = nullptr;          // [batch, steps, gates · units]
  const float* bias = nullptr;               // of the recurrent product (kGru), or null
  const float *h0 = nullptr, *c0 = nullptr;  // [batch, units]; c0: kLstm
  float* all = nullptr;                      // [batch, steps, units] in the order of computing, or null
  float *last = nullptr, *h = nullptr, *c = nullptr;
};

struct RecurrentBackward : RecurrentPass {                                          // kernels of the transposed weights
  const float *d_all = nullptr, *d_last = nullptr, *d_h = nullptr, *d_c = nullptr;  // each may be null
  float* d_projected = nullptr;
  float* d_inner = nullptr;  // kGru: gradient of the recurrent product [batch, steps, 3 · units]
  float *d_h0 = nullptr, *d_c0 = nullptr;
};

// One step of an LSTM, of which each row (a pixel, or a row of a batch) has its gates: the input's part x and the
// state's part z, each [rows, 4 · units].
struct LstmCell {
  std::int64_t units = 0;
  Squash activation = Squash::kTanh, recurrent_activation = Squash::kSigmoid;
  const float *x = nullptr, *z = nullptr, *c = nullptr;
  std::int64_t image_rows = 1, image_x = 0;  // of x, so many rows follow each other; floats from these to the next
  float *h = nullptr, *next_c = nullptr;
  float* gates = nullptr;  // [rows, 4 · units] for the way back, or null
};
struct LstmCellGradient {
  std::int64_t units = 0;
  Squash activation = Squash::kTanh, recurrent_activation = Squash::kSigmoid;
  const float *gates = nullptr, *c = nullptr, *next_c = nullptr;
  const float *d_h = nullptr, *d_next_c = nullptr;  // each may be null
  float *d_z = nullptr, *d_c = nullptr;             // d_z: of x, too
};

// Activations of one tensor, as Keras names them.
enum class Unary {
  kLinear,
  kGelu,
  kGeluTanh,
  kSilu,
  kRelu,
  kLeakyRelu,
  kRelu6,
  kHardSigmoid,
  kHardSilu,
  kTanh,
  kSigmoid,
  kElu,
  kSelu
};
// Whether unary_gradient takes the values of the activation instead of its arguments.
constexpr bool has_gradient_of_value(Unary kind) { return kind >= Unary::kTanh; }

// act(x · factor + shift), with one number each for a column; the gradients of x's normalization go through it.
struct ColumnActivation {
  Unary kind = Unary::kLinear;
  float alpha = 0;
  const float *factor = nullptr, *shift = nullptr;
};

// Of a batch normalization's gradient, one number each for a column.
struct ColumnTerms {
  const float *mean, *of_dy, *of_x, *rest;
};

// y = (x - mean) / √(variance + epsilon) · gamma + beta within each row; without `centered` the mean is 0.
struct RowNormalization {
  std::int64_t columns = 0;
  bool centered = true;
  float epsilon = 0;
  const float *gamma = nullptr, *beta = nullptr;  // one number for each column, or null
};

// Rows of scores, multiplied by `scale`, through softmax in place. A mask has one byte for each score, 0 where it does
// not count and gives 0, and `mask_row` bytes from row to row. A row in which nothing counts gives zeros, or equal
// numbers.
struct SoftmaxRows {
  std::int64_t columns = 0;
  float scale = 1;
  std::int64_t mask_row = 0;
  bool blind_rows_are_zero = false;
};

// Rows of logits, and a class number for each row or (null: those) a share for each logit.
struct CrossEntropyRows {
  std::int64_t columns = 0;
  const float* x = nullptr;
  const std::int64_t* classes = nullptr;
  const float* shares = nullptr;
};

struct RowKernels {
  // A matrix [depth, columns] (or its transpose, as [columns, depth]) with rows of b_stride floats in the order that
  // the recurrent loops read it.
  std::int64_t (*packed_size)(std::int64_t depth, std::int64_t columns);
  void (*pack_matrix)(const float* b, std::int64_t b_stride, bool transpose, std::int64_t depth, std::int64_t columns,
                      float* packed);
  // All steps of batch rows row_begin … row_end.
  void (*recurrent_forward)(const RecurrentForward& pass, std::int64_t row_begin, std::int64_t row_end);
  void (*recurrent_backward)(const RecurrentBackward& pass, std::int64_t row_begin, std::int64_t row_end);
  void (*lstm_cell)(const LstmCell& cell, std::int64_t row_begin, std::int64_t row_end);
  void (*lstm_cell_gradient)(const LstmCellGradient& cell, std::int64_t row_begin, std::int64_t row_end);

  // Of each column: the mean, and the sum of squares around it.
  void (*column_moments)(std::int64_t rows, std::int64_t columns, const float* x, float* mean, float* squares);
  void (*scale_columns)(std::int64_t rows, std::int64_t columns, const float* x, const ColumnActivation& act, float* y);
  // Of each column: the sums of d, and of d · (x - mean) (mean null: 0), where d is dy taken through the activation
  // (kLinear: dy itself; factor and shift are not read).
  void (*column_sums)(std::int64_t rows, std::int64_t columns, const float* x, const float* mean, const float* dy,
                      const ColumnActivation& act, float* sum, float* products);
  // dx = d · of_dy + (x - mean) · of_x + rest.
  void (*column_gradient)(std::int64_t rows, std::int64_t columns, const float* x, const float* dy,
                          const ColumnActivation& act, const ColumnTerms& terms, float* dx);

  // means and inverses: of each row the mean and 1 / √(variance + epsilon); both or neither null.
  void (*normalize_rows)(const RowNormalization& n, std::int64_t rows, const float* x, float* y, float* means,
                         float* inverses);
  // d_gamma and d_beta are added to (null: not asked for).
  void (*normalize_rows_gradient)(const RowNormalization& n, std::int64_t rows, const float* x, const float* dy,
                                  const float* means, const float* inverses, float* dx, float* d_gamma, float* d_beta);

  // The mask may be null. The gradient replaces dy, that of the output y, by that of the scores before scaling.
  void (*softmax_rows)(const SoftmaxRows& s, std::int64_t rows, const std::uint8_t* mask, float* x);
  void (*softmax_rows_gradient)(const SoftmaxRows& s, std::int64_t rows, const std::uint8_t* mask, const float* y,
                                float* dy);

  // Of each row: the cross entropy of its softmax, the largest logit, and the logarithm of the sum of e^(x - largest).
  void (*cross_entropy_rows)(const CrossEntropyRows& c, std::int64_t rows, float* loss, float* tops, float* logs);
  // dx = (e^(x - top - log) - label) · weight; weights null: 1.
  void (*cross_entropy_rows_gradient)(const CrossEntropyRows& c, std::int64_t rows, const float* tops,
                                      const float* logs, const float* weights, float* dx);

  void (*multiply)(std::int64_t count, const float* a, const float* b, float* product);
  // a · b, zero where b is zero, even if a is not finite.
  void (*multiply_no_nan)(std::int64_t count, const float* a, const float* b, float* product);
  void (*add)(std::int64_t count, const float* a, const float* b, float* sum);
  // `alpha`: kLeakyRelu's factor of values that are not positive. `x` of the gradient: has_gradient_of_value.
  void (*unary)(Unary kind, float alpha, std::int64_t count, const float* x, float* y);
  void (*unary_gradient)(Unary kind, float alpha, std::int64_t count, const float* x, const float* dy, float* dx);
};

const RowKernels& row_kernels();

}  // namespace lockstep::ops
