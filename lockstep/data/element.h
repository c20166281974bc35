// Elements of a Dataset, and the functions of them that its transformations take.
#pragma once

#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include "lockstep/base/require_function.h"
#include "lockstep/tensor/structure.h"

namespace lockstep::data {

// A tensor, a tuple of elements ({x, y}: element[0], element[1]) or a dict (element.at("name")).
using Element = Nested<Tensor>;

// Rows of ragged tensors are variants within datasets, so that batches of them are ragged. Functions and loops get them
// as tensors, unless they are ragged themselves.
bool has_ragged(const Element& element);
Element with_plain_rows(const Element& element);

namespace internal {

template <std::size_t, typename T>
using Repeated = T;
// Whether Fn can be called with this many parts of an element, each a T.
template <typename Fn, typename T, std::size_t... I>
constexpr bool takes_parts(std::index_sequence<I...>) {
  return std::is_invocable_v<Fn&, Repeated<I, const T&>...>;
}
template <typename Fn, typename T, std::size_t N>
inline constexpr bool kTakesParts = takes_parts<Fn, T>(std::make_index_sequence<N>());
// Whether the types of Fn's parameters are known: of functions and of lambdas without `auto`.
template <typename Fn>
inline constexpr bool kHasTypes = std::is_pointer_v<Fn> || requires {
  &Fn::operator();
};

// Throws InvalidArgument for a part that is a list or a dict.
void require_tensor(const Element& part, std::size_t place);

template <typename Result, std::size_t... I, typename Fn>
std::function<Result(const Element&)> function_of_parts(Fn fn, std::index_sequence<I...>) {
  return [fn = std::move(fn)](const Element& e) mutable -> Result {
    const auto parts = has_ragged(e) ? with_plain_rows(e).parts<sizeof...(I)>() : e.parts<sizeof...(I)>();
    if constexpr (kHasTypes<Fn> && kTakesParts<Fn, Element, sizeof...(I)>) {
      return fn(parts[I]...);
    } else {
      (require_tensor(parts[I], I), ...);
      return fn(parts[I].leaf()...);
    }
  };
}

// The number of parts that Fn takes, from N on; 0 for none up to 16.
template <typename Fn, std::size_t N = 2>
constexpr std::size_t number_of_parts() {
  if constexpr (N > 16) {
    return 0;
  } else if constexpr (kTakesParts<Fn, Tensor, N>) {
    return N;
  } else {
    return number_of_parts<Fn, N + 1>();
  }
}

// Functions may take the element, or the parts that it consists of, at most 16; parts that are dicts or tuples
// themselves as `const Element&`.
template <typename Result, typename Fn>
std::function<Result(const Element&)> element_function(Fn fn) {
  require_function(fn, "Dataset: a transformation by a function");
  if constexpr (std::is_invocable_v<Fn&, const Element&>) {
    static_assert(
        std::is_invocable_r_v<Result, Fn&, const Element&>,
        "the function must return a Tensor or an Element for Dataset.map, a bool for filter and take_while, a "
        "Dataset for flat_map and interleave, an integer for group_by_window and bucket_by_sequence_length");
    return [fn = std::move(fn)](const Element& e) mutable -> Result {
      return has_ragged(e) ? fn(with_plain_rows(e)) : fn(e);
    };
  } else {
    constexpr std::size_t kParts = number_of_parts<Fn>();
    static_assert(kParts > 0,
                  "Dataset.map, filter, take_while, flat_map, interleave: the function must take the element, (const "
                  "Element& element) or (const Tensor& x), or its two to 16 parts, (const Tensor& x, const Tensor& y)");
    return function_of_parts<Result>(std::move(fn), std::make_index_sequence<kParts>());
  }
}

}  // namespace internal

}  // namespace lockstep::data
