// Both builds of the loops against sums written out in double, over shapes drawn at random.
#include "lockstep/ops/direct_internal.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/winograd_internal.h"

namespace lockstep::ops {

extern const DirectKernels kDirect_avx2, kDirect_avx512;
extern const WinogradKernels kWinograd_avx2, kWinograd_avx512;

namespace {

using Floats = std::vector<float>;

std::vector<const DirectKernels*> builds() {
  std::vector<const DirectKernels*> all = {&kDirect_avx2};
  if (&direct_kernels() == &kDirect_avx512) all.push_back(&kDirect_avx512);
  return all;
}
std::vector<const WinogradKernels*> winograd_builds() {
  std::vector<const WinogradKernels*> all = {&kWinograd_avx2};
  if (&winograd_kernels() == &kWinograd_avx512) all.push_back(&kWinograd_avx512);
  return all;
}

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  Floats floats(std::int64_t count) {
    std::uniform_real_distribution<float> values(-1, 1);
    Floats out(static_cast<std::size_t>(count));
    for (float& value : out) value = values(engine_);
    return out;
  }

 private:
  std::mt19937 engine_;
};

void expect_near(const Floats& got, const std::vector<double>& want, const char* what, int seed) {
  ASSERT_GE(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-4 * (1 + std::fabs(want[i]))) << what << " seed " << seed << " at " << i;
}

void check_product(const DirectKernels& loops, int seed) {
  Draw draw(static_cast<unsigned>(seed));
  Product p;
  p.rows = draw.number(1, 40), p.columns = draw.number(1, 150), p.depth = draw.number(1, seed % 4 == 0 ? 600 : 60);
  if (seed % 32 >= 16)
    p.rows = draw.number(100, 250), p.columns = draw.number(60, 700), p.depth = draw.number(200, 300);
  p.transpose_a = seed & 1, p.transpose_b = seed & 2, p.relu = seed & 4;
  p.a_stride = (p.transpose_a ? p.rows : p.depth) + draw.number(0, 3),
  p.b_stride = (p.transpose_b ? p.depth : p.columns) + draw.number(0, 3);
  p.c_stride = p.columns;
  const Floats a = draw.floats((p.transpose_a ? p.depth : p.rows) * p.a_stride),
               b = draw.floats((p.transpose_b ? p.columns : p.depth) * p.b_stride);
  const Floats bias = draw.floats(p.columns);
  p.a = a.data(), p.b = b.data();
  if (seed & 8) p.bias = bias.data();
  std::vector<double> want;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t j = 0; j < p.columns; ++j) {
      double sum = p.bias ? bias[static_cast<std::size_t>(j)] : 0;
      for (std::int64_t k = 0; k < p.depth; ++k) {
        const double x = p.transpose_a ? a[static_cast<std::size_t>(k * p.a_stride + i)]
                                       : a[static_cast<std::size_t>(i * p.a_stride + k)];
        sum += x * (p.transpose_b ? b[static_cast<std::size_t>(j * p.b_stride + k)]
                                  : b[static_cast<std::size_t>(k * p.b_stride + j)]);
      }
      want.push_back(p.relu ? std::max(sum, 0.0) : sum);
    }
  }
  Floats whole(want.size()), parts(want.size());
  p.c = whole.data();
  loops.matrix_product(p, 0, p.rows, 0, p.columns);
  expect_near(whole, want, "product", seed);
  p.c = parts.data();
  const std::int64_t half = p.rows / 2;
  for (std::int64_t j = 0; j < p.columns; j += loops.panel) {
    loops.matrix_product(p, half, p.rows, j, std::min(p.columns, j + loops.panel));
    loops.matrix_product(p, 0, half, j, std::min(p.columns, j + loops.panel));
  }
  EXPECT_EQ(parts, whole) << "seed " << seed;
}

WindowGeometry draw_window(Draw& draw, bool stride, int most_outputs = 80) {
  WindowGeometry g;
  g.height = draw.number(6, 14), g.width = draw.number(6, 20), g.channels = draw.number(1, 40),
  g.out_channels = draw.number(1, most_outputs);
  g.window_h = draw.number(1, 4), g.window_w = draw.number(1, 4);
  if (stride) g.stride_h = draw.number(1, 2), g.stride_w = draw.number(1, 2);
  g.dilation_h = draw.number(1, 2), g.dilation_w = draw.number(1, 2);
  const std::int64_t reach_h = (g.window_h - 1) * g.dilation_h, reach_w = (g.window_w - 1) * g.dilation_w;
  g.pad_top = draw.number(0, reach_h), g.pad_bottom = draw.number(0, reach_h), g.pad_left = draw.number(0, reach_w),
  g.pad_right = draw.number(0, reach_w);
  g.out_h = (g.padded_h() - reach_h - 1) / g.stride_h + 1, g.out_w = (g.padded_w() - reach_w - 1) / g.stride_w + 1;
  return g;
}

// Calls each(input index, kernel index, output index) for all products of a convolution.
template <typename Each>
void for_each_product(const WindowGeometry& g, const Each& each) {
  for (std::int64_t oy = 0; oy < g.out_h; ++oy)
    for (std::int64_t ox = 0; ox < g.out_w; ++ox)
      for (std::int64_t i = 0; i < g.window_h; ++i)
        for (std::int64_t j = 0; j < g.window_w; ++j) {
          const std::int64_t y = oy * g.stride_h + i * g.dilation_h - g.pad_top,
                             x = ox * g.stride_w + j * g.dilation_w - g.pad_left;
          if (y < 0 || y >= g.height || x < 0 || x >= g.width) continue;
          for (std::int64_t c = 0; c < g.channels; ++c)
            for (std::int64_t o = 0; o < g.out_channels; ++o)
              each(static_cast<std::size_t>((y * g.width + x) * g.channels + c),
                   static_cast<std::size_t>(((i * g.window_w + j) * g.channels + c) * g.out_channels + o),
                   static_cast<std::size_t>((oy * g.out_w + ox) * g.out_channels + o));
        }
}

Floats run_forward(const DirectKernels& loops, const WindowGeometry& g, const Floats& x, const Floats& packed,
                   const float* bias, bool relu) {
  Floats padded(static_cast<std::size_t>(g.padded_h() * g.padded_w() * g.channels)),
      y(static_cast<std::size_t>(g.out_h * g.out_w * g.out_channels));
  loops.pad_image(g, x.data(), padded.data());
  const std::int64_t pixels = g.out_h * g.out_w;
  const ConvOutput to{y.data(), g.out_channels, g.out_w * g.out_channels};
  loops.conv_forward(g, padded.data(), packed.data(), bias, relu, pixels / 2, pixels, to);
  loops.conv_forward(g, padded.data(), packed.data(), bias, relu, 0, pixels / 2, to);
  return y;
}

void check_convolution(const DirectKernels& loops, int seed) {
  Draw draw(static_cast<unsigned>(seed));
  const WindowGeometry g = draw_window(draw, seed % 2 == 0, seed < 60 ? 80 : 8);
  const Floats x = draw.floats(g.height * g.width * g.channels), k = draw.floats(g.taps() * g.out_channels),
               bias = draw.floats(g.out_channels);
  Floats dy = draw.floats(g.out_h * g.out_w * g.out_channels);
  std::vector<double> y(dy.size()), dx(x.size()), dk(k.size());
  for_each_product(g, [&](std::size_t in, std::size_t tap, std::size_t out) {
    y[out] += static_cast<double>(x[in]) * k[tap];
    dx[in] += static_cast<double>(dy[out]) * k[tap];
    dk[tap] += static_cast<double>(dy[out]) * x[in];
  });
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::max(0.0, y[i] + bias[i % bias.size()]);
  Floats packed(static_cast<std::size_t>(loops.packed_kernel_size(g.taps(), g.out_channels)));
  loops.pack_kernel(g, k.data(), 0, g.out_channels, packed.data());
  expect_near(run_forward(loops, g, x, packed, bias.data(), true), y, "forward", seed);

  Floats padded(static_cast<std::size_t>(g.padded_h() * g.padded_w() * g.channels)), filter(k.size());
  loops.pad_image(g, x.data(), padded.data());
  Floats readable = dy;
  for (std::int64_t i = 0; i < loops.width; ++i) readable.push_back(0);
  loops.conv_filter_gradient(g, padded.data(), readable.data(), filter.data());
  expect_near(filter, dk, "filter gradient", seed);

  if (g.stride_h != 1 || g.stride_w != 1) return;
  WindowGeometry f = g;
  f.height = g.out_h, f.width = g.out_w, f.channels = g.out_channels, f.out_h = g.height, f.out_w = g.width,
  f.out_channels = g.channels;
  f.pad_top = (g.window_h - 1) * g.dilation_h - g.pad_top,
  f.pad_bottom = (g.window_h - 1) * g.dilation_h - g.pad_bottom;
  f.pad_left = (g.window_w - 1) * g.dilation_w - g.pad_left,
  f.pad_right = (g.window_w - 1) * g.dilation_w - g.pad_right;
  packed.assign(static_cast<std::size_t>(loops.packed_kernel_size(f.taps(), f.out_channels)), 0);
  loops.pack_flipped_kernel(g, k.data(), {0, 1, g.window_h}, {0, 1, g.window_w}, 0, g.channels, packed.data());
  expect_near(run_forward(loops, f, dy, packed, nullptr, false), dx, "image gradient", seed);
}

TEST(DirectLoops, MatrixProduct) {
  for (const DirectKernels* loops : builds()) {
    for (int seed = 0; seed < 160; ++seed) check_product(*loops, seed);
  }
}

TEST(DirectLoops, Convolution) {
  for (const DirectKernels* loops : builds()) {
    for (int seed = 0; seed < 100; ++seed) check_convolution(*loops, seed);
  }
}

// More weights than one block holds: channels are summed in several goes.
TEST(DirectLoops, ConvolutionOfManyChannels) {
  Draw draw(7);
  WindowGeometry g;
  g.height = 3, g.width = 7, g.channels = 300, g.window_h = g.window_w = 3, g.out_h = 1, g.out_w = 5,
  g.out_channels = 70;
  const Floats x = draw.floats(g.height * g.width * g.channels), k = draw.floats(g.taps() * g.out_channels);
  std::vector<double> y(static_cast<std::size_t>(g.out_h * g.out_w * g.out_channels));
  for_each_product(
      g, [&](std::size_t in, std::size_t tap, std::size_t out) { y[out] += static_cast<double>(x[in]) * k[tap]; });
  for (const DirectKernels* loops : builds()) {
    Floats packed(static_cast<std::size_t>(loops->packed_kernel_size(g.taps(), g.out_channels)));
    loops->pack_kernel(g, k.data(), 0, g.out_channels, packed.data());
    expect_near(run_forward(*loops, g, x, packed, nullptr, false), y, "forward", 7);
  }
}

// A window of `size` x `size`, or of one row if that is 1, over several images with any border.
WindowGeometry draw_winograd(Draw& draw, int size) {
  const bool line = size == 1;
  WindowGeometry g;
  g.window_h = g.window_w = size;
  g.height = draw.number(3, 15), g.width = draw.number(3, 15);
  if (line) {
    g.window_h = 1, g.window_w = draw.number(3, 14), g.dilation_w = draw.number(1, 3);
    g.height = draw.number(1, 3), g.width = (g.window_w - 1) * g.dilation_w + draw.number(1, 40);
  }
  g.channels = draw.number(1, 40), g.out_channels = draw.number(1, 90);
  const int border = size == 2 ? 1 : 2;
  g.pad_left = draw.number(0, border), g.pad_right = draw.number(0, border);
  if (!line) g.pad_top = draw.number(0, border), g.pad_bottom = draw.number(0, border);
  g.out_h = g.padded_h() - (g.window_h - 1), g.out_w = g.padded_w() - (g.window_w - 1) * g.dilation_w;
  return g;
}

// In units of work: the same bytes however many there are.
Floats run_winograd(const WinogradKernels& loops, const WindowGeometry& g, int outputs, std::int64_t images,
                    const Floats& x, const Floats& packed, const float* bias, bool relu, const Floats* sums,
                    std::int64_t wanted) {
  const std::int64_t size = g.out_h * g.out_w * g.out_channels;
  Floats y = sums ? *sums : Floats(static_cast<std::size_t>(images * size), -7.0f);
  const WinogradUnits units(g, outputs, images, wanted);
  const ConvOutput to{y.data(), g.out_channels, g.out_w * g.out_channels, size, sums != nullptr};
  for (std::int64_t unit = units.count(); unit-- > 0;) {
    loops.forward(g, outputs, x.data(), packed.data(), bias, relu, units[unit], to);
  }
  return y;
}

void check_winograd(const WinogradKernels& loops, int outputs, int size, int seed) {
  Draw draw(static_cast<unsigned>(seed));
  const WindowGeometry g = draw_winograd(draw, size);
  const std::int64_t images = draw.number(1, 4);
  const Floats x = draw.floats(images * g.height * g.width * g.channels), k = draw.floats(g.taps() * g.out_channels),
               bias = draw.floats(g.out_channels), sums = draw.floats(images * g.out_h * g.out_w * g.out_channels);
  const bool relu = seed & 1, adds = seed & 2;
  std::vector<double> y(sums.begin(), sums.end());
  if (!adds) std::fill(y.begin(), y.end(), 0.0);
  std::vector<double> dx(x.size()), dk(k.size());
  for (std::int64_t n = 0; n < images; ++n) {
    const auto in_image = static_cast<std::size_t>(n * g.height * g.width * g.channels),
               out_image = static_cast<std::size_t>(n * g.out_h * g.out_w * g.out_channels);
    for_each_product(g, [&](std::size_t in, std::size_t tap, std::size_t out) {
      y[out_image + out] += static_cast<double>(x[in_image + in]) * k[tap];
      dx[in_image + in] += static_cast<double>(sums[out_image + out]) * k[tap];
      dk[tap] += static_cast<double>(sums[out_image + out]) * x[in_image + in];
    });
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] += bias[i % bias.size()];
    if (relu) y[i] = std::max(0.0, y[i]);
  }
  Floats packed(static_cast<std::size_t>(loops.packed_size(g, outputs)));
  loops.pack(g, outputs, k.data(), false, 0, g.out_channels, packed.data());
  const auto run = [&](std::int64_t wanted) {
    return run_winograd(loops, g, outputs, images, x, packed, bias.data(), relu, adds ? &sums : nullptr, wanted);
  };
  expect_near(run(1), y, "winograd", seed);
  EXPECT_EQ(run(7), run(1)) << "seed " << seed;
  EXPECT_EQ(run(64), run(1)) << "seed " << seed;

  Floats of_sums(packed.size(), 0.0f), filter(k.size());
  const std::int64_t tiles = images * winograd_tiles(g, outputs);
  loops.filter_gradient(g, outputs, x.data(), sums.data(), 0, tiles / 3, of_sums.data());
  loops.filter_gradient(g, outputs, x.data(), sums.data(), tiles / 3, tiles, of_sums.data());
  loops.finish_filter_gradient(g, outputs, of_sums.data(), 0, g.channels, filter.data());
  expect_near(filter, dk, "winograd filter gradient", seed);

  WindowGeometry f = g;
  f.height = g.out_h, f.width = g.out_w, f.channels = g.out_channels, f.out_h = g.height, f.out_w = g.width,
  f.out_channels = g.channels;
  f.pad_top = g.window_h - 1 - g.pad_top, f.pad_left = (g.window_w - 1) * g.dilation_w - g.pad_left;
  packed.assign(static_cast<std::size_t>(loops.packed_size(f, outputs)), 0);
  loops.pack(f, outputs, k.data(), true, 0, f.out_channels, packed.data());
  expect_near(run_winograd(loops, f, outputs, images, sums, packed, nullptr, false, nullptr, 4), dx,
              "winograd gradient", seed);
}

TEST(DirectLoops, Winograd) {
  for (const WinogradKernels* loops : winograd_builds()) {
    for (const int outputs : {2, 4}) {
      for (int seed = 0; seed < 40; ++seed) check_winograd(*loops, outputs, 3, seed);
    }
    for (int seed = 0; seed < 40; ++seed) check_winograd(*loops, 4, 2, seed);
    for (int seed = 0; seed < 60; ++seed) check_winograd(*loops, 4, 1, seed);
  }
}

// Infinities and NaN stay in the outputs that they are part of.
TEST(DirectLoops, WinogradOfInfinities) {
  for (const WinogradKernels* loops : winograd_builds()) {
    for (int seed = 0; seed < 30; ++seed) {
      Draw draw(static_cast<unsigned>(seed));
      constexpr int kSizes[] = {3, 3, 3, 1, 2};
      const WindowGeometry g = draw_winograd(draw, kSizes[seed % 5]);
      Floats x = draw.floats(2 * g.height * g.width * g.channels);
      const Floats k = draw.floats(g.taps() * g.out_channels),
                   sums = draw.floats(2 * g.out_h * g.out_w * g.out_channels);
      const float bad[] = {INFINITY, -INFINITY, NAN};
      for (const float value : bad) x[static_cast<std::size_t>(draw.number(0, static_cast<int>(x.size()) - 1))] = value;
      std::vector<double> y(sums.begin(), sums.end());
      for (std::size_t n = 0; n < 2; ++n) {
        for_each_product(g, [&](std::size_t in, std::size_t tap, std::size_t out) {
          y[n * y.size() / 2 + out] += static_cast<double>(x[n * x.size() / 2 + in]) * k[tap];
        });
      }
      const int outputs = seed % 5 == 1 ? 2 : 4;
      Floats packed(static_cast<std::size_t>(loops->packed_size(g, outputs)));
      loops->pack(g, outputs, k.data(), false, 0, g.out_channels, packed.data());
      const Floats got = run_winograd(*loops, g, outputs, 2, x, packed, nullptr, false, &sums, 3);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const auto value = static_cast<float>(y[i]);
        ASSERT_EQ(std::isnan(got[i]), std::isnan(value)) << "seed " << seed << " at " << i;
        if (std::isnan(value)) continue;
        const double allowed = std::isinf(value) ? 0 : 1e-4 * (1 + std::fabs(value));
        ASSERT_TRUE(got[i] == value || std::fabs(got[i] - value) <= allowed)
            << "seed " << seed << " at " << i << ": " << got[i] << ", wanted " << value;
      }
    }
  }
}

// A max-pool and its gradient, written out; NaN is larger than nothing, and the first of a window keeps its mark.
void check_max_pool(const DirectKernels& loops, int seed) {
  Draw draw(static_cast<unsigned>(seed));
  WindowGeometry g;
  const std::int64_t size = seed % 2 ? 2 : draw.number(1, 3);
  g.window_h = size, g.window_w = seed % 2 ? 2 : draw.number(1, 3);
  g.stride_h = draw.number(1, 3), g.stride_w = seed % 3 ? g.stride_h : draw.number(1, 3);
  if (seed % 4 == 1) g.stride_h = g.stride_w = 2;
  g.height = draw.number(3, 7), g.width = draw.number(3, 7), g.channels = g.out_channels = draw.number(1, 70);
  if (seed % 5 == 0) g.pad_top = g.window_h - 1, g.pad_left = g.window_w - 1;
  g.out_h = (g.height + g.pad_top - g.window_h) / g.stride_h + 1;
  g.out_w = (g.width + g.pad_left - g.window_w) / g.stride_w + 1;
  Floats x = draw.floats(g.height * g.width * g.channels);
  for (float& value : x) value = std::round(4 * value);  // many equal ones
  for (const float value : {NAN, -INFINITY, INFINITY})
    for (int i = 0; i < 20; ++i) x[static_cast<std::size_t>(draw.number(0, static_cast<int>(x.size()) - 1))] = value;
  const Floats dy = draw.floats(g.out_h * g.out_w * g.channels);
  Floats y(dy.size()), plain(dy.size()), dx(x.size(), 7.0f), want_dx(x.size());
  std::vector<std::uint8_t> marks(dy.size());
  loops.max_pool_forward(g, x.data(), y.data(), marks.data());
  loops.max_pool_forward(g, x.data(), plain.data(), nullptr);
  loops.max_pool_backward(g, dy.data(), marks.data(), dx.data());
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(dy.size()); ++at) {
    const std::int64_t c = at % g.channels, ox = at / g.channels % g.out_w, oy = at / g.channels / g.out_w;
    float best = std::numeric_limits<float>::lowest(), leader = NAN;
    std::int64_t winner = -1, number = 0;
    for (std::int64_t i = 0; i < g.window_h; ++i) {
      for (std::int64_t j = 0; j < g.window_w; ++j) {
        const std::int64_t row = oy * g.stride_h - g.pad_top + i, column = ox * g.stride_w - g.pad_left + j;
        if (row < 0 || row >= g.height || column < 0 || column >= g.width) continue;
        const std::int64_t cell = (row * g.width + column) * g.channels + c;
        const float value = x[static_cast<std::size_t>(cell)];
        best = value > best ? value : best;
        if (winner < 0 || value > leader) leader = value, winner = cell, number = i * g.window_w + j;
      }
    }
    const auto n = static_cast<std::size_t>(at);
    ASSERT_EQ(y[n], best) << "seed " << seed << " at " << at;
    ASSERT_EQ(plain[n], best) << "seed " << seed << " at " << at;
    ASSERT_EQ(marks[n], number) << "seed " << seed << " at " << at;
    want_dx[static_cast<std::size_t>(winner)] += dy[n];
  }
  ASSERT_EQ(dx, want_dx) << "seed " << seed;
}

TEST(DirectLoops, MaxPool) {
  for (const DirectKernels* loops : builds()) {
    for (int seed = 0; seed < 60; ++seed) check_max_pool(*loops, seed);
  }
}

// Sums over many channels: the error stays at the level of the direct algorithm.
void check_error_of_winograd(std::int64_t window, const std::vector<int>& all_outputs) {
  WindowGeometry g;
  g.height = g.width = 12, g.channels = 300, g.window_h = g.window_w = window, g.out_h = g.out_w = 13 - window;
  g.out_channels = 24;
  Draw draw(11);
  Floats x = draw.floats(g.height * g.width * g.channels);
  for (float& value : x) value = std::max(0.0f, value + 0.3f);
  const Floats k = draw.floats(g.taps() * g.out_channels);
  std::vector<double> y(static_cast<std::size_t>(g.out_h * g.out_w * g.out_channels));
  for_each_product(
      g, [&](std::size_t in, std::size_t tap, std::size_t out) { y[out] += static_cast<double>(x[in]) * k[tap]; });
  double largest = 0;
  for (const double value : y) largest = std::max(largest, std::fabs(value));
  for (const WinogradKernels* loops : winograd_builds()) {
    for (const int outputs : all_outputs) {
      Floats packed(static_cast<std::size_t>(loops->packed_size(g, outputs)));
      loops->pack(g, outputs, k.data(), false, 0, g.out_channels, packed.data());
      const Floats got = run_winograd(*loops, g, outputs, 1, x, packed, nullptr, false, nullptr, 1);
      double error = 0;
      for (std::size_t i = 0; i < y.size(); ++i) error = std::max(error, std::fabs(got[i] - y[i]));
      EXPECT_LT(error, 5e-6 * largest) << outputs;
    }
  }
}

TEST(DirectLoops, ErrorOfWinograd) {
  check_error_of_winograd(3, {2, 4});
  check_error_of_winograd(2, {4});
}

TEST(ParallelFor, EveryNumberOnce) {
  set_parallel_threads(4);
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t count = 1 + round % 97;
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
    parallel_for(0, count, 1 + round % 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) seen[static_cast<std::size_t>(i)].fetch_add(1);
    });
    for (const auto& times : seen) ASSERT_EQ(times.load(), 1) << "round " << round;
  }
  set_parallel_threads(0);
}

TEST(ParallelFor, LoopsWithinLoopsAndExceptions) {
  set_parallel_threads(3);
  std::atomic<int> sum{0};
  parallel_for(0, 12, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(0, 10, 1, [&](std::int64_t from, std::int64_t to) { sum += static_cast<int>(to - from); });
    }
  });
  EXPECT_EQ(sum.load(), 120);
  const auto failing = [](std::int64_t begin, std::int64_t) {
    if (begin == 0) throw std::runtime_error("of a piece");
  };
  EXPECT_THROW(parallel_for(0, 12, 1, failing), std::runtime_error);
  EXPECT_NO_THROW(parallel_for(1, 12, 1, failing));
  set_parallel_threads(0);
}

}  // namespace
}  // namespace lockstep::ops
