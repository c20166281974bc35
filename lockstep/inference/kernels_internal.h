// Loops of inference that lockstep/ops does not have: plain pointers, one thread, compiled for AVX2 and AVX-512.
#pragma once

#include <cstdint>

#include "lockstep/ops/direct_internal.h"

namespace lockstep::inference {

// Functions of one number, then functions of two.
enum class Function {
  kAbs,
  kNeg,
  kSquare,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kErf,
  kErfc,
  kSigmoid,
  kSilu,
  kGelu,
  kTanh,
  kRelu,
  kRelu6,
  kElu,
  kSelu,
  kSoftplus,
  kSoftsign,
  kLeakyRelu,  // alpha: the factor of values that are not positive
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kSquaredDifference
};
constexpr bool is_binary(Function function) { return function >= Function::kAdd; }

enum class Reduction { kSum, kMaximum, kMinimum };

// test ? a : b; a and b are rows, or one number for all.
struct Selection {
  std::int64_t count = 0;
  const std::uint8_t* test = nullptr;
  const float *a = nullptr, *b = nullptr;
  bool a_is_row = true, b_is_row = true;
};

// Elements of two axes; strides in floats.
struct Plane {
  std::int64_t rows = 1, columns = 1;
  std::int64_t from_row = 0, from_column = 0, to_row = 0, to_column = 0;
};

struct Kernels {
  // to[i] = function(a[i], b[i]); an operand that is not a row is one number for all i.
  void (*apply)(Function function, float alpha, std::int64_t count, const float* a, bool a_is_row, const float* b,
                bool b_is_row, float* to);
  // x [outer, count, inner] to y [outer, inner]; however many rows there are, each number comes out the same.
  void (*reduce)(Reduction kind, std::int64_t outer, std::int64_t count, std::int64_t inner, const float* x, float* y);
  // Each row.
  void (*softmax)(std::int64_t rows, std::int64_t columns, const float* x, float* y);
  // Rows row_begin … row_end of one image; cells outside of the image do not count.
  void (*average_pool)(const ops::WindowGeometry& g, const float* x, std::int64_t row_begin, std::int64_t row_end,
                       float* y);
  void (*select)(const Selection& p, float* to);
  void (*copy_plane)(const Plane& p, const float* from, float* to);
};

const Kernels& kernels();

}  // namespace lockstep::inference
