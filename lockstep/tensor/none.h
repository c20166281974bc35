// Python's None.
#pragma once

#include <concepts>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/tensor/structure.h"

namespace lockstep {

class Json;
namespace ops {
struct SliceSpec;
}

// None where an argument may be None: an undefined tensor or structure, or what std::nullopt stands for.
//
//   attention(x, x, {.attention_mask = ls::None});
//   model.fit(x, y, {.batch_size = ls::None});
struct NoneType {
  operator Tensor() const { return {}; }
  template <std::same_as<Json> T>
  operator T() const {
    return T(nullptr);
  }
  template <typename T>
  requires(!std::same_as<T, Tensor> && !std::same_as<T, Json> && !std::same_as<T, ops::SliceSpec> &&
           !internal::kIsNested<T> && std::constructible_from<T, std::nullopt_t>)
  operator T() const {
    return T(std::nullopt);
  }
  // mask == ls::None in Python is `mask is None`.
  friend bool operator==(const Tensor& x, NoneType) { return !x.defined(); }
  friend bool operator==(const Nested<Tensor>& x, NoneType) { return !x.defined(); }
};
inline constexpr NoneType None = {};
// if (layer == ls::None), if (variable != ls::None): of handles, which may be empty.
template <typename T>
requires(!std::is_convertible_v<const T&, Nested<Tensor>> &&
         requires(const T& handle) {
           { handle.get() == nullptr } -> std::convertible_to<bool>;
         }) bool
operator==(const T& handle, NoneType) {
  return handle.get() == nullptr;
}
// if (best_weights == ls::None) of a list or dict that has no value yet: whether it is empty.
template <typename T>
bool operator==(const std::vector<T>& list, NoneType) {
  return list.empty();
}
template <typename Key, typename T>
bool operator==(const std::map<Key, T>& dict, NoneType) {
  return dict.empty();
}
inline bool operator==(const Tensor& x, std::nullopt_t) { return !x.defined(); }
inline bool operator==(const Nested<Tensor>& x, std::nullopt_t) { return !x.defined(); }
inline bool operator==(const Tensor& x, std::nullptr_t) { return !x.defined(); }
inline bool operator==(const Nested<Tensor>& x, std::nullptr_t) { return !x.defined(); }

}  // namespace lockstep
