// The exceptions of lockstep and their codes.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

// Classes of errors by how a caller can react. Names and numbers are those of google.rpc.Code, which tf.errors uses
// too.
enum class Code {
  kCancelled = 1,           // the caller cancelled the operation
  kUnknown = 2,             // an external error that fits no other code
  kInvalidArgument = 3,     // the argument is wrong in any state: fix the call
  kDeadlineExceeded = 4,    // a timeout expired: retry, or allow more time
  kNotFound = 5,            // a file, name or key does not exist
  kAlreadyExists = 6,       // the target exists and must not be replaced
  kPermissionDenied = 7,    // the operating system denied access
  kResourceExhausted = 8,   // disk, memory or a limit is used up
  kFailedPrecondition = 9,  // the state is wrong: fix it first (build, compile, restore, …)
  kAborted = 10,            // a concurrent change interfered: retry at a higher level
  kOutOfRange = 11,         // past the end of a sequence or a file
  kUnimplemented = 12,      // lockstep does not support this
  kInternal = 13,           // a bug in lockstep
  kUnavailable = 14,        // a peer or a service does not answer: retry later
  kDataLoss = 15,           // data is corrupt
};

// "InvalidArgument", "NotFound", …; "Unknown" for a number that is not a code.
std::string_view code_name(Code code) noexcept;

// Base class of every exception that leaves lockstep; the thrown object is always of one of the classes in errors
// below. The message is one line: what failed, where (file, key, offset, worker), found, expected, remedy.
class Error : public std::exception {
 public:
  Code code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 protected:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}

 private:
  Code code_;
  std::string message_;
};

template <Code kCode>
class CodedError : public Error {
 public:
  explicit CodedError(std::string message) : Error(kCode, std::move(message)) {}
};

// One class per code, named as in tf.errors. User code throws and catches them as lockstep does.
namespace errors {

using OpError = Error;
using CancelledError = CodedError<Code::kCancelled>;
using UnknownError = CodedError<Code::kUnknown>;
using InvalidArgumentError = CodedError<Code::kInvalidArgument>;
using DeadlineExceededError = CodedError<Code::kDeadlineExceeded>;
using NotFoundError = CodedError<Code::kNotFound>;
using AlreadyExistsError = CodedError<Code::kAlreadyExists>;
using PermissionDeniedError = CodedError<Code::kPermissionDenied>;
using ResourceExhaustedError = CodedError<Code::kResourceExhausted>;
using FailedPreconditionError = CodedError<Code::kFailedPrecondition>;
using AbortedError = CodedError<Code::kAborted>;
using OutOfRangeError = CodedError<Code::kOutOfRange>;
using UnimplementedError = CodedError<Code::kUnimplemented>;
using InternalError = CodedError<Code::kInternal>;
using UnavailableError = CodedError<Code::kUnavailable>;
using DataLossError = CodedError<Code::kDataLoss>;

}  // namespace errors

// Throws the class of `code`; for codes that are known at run time only, such as when context is added to a caught
// error.
[[noreturn]] void throw_error(Code code, std::string message);

// Throw helpers (format the message with fmt::format).
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
