#include "lockstep/tensor/structure.h"

#include <algorithm>

namespace lockstep {

template class Nested<Tensor>;
template class Nested<Shape>;

template <>
Nested<Shape>::Entry::Entry(std::string name, std::initializer_list<Values> values)
    : name(std::move(name)), value(Shape(Tensor(values).astype(DType::kInt64).to_vector<std::int64_t>())) {}

namespace internal {

Nested<Tensor> slice_of(const Nested<Tensor>& structure, const Range& range) {
  if (structure.is_leaf()) return structure.leaf()[range];
  const std::vector<Nested<Tensor>>& parts = structure.parts();
  const auto count = static_cast<std::int64_t>(parts.size());
  const auto known = [](const Place& place, std::int64_t other) {
    if (!place.has_value()) return other;
    if (!place.number()) throw_invalid_argument("the bounds of a slice of a list must be known numbers");
    return *place.number();
  };
  const std::int64_t step = range.step;
  if (step == 0) throw_invalid_argument("a slice of a list has step 0");
  // The first and the last place that a step reaches, as Python clamps them.
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
  const auto place = [&](const Place& given, std::int64_t other) {
    const std::int64_t number = known(given, other);
    if (!given.has_value()) return number;
    return std::clamp(number < 0 ? number + count : number, low, high);
  };
  const std::int64_t begin = place(range.begin, step > 0 ? low : high), end = place(range.end, step > 0 ? high : low);
  std::vector<Nested<Tensor>> chosen;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step)
    chosen.push_back(parts[static_cast<std::size_t>(i)]);
  return Nested<Tensor>::list(std::move(chosen));
}

}  // namespace internal

}  // namespace lockstep
