#include "lockstep/train/saver.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/checkpoint_state.h"
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
  Saver saver(std::vector{a, b});
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

// What TensorFlow 2.21 leaves after the same saves.
TEST_F(SaverFiles, DeletesOldOnes) {
  const auto a = variable("a", {1});
  const auto left_by = [&](Saver& saver, const std::vector<int>& steps, const std::string& latest = "checkpoint") {
    for (const int step : steps) saver.save(folder_ + "/model", step, latest);
    std::vector<int> left;
    for (int step = 1; step < 12; ++step) {
      if (std::filesystem::exists(fmt::format("{}/model-{}.index", folder_, step))) left.push_back(step);
    }
    return left;
  };
  using Steps = std::vector<int>;
  const auto paths = [&](const Steps& steps) {
    std::vector<std::string> all;
    for (const int step : steps) all.push_back(fmt::format("{}/model-{}", folder_, step));
    return all;
  };
  Saver three(std::vector{a}, {.max_to_keep = 3});
  EXPECT_EQ(left_by(three, {1, 2, 3, 4, 5, 6, 7}), (Steps{5, 6, 7}));
  EXPECT_EQ(three.last_checkpoints(), paths({5, 6, 7}));
  EXPECT_EQ(formats::read_checkpoint_state(folder_)->all_model_checkpoint_paths, paths({5, 6, 7}));
  Saver recovered(std::vector{a}, {.max_to_keep = 2});
  recovered.recover_last_checkpoints(paths({4, 5, 6, 7}));
  EXPECT_EQ(left_by(recovered, {9}), (Steps{6, 7, 9}));
  EXPECT_EQ(left_by(recovered, {10}), (Steps{7, 9, 10}));
  EXPECT_EQ(recovered.last_checkpoints(), paths({7, 9, 10}));

  std::filesystem::remove_all(folder_);
  Saver all(std::vector{a}, {.max_to_keep = 0});
  EXPECT_EQ(left_by(all, {1, 2, 3}), (Steps{1, 2, 3}));
  EXPECT_EQ(formats::read_checkpoint_state(folder_)->all_model_checkpoint_paths, paths({3}));
  std::filesystem::remove_all(folder_);
  Saver hours(std::vector{a}, {.max_to_keep = 2, .keep_checkpoint_every_n_hours = 0});
  EXPECT_EQ(left_by(hours, {1, 2, 3, 4, 5}), (Steps{1, 2, 3, 4, 5}));
  EXPECT_EQ(hours.last_checkpoints(), paths({4, 5}));
  std::filesystem::remove_all(folder_);
  Saver again(std::vector{a}, {.max_to_keep = 2});
  EXPECT_EQ(left_by(again, {1, 2, 1, 3, 4}, "newest"), (Steps{3, 4}));
  EXPECT_EQ(latest_checkpoint(folder_, "newest"), folder_ + "/model-4");
  EXPECT_FALSE(latest_checkpoint(folder_));
  EXPECT_THROW(again.save(folder_ + "/model", 5, "model-5"), Error);
  EXPECT_THROW(Saver(std::vector{a}, {.max_to_keep = -1}), Error);
}

// As TensorFlow 2.21: elements keep their order, and other counts are refused.
TEST_F(SaverFiles, ReshapesValuesAndPadsSteps) {
  const auto a = variable("a", {1, 2, 3, 4});
  Saver padded(std::vector{a}, {.pad_step_number = true});
  EXPECT_EQ(padded.save(folder_ + "/model", 7), folder_ + "/model-00000007");
  EXPECT_EQ(padded.save(folder_ + "/model", 123456789), folder_ + "/model-123456789");
  EXPECT_EQ(padded.save(folder_ + "/model"), folder_ + "/model");
  const auto square = distribute::Variable::create(Tensor::zeros(Shape{2, 2}), {.name = "a"});
  EXPECT_THROW(Saver(std::vector{square}).restore(folder_ + "/model"), Error);
  Saver(std::vector{square}, {.reshape = true}).restore(folder_ + "/model-00000007");
  EXPECT_EQ(square->numpy().shape(), (Shape{2, 2}));
  EXPECT_EQ(square->numpy().to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_THROW(Saver(std::vector{variable("a", {0, 0, 0})}, {.reshape = true}).restore(folder_ + "/model"), Error);
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
