// User-defined classes in files: keras.saving.register_keras_serializable.
//
//   class Linear : public keras::Layer { … };
//   LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Linear, "MyPackage")
//
// Layers, models, losses, metrics, optimizers, learning-rate schedules, initializers, regularizers and constraints are
// registered alike, and functions: LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(my_activation, "MyPackage"). Their objects are
// written under "MyPackage>Linear", the name under which Keras finds the class of the same name that is decorated with
// @keras.saving.register_keras_serializable("MyPackage"), and read again from .keras, .h5 and checkpoints. An object is
// rebuilt from the result of its get_config(), by the first of these that the class has:
//
//   static T from_config(const Json& config)     (or a pointer to T)
//   explicit T(const Json& config)
//   T()
//
// The base class's own keys need no care: name, trainable, dtype and activity_regularizer of a layer or a model, name
// and reduction of a loss, name and dtype of a metric, the common arguments of an optimizer are written where
// get_config() leaves them out, and set after the object has been made.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/keras/object_config.h"

namespace lockstep {
class Shape;
class Tensor;
}  // namespace lockstep

namespace lockstep::keras {

// One registered class.
struct RegisteredClass {
  std::string package, name;
  std::type_index type;    // of the class
  std::type_index family;  // of the base class that `make` returns a pointer to
  std::function<std::shared_ptr<void>(const Json& config)> make;

  std::string registered_name() const { return package + ">" + name; }
};

// Throws InvalidArgument for an empty name or package, one with '>' or '/', and for a name that another class has.
void register_class(RegisteredClass row);
// Null when the class is not registered.
const RegisteredClass* find_registered(std::type_index type);
// "Package>Name", or Name alone, of a class of this family; null when there is none.
const RegisteredClass* find_registered(std::type_index family, std::string_view name);
// Throws InvalidArgument when the config does not fit.
std::shared_ptr<void> make_object(const RegisteredClass& row, const Json& config);
std::vector<std::string> registered_names(std::type_index family);
// The name of a C++ class without its namespaces.
std::string unqualified_name(std::type_index type);

// {"module", "class_name", "config", "registered_name"} of an object: `module` for lockstep's own classes (`built_in`).
// Others get the registered name, or the class's name where it is not registered, and the keys of `base` that their
// config lacks.
Json serialize_object(std::string_view module, std::string_view class_name, Json config, bool built_in,
                      std::type_index type, const Json& base = Json::object());
// `config` after the keys of `base` that it lacks.
Json with_base_keys(Json config, const Json& base);

// Whether make_registered() would make an object.
template <typename Base>
bool names_registered(const ObjectConfig& object, bool built_in) {
  if (object.registered_name.find('>') != std::string::npos && find_registered(typeid(Base), object.registered_name)) {
    return true;
  }
  return !built_in && find_registered(typeid(Base), object.class_name);
}

// The object of a registered class that `object` names, null where it names none: always for a registered name, and for
// a bare class name where lockstep has no such class (`built_in` is false).
template <typename Base>
std::shared_ptr<Base> make_registered(const ObjectConfig& object, bool built_in) {
  const RegisteredClass* row = object.registered_name.find('>') != std::string::npos
                                   ? find_registered(typeid(Base), object.registered_name)
                                   : nullptr;
  if (!row && !built_in) row = find_registered(typeid(Base), object.class_name);
  return row ? std::static_pointer_cast<Base>(make_object(*row, object.config)) : nullptr;
}

// A registered function in one of the forms in which Keras's families take functions: Tensor(const Tensor&) and the
// like.
struct RegisteredFunction {
  std::string package, name;
  std::type_index signature;                    // typeid(std::function<Signature>)
  std::shared_ptr<const void> function;         // such a std::function
  std::function<bool(const void*)> is_same_as;  // whether a std::function<Signature> holds the same function

  std::string registered_name() const { return package + ">" + name; }
};
// Throws InvalidArgument as register_class() does.
void register_function(RegisteredFunction row);
const RegisteredFunction* find_registered_function(std::type_index signature, std::string_view name);
const RegisteredFunction* find_registered_function(std::type_index signature, const void* function);

// "Package>name" of a registered function, "name" of one that a CustomObjectScope names; else empty.
template <typename Signature>
std::string function_name(const std::function<Signature>& function) {
  const RegisteredFunction* const row = find_registered_function(typeid(function), &function);
  return !row ? std::string() : row->package.empty() ? row->name : row->registered_name();
}
// The registered function of this name in the form Signature; empty when there is none.
template <typename Signature>
std::function<Signature> function_named(std::string_view name) {
  using Function = std::function<Signature>;
  const RegisteredFunction* const row = find_registered_function(typeid(Function), name);
  return row ? *static_cast<const Function*>(row->function.get()) : Function();
}

// A class or a function for CustomObjects: custom_object<MyLayer>(), custom_object<my_activation>().
class CustomObject {
 public:
  struct Rows;
  explicit CustomObject(RegisteredClass row);
  explicit CustomObject(std::vector<RegisteredFunction> rows);
  const Rows& rows() const { return *rows_; }

 private:
  std::shared_ptr<const Rows> rows_;
};
// Classes and functions by names of the user's choice: {{"MyLayer", custom_object<MyLayer>()}}.
class CustomObjects {
 public:
  using List = std::vector<std::pair<std::string, CustomObject>>;
  CustomObjects() = default;
  CustomObjects(std::initializer_list<std::pair<const char*, CustomObject>> objects);
  const List* list() const { return list_.get(); }  // null when there are none

 private:
  std::shared_ptr<const List> list_;
};

// keras.saving.custom_object_scope: while it exists, files and configs that are read on this thread find these classes
// and functions by their names, registered or not.
class CustomObjectScope {
 public:
  explicit CustomObjectScope(const CustomObjects& objects);
  ~CustomObjectScope();
  CustomObjectScope(const CustomObjectScope&) = delete;
  CustomObjectScope& operator=(const CustomObjectScope&) = delete;

 private:
  std::size_t size_before_;
};

namespace detail {

// Json converts implicitly to nearly everything; this converts to Json alone.
struct ConfigOnly {
  const Json& config;
  operator const Json&() const { return config; }
};

// What T::from_config returns: a T, which need not be movable, or a pointer to one. A from_config that a class inherits
// makes another class.
template <typename T>
concept HasOwnFromConfig = requires(const Json& config) {
  requires std::is_same_v<decltype(T::from_config(config)), T> ||
      std::is_convertible_v<decltype(T::from_config(config)), std::shared_ptr<T>>;
};

template <typename T>
std::shared_ptr<T> make_from_config(const Json& config) {
  if constexpr (HasOwnFromConfig<T>) {
    if constexpr (std::is_same_v<decltype(T::from_config(config)), T>) {
      return std::shared_ptr<T>(new T(T::from_config(config)));
    } else {
      return T::from_config(config);
    }
  } else if constexpr (std::is_constructible_v<T, ConfigOnly>) {
    return std::make_shared<T>(ConfigOnly{config});
  } else {
    static_assert(
        std::is_default_constructible_v<T>,
        "a registered class needs a static from_config(const Json&), a constructor that takes const Json&, or "
        "a default constructor");
    return std::make_shared<T>();
  }
}

}  // namespace detail

namespace detail {

template <typename T>
RegisteredClass class_row_of(const std::string& package, const std::string& name) {
  using Family = typename T::KerasFamily;
  return {package, name, typeid(T), typeid(Family), [](const Json& config) -> std::shared_ptr<void> {
            std::shared_ptr<T> object = make_from_config<T>(config);
            if constexpr (requires { T::share(std::move(object)); }) {
              return std::shared_ptr<Family>(T::share(std::move(object)));
            } else {
              return std::shared_ptr<Family>(std::move(object));
            }
          }};
}

template <auto kFunction, typename Signature>
void add_function_row(std::vector<RegisteredFunction>& rows, const std::string& package, const std::string& name) {
  using Function = std::function<Signature>;
  if constexpr (std::is_constructible_v<Function, decltype(kFunction)>) {
    rows.push_back(
        {package, name, typeid(Function), std::make_shared<const Function>(kFunction), [](const void* function) {
           const auto* held = static_cast<const Function*>(function)->template target<decltype(kFunction)>();
           return held && *held == kFunction;
         }});
  }
}

// The forms in which a function can be used: activations, regularizers and constraints; losses and metrics;
// initializers.
template <auto kFunction>
std::vector<RegisteredFunction> function_rows_of(const std::string& package, const std::string& name) {
  std::vector<RegisteredFunction> rows;
  add_function_row<kFunction, Tensor(const Tensor&)>(rows, package, name);
  add_function_row<kFunction, Tensor(const Tensor&, const Tensor&)>(rows, package, name);
  add_function_row<kFunction, Tensor(const Shape&, DType)>(rows, package, name);
  return rows;
}

// "my_activation" of __PRETTY_FUNCTION__ of a template with such an argument.
std::string name_in(std::string_view pretty_function);

}  // namespace detail

// Registers T, whose base class names its family. `name` is by default the class's, without namespaces.
template <typename T>
void register_keras_serializable(const std::string& package = "Custom", const std::string& name = {}) {
  register_class(detail::class_row_of<T>(package, name.empty() ? unqualified_name(typeid(T)) : name));
}
// Registers a function: an activation, a loss, a metric, an initializer, a regularizer or a constraint.
template <auto kFunction>
void register_keras_serializable(const std::string& package = "Custom", const std::string& name = {}) {
  const std::string own = name.empty() ? detail::name_in(__PRETTY_FUNCTION__) : name;
  for (RegisteredFunction& row : detail::function_rows_of<kFunction>(package, own)) register_function(std::move(row));
}

template <typename T>
CustomObject custom_object() {
  return CustomObject(detail::class_row_of<T>({}, {}));
}
template <auto kFunction>
CustomObject custom_object() {
  return CustomObject(detail::function_rows_of<kFunction>({}, {}));
}

}  // namespace lockstep::keras

// At namespace scope of a source file: registers the class or the function when the program starts.
#define LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Class, ...)                                     \
  [[maybe_unused]] static const bool LOCKSTEP_CONCAT(lockstep_registered_class_, __LINE__) = \
      (::lockstep::keras::register_keras_serializable<Class>(__VA_ARGS__), true);
#define LOCKSTEP_CONCAT_TOKENS(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_TOKENS(a, b)
