#include "lockstep/base/nested.h"

namespace lockstep {

void throw_wrong_structure(const char* found, const char* wanted) {
  throw_invalid_argument(std::string(found) + " was given where " + wanted + " is needed");
}

void throw_not_a_pair(std::size_t size) {
  throw_invalid_argument("a list of " + std::to_string(size) +
                         " values cannot be unpacked into two; use its items [0], [1], …");
}

}  // namespace lockstep
