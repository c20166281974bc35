#include "lockstep/base/error.h"

#include <utility>

namespace lockstep {

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::kCancelled: return "Cancelled";
    case Code::kUnknown: return "Unknown";
    case Code::kInvalidArgument: return "InvalidArgument";
    case Code::kDeadlineExceeded: return "DeadlineExceeded";
    case Code::kNotFound: return "NotFound";
    case Code::kAlreadyExists: return "AlreadyExists";
    case Code::kPermissionDenied: return "PermissionDenied";
    case Code::kResourceExhausted: return "ResourceExhausted";
    case Code::kFailedPrecondition: return "FailedPrecondition";
    case Code::kAborted: return "Aborted";
    case Code::kOutOfRange: return "OutOfRange";
    case Code::kUnimplemented: return "Unimplemented";
    case Code::kInternal: return "Internal";
    case Code::kUnavailable: return "Unavailable";
    case Code::kDataLoss: return "DataLoss";
  }
  return "Unknown";
}

void throw_invalid_argument(std::string message) { throw Error(Code::kInvalidArgument, std::move(message)); }
void throw_not_found(std::string message) { throw Error(Code::kNotFound, std::move(message)); }
void throw_already_exists(std::string message) { throw Error(Code::kAlreadyExists, std::move(message)); }
void throw_failed_precondition(std::string message) { throw Error(Code::kFailedPrecondition, std::move(message)); }
void throw_data_loss(std::string message) { throw Error(Code::kDataLoss, std::move(message)); }
void throw_out_of_range(std::string message) { throw Error(Code::kOutOfRange, std::move(message)); }
void throw_unimplemented(std::string message) { throw Error(Code::kUnimplemented, std::move(message)); }
void throw_internal(std::string message) { throw Error(Code::kInternal, std::move(message)); }
void throw_resource_exhausted(std::string message) { throw Error(Code::kResourceExhausted, std::move(message)); }
void throw_unavailable(std::string message) { throw Error(Code::kUnavailable, std::move(message)); }
void throw_deadline_exceeded(std::string message) { throw Error(Code::kDeadlineExceeded, std::move(message)); }

}  // namespace lockstep
