// Values of options that Keras takes in more than one form.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
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

// An extent for each spatial axis; one number stands for all of them. Also of vectors, arrays and pairs of integers,
// and of a Shape.
struct Window {
  Window() = default;
  template <std::integral I>
  Window(I all) : values{static_cast<std::int64_t>(all)} {}
  Window(std::initializer_list<std::int64_t> list) : values(list) {}
  template <typename List>
  requires std::integral<typename List::value_type> Window(const List& list) : Window(list.begin(), list.end()) {}
  template <std::integral A, std::integral B>
  Window(const std::pair<A, B>& pair)
      : values{static_cast<std::int64_t>(pair.first), static_cast<std::int64_t>(pair.second)} {}
  template <typename S>
  requires std::same_as<decltype(std::declval<const S&>().dims()), const Ints&> Window(const S& shape)
      : values(shape.dims()) {}
  template <std::forward_iterator It>
  Window(It begin, It end) : values(begin, end) {}
  Ints values;
};

// The window by position, as in MaxPooling2D(2) and MaxPooling2D({2, 2}, {.strides = 1}), of a class that takes its
// options. Lists are template arguments, because GCC would take {.pool_size = 2} for a list of numbers.
#define LOCKSTEP_WINDOW_BY_POSITION(Class, Options, field)                  \
  template <std::convertible_to<Window> W>                                  \
  LayerHandle Class(const W& field, Options options = {}) {                 \
    options.field = field;                                                  \
    return Class(std::move(options));                                       \
  }                                                                         \
  template <std::integral I>                                                \
  LayerHandle Class(std::initializer_list<I> field, Options options = {}) { \
    return Class(Window(field.begin(), field.end()), std::move(options));   \
  }

// The first argument by position, as in Reshape({28, 28, 1}), of a class that takes its options. GCC ignores the names
// in
// {.target_shape = {28, 28, 1}} while it looks for constructors of the argument; of two functions that fit equally well
// it takes the one that is not a template.
#define LOCKSTEP_BY_POSITION(Class, Options, Type, field) \
  template <typename = void>                              \
  LayerHandle Class(Type field, Options options = {}) {   \
    options.field = std::move(field);                     \
    return Class(std::move(options));                     \
  }
// The same for the filters and the window of a convolution: Conv2D(32, {3, 3}), Conv2D(32, {.kernel_size = {3, 3}}).
#define LOCKSTEP_FILTERS_BY_POSITION(Class, Options)                                         \
  inline LayerHandle Class(std::int64_t filters, Options options) {                          \
    options.filters = filters;                                                               \
    return Class(std::move(options));                                                        \
  }                                                                                          \
  template <typename = void>                                                                 \
  LayerHandle Class(std::int64_t filters, keras::Window kernel_size, Options options = {}) { \
    options.kernel_size = std::move(kernel_size);                                            \
    return Class(filters, std::move(options));                                               \
  }

// A window, or None.
class OptionalWindow : public std::optional<Window> {
 public:
  OptionalWindow(std::nullopt_t = std::nullopt) {}
  OptionalWindow(std::initializer_list<std::int64_t> list) : std::optional<Window>(Window(list)) {}
  OptionalWindow(std::optional<Window> window) : std::optional<Window>(std::move(window)) {}
  template <std::convertible_to<Window> W>
  OptionalWindow(const W& window) : std::optional<Window>(window) {}
};

// Extents of a shape: a list of integers, or a Shape.
class Extents : public Ints {
 public:
  Extents() = default;
  Extents(std::initializer_list<std::int64_t> list) : Ints(list) {}
  Extents(Ints list) : Ints(std::move(list)) {}
  template <typename S>
  requires std::same_as<decltype(std::declval<const S&>().dims()), const Ints&> Extents(const S& shape)
      : Ints(shape.dims()) {}
};

// One axis, or several.
struct Axes : Ints {
  Axes(int axis) : Ints{axis} {}
  Axes(std::int64_t axis) : Ints{axis} {}
  Axes(std::initializer_list<std::int64_t> axes) : Ints(axes) {}
  Axes(Ints axes) : Ints(std::move(axes)) {}
};

}  // namespace lockstep::keras
