// Errors in the command line itself.
#pragma once

#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::cli {

// An option or its value is wrong, whatever the files hold: the tool exits with kUsage.
class UsageError : public errors::InvalidArgumentError {
 public:
  using errors::InvalidArgumentError::InvalidArgumentError;
};

[[noreturn]] inline void throw_usage(std::string message) { throw UsageError(std::move(message)); }

// Runs `work`, which interprets the value of `option`; InvalidArgument and NotFound become UsageError.
template <typename Work>
auto interpret_option(const std::string& option, Work work) {
  try {
    return work();
  } catch (const UsageError&) {
    throw;
  } catch (const errors::InvalidArgumentError& error) {
    throw_usage(option + ": " + error.message());
  } catch (const errors::NotFoundError& error) {
    throw_usage(option + ": " + error.message());
  }
}

}  // namespace lockstep::cli
