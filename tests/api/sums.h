// Tensors compared by two sums of their elements, and gradients of functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

struct ExpectedSums {
  std::string name;
  lockstep::Tensor value;
  double sum, weighted;  // of absolute values; of values times 1, 2, ..., 7, 1, 2, ...
};

inline void expect_sums(const std::vector<ExpectedSums>& rows) {
  for (const ExpectedSums& row : rows) {
    const Numbers values = numbers(lockstep::ops::reshape(row.value, {-1}));
    double sum = 0, weighted = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += std::abs(values[i]);
      weighted += values[i] * static_cast<double>(i % 7 + 1);
    }
    EXPECT_NEAR(sum, row.sum, 2e-5 * std::max(1.0, row.sum)) << row.name;
    EXPECT_NEAR(weighted, row.weighted, 4e-5 * std::max(1.0, row.sum)) << row.name;
  }
}

// Of the sum of the squares of what the function returns.
template <typename Fn>
lockstep::Tensor gradient_of_squares(const lockstep::Tensor& point, Fn fn) {
  const lockstep::Tensor at = point + 0.0;  // another tensor than those that fn uses
  lockstep::GradientTape tape;
  tape.watch(at);
  const lockstep::Tensor loss = lockstep::ops::reduce_sum(lockstep::ops::square(fn(at)));
  return tape.gradient(loss, at);
}
