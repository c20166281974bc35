// Which axes a reduction is over.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"

namespace lockstep::ops {

using Ints = std::vector<std::int64_t>;

// Which axes to reduce: 0, {0, 1}, Ints; nullopt: all of them.
class Axes : public std::optional<Ints> {
 public:
  Axes(std::nullopt_t = std::nullopt) {}
  Axes(int axis) : std::optional<Ints>(Ints{axis}) {}
  Axes(std::initializer_list<std::int64_t> axes) : std::optional<Ints>(Ints(axes)) {}
  Axes(Ints axes) : std::optional<Ints>(std::move(axes)) {}
  Axes(std::optional<Ints> axes) : std::optional<Ints>(std::move(axes)) {}
};

// The keyword arguments of reductions: reduce_sum(x, {.axis = 1, .keepdims = true}).
struct AxisKeywords {
  FieldNamesOnly names_only = {};
  Axes axis = std::nullopt;
  bool keepdims = false;
};

}  // namespace lockstep::ops
