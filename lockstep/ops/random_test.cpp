// Numbers that TensorFlow 2.21 draws on a CPU, bit for bit.
#include <gtest/gtest.h>

#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::ops {
namespace {

using F = std::vector<float>;
Tensor seed() { return constant_ints({42, 0}); }
Tensor five() { return constant_ints({5}); }

TEST(Stateless, Floats) {
  EXPECT_EQ(stateless_random_uniform(five(), seed()).to_vector<float>(),
            (F{0.282433152f, 0.498416901f, 0.715458512f, 0.0202020407f, 0.0785981417f}));
  EXPECT_EQ(stateless_random_normal(five(), seed()).to_vector<float>(),
            (F{0.015817076f, -1.59008694f, 0.10359446f, 0.811745942f, -1.61035502f}));
  EXPECT_EQ(stateless_truncated_normal(five(), seed()).to_vector<float>(),
            (F{0.015817076f, -1.59008694f, 0.10359446f, 0.811745942f, -0.0214078501f}));
}

TEST(Stateless, Integers) {
  const auto draw =
      stateless_random_uniform_int(five(), seed(), constant(0, DType::kInt32), constant(100, DType::kInt32));
  EXPECT_EQ(draw.to_vector<std::int32_t>(), (std::vector<std::int32_t>{81, 92, 9, 95, 25}));
  EXPECT_EQ(stateless_random_full_int(constant_ints({4}), seed(), DType::kUInt32).to_vector<std::uint32_t>(),
            (std::vector<std::uint32_t>{1218717381u, 1019202592u, 1901827109u, 2650969595u}));
}

TEST(Stateful, ContinuesFromCallToCall) {
  const Attrs attrs = {{"seed", std::int64_t{1}}, {"seed2", std::int64_t{2}}, {"dtype", DType::kFloat32}};
  // Two elements move the counter by 512 blocks.
  EXPECT_EQ(call1("RandomUniform", {constant_ints({2})}, attrs).to_vector<float>(), (F{.40639675f, .8575996f}));
  EXPECT_EQ(call1("RandomUniform", {constant_ints({2})}, attrs).to_vector<float>(), (F{.6038654f, .52610815f}));
  const Attrs order = {{"seed", std::int64_t{1}}, {"seed2", std::int64_t{2}}};
  EXPECT_EQ(call1("RandomShuffle", {range(5)}, order).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{4, 0, 2, 1, 3}));
}

}  // namespace
}  // namespace lockstep::ops
