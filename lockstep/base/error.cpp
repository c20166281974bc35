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

void throw_error(Code code, std::string message) {
  switch (code) {
    case Code::kCancelled: throw errors::CancelledError(std::move(message));
    case Code::kInvalidArgument: throw errors::InvalidArgumentError(std::move(message));
    case Code::kDeadlineExceeded: throw errors::DeadlineExceededError(std::move(message));
    case Code::kNotFound: throw errors::NotFoundError(std::move(message));
    case Code::kAlreadyExists: throw errors::AlreadyExistsError(std::move(message));
    case Code::kPermissionDenied: throw errors::PermissionDeniedError(std::move(message));
    case Code::kResourceExhausted: throw errors::ResourceExhaustedError(std::move(message));
    case Code::kFailedPrecondition: throw errors::FailedPreconditionError(std::move(message));
    case Code::kAborted: throw errors::AbortedError(std::move(message));
    case Code::kOutOfRange: throw errors::OutOfRangeError(std::move(message));
    case Code::kUnimplemented: throw errors::UnimplementedError(std::move(message));
    case Code::kInternal: throw errors::InternalError(std::move(message));
    case Code::kUnavailable: throw errors::UnavailableError(std::move(message));
    case Code::kDataLoss: throw errors::DataLossError(std::move(message));
    case Code::kUnknown: break;
  }
  throw errors::UnknownError(std::move(message));
}

void throw_invalid_argument(std::string message) { throw errors::InvalidArgumentError(std::move(message)); }
void throw_not_found(std::string message) { throw errors::NotFoundError(std::move(message)); }
void throw_already_exists(std::string message) { throw errors::AlreadyExistsError(std::move(message)); }
void throw_failed_precondition(std::string message) { throw errors::FailedPreconditionError(std::move(message)); }
void throw_data_loss(std::string message) { throw errors::DataLossError(std::move(message)); }
void throw_out_of_range(std::string message) { throw errors::OutOfRangeError(std::move(message)); }
void throw_unimplemented(std::string message) { throw errors::UnimplementedError(std::move(message)); }
void throw_internal(std::string message) { throw errors::InternalError(std::move(message)); }
void throw_resource_exhausted(std::string message) { throw errors::ResourceExhaustedError(std::move(message)); }
void throw_unavailable(std::string message) { throw errors::UnavailableError(std::move(message)); }
void throw_deadline_exceeded(std::string message) { throw errors::DeadlineExceededError(std::move(message)); }

}  // namespace lockstep
