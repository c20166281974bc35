#include "lockstep/base/nested.h"

namespace lockstep {

void throw_wrong_structure(const char* found, const char* wanted) {
  throw_invalid_argument(std::string(found) + " was given where " + wanted + " is needed");
}

void throw_wrong_size(std::size_t size, std::size_t wanted) {
  throw_invalid_argument("a list of " + std::to_string(size) + " values cannot be unpacked into " +
                         std::to_string(wanted) + "; use parts<" + std::to_string(size) +
                         ">() or its items [0], [1], …");
}

}  // namespace lockstep
