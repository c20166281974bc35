// Keras's automatic names.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::keras {

// "Conv2DTranspose" -> "conv2d_transpose", "AdamW" -> "adam_w", "RMSprop" -> "rm_sprop".
std::string to_snake_case(std::string_view class_name);

// The snake-case name, with "_1", "_2", … from the second object of that name in this process on.
std::string auto_name(std::string_view class_name);

// Starts all counters over (keras.utils.clear_session).
void reset_auto_names();

}  // namespace lockstep::keras
