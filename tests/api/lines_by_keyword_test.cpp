// Arguments by name and by position of functions of keras.ops and TensorFlow: the values are those of TensorFlow 2.21
// and Keras 3.15 for the same lines in Python.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/api/results.h"

namespace {

namespace ls = lockstep;
namespace keras = ls::keras;
using ls::Tensor;

const Tensor x{{1., -2., 3.}, {4., 5., -6.}}, a{1., 2., 3.}, b{4., 5., 6.}, i{0, 1, 2}, i2{0, 1};
const Tensor im = waves({1, 4, 4, 1}, 0.3), im4 = waves({1, 4, 4, 4}, 0.3), kern = waves({3, 3, 1, 2}, 0.3);

void expect(const char* line, const Tensor& found, const char* dtype, const ls::Shape& shape, const Numbers& expected) {
  EXPECT_EQ(ls::dtype_name(found.dtype()), dtype) << line;
  ASSERT_EQ(found.shape(), shape) << line;
  const Numbers values = numbers(found);
  for (std::size_t at = 0; at < expected.size(); ++at)
    EXPECT_NEAR(values[at], expected[at], 1e-5) << line << " at " << at;
}
TEST(KeywordLines, KerasOps) {
  expect(R"(keras::ops::repeat(x, {.repeats = 2, .axis = 1}))", keras::ops::repeat(x, {.repeats = 2, .axis = 1}),
         "float32", {2, 6}, {1, 1, -2, -2, 3, 3, 4, 4, 5, 5, -6, -6});
  expect(R"(keras::ops::repeat(x, 2))", keras::ops::repeat(x, 2), "float32", {12},
         {1, 1, -2, -2, 3, 3, 4, 4, 5, 5, -6, -6});
  expect(R"(keras::ops::repeat(a, {1, 0, 2}))", keras::ops::repeat(a, {1, 0, 2}), "float32", {3}, {1, 3, 3});
  expect(R"(keras::ops::clip(x, {.x_min = 0.0, .x_max = 1.0}))", keras::ops::clip(x, {.x_min = 0.0, .x_max = 1.0}),
         "float32", {2, 3}, {1, 0, 1, 1, 1, 0});
  expect(R"(keras::ops::roll(x, {.shift = 1, .axis = 0}))", keras::ops::roll(x, {.shift = 1, .axis = 0}), "float32",
         {2, 3}, {4, 5, -6, 1, -2, 3});
  expect(R"(keras::ops::moveaxis(x, {.source = 0, .destination = 1}))",
         keras::ops::moveaxis(x, {.source = 0, .destination = 1}), "float32", {3, 2}, {1, 4, -2, 5, 3, -6});
  expect(R"(keras::ops::split(x, {.indices_or_sections = 2, .axis = 0})[0])",
         keras::ops::split(x, {.indices_or_sections = 2, .axis = 0})[0], "float32", {1, 3}, {1, -2, 3});
  expect(R"(keras::ops::take(x, {.indices = i2, .axis = 1}))", keras::ops::take(x, {.indices = i2, .axis = 1}),
         "float32", {2, 2}, {1, -2, 4, 5});
  expect(R"(keras::ops::full({2}, {.fill_value = 3.0}))", keras::ops::full({2}, {.fill_value = 3.0}), "float32", {2},
         {3, 3});
  expect(R"(keras::ops::pad(x, {{1, 1}, {0, 0}}, {.constant_values = 1}))",
         keras::ops::pad(x, {{1, 1}, {0, 0}}, {.constant_values = 1}), "float32", {4, 3},
         {1, 1, 1, 1, -2, 3, 4, 5, -6, 1, 1, 1});
  expect(R"(keras::ops::swapaxes(x, {.axis1 = 0, .axis2 = 1}))", keras::ops::swapaxes(x, {.axis1 = 0, .axis2 = 1}),
         "float32", {3, 2}, {1, 4, -2, 5, 3, -6});
  expect(R"(keras::ops::where(x > 0, {.x1 = x, .x2 = 0}))", keras::ops::where(x > 0, {.x1 = x, .x2 = 0}), "float32",
         {2, 3}, {1, 0, 3, 4, 5, 0});
  expect(R"(keras::ops::meshgrid(a, b)[0])", keras::ops::meshgrid(a, b)[0], "float32", {3, 3},
         {1, 2, 3, 1, 2, 3, 1, 2, 3});
  expect(R"(keras::ops::meshgrid(a, b, {.indexing = "ij"})[0])", keras::ops::meshgrid(a, b, {.indexing = "ij"})[0],
         "float32", {3, 3}, {1, 1, 1, 2, 2, 2, 3, 3, 3});
  expect(R"(keras::ops::tensordot(x, x, {.axes = {{1}, {1}}}))", keras::ops::tensordot(x, x, {.axes = {{1}, {1}}}),
         "float32", {2, 2}, {14, -24, -24, 77});
  expect(R"(keras::ops::multi_hot(i, {.num_classes = 3}))", keras::ops::multi_hot(i, {.num_classes = 3}), "float32",
         {3}, {1, 1, 1});
  expect(R"(keras::ops::array({1.0, 2.0}))", keras::ops::array({1.0, 2.0}), "float32", {2}, {1, 2});
  expect(R"(keras::ops::convert_to_tensor(x, {.dtype = "int32"}))",
         keras::ops::convert_to_tensor(x, {.dtype = "int32"}), "int32", {2, 3}, {1, -2, 3, 4, 5, -6});
  expect(R"(keras::ops::tri(3))", keras::ops::tri(3), "float32", {3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1});
  expect(R"(keras::ops::expand_dims(a, {.axis = -1}))", keras::ops::expand_dims(a, {.axis = -1}), "float32", {3, 1},
         {1, 2, 3});
}

TEST(KeywordLines, TensorFlow) {
  expect(R"(ls::ops::one_hot(i, {.depth = 3}))", ls::ops::one_hot(i, {.depth = 3}), "float32", {3, 3},
         {1, 0, 0, 0, 1, 0, 0, 0, 1});
  expect(R"(ls::ops::one_hot({0, 2, -1}, {.depth = 3, .on_value = 5.0, .off_value = 1.0}))",
         ls::ops::one_hot({0, 2, -1}, {.depth = 3, .on_value = 5.0, .off_value = 1.0}), "float32", {3, 3},
         {5, 1, 1, 1, 1, 5, 1, 1, 1});
  expect(R"(ls::ops::repeat(x, {.repeats = 2, .axis = 0}))", ls::ops::repeat(x, {.repeats = 2, .axis = 0}), "float32",
         {4, 3}, {1, -2, 3, 1, -2, 3, 4, 5, -6, 4, 5, -6});
  expect(R"(ls::ops::pad(x, {{1, 1}, {0, 0}}, "REFLECT"))", ls::ops::pad(x, {{1, 1}, {0, 0}}, "REFLECT"), "float32",
         {4, 3}, {4, 5, -6, 1, -2, 3, 4, 5, -6, 1, -2, 3});
  expect(R"(ls::ops::pad(x, {{0, 1}, {1, 0}}, {.mode = "SYMMETRIC"}))",
         ls::ops::pad(x, {{0, 1}, {1, 0}}, {.mode = "SYMMETRIC"}), "float32", {3, 4},
         {1, 1, -2, 3, 4, 4, 5, -6, 4, 4, 5, -6});
  expect(R"(ls::ops::pad(x, {{1, 0}, {0, 0}}, {.constant_values = 7}))",
         ls::ops::pad(x, {{1, 0}, {0, 0}}, {.constant_values = 7}), "float32", {3, 3}, {7, 7, 7, 1, -2, 3, 4, 5, -6});
  expect(R"(ls::ops::pad(x, {.paddings = {{1, 1}, {0, 0}}}))", ls::ops::pad(x, {.paddings = {{1, 1}, {0, 0}}}),
         "float32", {4, 3}, {0, 0, 0, 1, -2, 3, 4, 5, -6, 0, 0, 0});
  expect(R"(ls::ops::split(x, {.num_or_size_splits = 2, .axis = 0})[1])",
         ls::ops::split(x, {.num_or_size_splits = 2, .axis = 0})[1], "float32", {1, 3}, {4, 5, -6});
  expect(R"(ls::ops::split(x, {.num_or_size_splits = {1, 2}, .axis = 1})[1])",
         ls::ops::split(x, {.num_or_size_splits = {1, 2}, .axis = 1})[1], "float32", {2, 2}, {-2, 3, 5, -6});
  expect(R"(ls::ops::range({.start = 1, .limit = 5, .delta = 2}))",
         ls::ops::range({.start = 1, .limit = 5, .delta = 2}), "int32", {2}, {1, 3});
  expect(R"(ls::ops::strided_slice(x, {0, 1}, {2, 3}))", ls::ops::strided_slice(x, {0, 1}, {2, 3}), "float32", {2, 2},
         {-2, 3, 5, -6});
  expect(R"(ls::ops::strided_slice(x, {0, 0}, {2, 3}, {1, 2}))", ls::ops::strided_slice(x, {0, 0}, {2, 3}, {1, 2}),
         "float32", {2, 2}, {1, 3, 4, -6});
  expect(R"(ls::ops::sequence_mask({1, 3, 2}, {.maxlen = 4}))", ls::ops::sequence_mask({1, 3, 2}, {.maxlen = 4}),
         "bool", {3, 4}, {1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 0, 0});
  expect(R"(ls::ops::roll(x, {.shift = 1, .axis = 0}))", ls::ops::roll(x, {.shift = 1, .axis = 0}), "float32", {2, 3},
         {4, 5, -6, 1, -2, 3});
  expect(R"(ls::constant(3.0, {.shape = {2, 2}}))", ls::constant(3.0, {.shape = {2, 2}}), "float32", {2, 2},
         {3, 3, 3, 3});
  expect(R"(ls::constant({1, 2, 3}, {.dtype = ls::float32}))", ls::constant({1, 2, 3}, {.dtype = ls::float32}),
         "float32", {3}, {1, 2, 3});
  expect(R"(ls::ops::eye(2, {.num_columns = 3}))", ls::ops::eye(2, {.num_columns = 3}), "float32", {2, 3},
         {1, 0, 0, 0, 1, 0});
  expect(R"(ls::ops::tensordot(x, x, {.axes = {{1}, {1}}}))", ls::ops::tensordot(x, x, {.axes = {{1}, {1}}}), "float32",
         {2, 2}, {14, -24, -24, 77});
  expect(R"(ls::ops::math::unsorted_segment_sum(a, {0, 0, 1}, {.num_segments = 2}))",
         ls::ops::math::unsorted_segment_sum(a, {0, 0, 1}, {.num_segments = 2}), "float32", {2}, {3, 3});
  expect(R"(ls::ops::math::divide_no_nan(x, x))", ls::ops::math::divide_no_nan(x, x), "float32", {2, 3},
         {1, 1, 1, 1, 1, 1});
  expect(R"(ls::ops::math::bincount(i))", ls::ops::math::bincount(i), "int32", {3}, {1, 1, 1});
  expect(R"(ls::ops::math::in_top_k({0, 1}, x, 1))", ls::ops::math::in_top_k({0, 1}, x, 1), "bool", {2}, {0, 1});
  expect(R"(ls::ops::dynamic_partition(a, {0, 1, 0}, 2)[0])", ls::ops::dynamic_partition(a, {0, 1, 0}, 2)[0], "float32",
         {2}, {1, 3});
  expect(R"(ls::ops::dynamic_stitch({i2, {2}}, {{5., 6.}, {7.}}))",
         ls::ops::dynamic_stitch({i2, {2}}, {{5., 6.}, {7.}}), "float32", {3}, {5, 6, 7});
  expect(R"(ls::ops::ensure_shape(x, {2, 3}))", ls::ops::ensure_shape(x, {2, 3}), "float32", {2, 3},
         {1, -2, 3, 4, 5, -6});
}

TEST(KeywordLines, NeuralNetworksImagesAndSignals) {
  expect(R"(ls::nn::conv2d(im, kern, {.strides = 1, .padding = "SAME"}))",
         ls::nn::conv2d(im, kern, {.strides = 1, .padding = "SAME"}), "float32", {1, 4, 4, 2},
         {-1.764308,  -1.881209,  -1.972656,  -2.480479, -1.370363, -2.064334, -0.1043156, -0.6914097,
          0.03130291, -0.5201961, 1.600018,   0.8589625, 2.644955,  2.166236,  2.048784,   2.047161,
          3.043354,   3.015671,   4.100782,   4.555248,  3.881459,  4.602808,  1.755964,   2.573371,
          0.3837661,  0.8747856,  -0.6456587, 0.1367198, -1.463789, -0.732487, -1.598138,  -1.251992});
  expect(R"(ls::nn::conv2d(im, kern, 2, "VALID"))", ls::nn::conv2d(im, kern, 2, "VALID"), "float32", {1, 1, 1, 2},
         {1.600018, 0.8589624});
  expect(R"(ls::nn::max_pool2d(im, {.ksize = 2, .strides = 2, .padding = "SAME"}))",
         ls::nn::max_pool2d(im, {.ksize = 2, .strides = 2, .padding = "SAME"}), "float32", {1, 2, 2, 1},
         {0.997495, 0.9738476, 0.6754632, 0.14112});
  expect(R"(ls::nn::avg_pool2d(im, 2, 1, "VALID"))", ls::nn::avg_pool2d(im, 2, 1, "VALID"), "float32", {1, 3, 3, 1},
         {0.5562636, 0.7078763, 0.7962565, 0.7580943, 0.6349606, 0.4551078, -0.006860882, -0.2477105, -0.4664329});
  expect(R"(ls::nn::embedding_lookup(x, i2))", ls::nn::embedding_lookup(x, i2), "float32", {2, 3},
         {1, -2, 3, 4, 5, -6});
  expect(R"(ls::nn::leaky_relu(x, {.alpha = 0.1}))", ls::nn::leaky_relu(x, {.alpha = 0.1}), "float32", {2, 3},
         {1, -0.2, 3, 4, 5, -0.6});
  expect(R"(ls::nn::batch_normalization(x, a, b, a, b, 1e-3))", ls::nn::batch_normalization(x, a, b, a, b, 1e-3),
         "float32", {2, 3}, {1, -6.943377, 3, 6.99925, 8.707533, -19.04357});
  expect(R"(ls::nn::depth_to_space(im4, 2))", ls::nn::depth_to_space(im4, 2), "float32", {1, 8, 8, 1},
         {0,          0.2955202,  0.9320391,  0.997495,   0.6754632,  0.4273799,  -0.4425204, -0.6877661,
          0.5646425,  0.7833269,  0.9738476,  0.8632094,  0.14112,    -0.1577457, -0.8715758, -0.9775301,
          -0.9961646, -0.9258147, -0.2794155, 0.0168139,  0.7936679,  0.938,      0.8545989,  0.6629692,
          -0.7727645, -0.5506855, 0.3115413,  0.5784398,  0.9985433,  0.9698898,  0.4121185,  0.1244544,
          -0.1743268, -0.4575359, -0.9809362, -0.9945526, -0.5365729, -0.2632318, 0.5920735,  0.8037844,
          -0.6998747, -0.8796958, -0.9193285, -0.7619836, 0.03362305, 0.3274744,  0.9436957,  0.9993094,
          0.9656578,  0.8457468,  0.1077536,  -0.1908586, -0.887567,  -0.984065,  -0.7509872, -0.5223086,
          0.6502879,  0.3967406,  -0.472422,  -0.7117853, -0.9926594, -0.9125825, -0.2469737, 0.05042269});
  expect(R"(ls::nn::space_to_depth(im, 2))", ls::nn::space_to_depth(im, 2), "float32", {1, 2, 2, 4},
         {0, 0.2955202, 0.9320391, 0.997495, 0.5646425, 0.7833269, 0.9738476, 0.8632094, 0.6754632, 0.4273799,
          -0.4425204, -0.6877661, 0.14112, -0.1577457, -0.8715758, -0.9775301});
  expect(
      R"(ls::image::extract_patches(im, {.sizes = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}, .rates = {1, 1, 1, 1}, .padding = "VALID"}))",
      ls::image::extract_patches(
          im, {.sizes = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}, .rates = {1, 1, 1, 1}, .padding = "VALID"}),
      "float32", {1, 2, 2, 4},
      {0, 0.2955202, 0.9320391, 0.997495, 0.5646425, 0.7833269, 0.9738476, 0.8632094, 0.6754632, 0.4273799, -0.4425204,
       -0.6877661, 0.14112, -0.1577457, -0.8715758, -0.9775301});
  expect(
      R"(ls::image::extract_patches({.images = im, .sizes = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}, .rates = {1, 1, 1, 1}, .padding = "VALID"}))",
      ls::image::extract_patches(
          {.images = im, .sizes = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}, .rates = {1, 1, 1, 1}, .padding = "VALID"}),
      "float32", {1, 2, 2, 4},
      {0, 0.2955202, 0.9320391, 0.997495, 0.5646425, 0.7833269, 0.9738476, 0.8632094, 0.6754632, 0.4273799, -0.4425204,
       -0.6877661, 0.14112, -0.1577457, -0.8715758, -0.9775301});
  expect(R"(ls::image::resize_with_crop_or_pad(im, {.target_height = 2, .target_width = 2}))",
         ls::image::resize_with_crop_or_pad(im, {.target_height = 2, .target_width = 2}), "float32", {1, 2, 2, 1},
         {0.997495, 0.9738476, 0.4273799, 0.14112});
  expect(R"(ls::image::central_crop(im, {.central_fraction = 0.5}))",
         ls::image::central_crop(im, {.central_fraction = 0.5}), "float32", {1, 2, 2, 1},
         {0.997495, 0.9738476, 0.4273799, 0.14112});
  expect(R"(ls::image::adjust_brightness(im, {.delta = 0.1}))", ls::image::adjust_brightness(im, {.delta = 0.1}),
         "float32", {1, 4, 4, 1},
         {0.1, 0.3955202, 0.6646425, 0.8833269, 1.032039, 1.097495, 1.073848, 0.9632094, 0.7754632, 0.5273799, 0.24112,
          -0.05774569, -0.3425204, -0.5877661, -0.7715757, -0.8775301});
  expect(R"(ls::strings::to_number(ls::Tensor{"1", "2"}, {.out_type = ls::int32}))",
         ls::strings::to_number(ls::Tensor{"1", "2"}, {.out_type = ls::int32}), "int32", {2}, {1, 2});
  expect(R"(ls::signal::frame(a, {.frame_length = 2, .frame_step = 1, .pad_end = true}))",
         ls::signal::frame(a, {.frame_length = 2, .frame_step = 1, .pad_end = true}), "float32", {3, 2},
         {1, 2, 2, 3, 3, 0});
  expect(R"(ls::signal::hann_window(5))", ls::signal::hann_window(5), "float32", {5}, {0, 0.5, 1, 0.5, 0});
  expect(R"(ls::signal::hamming_window(4, false))", ls::signal::hamming_window(4, false), "float32", {4},
         {0.08000001, 0.77, 0.77, 0.08000001});
  expect(R"(ls::ops::abs(ls::signal::stft(im4.reshape(64), {.frame_length = 16, .frame_step = 24})))",
         ls::ops::abs(ls::signal::stft(im4.reshape(64), {.frame_length = 16, .frame_step = 24})), "float32", {3, 9},
         {3.652519,  3.845013, 1.322967, 0.09889117, 0.02945715, 0.01247152,  0.005991642, 0.002783949, 0.001396656,
          0.9426591, 3.642462, 1.36194,  0.1120385,  0.03514343, 0.01521156,  0.007253506, 0.003033154, 0.0003604889,
          4.799455,  3.995592, 1.291813, 0.08729608, 0.0241199,  0.009823414, 0.004784113, 0.002573242, 0.001834869});
  expect(R"(ls::ops::cast(ls::strings::length(ls::strings::split("ab c def")), ls::int64))",
         ls::ops::cast(ls::strings::length(ls::strings::split("ab c def")), ls::int64), "int64", {3}, {2, 1, 3});
}

}  // namespace
