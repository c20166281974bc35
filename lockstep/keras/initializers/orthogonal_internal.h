// The orthogonal factor of a matrix.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::initializers {

// Q of the reduced QR decomposition of a row-major matrix with rows >= cols, each column's sign chosen so
// that R's diagonal is positive. Householder's method in double precision.
std::vector<float> orthonormal_columns(const std::vector<float>& matrix, std::int64_t rows, std::int64_t cols);

// Row-major (rows, cols) to (cols, rows).
std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows, std::int64_t cols);

}  // namespace lockstep::initializers
