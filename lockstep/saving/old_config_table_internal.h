// Names of Keras 1 and 2 that differ from today's, as rows.
#pragma once

#include <span>
#include <string_view>

#include "lockstep/base/json.h"

namespace lockstep::saving {

// Facts of a whole config that its layers may lack.
struct OldConfig {
  int major = 2;            // of the Keras that wrote it
  std::string data_format;  // of all layers that have one; empty when they differ
};

// A class of an older Keras. Its arguments are renamed first, for the class `name`.
struct OldClass {
  int until;  // the last major version that wrote it
  std::string_view old_name;
  std::string_view name;
  std::string_view added;  // arguments that the old class implied where its config lacks them, as JSON; empty for none
  // Further changes of {"class_name", "config", …}; null for none. Throws for a value without a counterpart.
  void (*change)(Json& object) = nullptr;
};

// An argument of an older Keras.
struct OldArgument {
  int until;
  std::string_view classes;   // of Keras 3, separated by spaces; empty for all
  std::string_view old_keys;  // a key, or several whose values become a list
  std::string_view key;       // empty: left out
  Json (*convert)(const Json& value) = nullptr;
};

std::span<const OldClass> old_classes();
// The first row that fits a class and a key applies.
std::span<const OldArgument> old_arguments();
// Values that objects of Keras 1 have in another form: regularizers and constraints; the same value for any other.
Json value_of_keras_1(std::string_view key, const Json& value);
// Layers with a data format that Keras 1 left out of their configs.
bool lacks_data_format(std::string_view class_name);

// A layer of Keras 1 and early Keras 2: {"class_name": "Merge", "config": {"mode", "concat_axis", "dot_axes"}} becomes
// the layer of Keras 3 that `mode` names. Throws Unimplemented for modes without counterpart.
void change_merge(Json& object);
// A Sequential whose first layer is a Merge of branches, as the functional model that it is. `entries` are its layers,
// already in the terms of Keras 3. The names of layers stay, so that weights are found.
Json functional_of_branches(const Json& entries, const Json& name);

}  // namespace lockstep::saving
