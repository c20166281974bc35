// Keras objects as JSON, and arguments that take an object, its name or its config.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/base/json.h"
#include "lockstep/base/require_function.h"

namespace lockstep::keras {

// {"module": …, "class_name": …, "config": …, "registered_name": null}, as Keras 3 writes its own classes.
Json object_config(std::string_view module, std::string_view class_name, Json config);

// Identifies an object in a file: the form above, Keras 2's {"class_name", "config"}, or a function
// {"class_name": "function", "config": name}.
struct ObjectConfig {
  std::string module;      // empty in the Keras 2 form
  std::string class_name;  // Keras 2's "Custom>Adam" without its package
  Json config;
  std::string registered_name;  // "Package>Name" of a registered class
};
// Empty when `value` is not an object of this kind.
std::optional<ObjectConfig> parse_object_config(const Json& value);

namespace detail {
template <typename Signature>
struct Callable;
template <typename R, typename... Args>
struct Callable<R(Args...)> {
  template <typename F>
  static constexpr bool accepts = std::is_invocable_r_v<R, F&, Args...>;
};
template <typename T>
struct FunctionOf {
  using Pointer = void (*)();
};
template <typename T>
requires requires { typename T::KerasFunction; }
struct FunctionOf<T> {
  using Pointer = typename T::KerasFunction*;
};
}  // namespace detail

// Whether Keras takes the function F for an object of kind T. Such a T has
//   using KerasFunction = …;
//   static std::shared_ptr<T> of_function(std::function<KerasFunction> function);
template <typename F, typename T>
concept FunctionFor = requires {
  typename T::KerasFunction;
}
&&detail::Callable<typename T::KerasFunction>::template accepts<std::remove_reference_t<F>> &&
    !std::is_convertible_v<F, std::shared_ptr<T>> && !std::is_base_of_v<T, std::remove_cvref_t<F>> &&
    !std::is_same_v<std::decay_t<F>, typename detail::FunctionOf<T>::Pointer>;

// An argument of a constructor: nothing, a name such as "glorot_uniform", a config, or an object. Kept as
// given; the family's get() makes the object, once, when the owner is constructed.
template <typename T>
class ObjectArg {
 public:
  using FunctionPointer = typename detail::FunctionOf<T>::Pointer;
  ObjectArg() = default;
  ObjectArg(std::nullptr_t) {}
  ObjectArg(std::nullopt_t) {}
  ObjectArg(const char* name) : value_(name) {}
  ObjectArg(std::string name) : value_(std::move(name)) {}
  ObjectArg(Json config) : value_(std::move(config)) {}
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  ObjectArg(std::shared_ptr<U> object) {
    object_ = std::move(object);
  }
  // An object of a user-defined class, which is copied or moved.
  template <typename U>
  requires std::is_base_of_v<T, std::remove_cvref_t<U>> ObjectArg(U&& object) {
    using Class = std::remove_cvref_t<U>;
    static_assert(std::is_constructible_v<Class, U>,
                  "objects of this class cannot be copied: give a pointer, std::make_shared<MyClass>(...)");
    object_ = std::make_shared<Class>(std::forward<U>(object));
  }
  // A function, where Keras takes one. C++ functions have no names: they are Python's lambdas, "lambda" in logs and
  // "<lambda>" in files.
  template <typename F>
  requires FunctionFor<F, T> ObjectArg(F&& function) {
    require_function<std::decay_t<F>>(function, "an argument that is a function");
    object_ = T::of_function(std::forward<F>(function));
  }
  // Also one of several overloads: .activation = activations::relu.
  template <typename U = T>
  requires requires { typename U::KerasFunction; }
  ObjectArg(typename detail::FunctionOf<U>::Pointer function) : object_(T::of_function(function)) {}

  bool empty() const { return !object_ && value_.is_null(); }
  const std::string* name() const { return value_.is_string() ? &value_.text() : nullptr; }
  const Json* config() const { return value_.is_string() || value_.is_null() ? nullptr : &value_; }
  std::shared_ptr<T> object() const { return object_; }

 private:
  Json value_;  // a name, a config, or null
  std::shared_ptr<T> object_;
};

// "unknown initializer 'glorot_unifrom'; the nearest known one is 'glorot_uniform'" as InvalidArgument.
[[noreturn]] void throw_unknown_object(std::string_view kind, std::string_view name,
                                       const std::vector<std::string>& known);

}  // namespace lockstep::keras
