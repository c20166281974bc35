// Values that TensorFlow 2.21 gives on a CPU; own loops against the general path.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/gram_matrix_internal.h"

namespace lockstep::ops {
namespace {

using F = std::vector<float>;
Tensor row(const F& values) {
  return Tensor::from_vector(values, Shape{1, 1, static_cast<std::int64_t>(values.size()), 1});
}
Tensor seven() { return row({1, 2, 3, 4, 5, 6, 7}); }
Tensor ones(std::int64_t width) { return Tensor::full(Shape{1, width, 1, 1}, 1); }
F conv(std::int64_t k, std::int64_t s, const char* padding, std::int64_t d = 1) {
  return conv2d(seven(), ones(k),
                {.strides = {s, s}, .padding = padding, .explicit_paddings = {0, 0, 1, 2}, .dilations = {d, d}})
      .to_vector<float>();
}
Tensor noise(const Shape& shape, int seed) {
  std::mt19937 engine(static_cast<unsigned>(seed));
  std::uniform_real_distribution<float> draw(-1, 1);
  F values(static_cast<std::size_t>(*shape.num_elements()));
  for (float& value : values) value = draw(engine);
  return Tensor::from_vector(values, shape);
}

TEST(Conv2D, Padding) {
  EXPECT_EQ(conv(3, 1, "SAME"), (F{3, 6, 9, 12, 15, 18, 13}));
  EXPECT_EQ(conv(2, 1, "SAME"), (F{3, 5, 7, 9, 11, 13, 7}));
  EXPECT_EQ(conv(4, 1, "SAME"), (F{6, 10, 14, 18, 22, 18, 13}));
  EXPECT_EQ(conv(3, 2, "SAME"), (F{3, 9, 15, 13}));
  EXPECT_EQ(conv(3, 3, "SAME"), (F{3, 12, 13}));
  EXPECT_EQ(conv(2, 4, "VALID"), (F{3, 11}));
  EXPECT_EQ(conv(1, 3, "VALID"), (F{1, 4, 7}));
  EXPECT_EQ(conv(3, 1, "SAME", 2), (F{4, 6, 9, 12, 15, 10, 12}));
  EXPECT_EQ(conv(3, 1, "VALID", 2), (F{9, 12, 15}));
  EXPECT_EQ(conv(3, 2, "SAME", 2), (F{4, 9, 15, 12}));
  EXPECT_EQ(conv(3, 1, "EXPLICIT"), (F{3, 6, 9, 12, 15, 18, 13, 7}));
  EXPECT_EQ(conv2d(row({1}), ones(2)).shape(), (Shape{1, 1, 0, 1}));
  EXPECT_THROW(conv2d(row({1}), ones(3)), Error);  // TensorFlow: "Computed output size would be negative: -1"
}

F transposed(std::int64_t stride, const char* padding, std::int64_t out, std::int64_t in) {
  const Tensor kernel = Tensor::from_vector(F{1, 2, 3}, Shape{1, 3, 1, 1});
  return conv2d_transpose(Tensor::full(Shape{1, 1, in, 1}, 1), kernel, constant_ints({1, 1, out, 1}),
                          {.strides = {1, stride}, .padding = padding})
      .to_vector<float>();
}
TEST(Conv2D, Transposed) {
  EXPECT_EQ(transposed(2, "SAME", 4, 2), (F{1, 2, 4, 2}));
  EXPECT_EQ(transposed(2, "SAME", 3, 2), (F{2, 4, 2}));
  EXPECT_EQ(transposed(2, "VALID", 5, 2), (F{1, 2, 4, 2, 3}));
  EXPECT_EQ(transposed(2, "VALID", 6, 2), (F{1, 2, 4, 2, 3, 0}));
  EXPECT_THROW(transposed(2, "SAME", 5, 2), Error);
}

TEST(Conv2D, DepthwiseOrder) {
  const Tensor x = Tensor::from_vector(F{1, 10}, Shape{1, 1, 1, 2}),
               kernel = Tensor::from_vector(F{1, 2, 3, 4}, Shape{1, 1, 2, 2});
  EXPECT_EQ(depthwise_conv2d(x, kernel).to_vector<float>(), (F{1, 2, 30, 40}));
}

// The fused kernel with few channels, with its gradients, equals the plain operations in float64.
void compare_fused(std::int64_t channels, std::int64_t out, const char* padding, std::int64_t stride) {
  set_grad_enabled(true);
  const Tensor x = noise(Shape{5, 9, 11, channels}, 1), k = noise(Shape{3, 3, channels, out}, 2),
               b = noise(Shape{out}, 3);
  const ConvOptions options{.strides = {stride, stride}, .padding = padding};
  const Tensor fx = make_leaf(x), fk = make_leaf(k), fb = make_leaf(b);
  const Tensor fy = conv2d_bias_act(fx, fk, fb, "relu", options);
  const auto wide = [](const Tensor& t) { return make_leaf(cast(t, DType::kFloat64)); };
  const Tensor dx = wide(x), dk = wide(k), db = wide(b);
  const Tensor dy = relu(bias_add(conv2d(dx, dk, options), db));
  const Tensors got = grad({reduce_sum(square(fy))}, {fx, fk, fb}, {}, false, false);
  const Tensors want = grad({reduce_sum(square(dy))}, {dx, dk, db}, {}, false, false);
  set_grad_enabled(false);
  ASSERT_EQ(fy.shape(), dy.shape());
  for (int i = 0; i < 3; ++i) {
    const auto a = got[static_cast<std::size_t>(i)].to_vector<float>();
    const auto e = want[static_cast<std::size_t>(i)].to_vector<double>();
    double largest = 0;  // the error of a sum is one of its terms
    for (const double value : e) largest = std::max(largest, std::fabs(value));
    for (std::size_t n = 0; n < e.size(); ++n)
      ASSERT_NEAR(a[n], e[n], 1e-4 * (1 + std::fabs(e[n])) + 1e-6 * largest) << i << ' ' << n;
  }
}
TEST(Conv2D, FusedEqualsPlain) {
  compare_fused(1, 32, "VALID", 1);
  compare_fused(3, 16, "SAME", 2);
  compare_fused(2, 48, "SAME", 1);
  compare_fused(8, 12, "SAME", 2);
  compare_fused(32, 64, "SAME", 1);
  compare_fused(20, 33, "VALID", 1);
  compare_fused(5, 6, "VALID", 1);
}

// LibTorch's loops for float64, of any window, against the own ones for float32.
TEST(Conv2D, GradientsOfFloat64) {
  std::mt19937 engine(5);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  };
  for (int round = 0; round < 300; ++round) {
    const std::int64_t height = draw(1, 9), width = draw(1, 9), channels = draw(1, 20), out = draw(1, 5);
    const Shape window{draw(1, std::min<std::int64_t>(height, 4)), draw(1, std::min<std::int64_t>(width, 4)), channels,
                       out};
    const std::int64_t stride = draw(1, 3);
    const ConvOptions options{.strides = {stride, stride}, .padding = draw(0, 1) == 0 ? "VALID" : "SAME"};
    const Tensor x = noise({draw(1, 3), height, width, channels}, round), kernel = noise(window, round + 1);
    Tensors gradients[2];
    for (const bool wide : {false, true}) {
      set_grad_enabled(true);
      const DType dtype = wide ? DType::kFloat64 : DType::kFloat32;
      const Tensors leaves = {make_leaf(cast(x, dtype)), make_leaf(cast(kernel, dtype))};
      gradients[wide] = grad({reduce_sum(square(conv2d(leaves[0], leaves[1], options)))}, leaves, {}, false, false);
      set_grad_enabled(false);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const auto want = gradients[0][i].to_vector<float>();
      const auto got = cast(gradients[1][i], DType::kFloat32).to_vector<float>();
      for (std::size_t n = 0; n < want.size(); ++n)
        ASSERT_NEAR(got[n], want[n], 1e-4 * (1 + std::abs(want[n])))
            << x.shape().to_string() << ' ' << window.to_string() << ", stride " << stride << ", " << options.padding;
    }
  }
}

// f, its gradients, and gradients of those, in float32 against float64.
void expect_float64(const std::function<Tensor(const Tensor&, const Tensor&)>& f, const Tensor& a, const Tensor& b,
                    const std::string& what) {
  const auto run = [&](DType dtype) {
    set_grad_enabled(true);
    const Tensor la = make_leaf(cast(a, dtype)), lb = make_leaf(cast(b, dtype));
    Tensors out = {f(la, lb)};
    for (const Tensor& g : grad({reduce_sum(square(out[0]))}, {la, lb}, {}, true, true)) out.push_back(g);
    for (const Tensor& g : grad({reduce_sum(square(out[1]))}, {la, lb}, {}, false, false)) out.push_back(g);
    set_grad_enabled(false);
    for (Tensor& value : out) value = cast(detach(value), DType::kFloat64);
    return out;
  };
  const Tensors got = run(DType::kFloat32), want = run(DType::kFloat64);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].shape(), want[i].shape()) << what;
    const auto g = got[i].to_vector<double>(), w = want[i].to_vector<double>();
    const double scale = 1 + std::fabs(*std::max_element(w.begin(), w.end()));
    for (std::size_t n = 0; n < w.size(); ++n) ASSERT_NEAR(g[n], w[n], 1e-4 * scale) << what << ' ' << i << ' ' << n;
  }
}

TEST(MatMul, GradientsOfGradients) {
  for (int transposed = 0; transposed < 8; ++transposed) {
    const bool ta = transposed & 1, tb = transposed & 2, stack = transposed & 4;
    const auto shape = [&](std::int64_t rows, std::int64_t columns) {
      return stack ? Shape{2, 3, rows, columns} : Shape{rows, columns};
    };
    const Tensor a = noise(ta ? shape(30, 70) : shape(70, 30), 7), b = noise(tb ? shape(90, 30) : shape(30, 90), 8);
    expect_float64([&](const Tensor& x, const Tensor& y) { return matmul(x, y, ta, tb); }, a, b,
                   "matmul " + std::to_string(transposed));
  }
}

TEST(MatMul, GramMatrix) {
  for (const auto& [rows, depth] : std::vector<std::pair<int, int>>{{4, 3}, {16, 40}, {17, 300}, {65, 1}, {130, 270}}) {
    const Tensor x = noise({rows, depth}, 3), want = matmul(x, x, false, true);
    EXPECT_EQ(try_gram_matrix(x).value().to_vector<float>(), want.to_vector<float>()) << rows << ' ' << depth;
  }
}

TEST(Einsum, EqualsFloat64) {
  const Shape a{3, 4, 5}, b{3, 5, 6};
  const auto check = [](const char* equation, const Shape& first, const Shape& second) {
    expect_float64(
        [&](const Tensor& x, const Tensor& y) {
          return einsum(equation, {x, y});
        },
        noise(first, 1), noise(second, 2), equation);
  };
  check("bij,bjk->bik", a, b);
  check("bij,bjk->kbi", a, b);
  check("aecd,abcd->acbe", Shape{2, 3, 4, 5}, Shape{2, 6, 4, 5});
  check("acbe,aecd->abcd", Shape{2, 4, 6, 3}, Shape{2, 3, 4, 5});
  check("abc,cde->abde", Shape{2, 3, 4}, Shape{4, 5, 6});
  check("ij,kl->ilkj", Shape{2, 3}, Shape{4, 5});
  check("ij,ij->ij", Shape{2, 3}, Shape{2, 3});
  check("ij,ij->", Shape{2, 3}, Shape{2, 3});
  check("ij,jk->k", Shape{2, 3}, Shape{3, 4});
  // Heads of attention: stacks whose axes are not next to each other, kept in that order or not.
  for (const char* equation :
       {"bqhd,bkhd->bhqk", "bqhd,bkhd->bqhk", "bqhd,bkhd->bqkh", "bqhd,bkhd->hkbq", "bqhd,bqhe->bhde"})
    check(equation, Shape{2, 5, 3, 7},
          std::string_view(equation).starts_with("bqhd,bk") ? Shape{2, 6, 3, 7} : Shape{2, 5, 3, 4});
  check("bhqk,bkhd->bqhd", Shape{2, 3, 5, 6}, Shape{2, 6, 3, 7});
  check("bhqk,bkhd->bqhd", Shape{2, 3, 1, 6}, Shape{2, 6, 3, 1});
  check("bhk,bkhd->bhd", Shape{2, 3, 6}, Shape{2, 6, 3, 7});
  check("...ij,...jk->...ik", a, b);
}

TEST(MaxPool, NanAndPadding) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto pool = [](const F& x, std::int64_t k, std::int64_t s, const char* p) {
    return max_pool(row(x), {.size = {1, k}, .strides = {1, s}, .padding = p}).to_vector<float>();
  };
  EXPECT_EQ(pool({-5, -4, -3}, 3, 1, "SAME"), (F{-4, -3, -3}));
  EXPECT_EQ(pool({nan, 1}, 2, 2, "VALID"), (F{1}));
  EXPECT_EQ(pool({1, 2, nan}, 3, 3, "VALID"), (F{2}));
  EXPECT_EQ(pool({nan, nan}, 2, 2, "VALID"), (F{std::numeric_limits<float>::lowest()}));
}
TEST(MaxPool, GradientGoesToTheFirst) {
  set_grad_enabled(true);
  const Tensor x = make_leaf(row({2, 2, 1}));
  const Tensor y = max_pool(x, {.size = {1, 2}, .strides = {1, 1}});
  EXPECT_EQ(grad({y}, {x}, {}, false, false)[0].to_vector<float>(), (F{1, 1, 0}));
  set_grad_enabled(false);
}
// Joined to the convolution before it, the pool gives the same values and gradients; those of the images too.
TEST(MaxPool, FusedWithConvolution) {
  set_grad_enabled(true);
  const Tensor x = noise(Shape{9, 10, 11, 4}, 4), k = noise(Shape{3, 3, 4, 40}, 5), b = noise(Shape{40}, 6);
  const auto run = [&](const std::optional<FollowingPool>& announced) {
    const Tensor fk = make_leaf(k), fb = make_leaf(b), fx = make_leaf(x);
    std::optional<ScopedPoolFollower> follower;
    if (announced) follower.emplace(*announced);
    const Tensor y = max_pool(conv2d_bias_act(fx, fk, fb, "relu"));
    Tensors out = grad({reduce_sum(square(y))}, {fk, fb, fx}, {}, false, false);
    out.push_back(detach(y));
    return out;
  };
  const Tensors plain = run({});
  const ScopedPoolFusion fusion;
  const FollowingPool same{{2, 2}, {2, 2}}, other{{3, 3}, {2, 2}, true};
  for (const auto& announced : {std::optional<FollowingPool>(), std::optional(same), std::optional(other)}) {
    const Tensors fused = run(announced);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto a = fused[i].to_vector<float>(), e = plain[i].to_vector<float>();
      for (std::size_t n = 0; n < e.size(); ++n) ASSERT_NEAR(a[n], e[n], 1e-4 * (1 + std::fabs(e[n]))) << i;
    }
  }
  set_grad_enabled(false);
}
TEST(AvgPool, CountsCellsInside) {
  const auto pool = [](std::int64_t k, std::int64_t s) {
    return avg_pool(row({1, 2, 3, 4, 5}), {.size = {1, k}, .strides = {1, s}, .padding = "SAME"}).to_vector<float>();
  };
  EXPECT_EQ(pool(3, 1), (F{1.5f, 2, 3, 4, 4.5f}));
  EXPECT_EQ(pool(4, 4), (F{2, 4.5f}));
}

TEST(BatchNorm, TrainingStatistics) {
  const Tensor one = Tensor::full(Shape{1}, 1), two = Tensor::full(Shape{1}, 2), none = Tensor::zeros(Shape{0});
  const BatchNorm out = fused_batch_norm(row({1, 2, 3, 6}), two, one, none, none, 0.001, true);
  const auto y = out.y.to_vector<float>();
  EXPECT_NEAR(y[0], -1.1377847f, 1e-5);
  EXPECT_NEAR(y[3], 4.206677f, 1e-5);
  EXPECT_NEAR(out.variance.item<float>(), 4.666667f, 1e-5);
}

TEST(Image, Resize) {
  const Tensor x = row({0, 10, 20, 30});
  const auto near = [](const F& got, const F& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
  };
  near(resize_bilinear(x, 1, 6).to_vector<float>(), {0, 5, 11.666668f, 18.333336f, 25, 30});
  near(resize_bilinear(x, 1, 2).to_vector<float>(), {5, 25});
  EXPECT_EQ(resize_nearest(x, 1, 6).to_vector<float>(), (F{0, 10, 10, 20, 30, 30}));
  near(call1("ResizeBilinear", {x, constant_ints({1, 6})}).to_vector<float>(),
       {0, 6.666667f, 13.333334f, 20, 26.666668f, 30});
}

TEST(Losses, SparseCrossEntropy) {
  const Tensor x = Tensor::from_vector(F{1, 2, 3}, Shape{1, 3});
  EXPECT_NEAR(sparse_softmax_cross_entropy_with_logits(x, constant_ints({0})).item<float>(), 2.407606f, 1e-6);
  EXPECT_THROW(sparse_softmax_cross_entropy_with_logits(x, constant_ints({3})), Error);
  // Of more axes, and of one (TensorFlow 2.21).
  const Tensor texts = reshape(sin(cast(range(24), DType::kFloat32)), {2, 3, 4});
  const Tensor losses = sparse_softmax_cross_entropy_with_logits(texts, Tensor({{0, 3, 1}, {2, 2, 0}}));
  EXPECT_EQ(losses.shape(), (Shape{2, 3}));
  EXPECT_NEAR(losses.to_vector<float>()[4], 1.7683113813400269f, 1e-6);
  const Tensor shares = add(mul(one_hot(Tensor({{0, 3, 1}, {2, 2, 0}}), 4), 0.5), 0.1);
  EXPECT_NEAR(softmax_cross_entropy_with_logits(texts, shares).to_vector<float>()[5], 1.0991404056549072f, 1e-6);
  EXPECT_NEAR(sparse_softmax_cross_entropy_with_logits(texts[0][0], Tensor::scalar(std::int64_t{2})).item<float>(),
              1.0300077f, 1e-6);
}

}  // namespace
}  // namespace lockstep::ops
