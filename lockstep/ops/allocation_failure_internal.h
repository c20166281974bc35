// Internal to lockstep/ops.
#pragma once

#include <string_view>

namespace lockstep::ops {

// Whether this is LibTorch's message for an allocation that the system has refused. Its class is c10::Error, not
// c10::OutOfMemoryError.
inline bool is_allocation_failure(std::string_view message) {
  return message.find("DefaultCPUAllocator") != std::string_view::npos;
}

}  // namespace lockstep::ops
