// The classes of a family (losses, initializers, …): their names, arguments, and how to make one from a config.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/keras/fields_internal.h"
#include "lockstep/keras/serialization.h"

namespace lockstep::keras {

struct ClassRow {
  std::string name;                  // "MeanSquaredError"
  std::vector<std::string> aliases;  // other names: "mse", "MSE"
  // A pointer to the family's base class. Throws InvalidArgument for a config with unknown, missing or invalid
  // arguments.
  std::function<std::shared_ptr<void>(const Json& config)> make;
  std::vector<FieldDescription> (*describe)() = nullptr;
};

// A class whose arguments are those of Options; `make` takes Options and returns a pointer to Base.
template <typename Base, typename Options, typename Make>
ClassRow class_row(std::string name, std::vector<std::string> aliases, Make make) {
  return {name, std::move(aliases),
          [name, make](const Json& config) -> std::shared_ptr<void> {
            return std::shared_ptr<Base>(make(read_fields<Options>(name, config)));
          },
          describe_fields<Options>};
}

// Options of classes without arguments.
struct NoOptions {};
template <typename V>
void fields(V&, NoOptions&) {}

// The names that find a class, in addition to its own and its aliases.
enum class ClassNames { kExact, kSnakeCase, kLowerCase };

class ClassTable {
 public:
  // `kind` is a word for messages ("loss"), `module` the one in files ("keras.losses").
  ClassTable(std::string kind, std::string module, ClassNames names);
  ClassTable& add(ClassRow row);

  const ClassRow* find(std::string_view name) const;  // null when there is none
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // Throws InvalidArgument for an unknown name, with the nearest known one.
  std::shared_ptr<void> make(const std::string& name, const Json& config) const;
  // By name.
  std::vector<const ClassRow*> rows() const;
  // The names by which find() finds a class, without its own.
  std::vector<std::string> aliases(const ClassRow& row) const;
  // All names that find() accepts.
  std::vector<std::string> names() const;
  const std::string& kind() const { return kind_; }
  const std::string& module() const { return module_; }

 protected:
  // Throws InvalidArgument when `value` is not an object.
  ObjectConfig parse(const Json& value) const;

 private:
  std::string kind_, module_;
  ClassNames names_;
  std::map<std::string, std::shared_ptr<ClassRow>, std::less<>> classes_, by_name_;
};

// A custom function as an object of a family whose objects are called in the same way. C++ functions have no names
// unless they are registered.
template <typename Base, typename Function = typename Base::KerasFunction>
class FunctionObject;
template <typename Base, typename R, typename... Args>
class FunctionObject<Base, R(Args...)> : public Base {
 public:
  explicit FunctionObject(std::function<R(Args...)> function) : function_(std::move(function)) {}
  std::string class_name() const override { return "function"; }
  R operator()(Args... args) const override { return function_(args...); }
  Json get_config() const override {
    const std::string name = function_name(function_);
    return name.empty() ? "<lambda>" : name;
  }

 private:
  std::function<R(Args...)> function_;
};

// The table of a family with what its get(), deserialize() and serialize() have in common.
template <typename Base>
class ClassFamily : public ClassTable {
 public:
  using ClassTable::ClassTable;

  template <typename Options, typename Make>
  ClassFamily& add(std::string name, std::vector<std::string> aliases, Make make) {
    ClassTable::add(class_row<Base, Options>(std::move(name), std::move(aliases), std::move(make)));
    return *this;
  }
  using ClassTable::add;

  std::shared_ptr<Base> make(const std::string& name, const Json& config = Json::object()) const {
    return std::static_pointer_cast<Base>(ClassTable::make(name, config));
  }
  // From a name, an object of Keras 3 or 2, or {"class_name": "function", "config": name}. `set_base(object, config)`
  // is called for objects of user-defined classes.
  template <typename SetBase>
  std::shared_ptr<Base> deserialize(const Json& value, SetBase set_base) const {
    if (value.is_string()) return make(value.get<std::string>());
    const ObjectConfig object = parse(value);
    if (std::shared_ptr<Base> made = make_registered<Base>(object, contains(object.class_name))) {
      set_base(*made, object.config);
      return made;
    }
    if (object.class_name == "function" && object.config.is_string()) {
      if constexpr (requires { typename Base::KerasFunction; }) {
        if (auto function = function_named<typename Base::KerasFunction>(object.config.text()))
          return Base::of_function(std::move(function));
      }
      return make(object.config.get<std::string>());
    }
    return make(object.class_name, object.config);
  }
  std::shared_ptr<Base> deserialize(const Json& value) const {
    return deserialize(value, [](Base&, const Json&) {});
  }
  // Null for nothing.
  std::shared_ptr<Base> get(const ObjectArg<Base>& identifier) const {
    if (auto object = identifier.object()) return object;
    if (const std::string* name = identifier.name()) return make(*name);
    if (const Json* config = identifier.config()) return deserialize(*config);
    return nullptr;
  }
  // Null for a null pointer. `base_keys`: see serialize_object().
  Json serialize(const std::shared_ptr<Base>& object, const Json& base_keys = Json::object()) const {
    if (!object) return nullptr;
    return serialize_object(module(), object->class_name(), object->get_config(), contains(object->class_name()),
                            typeid(*object), base_keys);
  }
};

}  // namespace lockstep::keras
