// The one exception type of lockstep and the vocabulary of its codes.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace lockstep {

// What a caller can do about an error decides its code. Names and numbers are those of
// google.rpc.Code, which TensorFlow uses too.
enum class Code {
  kCancelled = 1,           // the caller asked to stop
  kUnknown = 2,             // an error from outside that fits no other code
  kInvalidArgument = 3,     // the call is wrong whatever the state: fix the argument
  kDeadlineExceeded = 4,    // time ran out: retry, or allow more time
  kNotFound = 5,            // a file, a name, a key is missing
  kAlreadyExists = 6,       // the target is there and must not be replaced
  kPermissionDenied = 7,    // the system refuses access
  kResourceExhausted = 8,   // disk, memory or a limit is used up
  kFailedPrecondition = 9,  // the state is wrong: fix it first (build, compile, restore, …)
  kAborted = 10,            // a concurrent change got in the way: retry from higher up
  kOutOfRange = 11,         // past the end of a sequence or a file
  kUnimplemented = 12,      // lockstep does not do this
  kInternal = 13,           // a bug of lockstep
  kUnavailable = 14,        // a peer or a service does not answer: retry later
  kDataLoss = 15,           // bytes are damaged beyond repair
};

// "InvalidArgument", "NotFound", …; never fails.
std::string_view code_name(Code code) noexcept;

// Thrown by every part of lockstep, and the only type that leaves it. The message is one line: what
// went wrong, where (file, key, offset, worker), what was found, what was expected, and the remedy.
class Error : public std::exception {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  Code code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Code code_;
  std::string message_;
};

// Throw helpers, one for each code in use; the message is taken as it is (format with fmt::format).
[[noreturn]] void throw_invalid_argument(std::string message);
[[noreturn]] void throw_not_found(std::string message);
[[noreturn]] void throw_already_exists(std::string message);
[[noreturn]] void throw_failed_precondition(std::string message);
[[noreturn]] void throw_data_loss(std::string message);
[[noreturn]] void throw_out_of_range(std::string message);
[[noreturn]] void throw_unimplemented(std::string message);
[[noreturn]] void throw_internal(std::string message);
[[noreturn]] void throw_resource_exhausted(std::string message);
[[noreturn]] void throw_unavailable(std::string message);
[[noreturn]] void throw_deadline_exceeded(std::string message);

}  // namespace lockstep
