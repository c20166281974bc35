// Which value each variable gets is what TensorFlow 2.21 does with the same names.
#include "lockstep/train/checkpoint_utils.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/saver.h"

namespace lockstep::train {
namespace {

using distribute::VariablePtr;

VariablePtr scalar(const std::string& name, float value = 0) {
  return distribute::Variable::create(Tensor::from_vector(std::vector<float>{value}, Shape{1}), {.name = name});
}

class CheckpointUtils : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    Saver(std::vector{scalar("bert/a", 1), scalar("bert/b/c", 2), scalar("step", 3), scalar("bert2/a", 4)})
        .write(path_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = testing::TempDir() + "checkpoint_utils_test", path_ = folder_ + "/model";
};

float number_of(const VariablePtr& variable) { return variable->numpy().item<float>(); }

TEST_F(CheckpointUtils, VariablesAreInitializedUnderOtherNames) {
  const auto a = scalar("x/a"), c = scalar("x/b/c"), other = scalar("xy/a"), step = scalar("own");
  init_from_checkpoint(path_, {{"bert/", "x/"}, {"step", step}, {"bert2/a", "xy/a"}}, {a, c, other});
  EXPECT_EQ((std::vector{number_of(a), number_of(c), number_of(other), number_of(step)}),
            (std::vector<float>{1, 2, 4, 3}));

  const auto outer = scalar("z/bert/a"), inner = scalar("a");
  init_from_checkpoint(path_, {{"/", "z/"}}, {outer});
  init_from_checkpoint(path_, {{"bert2/", "/"}}, {inner});
  EXPECT_EQ((std::vector{number_of(outer), number_of(inner)}), (std::vector<float>{1, 4}));
  init_from_checkpoint(path_, {{"step", outer}, {"step", inner}});
  EXPECT_EQ((std::vector{number_of(outer), number_of(inner)}), (std::vector<float>{3, 3}));
}

TEST_F(CheckpointUtils, NothingChangesWhereAVariableHasNoValue) {
  const auto a = scalar("x/a", 9), more = scalar("x/more");
  EXPECT_THROW(init_from_checkpoint(path_, {{"bert/", "x/"}}, {a, more}), Error);
  EXPECT_THROW(init_from_checkpoint(path_, {{"bert/a", "y/a"}}, {a}), Error);
  EXPECT_THROW(init_from_checkpoint(path_, {{"bert", "x/"}}, {a}), Error);
  EXPECT_THROW(init_from_checkpoint(path_, {{"bert/a", a}, {"gone", more}}), Error);
  const auto wide = distribute::Variable::create(Tensor::zeros(Shape{2}), {.name = "w"});
  EXPECT_THROW(init_from_checkpoint(path_, {{"bert/a", a}, {"step", wide}}), Error);
  EXPECT_EQ(number_of(a), 9);
}

TEST_F(CheckpointUtils, NewCheckpointsAreFound) {
  EXPECT_EQ(load_variable(path_, "step:0").item<float>(), 3);
  for (const std::string& path : checkpoints_iterator(folder_ + "/none", {.timeout = 0})) FAIL() << path;
  const auto v = scalar("v");
  Checkpoint checkpoint({{"v", v}});
  std::vector<std::string> found{checkpoint.save(folder_ + "/ckpt")};
  std::vector<std::string> seen;
  for (const std::string& path : checkpoints_iterator(folder_, {.timeout = 0})) {
    seen.push_back(path);
    if (seen.size() < 3) found.push_back(checkpoint.save(folder_ + "/ckpt"));
  }
  EXPECT_EQ(seen, found);
  seen.clear();
  for (const std::string& path : checkpoints_iterator(folder_, {.timeout_fn = [] { return true; }}))
    seen.push_back(path);
  EXPECT_EQ(seen.size(), 1u);
}

}  // namespace
}  // namespace lockstep::train
