// What predict() returns.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/keras/nested.h"

namespace lockstep::keras {
class Predictions;
}

template <>
inline constexpr bool lockstep::internal::kIsNested<lockstep::keras::Predictions> = true;

namespace lockstep::keras {

// The outputs, in their structure. Of one output it has the members of NumPy's arrays: model.predict(x).std().
class Predictions : public Structure {
 public:
  Predictions(Structure outputs) : Structure(std::move(outputs)) {}
  // states = {h, c};
  template <std::convertible_to<Structure>... More>
  requires(sizeof...(More) > 0) Predictions(const Structure& first, const More&... more)
      : Structure(Structure::list({first, more...})) {}

  // preds = ops::argmax(preds, -1);
  Predictions& operator=(const Tensor& other) {
    Structure::operator=(Structure(other));
    return *this;
  }

  int ndim() const { return leaf().ndim(); }
  template <typename D>
  Tensor astype(const D& dtype) const {
    return leaf().astype(dtype);
  }
  Tensor ravel() const { return leaf().ravel(); }
  Tensor copy() const { return leaf().copy(); }
  Tensor transpose() const { return leaf().transpose(); }
  Tensor T() const { return leaf().transpose(); }
  template <typename T>
  T item() const {
    return leaf().item<T>();
  }
  template <typename T>
  std::vector<T> to_vector() const {
    return leaf().to_vector<T>();
  }
};

}  // namespace lockstep::keras

// const auto [a, b] = model.predict(x), of a model with two outputs.
template <>
struct std::tuple_size<lockstep::keras::Predictions> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::keras::Predictions> {
  using type = lockstep::keras::Structure;
};
