// Convolutions, transposed and depthwise ones by own loops against sums in double: values and gradients over windows
// drawn at random; and the same bytes from any number of threads.
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

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using ConvFunction = std::function<Tensor(const Tensors&)>;

Tensor seeds(const Shape& shape) { return ConvDraw(5).tensor(shape); }

// The value of f and the gradients of its product with seeds().
std::vector<Floats> value_and_gradients(const ConvFunction& f, const Tensors& inputs) {
  set_grad_enabled(true);
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(make_leaf(input));
  const Tensor y = f(leaves);
  std::vector<Floats> out = {detach(y).to_vector<float>()};
  for (const Tensor& gradient : grad({y}, leaves, {seeds(y.shape())}, false, false))
    out.push_back(gradient.to_vector<float>());
  set_grad_enabled(false);
  return out;
}

void expect_all_near(const ConvFunction& f, const Tensors& inputs, const std::vector<Doubles>& want,
                     const std::string& what) {
  const int threads = intra_op_threads();
  set_intra_op_threads(1);
  const std::vector<Floats> got = value_and_gradients(f, inputs);
  for (const int count : {2, 5}) {
    set_intra_op_threads(count);
    EXPECT_EQ(value_and_gradients(f, inputs), got) << what << ", threads " << count;
  }
  set_intra_op_threads(threads);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].size(), want[i].size()) << what << ' ' << i;
    double size = 1;
    for (const double value : want[i]) size = std::max(size, std::fabs(value));
    for (std::size_t n = 0; n < want[i].size(); ++n)
      ASSERT_NEAR(got[i][n], want[i][n], 1e-5 * size) << what << ' ' << i << ' ' << n;
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

// One convolution between large images (its input) and small ones (its output), by sums in double.
struct Sums {
  const DrawnWindow& w;
  std::int64_t batch, large_channels, small_channels, small_h = 0, small_w = 0;
  bool depthwise = false;

  Sums(const DrawnWindow& window, std::int64_t batch_size, std::int64_t large, std::int64_t small, bool depth)
      : w(window), batch(batch_size), large_channels(large), small_channels(small), depthwise(depth) {
    small_h = extent(w.height, w.window_h, 0), small_w = extent(w.width, w.window_w, 1);
  }
  std::int64_t extent(std::int64_t in, std::int64_t window, std::size_t axis) const {
    const std::int64_t stride = w.options.strides[axis], reach = (window - 1) * w.options.dilations[axis];
    return w.options.padding == "SAME" ? (in + stride - 1) / stride : (in - reach - 1) / stride + 1;
  }
  std::int64_t before(std::int64_t in, std::int64_t out, std::int64_t window, std::size_t axis) const {
    if (w.options.padding != "SAME") return 0;
    const std::int64_t reach = (window - 1) * w.options.dilations[axis];
    return std::max<std::int64_t>((out - 1) * w.options.strides[axis] + reach + 1 - in, 0) / 2;
  }
  Shape large() const { return {batch, w.height, w.width, large_channels}; }
  Shape small() const { return {batch, small_h, small_w, small_channels}; }
  Shape kernel() const {
    return {w.window_h, w.window_w, large_channels, depthwise ? small_channels / large_channels : small_channels};
  }

  // Calls each(index into large, into the kernel, into small).
  template <typename Each>
  void for_each(const Each& each) const {
    const std::int64_t top = before(w.height, small_h, w.window_h, 0), left = before(w.width, small_w, w.window_w, 1);
    const std::int64_t last = kernel()[3];
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t oy = 0; oy < small_h; ++oy)
        for (std::int64_t ox = 0; ox < small_w; ++ox)
          for (std::int64_t i = 0; i < w.window_h; ++i)
            for (std::int64_t j = 0; j < w.window_w; ++j) {
              const std::int64_t y = oy * w.options.strides[0] + i * w.options.dilations[0] - top,
                                 x = ox * w.options.strides[1] + j * w.options.dilations[1] - left;
              if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
              for (std::int64_t c = 0; c < large_channels; ++c)
                for (std::int64_t o = 0; o < last; ++o)
                  each(static_cast<std::size_t>(((n * w.height + y) * w.width + x) * large_channels + c),
                       static_cast<std::size_t>(((i * w.window_w + j) * large_channels + c) * last + o),
                       static_cast<std::size_t>(((n * small_h + oy) * small_w + ox) * small_channels +
                                                (depthwise ? c * last + o : o)));
            }
  }
};

Doubles doubles(const Tensor& x) {
  const Floats values = x.to_vector<float>();
  return Doubles(values.begin(), values.end());
}

// The output times `factors` (empty: ones), and the gradients of images, kernel and bias (undefined: none).
std::vector<Doubles> wanted(const Sums& sums, bool transposed, bool relu, const Tensors& inputs,
                            const Floats& factors = {}) {
  const Doubles x = doubles(inputs[0]), k = doubles(inputs[1]);
  const Shape out = transposed ? sums.large() : sums.small();
  const auto each = [&](const auto& f) {
    sums.for_each([&](std::size_t large, std::size_t tap, std::size_t small) {
      f(transposed ? small : large, tap, transposed ? large : small);
    });
  };
  Doubles y(static_cast<std::size_t>(*out.num_elements())), dx(x.size()), dk(k.size()), dz = doubles(seeds(out));
  each([&](std::size_t in, std::size_t tap, std::size_t to) { y[to] += x[in] * k[tap]; });
  const Doubles bias = inputs.size() > 2 ? doubles(inputs[2]) : Doubles();
  Doubles db(bias.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!bias.empty()) y[i] += bias[i % bias.size()];
    if (relu && y[i] <= 0) y[i] = dz[i] = 0;
    if (!factors.empty()) y[i] *= factors[i], dz[i] *= factors[i];
    if (!bias.empty()) db[i % bias.size()] += dz[i];
  }
  each([&](std::size_t in, std::size_t tap, std::size_t to) { dx[in] += dz[to] * k[tap], dk[tap] += dz[to] * x[in]; });
  std::vector<Doubles> all = {std::move(y), std::move(dx), std::move(dk)};
  if (!bias.empty()) all.push_back(std::move(db));
  return all;
}

TEST(DirectConv, EqualsSums) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    ConvDraw draw(seed);
    const DrawnWindow w = draw_conv(draw);
    const Sums sums(w, draw.whole(1, 20), draw.whole(1, 40), draw.whole(1, 70), false);
    const bool relu = draw.whole(0, 1) == 1;
    const Tensors inputs = {draw.tensor(sums.large()), draw.tensor(sums.kernel()), draw.tensor({sums.small_channels})};
    expect_all_near([&](const Tensors& x) { return conv2d_bias_act(x[0], x[1], x[2], relu ? "relu" : "", w.options); },
                    inputs, wanted(sums, false, relu, inputs), "convolution, seed " + std::to_string(seed));
  }
}

TEST(DirectConv, TransposedEqualsSums) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    ConvDraw draw(seed);
    const DrawnWindow w = draw_conv(draw);
    const Sums sums(w, draw.whole(1, 20), draw.whole(1, 70), draw.whole(1, 40), false);
    const bool relu = draw.whole(0, 1) == 1;
    const Tensors inputs = {draw.tensor(sums.small()), draw.tensor(sums.kernel()), draw.tensor({sums.large_channels})};
    const Tensor shape = constant_ints({sums.batch, w.height, w.width, sums.large_channels});
    expect_all_near(
        [&](const Tensors& x) { return conv2d_transpose_bias_act(x[0], x[1], shape, x[2], relu, w.options); }, inputs,
        wanted(sums, true, relu, inputs), "transposed, seed " + std::to_string(seed));
  }
}

// Values and gradients of a convolution, or of a transposed one, with drawn inputs, against those of `sums`.
void expect_sums(ConvDraw& draw, const DrawnWindow& w, const Sums& sums, bool transposed, bool relu,
                 const std::string& what) {
  const Tensors inputs = {draw.tensor(transposed ? sums.small() : sums.large()), draw.tensor(sums.kernel()),
                          draw.tensor({transposed ? sums.large_channels : sums.small_channels})};
  const Tensor shape = constant_ints({sums.batch, w.height, w.width, sums.large_channels});
  expect_all_near(
      [&](const Tensors& x) {
        return transposed ? conv2d_transpose_bias_act(x[0], x[1], shape, x[2], relu, w.options)
                          : conv2d_bias_act(x[0], x[1], x[2], relu ? "relu" : "", w.options);
      },
      inputs, wanted(sums, transposed, relu, inputs), what);
}

// Windows of 3 x 3 over more channels: by Winograd's algorithm where winograd_outputs() finds it faster.
TEST(DirectConv, ThreeByThree) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    ConvDraw draw(seed + 3000);
    DrawnWindow w;
    w.height = draw.whole(3, 21), w.width = draw.whole(3, 21), w.window_h = w.window_w = 3;
    w.options.padding = draw.whole(0, 1) ? "VALID" : "SAME";
    const bool transposed = seed % 4 == 3, relu = draw.whole(0, 1) == 1;
    const Sums sums(w, draw.whole(1, 5), draw.whole(16, 40), draw.whole(16, 70), false);
    expect_sums(draw, w, sums, transposed, relu, "3 x 3, seed " + std::to_string(seed));
  }
}

// The same of windows of 2 x 2.
TEST(DirectConv, TwoByTwo) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    ConvDraw draw(seed + 6000);
    DrawnWindow w;
    w.height = draw.whole(17, 26), w.width = draw.whole(17, 26), w.window_h = w.window_w = 2;
    w.options.padding = draw.whole(0, 1) ? "VALID" : "SAME";
    const bool transposed = seed % 4 == 3, relu = draw.whole(0, 1) == 1;
    const Sums sums(w, draw.whole(1, 4), draw.whole(16, 40), draw.whole(16, 50), false);
    expect_sums(draw, w, sums, transposed, relu, "2 x 2, seed " + std::to_string(seed));
  }
}

// Windows of one row over more channels, as Conv1D has them: by the algorithm of Toom and Cook.
TEST(DirectConv, Lines) {
  for (unsigned seed = 0; seed < 32; ++seed) {
    ConvDraw draw(seed + 5000);
    DrawnWindow w;
    w.window_h = 1, w.window_w = draw.whole(3, 17);
    const std::int64_t dilation = seed % 3 == 2 ? draw.whole(2, 4) : 1;
    w.height = draw.whole(1, 2), w.width = (w.window_w - 1) * dilation + draw.whole(1, 60);
    w.options.dilations = {1, dilation};
    w.options.padding = draw.whole(0, 1) ? "VALID" : "SAME";
    const bool transposed = seed % 4 == 3 && dilation == 1, relu = draw.whole(0, 1) == 1;
    const Sums sums(w, draw.whole(1, 5), draw.whole(16, 40), draw.whole(16, 70), false);
    expect_sums(draw, w, sums, transposed, relu, "line, seed " + std::to_string(seed));
  }
}

// An infinite pixel reaches the same elements of values and gradients as by sums.
TEST(DirectConv, InfiniteInputs) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    ConvDraw draw(seed + 4000);
    DrawnWindow w;
    w.height = w.width = draw.whole(6, 14), w.window_h = w.window_w = 3;
    if (seed >= 6) w.height = w.window_h = 1, w.width = 40, w.window_w = draw.whole(3, 9);
    w.options.padding = "SAME";
    const Sums sums(w, 2, 16, 24, false);
    Tensors inputs = {draw.tensor(sums.large()), draw.tensor(sums.kernel())};
    Floats pixels = inputs[0].to_vector<float>();
    pixels[static_cast<std::size_t>(draw.whole(0, static_cast<std::int64_t>(pixels.size()) - 1))] = INFINITY;
    if (seed % 2) pixels[0] = NAN;
    inputs[0] = Tensor::from_vector(pixels, sums.large());
    const auto got =
        value_and_gradients([&](const Tensors& x) { return conv2d_bias_act(x[0], x[1], {}, "", w.options); }, inputs);
    const auto want = wanted(sums, false, false, inputs);
    for (std::size_t i = 0; i < want.size(); ++i) {
      for (std::size_t n = 0; n < want[i].size(); ++n) {
        const auto value = static_cast<float>(want[i][n]);
        ASSERT_EQ(std::isnan(got[i][n]), std::isnan(value)) << "seed " << seed << ' ' << i << ' ' << n;
        if (std::isnan(value)) continue;
        const double allowed = std::isinf(value) ? 0 : 1e-4 * (1 + std::fabs(value));
        ASSERT_TRUE(got[i][n] == value || std::fabs(got[i][n] - value) <= allowed)
            << "seed " << seed << ' ' << i << ' ' << n << ": " << got[i][n] << ", wanted " << value;
      }
    }
  }
}

// Images that are computed side by side, and gradients of kernels cell by cell of the window.
TEST(DirectConv, SmallImagesOfManyChannels) {
  for (unsigned seed = 0; seed < 16; ++seed) {
    ConvDraw draw(seed + 1000);
    DrawnWindow w = draw_conv(draw);
    w.height = draw.whole(1, 5), w.width = draw.whole(1, 5), w.options.padding = "SAME";
    const bool transposed = seed % 2 == 1, relu = draw.whole(0, 1) == 1;
    const Sums sums(w, draw.whole(4, 26), draw.whole(32, 150), draw.whole(64, 140), false);
    expect_sums(draw, w, sums, transposed, relu, "small images, seed " + std::to_string(seed));
  }
}

// Gradients that are zero almost everywhere: those of the few largest numbers of the output.
TEST(DirectConv, SparseGradients) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    ConvDraw draw(seed + 2000);
    const DrawnWindow w = draw_conv(draw);
    const Sums sums(w, draw.whole(1, 20), draw.whole(1, 40), draw.whole(1, 70), false);
    const bool relu = draw.whole(0, 1) == 1;
    const Tensors inputs = {draw.tensor(sums.large()), draw.tensor(sums.kernel()), draw.tensor({sums.small_channels})};
    // The output times a tensor of zeros and few ones: that is the gradient's too.
    const Shape out = sums.small();
    Floats chosen(static_cast<std::size_t>(*out.num_elements()));
    for (float& number : chosen) number = draw.whole(0, 39) == 0 ? 1.0f : 0.0f;
    const Tensor few = Tensor::from_vector(chosen, out);
    std::vector<Doubles> want = wanted(sums, false, relu, inputs, chosen);
    expect_all_near(
        [&](const Tensors& x) { return conv2d_bias_act(x[0], x[1], x[2], relu ? "relu" : "", w.options) * few; },
        inputs, want, "sparse, seed " + std::to_string(seed));
  }
}

TEST(DirectConv, DepthwiseEqualsSums) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    ConvDraw draw(seed);
    DrawnWindow w = draw_conv(draw);
    w.options.strides[1] = w.options.strides[0];
    const std::int64_t batch = draw.whole(1, 20), in = draw.whole(1, 70),
                       multiplier = draw.whole(0, 1) ? 1 : draw.whole(2, 5);
    const Sums sums(w, batch, in, in * multiplier, true);
    const Tensors inputs = {draw.tensor(sums.large()), draw.tensor(sums.kernel())};
    expect_all_near([&](const Tensors& x) { return depthwise_conv2d(x[0], x[1], w.options); }, inputs,
                    wanted(sums, false, false, inputs), "depthwise, seed " + std::to_string(seed));
  }
}

}  // namespace
}  // namespace lockstep::ops
