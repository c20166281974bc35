#include "lockstep/train/saver.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::train {
namespace {

distribute::VariablePtr variable(const std::string& name, std::vector<float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return distribute::Variable::create(Tensor::from_vector(std::move(values), Shape{size}), {.name = name});
}

class SaverFiles : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = testing::TempDir() + "saver_test";
};

TEST_F(SaverFiles, RestoresByName) {
  const auto a = variable("a", {1, 2}), b = variable("b", {3});
  const Saver saver(std::vector{a, b});
  EXPECT_EQ(saver.save(folder_ + "/model", 3), folder_ + "/model-3");
  EXPECT_EQ(saver.save(folder_ + "/model", 5), folder_ + "/model-5");
  EXPECT_EQ(latest_checkpoint(folder_), folder_ + "/model-5");
  a->assign(Tensor::zeros(Shape{2}));
  const auto other = variable("other", {0});
  Saver(std::map<std::string, distribute::VariablePtr>{{"a", a}, {"b", other}}).restore(folder_ + "/model-3");
  EXPECT_EQ(a->numpy().to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(other->numpy().to_vector<float>(), (std::vector<float>{3}));
  EXPECT_EQ(CheckpointReader(folder_ + "/model-3").get_variable_to_shape_map().size(), 2u);
}

TEST_F(SaverFiles, ChangesNothingWhenAValueDoesNotFit) {
  const auto a = variable("a", {1, 2}), b = variable("b", {3});
  Saver(std::vector{a, b}).write(folder_ + "/model");
  const auto wide = variable("b", {5, 6}), missing = variable("bb", {7});
  a->assign(Tensor::zeros(Shape{2}));
  EXPECT_THROW(Saver(std::vector{a, wide}).restore(folder_ + "/model"), Error);
  EXPECT_THROW(Saver(std::vector{a, missing}).restore(folder_ + "/model"), Error);
  EXPECT_EQ(a->numpy().to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_THROW(Saver(std::vector{b, wide}), Error);
  EXPECT_THROW(Saver(std::vector<distribute::VariablePtr>{}), Error);
}

}  // namespace
}  // namespace lockstep::train
