#include "lockstep/base/shape.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

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
  EXPECT_EQ((Shape::unknown_rank()[Shape::Axes{1, {}}]), Shape::unknown_rank());
}

std::string message_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const errors::InvalidArgumentError& error) {
    return error.message();
  }
  return "";
}

// The results of tf.TensorShape.
TEST(Shape, MethodsOfTensorShape) {
  const Shape some({kUnknownDim, 3});
  const Shape none = Shape::unknown_rank();
  EXPECT_EQ(some.ndims(), 2);
  EXPECT_FALSE(none.ndims());
  EXPECT_EQ(some.as_list(), (std::vector<std::int64_t>{-1, 3}));
  EXPECT_EQ(some.with_rank(2), some);
  EXPECT_EQ(none.with_rank(2), Shape({kUnknownDim, kUnknownDim}));
  EXPECT_EQ(none.with_rank_at_least(3), none);
  EXPECT_EQ(some.merge_with({2, kUnknownDim}), Shape({2, 3}));
  EXPECT_EQ(none.merge_with({3}), Shape({3}));
  EXPECT_EQ(Shape({2, kUnknownDim}).most_specific_compatible_shape({3, 1}), Shape({kUnknownDim, kUnknownDim}));
  EXPECT_EQ(Shape({2, kUnknownDim}).most_specific_compatible_shape({2, kUnknownDim}), Shape({2, kUnknownDim}));
  EXPECT_EQ(Shape({2, kUnknownDim}).most_specific_compatible_shape({2}), none);
  EXPECT_TRUE(Shape({2, kUnknownDim}).is_subtype_of({kUnknownDim, kUnknownDim}));
  EXPECT_FALSE(Shape({kUnknownDim, kUnknownDim}).is_subtype_of({2, kUnknownDim}));
  EXPECT_TRUE(some.is_subtype_of(none));
  EXPECT_FALSE(none.is_subtype_of(some));
  EXPECT_NO_THROW(some.assert_is_compatible_with({2, 3}));
  EXPECT_EQ(message_of([&] { Shape({2, 3}).with_rank(1); }), "shape (2, 3) must have rank 1");
  EXPECT_EQ(message_of([&] { Shape({2, 3}).with_rank_at_least(3); }), "shape (2, 3) must have rank at least 3");
  EXPECT_EQ(message_of([&] { Shape({2, 3}).with_rank_at_most(1); }), "shape (2, 3) must have rank at most 1");
  EXPECT_EQ(message_of([&] { Shape({2}).merge_with({3}); }), "shapes (2,) and (3,) are not compatible");
  EXPECT_EQ(message_of([&] { Shape({2}).assert_same_rank({2, 3}); }), "shapes (2,) and (2, 3) must have the same rank");
  EXPECT_EQ(message_of([&] { some.assert_is_fully_defined(); }), "shape (None, 3) is not fully defined");
  EXPECT_EQ(message_of([&] { none.as_list(); }), "as_list() requires a shape of known rank");
}

}  // namespace
}  // namespace lockstep
