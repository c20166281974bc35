// Results of lines of programs: numbers, and messages of errors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

using Numbers = std::vector<double>;
inline Numbers numbers(const lockstep::Tensor& x) {
  return lockstep::ops::cast(x, lockstep::float64).to_vector<double>();
}
inline std::vector<float> floats(const lockstep::Tensor& x) {
  return lockstep::ops::cast(x, lockstep::float32).to_vector<float>();
}

// `found`: numbers, or what is a tensor. The tolerance is relative for numbers beyond 1.
template <typename T = Numbers>
void expect_near(const T& found, const Numbers& expected, double tolerance = 2e-6) {
  Numbers values;
  if constexpr (std::is_same_v<T, Numbers>)
    values = found;
  else
    values = numbers(found);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << i;
}

// The sum of i · x[i] over all elements.
inline double weighted(const lockstep::Tensor& x) {
  namespace ops = lockstep::ops;
  return ops::reduce_sum(ops::reshape(x, {-1}) * ops::range(static_cast<double>(x.num_elements()))).item<double>();
}

// np.sin(step * np.arange(n)) as float32, in this shape.
inline lockstep::Tensor waves(const lockstep::Shape& shape, double step) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < *shape.num_elements(); ++i)
    values.push_back(static_cast<float>(std::sin(step * static_cast<double>(i))));
  return lockstep::Tensor::from_vector(values, shape);
}

inline std::string error_of(const std::function<void()>& line) {
  try {
    line();
  } catch (const lockstep::Error& error) {
    return error.what();
  }
  return "no error";
}
