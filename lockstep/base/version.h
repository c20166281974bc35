// The version of the library that is linked: tf.__version__ and keras.__version__ of a Keras program.
#pragma once

#include <string_view>

namespace lockstep {

/// "major.minor.patch"
std::string_view version();

}  // namespace lockstep
