// Threads whose start can fail.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

// std::thread(function, arguments...). Throws ResourceExhausted when the system starts no more threads.
template <typename... Parts>
std::thread start_thread(Parts&&... parts) {
  try {
    return std::thread(std::forward<Parts>(parts)...);
  } catch (const std::system_error& error) {
    throw_resource_exhausted(fmt::format("no thread can be started: {}", error.what()));
  }
}

}  // namespace lockstep
