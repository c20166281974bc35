#include "lockstep/base/dtype.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(DType, NamesReadBack) {
  for (int i = 1; i <= 25; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype) << dtype_name(dtype);
  }
  EXPECT_EQ(parse_dtype("half"), DType::kFloat16);
  EXPECT_EQ(parse_dtype("float"), DType::kFloat32);
  EXPECT_EQ(parse_dtype("double"), DType::kFloat64);
  EXPECT_FALSE(parse_dtype("float33"));
  EXPECT_EQ(dtype_name(DType::kInvalid), "invalid");
  EXPECT_EQ(dtype_name(static_cast<DType>(99)), "invalid");
}

TEST(DType, SizesAndKinds) {
  EXPECT_EQ(dtype_size(DType::kBFloat16), 2u);
  EXPECT_EQ(dtype_size(DType::kComplex128), 16u);
  EXPECT_EQ(dtype_size(DType::kString), 0u);
  EXPECT_EQ(dtype_size(DType::kInvalid), 0u);
  EXPECT_TRUE(is_floating(DType::kBFloat16));
  EXPECT_FALSE(is_floating(DType::kInt32));
  EXPECT_TRUE(is_integer(DType::kUInt64));
  EXPECT_FALSE(is_integer(DType::kBool));
  EXPECT_TRUE(is_complex(DType::kComplex64));
  EXPECT_FALSE(is_complex(DType::kFloat64));
}

}  // namespace
}  // namespace lockstep
