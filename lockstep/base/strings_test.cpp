#include "lockstep/base/strings_internal.h"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("Dense", "dense"), 0u);
  EXPECT_EQ(edit_distance("Desne", "Dense"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(NearestName, FindsWhatWasMeant) {
  const std::vector<std::string> names = {"Conv1D", "Conv2D", "Dense", "Dropout", "MaxPooling2D"};
  EXPECT_EQ(nearest_name("Desne", names), "Dense");
  EXPECT_EQ(nearest_name("conv2d", names), "Conv2D");
  EXPECT_EQ(nearest_name("MaxPoling2D", names), "MaxPooling2D");
  EXPECT_EQ(nearest_name("Transformer", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("Dense", {}), "");
  EXPECT_EQ(did_you_mean("Desne", names), " (did you mean 'Dense'?)");
  EXPECT_EQ(did_you_mean("Transformer", names), "");
}

}  // namespace
}  // namespace lockstep
