// keras.saving.get_custom_objects, get_registered_name and get_registered_object.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/keras/serialization.h"

namespace lockstep::keras {

// The classes and functions that files and configs find by these names on all threads, as in a CustomObjectScope that
// does not end; the scopes of a thread come first.
//
//   keras::saving::get_custom_objects()["MyLayer"] = keras::custom_object<MyLayer>();
class GlobalCustomObjects {
 public:
  class Entry {
   public:
    void operator=(const CustomObject& object);

   private:
    friend GlobalCustomObjects;
    explicit Entry(std::string name) : name_(std::move(name)) {}
    std::string name_;
  };
  Entry operator[](std::string name) { return Entry(std::move(name)); }
  void update(const CustomObjects& objects);
  bool contains(std::string_view name) const;
  void clear();  // registered classes stay
};
GlobalCustomObjects get_custom_objects();

// The name of the one of these forms of a function that is registered, else its own.
std::string registered_name_of(const std::vector<RegisteredFunction>& forms);
// "Package>Name" of a registered class or function, else its name.
template <typename T>
std::string get_registered_name() {
  const RegisteredClass* const row = find_registered(typeid(T));
  return row ? row->registered_name() : unqualified_name(typeid(T));
}
template <auto kFunction>
std::string get_registered_name() {
  return registered_name_of(detail::function_rows_of<kFunction>("Custom", detail::name_in(__PRETTY_FUNCTION__)));
}
// The class of this name, of a scope of the thread, of get_custom_objects() or registered; null when there is none.
const RegisteredClass* get_registered_object(std::string_view name);
}  // namespace lockstep::keras
