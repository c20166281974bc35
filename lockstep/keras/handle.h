// Base of the handles by which losses, metrics, optimizers, layers and the like are held.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <type_traits>
#include <typeindex>
#include <utility>

namespace lockstep::keras {

// Throws FailedPrecondition.
[[noreturn]] void throw_empty_handle(std::type_index type);

// A shared pointer whose object is used like a value: copies of a handle are the same object. The handles that derive
// from it have the object's functions, called with a dot; the object's other members are reached by ->. A handle that
// was default-constructed or moved from is empty: using its object throws FailedPrecondition.
template <typename T>
class Handle : public std::shared_ptr<T> {
 public:
  Handle() = default;
  Handle(std::nullptr_t) {}
  Handle(std::nullopt_t) {}  // None, as in: regularize ? regularizers::l2(0.1) : ls::None
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  Handle(std::shared_ptr<U> object) : std::shared_ptr<T>(std::move(object)) {}
  // An object of a user-defined class, which is moved: MetricPtr metric = MyMetric().
  template <std::derived_from<T> U>
  requires(std::is_object_v<U> && !std::is_const_v<U> && std::is_move_constructible_v<U>) Handle(U&& object)
      : std::shared_ptr<T>(std::make_shared<U>(std::move(object))) {}

  // Explains why an object whose class cannot be moved, such as a layer, is not taken.
  template <typename U>
  requires(std::derived_from<std::remove_cvref_t<U>, T> && !std::is_move_constructible_v<std::remove_cvref_t<U>>)
      Handle(U&&) {
    static_assert(
        sizeof(U) == 0,
        "objects of this class cannot be moved: make a layer with keras::make_layer<MyLayer>(...), another object "
        "with std::make_shared<MyClass>(...)");
  }

  T* operator->() const { return &object(); }
  T& operator*() const { return object(); }

 protected:
  T& object() const {
    if (!this->get()) throw_empty_handle(typeid(T));
    return *this->get();
  }
};

}  // namespace lockstep::keras
