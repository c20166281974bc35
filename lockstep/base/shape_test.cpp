#include "lockstep/base/shape.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

TEST(Shape, PrintsAsPythonDoes) {
  EXPECT_EQ(Shape().to_string(), "()");
  EXPECT_EQ(Shape({3}).to_string(), "(3,)");
  EXPECT_EQ(Shape({kUnknownDim, 28, 28, 1}).to_string(), "(None, 28, 28, 1)");
  EXPECT_EQ(Shape::unknown_rank().to_string(), "<unknown>");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape({2, 0, 3}).num_elements(), 0);
  EXPECT_EQ(Shape({2, 3}).num_elements(), 6);
  EXPECT_FALSE(Shape({2, kUnknownDim}).num_elements());
  EXPECT_FALSE(Shape::unknown_rank().num_elements());
  EXPECT_FALSE(Shape({std::int64_t{1} << 40, std::int64_t{1} << 40}).num_elements());
}

TEST(Shape, Compatibility) {
  EXPECT_TRUE(Shape({kUnknownDim, 3}).compatible_with({5, 3}));
  EXPECT_FALSE(Shape({4, 3}).compatible_with({5, 3}));
  EXPECT_FALSE(Shape({3}).compatible_with({3, 3}));
  EXPECT_TRUE(Shape::unknown_rank().compatible_with({1, 2}));
  EXPECT_EQ(Shape({1, 2, 7})[-1], 7);
}

TEST(Shape, AxesAreChecked) {
  const Shape shape({2, 3});
  EXPECT_EQ(shape[-2], 2);
  for (const int axis : {2, -3}) {
    try {
      shape[axis];
      ADD_FAILURE() << "no error for axis " << axis;
    } catch (const errors::InvalidArgumentError& error) {
      EXPECT_EQ(error.message(), "invalid axis " + std::to_string(axis) + ": shape (2, 3) has rank 2");
    }
  }
  EXPECT_THROW(Shape::unknown_rank()[0], errors::InvalidArgumentError);
}

}  // namespace
}  // namespace lockstep
