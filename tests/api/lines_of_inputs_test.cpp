// Lines of programs that make their own inputs and read checkpoints, as literally as C++ permits.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
using ls::Tensor;
using ls::data::Dataset;

namespace lines_of_inputs {

TEST(InputLines, ElementsAreComparedWithZero) {
  std::string zeros;
  for (const auto& [x, label] : Dataset::from_tensor_slices({Tensor{1, 0, 2}, Tensor{0, 1, 0}})) {
    if (label == 0) zeros += "label ";
    if (x != 0 && label == 0) zeros += "x ";
  }
  for (const auto& element : Dataset::range(3)) {
    if (element == 0) zeros += "element ";
    if (element == nullptr || element == ls::None) zeros += "none ";
  }
  const std::vector<ls::data::Element> pairs = {{Tensor{0, 7}, Tensor{1, 1}}};
  for (const auto& pair : pairs) EXPECT_EQ(numbers(pair[0] == 0), (Numbers{1, 0}));
  EXPECT_EQ(zeros, "label x label x element ");
}

}  // namespace lines_of_inputs
