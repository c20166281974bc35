// User-defined classes in files: keras.saving.register_keras_serializable.
//
//   class Linear : public keras::Layer { … };
//   LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Linear, "MyPackage")
//
// Layers, models, losses, metrics, optimizers, learning-rate schedules, initializers, regularizers and constraints are
// registered alike. Their objects are written under "MyPackage>Linear", the name under which Keras finds the class of
// the same name that is decorated with @keras.saving.register_keras_serializable("MyPackage"), and read again from
// .keras, .h5 and checkpoints. An object is rebuilt from the result of its get_config(), by the first of these that the
// class has:
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
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "lockstep/keras/object_config.h"

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

namespace detail {

// Json converts implicitly to nearly everything; this converts to Json alone.
struct ConfigOnly {
  const Json& config;
  operator const Json&() const { return config; }
};

template <typename T>
std::unique_ptr<T> own(T value) {
  return std::make_unique<T>(std::move(value));
}
template <typename T>
std::unique_ptr<T> own(std::unique_ptr<T> value) {
  return value;
}

template <typename T>
std::unique_ptr<T> make_from_config(const Json& config) {
  // A from_config that a class inherits makes another class.
  if constexpr (requires { own<T>(T::from_config(config)); }) {
    return own<T>(T::from_config(config));
  } else if constexpr (std::is_constructible_v<T, ConfigOnly>) {
    return std::make_unique<T>(ConfigOnly{config});
  } else {
    static_assert(
        std::is_default_constructible_v<T>,
        "a registered class needs a static from_config(const Json&), a constructor that takes const Json&, or "
        "a default constructor");
    return std::make_unique<T>();
  }
}

}  // namespace detail

// Registers T, whose base class names its family. `name` is by default the class's, without namespaces.
template <typename T>
void register_keras_serializable(const std::string& package = "Custom", const std::string& name = {}) {
  using Family = typename T::KerasFamily;
  register_class({package, name.empty() ? unqualified_name(typeid(T)) : name, typeid(T), typeid(Family),
                  [](const Json& config) -> std::shared_ptr<void> {
                    std::unique_ptr<T> object = detail::make_from_config<T>(config);
                    if constexpr (requires { T::share(std::move(object)); }) {
                      return std::shared_ptr<Family>(T::share(std::move(object)));
                    } else {
                      return std::shared_ptr<Family>(std::shared_ptr<T>(std::move(object)));
                    }
                  }});
}

}  // namespace lockstep::keras

// At namespace scope of a source file: registers the class when the program starts.
#define LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Class, ...)                                     \
  [[maybe_unused]] static const bool LOCKSTEP_CONCAT(lockstep_registered_class_, __LINE__) = \
      (::lockstep::keras::register_keras_serializable<Class>(__VA_ARGS__), true);
#define LOCKSTEP_CONCAT_TOKENS(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_TOKENS(a, b)
