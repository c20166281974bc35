// What lines of programs give: numbers, or the message of an error.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"

using Numbers = std::vector<double>;
inline Numbers numbers(const lockstep::Tensor& x) {
  return lockstep::ops::cast(x, lockstep::float64).to_vector<double>();
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
