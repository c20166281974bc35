#include "lockstep/base/nested.h"

namespace lockstep {

void throw_wrong_structure(const char* found, const char* wanted) {
  throw_invalid_argument(std::string(found) + " was given where " + wanted + " is needed");
}

}  // namespace lockstep
