// keras.utils. Expected numbers: Keras 3.15.
#include <gtest/gtest.h>

#include "lockstep/keras/utils.h"
#include "lockstep/lockstep.h"

namespace ls = lockstep;

namespace {

using Sequences = std::vector<std::vector<int>>;

std::vector<std::int32_t> padded(const ls::utils::PadOptions& options) {
  const Sequences sequences = {{1, 2, 3}, {4}, {5, 6, 7, 8, 9}};
  return ls::utils::pad_sequences(sequences, options).to_vector<std::int32_t>();
}

TEST(UtilsApi, PadsSequences) {
  using Ints = std::vector<std::int32_t>;
  EXPECT_EQ(padded({}), (Ints{0, 0, 1, 2, 3, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(padded({.maxlen = 3}), (Ints{1, 2, 3, 0, 0, 4, 7, 8, 9}));
  EXPECT_EQ(padded({.maxlen = 4, .padding = "post", .truncating = "post", .value = -1}),
            (Ints{1, 2, 3, -1, 4, -1, -1, -1, 5, 6, 7, 8}));
  EXPECT_EQ(padded({.maxlen = 2, .truncating = "post"}), (Ints{1, 2, 0, 4, 5, 6}));
  const std::vector<std::vector<double>> reals = {{1.5, 2.5}, {3.5}};
  EXPECT_EQ(ls::utils::pad_sequences(reals, {.dtype = ls::DType::kFloat32, .value = .25}).to_vector<float>(),
            (std::vector<float>{1.5F, 2.5F, .25F, 3.5F}));
  EXPECT_EQ(ls::utils::pad_sequences(Sequences{}).shape(), (ls::Shape{0, 0}));
  EXPECT_THROW((void)padded({.padding = "after"}), ls::errors::InvalidArgumentError);
}

TEST(UtilsApi, MakesLabelsCategorical) {
  const auto rows = ls::utils::to_categorical({0, 2, 1});
  EXPECT_EQ(rows.shape(), (ls::Shape{3, 3}));
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(ls::utils::to_categorical({{0}, {2}}, 4).to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(ls::utils::to_categorical({{0, 1}, {2, 1}}).shape(), (ls::Shape{2, 2, 3}));
  EXPECT_THROW((void)ls::utils::to_categorical({3}, 2), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)ls::utils::to_categorical({0.5}), ls::errors::InvalidArgumentError);
}

}  // namespace
