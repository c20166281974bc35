// Arguments by position with others by keyword behind them. Numbers are those of TensorFlow 2.21 and Keras 3.15.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/sums.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace keras = lockstep::keras;
namespace kops = lockstep::keras::ops;
using ls::constant;
using ls::Tensor;

namespace mixed_arguments {

class MixedArguments : public testing::Test {
 protected:
  const Tensor x = waves({3, 4}, 0.7), img = tf::abs(waves({1, 8, 6, 3}, 0.21));
};

TEST_F(MixedArguments, AreTensorFlows) {
  expect_sums({
      {"seed",
       [] {
         tf::random::set_seed(7);
         return tf::zeros({1});
       }(),
       0, 0},
      {"uniform_int", tf::random::uniform({5}, 0, 10, {.dtype = tf::int32}), 28, 87},
      {"uniform_seed", tf::random::uniform({5}, -1, 1, {.seed = 3}), 2.14152408, -2.66953397},
      {"normal_seed", tf::random::normal({5}, 1, 2, {.seed = 3}), 11.4697735, 30.4288487},
      {"normal_mean", tf::random::normal({5}, 1, {.stddev = .5, .dtype = tf::float64}), 2.33358546, 6.84612775},
      {"truncated", tf::random::truncated_normal({5}, 1, 2, {.seed = 4}), 6.47444993, -13.0976133},
      {"shuffle", tf::random::shuffle(x, 3), 7.32591194, 6.54107629},
      {"categorical", tf::random::categorical(x, 5, {.dtype = tf::int32, .seed = 1}), 23, 78},
      {"gamma_list", tf::random::gamma({2}, {.5, 1.5}, {.beta = 2., .seed = 1}), 1.49343716, 4.51443685},
      {"random_crop", tf::image::random_crop(img, {1, 3, 2, 3}, 5), 10.9271169, 39.9868229},
      {"random_hue", tf::image::random_hue(img, .2, 5), 90.5862656, 361.308639},
      {"random_saturation", ls::image::random_saturation(img, 5, 10, 1), 68.2246649, 268.988942},
      {"random_flip", tf::image::random_flip_left_right(img[0], 5), 91.7896185, 377.38283},
      {"distorted",
       std::get<1>(ls::image::sample_distorted_bounding_box({40, 40, 3}, Tensor{{{0., 0., .5, .5}}},
                                                            {.seed = 1, .min_object_covered = .1})),
       64, 92},
      {"stateless_hue", tf::image::stateless_random_hue(img, .2, {.seed = {1, 2}}), 90.5388083, 361.289021},
      {"stateless_contrast", tf::image::stateless_random_contrast(img, .2, .5, {.seed = {1, 2}}), 91.7896201,
       365.197732},
      {"dropout_noise", ls::nn::dropout(tf::ones({4, 3}), .5, {.noise_shape = {4, 1}, .seed = 5}), 12, 42},
      {"argmax_type", tf::argmax(x, 1, {.output_type = tf::int32}), 5, 11},
      {"cumsum", tf::cumsum(x, 1, {.reverse = true}), 19.934732, -1.49242282},
      {"cumprod", tf::math::cumprod(x, 1, {.exclusive = true}), 4.20376769, 7.31866599},
      {"l2_normalize", tf::math::l2_normalize(x, -1, {.epsilon = .5}), 5.22768796, 4.63529637},
      {"top_k", std::get<1>(tf::nn::top_k(x, 2, {.sorted = true})), 11, 39},
      {"count_nonzero", tf::math::count_nonzero(tf::nn::relu(x), 1, {.keepdims = true}), 7, 14},
      {"count_dtype", tf::math::count_nonzero(tf::nn::relu(x), {.dtype = tf::int32}), 7, 7},
      {"one_hot", tf::one_hot({0, 2}, 3, 5., -1.), 14, 21},
      {"one_hot_axis", tf::one_hot({0, 2}, 3, 5., -1., {.axis = 0}), 14, 21},
      {"transpose_conjugate", tf::math::imag(tf::transpose(tf::complex(x, x), {.perm = {1, 0}, .conjugate = true})),
       7.32591194, -10.6412186},
      {"reverse_sequence", tf::reverse_sequence(x, {1, 2, 4}, 1, 0), 7.32591194, 1.72837029},
      {"constant", tf::constant(1.5, tf::float32, {2, 3}), 9, 31.5},
      {"range_dtype", tf::range(1, 10, 2, tf::int64), 25, 95},
      {"range_word", tf::range(1, 10, 2, {.dtype = tf::float32}), 25, 95},
      {"polyval", tf::math::polyval({1., x}, x), 14.6518239, 13.0821526},
      {"meshgrid", tf::meshgrid({1., 2.}, {3., 4., 5.}, {6., 7.})[1], 48, 176},
      {"meshgrid_ij", tf::meshgrid({1., 2.}, {3., 4., 5.}, {6., 7.}, {.indexing = "ij"})[0], 18, 65},
      {"resize", tf::image::resize(img, {4, 5}, "nearest"), 39.4570466, 154.187682},
      {"resize_method", tf::image::resize(img, {4, 5}, tf::image::ResizeMethod::BICUBIC, {.antialias = true}),
       38.3020762, 149.833496},
      {"resize_with_pad", tf::image::resize_with_pad(img, 10, 10, "nearest"), 131.826215, 526.547711},
      {"patches", tf::image::extract_patches(img, {1, 2, 2, 1}, {1, 2, 2, 1}, {1, 1, 1, 1}, "VALID"), 91.7896185,
       363.386315},
      {"crop_and_resize", tf::image::crop_and_resize(img, {{.1, .1, .8, .9}}, {0}, {2, 2}, "nearest"), 10.4598311,
       36.6908599},
      {"bias_add", tf::nn::bias_add(img, {1., 2., 3.}, {.data_format = "NHWC"}), 379.789618, 1505.48345},
      {"max_pool", tf::nn::max_pool2d(img, 2, 2, "SAME", {.data_format = "NHWC"}), 32.3898168, 123.417307},
      {"keras_batch_norm",
       kops::batch_normalization(x, x[0], tf::abs(x[1]) + 1., {.axis = -1, .offset = x[2], .scale = x[0]}), 6.72970697,
       -1.19213939},
      {"keras_batch_norm_axis", kops::batch_normalization(x, x[0], tf::abs(x[1]) + 1., -1, {.epsilon = .5}), 4.57575074,
       -15.5364889},
      {"keras_pad_images", kops::image::pad_images(tf::ones({2, 2, 1}), 1, 0, {.target_height = 4, .target_width = 3}),
       4, 17},
  });
}

TEST_F(MixedArguments, HaveTensorFlowsGradients) {
  expect_sums({
      {"transpose_conjugate",
       gradient_of_squares(x,
                           [&](const Tensor& v) {
                             return tf::abs(tf::transpose(tf::complex(v, v * 2), {.perm = {1, 0}, .conjugate = true}));
                           }),
       73.2591181, 65.410765},
      {"polyval",
       gradient_of_squares(x,
                           [&](const Tensor& v) {
                             return tf::math::polyval({1., v}, v);
                           }),
       58.6072955, 52.3286103},
  });
}

}  // namespace mixed_arguments
