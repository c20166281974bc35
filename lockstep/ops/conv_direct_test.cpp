// Convolutions, transposed and depthwise ones by own loops against the plain operations in float64: values and
// gradients over windows drawn at random; and the same bytes from any number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::ops {
namespace {

class ConvDraw {
 public:
  explicit ConvDraw(unsigned seed) : engine_(seed) {}
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  Tensor tensor(const Shape& shape) {
    std::uniform_real_distribution<float> values(-1, 1);
    std::vector<float> numbers(static_cast<std::size_t>(*shape.num_elements()));
    for (float& number : numbers) number = values(engine_);
    return Tensor::from_vector(numbers, shape);
  }

 private:
  std::mt19937 engine_;
};

using ConvFunction = std::function<Tensor(const Tensors&)>;

// The value of f and the gradients of its product with fixed numbers.
Tensors value_and_gradients(const ConvFunction& f, const Tensors& inputs, DType dtype) {
  set_grad_enabled(true);
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(make_leaf(cast(input, dtype)));
  const Tensor y = f(leaves);
  const Tensor seed = cast(ConvDraw(5).tensor(y.shape()), dtype);
  Tensors out = grad({y}, leaves, {seed}, false, false);
  out.insert(out.begin(), detach(y));
  set_grad_enabled(false);
  return out;
}

void compare_wide(const ConvFunction& f, const Tensors& inputs, const std::string& what) {
  const int threads = intra_op_threads();
  set_intra_op_threads(1);
  const Tensors got = value_and_gradients(f, inputs, DType::kFloat32),
                want = value_and_gradients(f, inputs, DType::kFloat64);
  for (const int count : {2, 5}) {
    set_intra_op_threads(count);
    const Tensors other = value_and_gradients(f, inputs, DType::kFloat32);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(other[i].to_vector<float>(), got[i].to_vector<float>()) << what << ' ' << i << ", threads " << count;
  }
  set_intra_op_threads(threads);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].shape(), want[i].shape()) << what << ' ' << i;
    const auto g = got[i].to_vector<float>();
    const auto w = want[i].to_vector<double>();
    double size = 1;
    for (const double value : w) size = std::max(size, std::fabs(value));
    for (std::size_t n = 0; n < w.size(); ++n) ASSERT_NEAR(g[n], w[n], 1e-5 * size) << what << ' ' << i << ' ' << n;
  }
}

struct DrawnWindow {
  ConvOptions options;
  std::int64_t height, width, window_h, window_w;
};

DrawnWindow draw_conv(ConvDraw& draw) {
  DrawnWindow w;
  w.height = draw.whole(1, 12), w.width = draw.whole(1, 14);
  w.window_h = draw.whole(1, 4), w.window_w = draw.whole(1, 4);
  const std::int64_t kind = draw.whole(0, 2);
  if (kind == 1) w.options.strides = {draw.whole(1, 3), draw.whole(1, 3)};
  if (kind == 2) w.options.dilations = {draw.whole(1, 3), draw.whole(1, 3)};
  const bool fits =
      (w.window_h - 1) * w.options.dilations[0] < w.height && (w.window_w - 1) * w.options.dilations[1] < w.width;
  w.options.padding = fits && draw.whole(0, 1) ? "VALID" : "SAME";
  return w;
}

TEST(DirectConv, EqualsPlain) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    ConvDraw draw(seed);
    const DrawnWindow w = draw_conv(draw);
    const std::int64_t batch = draw.whole(1, 20), in = draw.whole(1, 40), out = draw.whole(1, 70);
    const bool relu = draw.whole(0, 1) == 1;
    compare_wide([&](const Tensors& x) { return conv2d_bias_act(x[0], x[1], x[2], relu ? "relu" : "", w.options); },
                 {draw.tensor({batch, w.height, w.width, in}), draw.tensor({w.window_h, w.window_w, in, out}),
                  draw.tensor({out})},
                 "convolution, seed " + std::to_string(seed));
  }
}

TEST(DirectConv, TransposedEqualsPlain) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    ConvDraw draw(seed);
    const DrawnWindow w = draw_conv(draw);
    const std::int64_t batch = draw.whole(1, 20), in = draw.whole(1, 40), out = draw.whole(1, 70);
    const bool relu = draw.whole(0, 1) == 1;
    // The shape of the images is that of the output of a convolution of the result.
    const Tensor kernel = draw.tensor({w.window_h, w.window_w, out, in});
    const Shape small =
        conv2d(Tensor::full(Shape{1, w.height, w.width, out}, 0), Tensor::full(kernel.shape(), 0), w.options).shape();
    compare_wide(
        [&](const Tensors& x) {
          return conv2d_transpose_bias_act(x[0], x[1], constant_ints({batch, w.height, w.width, out}), x[2], relu,
                                           w.options);
        },
        {draw.tensor({batch, small[1], small[2], in}), kernel, draw.tensor({out})},
        "transposed, seed " + std::to_string(seed));
  }
}

TEST(DirectConv, DepthwiseEqualsPlain) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    ConvDraw draw(seed);
    DrawnWindow w = draw_conv(draw);
    w.options.strides[1] = w.options.strides[0];
    const std::int64_t batch = draw.whole(1, 20), in = draw.whole(1, 70), multiplier = draw.whole(0, 3) ? 1 : 2;
    compare_wide([&](const Tensors& x) { return depthwise_conv2d(x[0], x[1], w.options); },
                 {draw.tensor({batch, w.height, w.width, in}), draw.tensor({w.window_h, w.window_w, in, multiplier})},
                 "depthwise, seed " + std::to_string(seed));
  }
}

}  // namespace
}  // namespace lockstep::ops
