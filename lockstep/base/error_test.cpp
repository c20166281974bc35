#include "lockstep/base/error.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Error, CarriesCodeAndMessage) {
  try {
    throw_not_found("no file 'x'");
  } catch (const std::exception& caught) {
    EXPECT_STREQ(caught.what(), "no file 'x'");
    EXPECT_EQ(dynamic_cast<const errors::NotFoundError&>(caught).code(), Code::kNotFound);
  }
}

TEST(Error, EachHelperThrowsItsCode) {
  using Thrower = void (*)(std::string);
  const std::pair<Thrower, Code> helpers[] = {{throw_invalid_argument, Code::kInvalidArgument},
                                              {throw_already_exists, Code::kAlreadyExists},
                                              {throw_failed_precondition, Code::kFailedPrecondition},
                                              {throw_data_loss, Code::kDataLoss},
                                              {throw_out_of_range, Code::kOutOfRange},
                                              {throw_unimplemented, Code::kUnimplemented},
                                              {throw_internal, Code::kInternal},
                                              {throw_resource_exhausted, Code::kResourceExhausted},
                                              {throw_unavailable, Code::kUnavailable},
                                              {throw_deadline_exceeded, Code::kDeadlineExceeded}};
  for (const auto& [thrower, code] : helpers) {
    try {
      thrower("m");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << code_name(code);
    }
  }
}

TEST(Error, ThrowErrorThrowsTheClassOfTheCode) {
  EXPECT_THROW(throw_error(Code::kCancelled, "m"), errors::CancelledError);
  EXPECT_THROW(throw_error(Code::kPermissionDenied, "m"), errors::PermissionDeniedError);
  EXPECT_THROW(throw_error(Code::kAborted, "m"), errors::AbortedError);
  EXPECT_THROW(throw_error(static_cast<Code>(77), "m"), errors::UnknownError);
  for (int code = 1; code <= 15; ++code) {
    try {
      throw_error(static_cast<Code>(code), "m");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), static_cast<Code>(code));
    }
  }
}

TEST(Error, CodesHaveNames) {
  EXPECT_EQ(code_name(Code::kDataLoss), "DataLoss");
  EXPECT_EQ(code_name(Code::kInvalidArgument), "InvalidArgument");
  EXPECT_EQ(code_name(static_cast<Code>(77)), "Unknown");
}

}  // namespace
}  // namespace lockstep
