// Structures of values, as inputs, outputs, masks and elements of datasets come: one value, a list, or a dict.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/error.h"
#include "lockstep/base/list.h"

namespace lockstep {

[[noreturn]] void throw_wrong_size(std::size_t size, std::size_t wanted);
// Throws InvalidArgument: "<found> was given where <wanted> is needed".
[[noreturn]] void throw_wrong_structure(const char* found, const char* wanted);

class Dim;
class Leaves;
class Shape;
class ShapePart;
class Tensor;
class Values;
struct Range;
namespace ops {
class Axes;
struct AxisKeywords;
struct SliceSpec;
}  // namespace ops
template <typename T>
class Nested;

namespace internal {

// The parts of a list, or the rows of a tensor, between two indices.
Nested<Tensor> slice_of(const Nested<Tensor>& structure, const Range& range);

template <typename T>
inline constexpr bool kIsNested = false;
template <typename T>
inline constexpr bool kIsNested<Nested<T>> = true;
template <>
inline constexpr bool kIsNested<Leaves> = true;
// Whether a structure of T takes objects that convert to T as leaves.
template <typename T>
inline constexpr bool kTakesOthers = std::is_same_v<T, Tensor>;
// Objects that stand for a tensor: a variable for its value.
template <typename U, typename T>
concept StandsFor = kTakesOthers<T> && std::is_class_v<U> && !kIsNested<U> && !std::is_same_v<U, T> &&
                    std::is_convertible_v<const U&, T>;

// A part of a tuple: what converts to T, and a number as the tensor of it, next to one that converts.
template <typename U, typename T>
inline constexpr bool kIsPart = std::is_convertible_v<const U&, T> ||
                                (std::is_arithmetic_v<U> && std::is_same_v<T, Nested<Tensor>>);
// A pair, a tuple or an array whose parts convert to T.
template <typename U, typename T>
inline constexpr bool kPartsConvert = false;
template <typename A, typename B, typename T>
inline constexpr bool kPartsConvert<std::pair<A, B>, T> = kIsPart<A, T>&& kIsPart<B, T> &&
                                                          (std::is_convertible_v<const A&, T> ||
                                                           std::is_convertible_v<const B&, T>);
template <typename... Part, typename T>
inline constexpr bool kPartsConvert<std::tuple<Part...>, T> = (kIsPart<Part, T> && ...) &&
                                                              (std::is_convertible_v<const Part&, T> || ...);
template <typename Part, std::size_t N, typename T>
inline constexpr bool kPartsConvert<std::array<Part, N>, T> = std::is_convertible_v<const Part&, T>;
template <typename U, typename T>
concept PartsOf = kPartsConvert<U, T>;
// A std::map or std::unordered_map from strings to what converts to T.
template <typename U, typename T>
concept DictOf = requires {
  typename U::mapped_type;
}
&&std::is_same_v<typename U::key_type, std::string>&& std::is_convertible_v<const typename U::mapped_type&, T>;

}  // namespace internal

// A reduction of arrays, of a leaf that is a tensor: see tensor/axes.h.
#define LOCKSTEP_NESTED_REDUCTION(function)                                                \
  template <typename A = ops::Axes>                                                        \
  T function(const A& axis) const requires std::is_same_v<T, Tensor> {                     \
    return leaf().function(axis);                                                          \
  }                                                                                        \
  T function(const ops::AxisKeywords& keywords) const requires std::is_same_v<T, Tensor> { \
    return leaf().function(keywords);                                                      \
  }                                                                                        \
  T function() const requires std::is_same_v<T, Tensor> { return leaf().function(); }

// A leaf, a list of structures, or a dict of structures that keeps the order of insertion. flatten()
// visits lists in order and dicts by sorted key, as Keras does. A default one is a default leaf.
template <typename T>
class Nested {
 public:
  using List = std::vector<Nested>;
  using Dict = std::vector<std::pair<std::string, Nested>>;
  // Rows of tensors and extents of shapes are values.
  using OwnItem = std::conditional_t<std::is_same_v<T, Shape>, ShapePart, Nested>;
  using Item = std::conditional_t<std::is_same_v<T, Tensor> || std::is_same_v<T, Shape>, OwnItem, const Nested&>;

  Nested();
  Nested(const Nested& other);
  Nested(Nested&& other) noexcept;
  Nested& operator=(const Nested& other);
  Nested& operator=(Nested&& other);
  ~Nested();
  Nested(T leaf);
  template <internal::StandsFor<T> U>
  Nested(const U& leaf) : Nested(static_cast<T>(leaf)) {}
  // A shape: model.build({kUnknownDim, 4}).
  Nested(std::initializer_list<std::int64_t> dims) requires std::is_same_v<T, Shape> : Nested(T(dims)) {}
  template <typename D = Dim>
  Nested(std::initializer_list<std::type_identity_t<D>> dims) requires std::is_same_v<T, Shape> : Nested(T(dims)) {}
  // Lists and dicts of the standard library, as functions return them: a vector, std::pair{x, y}, a map. Numbers or
  // strings in vectors of vectors are one tensor.
  template <typename U>
  requires(std::is_class_v<U>&& std::is_convertible_v<const U&, Nested> && !internal::StandsFor<std::vector<U>, T>)
      Nested(const std::vector<U>& parts)
      : Nested(list(List(parts.begin(), parts.end()))) {}
  template <internal::PartsOf<Nested<T>> U>
  Nested(const U& parts)
      : Nested(list(std::apply([](const auto&... part) { return List{of_part(part)...}; }, parts))) {}
  template <internal::DictOf<Nested<T>> U>
  Nested(const U& parts) {
    Dict dict;
    for (const auto& [name, value] : parts) dict.emplace_back(name, value);
    *this = Nested::dict(std::move(dict));
  }
  Nested(std::initializer_list<Nested> items);
  // A dict: {{"title", a}, {"body", b}}.
  struct Entry;
  Nested(std::initializer_list<Entry> entries);
  static Nested list(List items);
  static Nested dict(Dict items);

  bool is_leaf() const { return !parts_ || !(is_list() || is_dict()); }
  bool is_list() const;
  bool is_dict() const;

  // Throw InvalidArgument when the structure is of another kind. Of a temporary, here and below, they return values, so
  // that `const Tensor& y = layer(x)` and `for (auto& part : layer(x).parts())` refer to living objects.
  const T& leaf() const&;
  const List& parts() const&;
  const Dict& entries() const&;
  T& leaf() & { return const_cast<T&>(std::as_const(*this).leaf()); }
  List& parts() & { return const_cast<List&>(std::as_const(*this).parts()); }
  Dict& entries() & { return const_cast<Dict&>(std::as_const(*this).entries()); }
  T leaf() && { return std::move(leaf()); }
  List parts() &&;
  Dict entries() &&;
  // for (const auto& [name, value] : dict.items()).
  const Dict& items() const& { return entries(); }
  Dict items() && { return std::move(*this).entries(); }
  operator T() const { return leaf(); }
  // std::tie(x, state) = cell(x, state): of a list of as many parts.
  template <typename... U>
  requires(std::is_same_v<T, Tensor> && sizeof...(U) > 1 && ((std::is_same_v<U, T> || std::is_same_v<U, Nested>)&&...))
  operator std::tuple<U&...>() const {
    return tied<U...>(std::index_sequence_for<U...>());
  }
  // float(y), int(y), …: of a tensor of one element.
  template <typename U>
  requires(std::is_arithmetic_v<U>&& std::is_class_v<T>&& std::is_constructible_v<U, const T&>) explicit operator U()
      const {
    return static_cast<U>(leaf());
  }
  template <std::same_as<std::string> U>
  requires std::is_same_v<T, Tensor>
  explicit operator U() const { return static_cast<U>(leaf()); }

  // Of a leaf that is a tensor, as layers return it: layer(x).shape(). Throw InvalidArgument for others.
  const Shape& shape() const& requires std::is_same_v<T, Tensor> { return leaf().shape(); }
  auto shape() && requires std::is_same_v<T, Tensor> { return leaf().shape(); }
  auto dtype() const requires std::is_same_v<T, Tensor> { return leaf().dtype(); }
  // Of a leaf that describes a tensor: dataset.element_spec()[0].shape().
  template <typename U = T>
  requires(!std::is_same_v<U, Tensor>) auto shape() const { return static_cast<const U&>(leaf()).shape; }
  template <typename U = T>
  requires(!std::is_same_v<U, Tensor>) auto dtype() const { return static_cast<const U&>(leaf()).dtype; }
  T mask() const requires std::is_same_v<T, Tensor> { return leaf().mask(); }
  std::string name() const requires std::is_same_v<T, Tensor> { return leaf().name(); }
  T numpy() const requires std::is_same_v<T, Tensor> { return leaf().numpy(); }
  // Of a ragged value, as layers and datasets give them; see RaggedTensor.
  T to_tensor() const requires std::is_same_v<T, Tensor> { return leaf().to_tensor(); }
  auto to_list() const requires std::is_same_v<T, Tensor> { return leaf().to_list(); }
  // Members of arrays, of a leaf that is a tensor: model.predict(x).argmax(1).
  T reshape(std::initializer_list<std::int64_t> extents) const requires std::is_same_v<T, Tensor> {
    return leaf().reshape(std::vector<std::int64_t>(extents));
  }
  template <typename... Extents>
  T reshape(const Extents&... extents) const requires std::is_same_v<T, Tensor> {
    return leaf().reshape(extents...);
  }
  T argmax(std::optional<int> axis = std::nullopt) const requires std::is_same_v<T, Tensor> {
    return leaf().argmax(axis);
  }
  T argmin(std::optional<int> axis = std::nullopt) const requires std::is_same_v<T, Tensor> {
    return leaf().argmin(axis);
  }
  T squeeze(std::optional<int> axis = std::nullopt) const requires std::is_same_v<T, Tensor> {
    return leaf().squeeze(axis);
  }
  LOCKSTEP_NESTED_REDUCTION(sum)
  LOCKSTEP_NESTED_REDUCTION(mean)
  LOCKSTEP_NESTED_REDUCTION(std)
  LOCKSTEP_NESTED_REDUCTION(var)
  LOCKSTEP_NESTED_REDUCTION(max)
  LOCKSTEP_NESTED_REDUCTION(min)
#undef LOCKSTEP_NESTED_REDUCTION
  template <typename Low, typename High>
  T clip(Low min, High max) const requires std::is_same_v<T, Tensor> {
    return leaf().clip(min, max);
  }
  T astype(DTypeLike dtype) const requires std::is_same_v<T, Tensor> { return leaf().astype(dtype); }
  // Pieces of a list or of a leaf that is a tensor: outputs[{1, {}}], model.predict(x)[{0, 3}],
  // model.predict(x).index({all, 0}).
  Nested operator[](const Range& range) const requires std::is_same_v<T, Tensor> {
    return internal::slice_of(*this, range);
  }
  // Extents of a leaf that is a shape: input_shape[{1, {}}].
  template <typename S = Shape>
  requires std::is_same_v<T, S> S operator[](const typename S::Axes& axes) const { return leaf()[axes]; }
  T index(std::initializer_list<ops::SliceSpec> entries) const requires std::is_same_v<T, Tensor> {
    return leaf().index(entries);
  }

  template <typename U>
  requires(std::is_same_v<T, Tensor>&& std::is_class_v<U>&& std::is_convertible_v<const U&, T>) T operator[](
      const U& entries) const {
    return leaf()[entries];
  }
  // False for "nothing": a leaf that is an undefined tensor.
  bool defined() const requires std::is_same_v<T, Tensor> { return is_list() || is_dict() || leaf().defined(); }
  // The single element of a leaf that is a tensor; all of its elements.
  template <typename U>
  U item() const requires std::is_same_v<T, Tensor> {
    return leaf().template item<U>();
  }
  auto item() const requires std::is_same_v<T, Tensor> { return leaf().item(); }
  template <typename U>
  std::vector<U> to_vector() const requires std::is_same_v<T, Tensor> {
    return leaf().template to_vector<U>();
  }

  // Entries of a list or a dict; 1 for a leaf.
  std::size_t size() const;
  // for (const auto& part : nested): the parts of a list, or the rows of a leaf that is a tensor. Throws
  // InvalidArgument for others.
  class Iterator;
  Iterator begin() const;
  Iterator end() const;
  // An element of a list, the entry of a dict, a row of a leaf that is a tensor, or the extent of an axis of a leaf
  // that is a shape: input_shape[-1]. Negative indices count from the end.
  Item operator[](std::int64_t index) const& {
    if constexpr (std::is_same_v<T, Tensor>) {
      if (is_leaf()) return leaf()[index];
    } else if constexpr (std::is_same_v<T, Shape>) {
      if (is_leaf()) return leaf()[static_cast<int>(index)];
    }
    return item(index);
  }
  // A template, because {0, 3} would also be a string.
  template <std::convertible_to<std::string_view> Key>
  const Nested& operator[](const Key& key) const& {
    return at(key);
  }
  // Of a variable also to assign to: features["x"] = …, which adds the entry to a dict, or to an undefined tensor,
  // which becomes one. Reading an entry that does not exist throws NotFound.
  template <std::convertible_to<std::string_view> Key>
  Nested& operator[](const Key& key) & {
    return entry_to_assign(key);
  }
  OwnItem operator[](std::int64_t index) && { return std::as_const(*this)[index]; }
  template <std::convertible_to<std::string_view> Key>
  Nested operator[](const Key& key) && {
    return at(key);
  }
  Nested at(std::string_view key) && { return std::as_const(*this).at(key); }
  const Nested& at(std::string_view key) const& { return entry(key); }
  const Nested* find(std::string_view key) const&;
  // Python's `key in features`, features.keys() and features.values() of a dict. Throw InvalidArgument for others.
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  lockstep::List<std::string> keys() const;
  List values() const;
  // Removes the entry and returns it. Throws NotFound.
  Nested pop(std::string_view key);
  // Adds the entries of a dict to this one, in the place of those of the same names.
  void update(const Nested& dict);

  // const auto& [x, y] = element: the parts of a list of two. Throws InvalidArgument for others.
  template <std::size_t I>
  const Nested& get() const& {
    return part_of(I, 2);
  }
  template <std::size_t I>
  Nested get() && {
    return std::as_const(*this).template get<I>();
  }
  // const auto [x, y, sample_weight] = element.parts<3>(): the parts of a list of N. Throws InvalidArgument for others.
  // Of a leaf that is a shape, its extents: const auto [batch, steps, units] = input_shape.parts<3>().
  template <std::size_t N>
  std::array<OwnItem, N> parts() const {
    return parts_in_order(std::make_index_sequence<N>());
  }

  // Of tensors: a vector of them which, of one tensor, is also what NumPy's flatten() gives: see Leaves.
  std::conditional_t<std::is_same_v<T, Tensor>, Leaves, std::vector<T>> flatten() const;
  // Calls fn on each leaf in the order of flatten().
  void visit(const std::function<void(const T&)>& fn) const;
  std::size_t num_leaves() const;

  // The same structure with fn's results, called in the order of flatten().
  template <typename Fn>
  auto map(Fn fn) const -> Nested<decltype(fn(std::declval<const T&>()))> {
    using R = decltype(fn(std::declval<const T&>()));
    if (is_leaf()) return Nested<R>(fn(leaf()));
    if (is_list()) {
      typename Nested<R>::List out;
      for (const Nested& item : parts()) out.push_back(item.map(fn));
      return Nested<R>::list(std::move(out));
    }
    typename Nested<R>::Dict out(entries().size());
    for (const auto* entry : sorted_entries()) {
      const auto index = static_cast<std::size_t>(entry - entries().data());
      out[index] = {entry->first, entry->second.map(fn)};
    }
    return Nested<R>::dict(std::move(out));
  }
  // This structure with other leaves, given in the order of flatten(). Throws InvalidArgument when their
  // number differs.
  template <typename R>
  Nested<R> pack(const std::vector<R>& leaves) const {
    if (leaves.size() != num_leaves()) {
      throw_invalid_argument("a structure of " + std::to_string(num_leaves()) + " values was given " +
                             std::to_string(leaves.size()));
    }
    std::size_t next = 0;
    return map([&](const T&) { return leaves[next++]; });
  }

 private:
  template <typename... U, std::size_t... I>
  std::tuple<U&...> tied(std::index_sequence<I...>) const {
    if (parts().size() != sizeof...(U)) throw_wrong_structure("a list of another length", "as many parts as variables");
    const auto part = [&]<typename P>(std::type_identity<P>, const Nested& each) -> P& {
      if constexpr (std::is_same_v<P, T>) {
        return const_cast<P&>(each.leaf());
      } else {
        return const_cast<P&>(each);
      }
    };
    return {part(std::type_identity<U>(), parts()[I])...};
  }
  // A part of a tuple of the standard library, which may be a number.
  template <typename Part>
  static Nested of_part(const Part& part) {
    if constexpr (std::is_convertible_v<const Part&, Nested>) {
      return part;
    } else {
      return Nested(T(part));
    }
  }
  struct Parts;
  const Nested& item(std::int64_t index) const;
  const Nested& entry(std::string_view key) const;
  Nested& entry_to_assign(std::string_view key);
  // Throws NotFound for an entry that was asked for and does not exist; returns what was assigned to it.
  const Nested& present() const;
  // Throws InvalidArgument unless this is a list of `size`.
  const Nested& part_of(std::size_t index, std::size_t size) const;
  template <std::size_t... I>
  std::array<OwnItem, sizeof...(I)> parts_in_order(std::index_sequence<I...>) const {
    if constexpr (std::is_same_v<T, Shape>) {
      if (is_leaf()) {
        const auto extents = leaf().template parts<sizeof...(I)>();
        return {OwnItem(extents[I])...};
      }
    }
    return {OwnItem(part_of(I, sizeof...(I)))...};
  }
  std::vector<const std::pair<std::string, Nested>*> sorted_entries() const;

  T leaf_{};
  std::unique_ptr<Parts> parts_;  // of a list or a dict
};

template <typename T>
class Nested<T>::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Nested;
  using difference_type = std::ptrdiff_t;
  using pointer = const Nested*;
  using reference = const Nested&;
  const Nested& operator*() const { return rows_ ? row_ : rows_or_list_->parts()[static_cast<std::size_t>(place_)]; }
  const Nested* operator->() const { return &**this; }
  Iterator& operator++();
  Iterator operator++(int) {
    Iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Iterator& a, const Iterator& b) { return a.place_ == b.place_; }

 private:
  friend class Nested;
  Iterator(const Nested& rows_or_list, std::int64_t place);

  const Nested* rows_or_list_;
  std::int64_t place_;
  bool rows_;
  Nested row_;
};

template <typename T>
struct Nested<T>::Entry {
  Entry(std::string name, Nested value) : name(std::move(name)), value(std::move(value)) {}
  // Numbers or strings in braces, of structures of tensors: {{"a", {1, 2}}, {"b", {3, 4}}}. See tensor/structure.h.
  Entry(std::string name, std::initializer_list<Values> values);
  // One number or text: {{"age", 60}, {"sex", "female"}}.
  template <typename U>
  requires(std::is_same_v<T, Tensor>&& std::is_arithmetic_v<U>) Entry(std::string name, U number)
      : Entry(std::move(name), Nested(T(number))) {}
  template <typename U>
  requires(std::is_same_v<T, Tensor>&& std::is_convertible_v<const U&, std::string>)
      Entry(std::string name, const U& text)
      : Entry(std::move(name), Nested(T::strings({std::string(text)}, {}))) {}
  std::string name;
  Nested value;
};

}  // namespace lockstep

#include "lockstep/base/nested_members.h"

template <typename T>
struct std::tuple_size<lockstep::Nested<T>> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I, typename T>
struct std::tuple_element<I, lockstep::Nested<T>> {
  using type = lockstep::Nested<T>;
};
