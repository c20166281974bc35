// What lines of programs give: numbers, or the message of an error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"

using Numbers = std::vector<double>;
inline Numbers numbers(const lockstep::Tensor& x) {
  return lockstep::ops::cast(x, lockstep::float64).to_vector<double>();
}

inline std::string error_of(const std::function<void()>& line) {
  try {
    line();
  } catch (const lockstep::Error& error) {
    return error.what();
  }
  return "no error";
}
