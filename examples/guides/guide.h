// Shared by the guides. Each guide is the C++ form of the Python program of the same name in this folder, line by line;
// both print the same numbers (tests/judged/test_guides.py).
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

// np.sin(step * np.arange(n)) in this shape: data without files or random numbers.
inline ls::Tensor waves(const ls::Shape& shape, double step) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < *shape.num_elements(); ++i)
    values.push_back(static_cast<float>(std::sin(step * static_cast<double>(i))));
  return ls::Tensor::from_vector(values, shape);
}

// np.arange(n) * factor % classes: integer labels.
inline ls::Tensor labels(std::int64_t n, std::int64_t classes, std::int64_t factor = 1) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<std::int32_t>(i * factor % classes));
  return ls::Tensor::from_vector(values);
}

inline void report(const std::string& name, double value) { std::printf("%s %.9g\n", name.c_str(), value); }
inline void report(const std::string& name, const ls::Tensor& value) { report(name, value.item<double>()); }
