// Python's zip and enumerate of lists.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/list.h"

#include "lockstep/base/error.h"

namespace lockstep {

// Pairs, also as pairs of what their parts convert to: apply_gradients(zip(accumulators, variables)) of variables that
// hold gradients.
template <typename A, typename B>
class Pairs : public std::vector<std::pair<A, B>> {
 public:
  using std::vector<std::pair<A, B>>::vector;
  template <typename C, typename D>
  requires(!(std::is_same_v<A, C> && std::is_same_v<B, D>)&&std::is_convertible_v<const A&, C> &&
           std::is_convertible_v<const B&, D>)
  operator std::vector<std::pair<C, D>>() const {
    std::vector<std::pair<C, D>> out;
    for (const auto& [a, b] : *this) out.emplace_back(static_cast<C>(a), static_cast<D>(b));
    return out;
  }
};

// for (const auto& [variable, gradient] : zip(variables, gradients)): as many pairs as the shorter list has items.
template <typename A, typename B>
Pairs<A, B> zip(const std::vector<A>& a, const std::vector<B>& b) {
  Pairs<A, B> pairs;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) pairs.emplace_back(a[i], b[i]);
  return pairs;
}

// zip({w, b}, gradients)
template <typename A, typename B>
auto zip(std::initializer_list<A> a, const B& b) {
  return zip(std::vector<A>(a), b);
}

// The same of tensors, whose rows are the items, of structures and of other ranges.
template <typename T>
concept IsVector = requires(const T& items) {
  []<typename I>(const std::vector<I>&) {}(items);
};
template <typename A, typename B>
requires(!IsVector<A> || !IsVector<B>) auto zip(const A& a, const B& b) {
  std::vector<std::pair<std::remove_cvref_t<decltype(*a.begin())>, std::remove_cvref_t<decltype(*b.begin())>>> pairs;
  auto left = a.begin();
  auto right = b.begin();
  for (; !(left == a.end()) && !(right == b.end()); ++left, ++right) pairs.emplace_back(*left, *right);
  return pairs;
}

// The same of three lists or more.
template <typename... Ranges>
requires(sizeof...(Ranges) > 2) auto zip(const Ranges&... ranges) {
  std::vector<std::tuple<std::remove_cvref_t<decltype(*ranges.begin())>...>> items;
  const auto add = [&](auto... at) {
    for (; (!(at == ranges.end()) && ...); (++at, ...)) items.emplace_back(*at...);
  };
  add(ranges.begin()...);
  return items;
}

namespace python::itertools {

// itertools.product: one item of each list, in all combinations; the last list changes first.
//   for (const auto& [units, rate] : product(all_units, rates))
inline std::vector<std::tuple<>> product() { return {{}}; }
template <typename A, typename... More>
std::vector<std::tuple<A, More...>> product(const std::vector<A>& first, const std::vector<More>&... more) {
  std::vector<std::tuple<A, More...>> items;
  const auto others = product(more...);
  for (const A& item : first)
    for (const auto& other : others) items.push_back(std::tuple_cat(std::tuple<A>(item), other));
  return items;
}

}  // namespace python::itertools

// min(history.history["val_loss"]). Throw InvalidArgument for an empty list.
template <typename T>
requires std::is_arithmetic_v<T> T min(const std::vector<T>& numbers) {
  if (numbers.empty()) throw_invalid_argument("min of an empty list");
  return *std::min_element(numbers.begin(), numbers.end());
}
template <typename T>
requires std::is_arithmetic_v<T> T max(const std::vector<T>& numbers) {
  if (numbers.empty()) throw_invalid_argument("max of an empty list");
  return *std::max_element(numbers.begin(), numbers.end());
}

// Python's sorted(): the items of a list or another range, in ascending order; of a dict the keys. Pairs whose second
// parts have no order, as those of items(), are sorted by the first.
template <typename Range>
auto sorted(const Range& items) {
  if constexpr (requires { items.keys(); }) {
    return sorted(items.keys());
  } else {
    List<std::remove_cvref_t<decltype(*items.begin())>> out(items.begin(), items.end());
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
      if constexpr (
          requires {
            { a.second < b.second } -> std::convertible_to<bool>;
          } ||
          !requires { a.first < b.first; }) {
        return a < b;
      } else {
        return a.first < b.first;
      }
    });
    return out;
  }
}

// Python's reversed(), and items[::-1] of a list.
template <typename Range>
auto reversed(const Range& items) {
  List<std::remove_cvref_t<decltype(*items.begin())>> out(items.begin(), items.end());
  std::reverse(out.begin(), out.end());
  return out;
}

// for (const auto& [i, row] : enumerate(rows)): the items of a range, with their numbers from `start`.
template <typename T>
std::vector<std::pair<std::int64_t, T>> enumerate(std::initializer_list<T> items, std::int64_t start = 0) {
  std::vector<std::pair<std::int64_t, T>> pairs;
  for (const T& item : items) pairs.emplace_back(start++, item);
  return pairs;
}
template <typename A>
auto enumerate(const A& items, std::int64_t start = 0) {
  std::vector<std::pair<std::int64_t, std::remove_cvref_t<decltype(*items.begin())>>> pairs;
  for (auto item = items.begin(); !(item == items.end()); ++item) pairs.emplace_back(start++, *item);
  return pairs;
}

// ls::next(ls::iter(dataset)); without the namespace iter(dataset) is found, too. Throws OutOfRange at the end.
template <typename D>
requires requires(const D& dataset) { dataset.begin().get_next_as_optional(); }
auto iter(const D& dataset) { return dataset.begin(); }
template <typename I>
requires requires(I& iterator) { iterator.get_next_as_optional(); }
auto next(I&& iterator) { return *iterator++; }

}  // namespace lockstep
