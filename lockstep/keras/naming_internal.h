// Keras's automatic names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::keras {

// "Conv2DTranspose" -> "conv2d_transpose", "AdamW" -> "adam_w", "RMSprop" -> "rm_sprop".
std::string to_snake_case(std::string_view class_name);

// The snake-case name, with "_1", "_2", … from the second object of that name in this process on.
std::string auto_name(std::string_view class_name);

// The names of outputs in Keras 2, from those of their layers: of several outputs of a layer the later ones have a
// number.
std::vector<std::string> numbered_names(std::vector<std::string> layers);

// Starts all counters over (keras.utils.clear_session).
void reset_auto_names();

}  // namespace lockstep::keras
