// Lines of programs that define models, layers and training steps of their own. Numbers are those of TensorFlow 2.21,
// Keras 3.15 and NumPy.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::keras::ops;
namespace tf = lockstep::tf;
using ls::Tensor;

namespace lines_of_model_programs {

TEST(ModelProgramLines, ListsOfTensorsBecomeOneTensor) {
  const Tensor image = {{1.0, 2.0}, {3.0, 4.0}};
  EXPECT_EQ(ops::convert_to_tensor({image}).shape(), ls::Shape({1, 2, 2}));
  EXPECT_EQ(numbers(ops::convert_to_tensor({image[1], image[0]})), (Numbers{3, 4, 1, 2}));
  EXPECT_EQ(ops::array({image, image}, {.dtype = "int32"}).dtype(), tf::int32);
  EXPECT_EQ(numbers(ops::convert_to_tensor(ls::Tensors{image[1]})), (Numbers{3, 4}));
}

}  // namespace lines_of_model_programs
