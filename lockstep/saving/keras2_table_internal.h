// What Keras 3 has under another name or not at all in Keras 2, as rows.
#pragma once

#include <string_view>

namespace lockstep::saving {

// An argument of Keras 3.
struct Keras3Argument {
  std::string_view classes;  // separated by spaces; "*" at the end of a name for all that begin so; empty: all layers
  std::string_view key;
  std::string_view old_key;   // of Keras 2; empty: it has no such argument
  std::string_view harmless;  // JSON array of the values that are left out; without an old key, others are refused, and
                              // if there are none, any value is left out
};
// The row of an argument; null for an argument that both have.
const Keras3Argument* keras3_argument(std::string_view class_name, std::string_view key);

bool is_layer_of_keras2(std::string_view class_name);
bool is_activation_of_keras2(std::string_view name);
// Objects other than layers that Keras 2 lacks.
bool is_object_of_keras3(std::string_view class_name);

}  // namespace lockstep::saving
