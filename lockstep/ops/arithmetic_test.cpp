// Values that TensorFlow 2.21 gives on a CPU.
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::ops {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
using F = std::vector<float>;
using I = std::vector<std::int32_t>;

Tensor f(const F& values) { return Tensor::from_vector(values); }
Tensor i(const I& values) { return Tensor::from_vector(values); }

F gradient(const Tensor& x, Tensor (*function)(const Tensor&)) {
  const bool before = grad_enabled();
  set_grad_enabled(true);
  const Tensor leaf = make_leaf(x);
  const Tensor y = function(leaf);
  const Tensors g = grad({y}, {leaf}, {}, false, false);
  set_grad_enabled(before);
  return g[0].to_vector<float>();
}

TEST(Arithmetic, IntegerDivision) {
  const Tensor a = i({7, -7, 7, -7}), b = i({2, 2, -2, -2});
  EXPECT_EQ(call1("Div", {a, b}).to_vector<std::int32_t>(), (I{3, -3, -3, 3}));
  EXPECT_EQ(floor_div(a, b).to_vector<std::int32_t>(), (I{3, -4, -4, 3}));
  EXPECT_EQ(floor_mod(a, b).to_vector<std::int32_t>(), (I{1, 1, -1, -1}));
  EXPECT_EQ(call1("Mod", {a, b}).to_vector<std::int32_t>(), (I{1, -1, 1, -1}));
  EXPECT_EQ(call1("TruncateDiv", {a, b}).to_vector<std::int32_t>(), (I{3, -3, -3, 3}));
  EXPECT_THROW(floor_div(a, i({0})), Error);
}

TEST(Arithmetic, NoNanVariants) {
  EXPECT_EQ(div_no_nan(f({1, kNaN, 0}), f({0, 0, 0})).to_vector<float>(), (F{0, 0, 0}));
  EXPECT_EQ(mul_no_nan(f({kInf, kNaN}), f({0, 0})).to_vector<float>(), (F{0, 0}));
  EXPECT_EQ(xlogy(f({0}), f({kNaN})).to_vector<float>(), (F{0}));
}

TEST(Arithmetic, RoundsHalfToEven) {
  EXPECT_EQ(round(f({0.5f, 1.5f, 2.5f, -0.5f})).to_vector<float>(), (F{0, 2, 2, -0.0f}));
  EXPECT_TRUE(std::isnan(sign(f({kNaN})).item<float>()));
}

TEST(Arithmetic, CastFollowsTheCpu) {
  const Tensor x = f({300, 256, -1, -3.9f, 1e10f, kNaN});
  EXPECT_EQ(cast(x, DType::kUInt8).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{44, 0, 255, 253, 0, 0}));
  const std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(cast(f({1e10f, kNaN, -kInf, 3.9f}), DType::kInt32).to_vector<std::int32_t>(),
            (I{lowest, lowest, lowest, 3}));
  EXPECT_EQ(cast(f({1e10f, -1e10f, kNaN, -3.9f}), DType::kUInt32).to_vector<std::uint32_t>(),
            (std::vector<std::uint32_t>{1410065408u, 2884901888u, 0u, 4294967293u}));
  EXPECT_EQ(cast(f({kNaN, -0.0f}), DType::kBool).to_vector<bool>(), (std::vector<bool>{true, false}));
}

TEST(Arithmetic, Activations) {
  EXPECT_EQ(elu(f({-1e-4f})).item<float>(), -1.00016594e-4f);
  EXPECT_NEAR(selu(f({-1})).item<float>(), -1.1113307f, 1e-6);
  EXPECT_EQ(relu6(f({7, kInf, -1})).to_vector<float>(), (F{6, 6, 0}));
  EXPECT_TRUE(std::isnan(relu(f({kNaN})).item<float>()));
  EXPECT_EQ(leaky_relu(f({-1}), 2).item<float>(), -2);
}

TEST(Gradients, TiesAndZeros) {
  EXPECT_EQ(gradient(f({0, 1}), relu), (F{0, 1}));
  EXPECT_EQ(gradient(f({0, 6, 3}), relu6), (F{0, 0, 1}));
  EXPECT_EQ(gradient(f({0}), abs), (F{0}));
  EXPECT_EQ(gradient(f({1}), [](const Tensor& x) { return maximum(x, f({1})); }), (F{1}));
  EXPECT_EQ(gradient(f({1}), [](const Tensor& x) { return minimum(f({1}), x); }), (F{0}));
  EXPECT_EQ(gradient(f({0, 4}), [](const Tensor& x) { return where(greater(x, 0), sqrt(x), zeros_like(x)); }),
            (F{0, 0.25f}));
  EXPECT_EQ(gradient(f({0, 4}), [](const Tensor& x) { return minimum(rsqrt(x), 1e3); }), (F{0, -0.0625f}));
  EXPECT_EQ(gradient(f({0, 2}), [](const Tensor& x) { return minimum(reciprocal(x), 1e3); }), (F{0, -0.25f}));
  EXPECT_EQ(gradient(f({1, 1}), [](const Tensor& x) { return reduce_max(x); }), (F{0.5f, 0.5f}));
  EXPECT_EQ(gradient(f({0, 2, 3}), [](const Tensor& x) { return reduce_prod(x); }), (F{6, 0, 0}));
}

TEST(Reductions, EmptyAndInteger) {
  const Tensor none = Tensor::zeros(Shape{0});
  EXPECT_EQ(reduce_max(none).item<float>(), -kInf);
  EXPECT_TRUE(std::isnan(reduce_mean(none).item<float>()));
  EXPECT_EQ(reduce_mean(i({-1, -2})).item<std::int32_t>(), -1);
  EXPECT_EQ(reduce_mean(i({7, 8, 8})).item<std::int32_t>(), 7);
  EXPECT_EQ(cumsum(f({1, 2, 3}), 0, true, true).to_vector<float>(), (F{5, 3, 0}));
  EXPECT_EQ(argmax(f({1, kNaN, 3}), 0).item<std::int64_t>(), 2);
  EXPECT_EQ(argmax(f({kNaN, kNaN}), 0).item<std::int64_t>(), 0);
  EXPECT_THROW(reduce_sum(Tensor::zeros(Shape{2, 2}), Ints{0, -2}), Error);
}

TEST(Reductions, TopK) {
  const TopK best = top_k(f({1, 3, 3, 2, 3}), 3);
  EXPECT_EQ(best.indices.to_vector<std::int32_t>(), (I{1, 2, 4}));
  const Tensor p = Tensor::from_vector(F{.1f, .5f, .5f, .5f}, Shape{1, 4});
  EXPECT_TRUE(in_top_k(i({3}), p, 1).item<bool>());
  EXPECT_EQ(sort(f({3, 1, 2})).to_vector<float>(), (F{1, 2, 3}));
}

// A few of many columns are found without sorting: the same as sorting them all gives, ties and zeros included.
TEST(Reductions, FewOfManyAreThoseOfASort) {
  std::mt19937 engine(5);
  for (const std::int64_t columns : {8, 9, 100, 1000}) {
    F values(static_cast<std::size_t>(3 * columns));
    for (float& value : values) value = static_cast<float>(static_cast<int>(engine() % 41) - 20) / 4;
    values[1] = -0.0f, values[2] = 0.0f, values[4] = -std::numeric_limits<float>::infinity(),
    values[5] = std::numeric_limits<float>::infinity();
    const Tensor x = Tensor::from_vector(values, Shape{3, columns});
    const TopK all = top_k(x, columns);
    for (const std::int64_t k : {std::int64_t{1}, columns / 8}) {
      const TopK few = top_k(x, k);
      EXPECT_EQ(few.indices.to_vector<std::int32_t>(), slice(all.indices, {0, 0}, {3, k}).to_vector<std::int32_t>());
    }
  }
}

}  // namespace
}  // namespace lockstep::ops
