#include "lockstep/keras/initializers/orthogonal_internal.h"

#include <cmath>

namespace lockstep::initializers {
namespace {

// Column-major work copy: reflections run along columns.
struct Columns {
  std::size_t rows, cols;
  std::vector<double> values;
  double* column(std::size_t j) { return values.data() + j * rows; }
};

// Takes the part of x along the unit vector v away twice, from entry `from` on.
void reflect(const std::vector<double>& v, double* x, std::size_t from, std::size_t rows) {
  double product = 0;
  for (std::size_t i = from; i < rows; ++i) product += v[i] * x[i];
  for (std::size_t i = from; i < rows; ++i) x[i] -= 2 * product * v[i];
}

}  // namespace

std::vector<float> orthonormal_columns(const std::vector<float>& matrix, std::int64_t row_count,
                                       std::int64_t col_count) {
  const auto rows = static_cast<std::size_t>(row_count), cols = static_cast<std::size_t>(col_count);
  Columns a{rows, cols, std::vector<double>(rows * cols)};
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) a.column(j)[i] = matrix[i * cols + j];
  }
  std::vector<std::vector<double>> reflections;
  std::vector<double> diagonal;
  for (std::size_t k = 0; k < cols; ++k) {
    double* x = a.column(k);
    std::vector<double> v(x, x + rows);
    double norm = 0;
    for (std::size_t i = k; i < rows; ++i) norm += x[i] * x[i];
    norm = std::sqrt(norm);
    const double pivot = x[k] > 0 ? -norm : norm;
    v[k] -= pivot;
    double length = 0;
    for (std::size_t i = k; i < rows; ++i) length += v[i] * v[i];
    length = std::sqrt(length);
    for (std::size_t i = k; i < rows && length > 0; ++i) v[i] /= length;
    if (length == 0) std::fill(v.begin(), v.end(), 0.0);
    for (std::size_t j = k; j < cols; ++j) reflect(v, a.column(j), k, rows);
    diagonal.push_back(pivot);
    reflections.push_back(std::move(v));
  }
  Columns q{rows, cols, std::vector<double>(rows * cols)};
  for (std::size_t j = 0; j < cols; ++j) {
    q.column(j)[j] = diagonal[j] < 0 ? -1.0 : 1.0;
    for (std::size_t k = cols; k-- > 0;) reflect(reflections[k], q.column(j), k, rows);
  }
  std::vector<float> result(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) result[i * cols + j] = static_cast<float>(q.column(j)[i]);
  }
  return result;
}

std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows, std::int64_t cols) {
  std::vector<float> result(matrix.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      result[static_cast<std::size_t>(j * rows + i)] = matrix[static_cast<std::size_t>(i * cols + j)];
    }
  }
  return result;
}

}  // namespace lockstep::initializers
