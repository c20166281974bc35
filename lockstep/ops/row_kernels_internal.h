// Loops over rows of float32: recurrent layers, normalizations and activations, forward and back. As the loops of
// direct_internal.h: plain pointers, one thread, compiled for AVX2 and AVX-512, and each number comes out the same
// however the rows are cut.
#pragma once

#include <cstdint>

namespace lockstep::ops {

enum class RecurrentCell { kLstm, kGru, kGruResetBefore, kSimple };
// Activations whose derivative their value tells.
enum class Squash { kLinear, kTanh, kSigmoid, kRelu, kHardSigmoid };

constexpr int recurrent_gates(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kSimple ? 1 : 3;
}

// What both ways through a recurrent layer share. Tensors are row-major; [batch, steps, …] in the order of the input.
struct RecurrentPass {
  RecurrentCell cell = RecurrentCell::kLstm;
  Squash activation = Squash::kTanh, recurrent_activation = Squash::kSigmoid;
  std::int64_t steps = 0, units = 0;
  bool backwards = false;              // from the last step to the first
  bool zero_output = false;            // the output of masked steps is 0, else the output before
  const std::uint8_t* mask = nullptr;  // [batch, steps], 0: the step changes nothing; or null
  // The recurrent weights as pack_matrix() gives them; kGruResetBefore: of the two gates.
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

// Of a batch normalization's gradient: dx = dy · of_dy + (x - mean) · of_x + rest, one number each for a column.
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

// Activations of one tensor, as Keras names them.
enum class Unary { kGelu, kGeluTanh, kSilu, kRelu6, kHardSigmoid, kHardSilu };

struct RowKernels {
  // A matrix [depth, columns] (or its transpose, as [columns, depth]) with rows of b_stride floats in the order that
  // the recurrent loops read it.
  std::int64_t (*packed_size)(std::int64_t depth, std::int64_t columns);
  void (*pack_matrix)(const float* b, std::int64_t b_stride, bool transpose, std::int64_t depth, std::int64_t columns,
                      float* packed);
  // All steps of batch rows row_begin … row_end.
  void (*recurrent_forward)(const RecurrentForward& pass, std::int64_t row_begin, std::int64_t row_end);
  void (*recurrent_backward)(const RecurrentBackward& pass, std::int64_t row_begin, std::int64_t row_end);

  // Of each column: the mean, and the sum of squares around it.
  void (*column_moments)(std::int64_t rows, std::int64_t columns, const float* x, float* mean, float* squares);
  // y = x · factor + shift, with one number each for a column.
  void (*scale_columns)(std::int64_t rows, std::int64_t columns, const float* x, const float* factor,
                        const float* shift, float* y);
  // Of each column: the sums of dy, and of dy · (x - mean) (mean null: 0).
  void (*column_sums)(std::int64_t rows, std::int64_t columns, const float* x, const float* mean, const float* dy,
                      float* sum, float* products);
  void (*column_gradient)(std::int64_t rows, std::int64_t columns, const float* x, const float* dy,
                          const ColumnTerms& terms, float* dx);

  // means and inverses: of each row the mean and 1 / √(variance + epsilon); both or neither null.
  void (*normalize_rows)(const RowNormalization& n, std::int64_t rows, const float* x, float* y, float* means,
                         float* inverses);
  // d_gamma and d_beta are added to (null: not asked for).
  void (*normalize_rows_gradient)(const RowNormalization& n, std::int64_t rows, const float* x, const float* dy,
                                  const float* means, const float* inverses, float* dx, float* d_gamma, float* d_beta);

  void (*unary)(Unary kind, std::int64_t count, const float* x, float* y);
  void (*unary_gradient)(Unary kind, std::int64_t count, const float* x, const float* dy, float* dx);
};

const RowKernels& row_kernels();

}  // namespace lockstep::ops
