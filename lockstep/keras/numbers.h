// Values of options that Keras takes in more than one form.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace lockstep::keras {

using Ints = std::vector<std::int64_t>;

// A number that remembers whether it was written as an integer, as Python's configs do.
struct Number {
  Number() = default;
  Number(double v) : value(v) {}
  Number(int v) : value(v), integer(true) {}
  Number(std::int64_t v) : value(static_cast<double>(v)), integer(true) {}
  operator double() const { return value; }
  double value = 0;
  bool integer = false;
};

// An extent for each spatial axis; one number stands for all of them.
struct Window {
  Window() = default;
  Window(int all) : values{all} {}
  Window(std::int64_t all) : values{all} {}
  Window(std::initializer_list<std::int64_t> list) : values(list) {}
  Window(Ints list) : values(std::move(list)) {}
  Ints values;
};

// One axis, or several.
struct Axes : Ints {
  Axes(int axis) : Ints{axis} {}
  Axes(std::int64_t axis) : Ints{axis} {}
  Axes(std::initializer_list<std::int64_t> axes) : Ints(axes) {}
  Axes(Ints axes) : Ints(std::move(axes)) {}
};

}  // namespace lockstep::keras
