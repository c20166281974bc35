// Functions of TensorFlow and Keras by position and by keyword, and their gradients. Numbers are those of
// TensorFlow 2.21 and Keras 3.15.
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

namespace surface_of_tensorflow {

class SurfaceOfTensorFlow : public testing::Test {
 protected:
  const Tensor x = waves({3, 4}, 0.7), i = {1, -2, 5}, a = {{1., 2.}, {3., 4.5}}, s = {{2., .5}, {.5, 1.}};
  const Tensor m3 = waves({3, 3}, 0.9) * 3, m = waves({3, 3}, 0.9) + 3 * tf::eye(3),
               img = tf::abs(waves({1, 8, 6, 3}, 0.21));
  const Tensor k = waves({2, 2, 3, 2}, 0.4), k1 = waves({2, 3, 2}, 0.4), k3 = waves({2, 2, 2, 3, 1}, 0.4);
  const Tensor seq = waves({1, 9, 3}, 0.5), vol = waves({1, 4, 4, 4, 3}, 0.17), lg = waves({2, 3}, 0.8);
  const Tensor lb = {{.2, .5, .3}, {.6, .1, .3}};
};

TEST_F(SurfaceOfTensorFlow, AreTensorFlows) {
  expect_sums({
      {"approx_max_k", std::get<0>(tf::math::approx_max_k(x, 2)), 4.17958531, 11.1964608},
      {"bincount_weights",
       tf::math::bincount({1, 1, 2, 5}, {.weights = {1., 2., 3., 4.}, .minlength = 8, .maxlength = 10}), 10, 39},
      {"bincount_maxlength", tf::math::bincount({1, 1, 2, 5}, {.maxlength = 3}), 3, 7},
      {"bincount_axis", tf::math::bincount({{1, 2}, {2, 2}}, {.axis = -1, .binary_output = true}), 3, 11},
      {"bincount_axis_dtype", tf::math::bincount({{1, 2}, {2, 2}}, {.dtype = ls::float32, .axis = -1}), 4, 17},
      {"confusion",
       tf::math::confusion_matrix({1, 2}, {2, 2}, {.num_classes = 4, .weights = {.5, 2.}, .dtype = ls::float32}), 2.5,
       11.5},
      {"erfinv", tf::math::erfinv({.5, -.9}), 1.64002344, -1.84923795},
      {"sobol", tf::math::sobol_sample(3, 5, {.skip = 2}), 7.75, 30.625},
      {"dawsn", tf::math::special::dawsn({.5, 1.}), 0.962515891, 1.50059539},
      {"expint", tf::math::special::expint({.5, 1.}), 2.3493377, 4.24445558},
      {"fresnel_cos", tf::math::special::fresnel_cos({.5, 1.}), 1.2722376, 2.052131},
      {"fresnel_sin", tf::math::special::fresnel_sin({.5, 1.}), 0.50299155, 0.941250674},
      {"spence", tf::math::special::spence({.5, 1.}), 0.582240343, 0.582240343},
      {"bessel_k0", tf::math::special::bessel_k0({.5, 1.}), 1.34544355, 1.76646799},
      {"bessel_k1e", tf::math::special::bessel_k1e({.5, 1.}), 4.36716318, 6.00331688},
      {"bessel_j1", tf::math::special::bessel_j1({.5, 1.}), 0.682319075, 1.12236968},
      {"bessel_y0", tf::math::special::bessel_y0({.5, 1.}), 0.532775685, -0.268004775},
      {"clip_list", tf::clip_by_value(i, {.clip_value_min = {0, 0, 0}, .clip_value_max = 3}), 4, 10},
      {"clip_vector", tf::clip_by_value(m3, {.clip_value_min = {0, 1, 2}, .clip_value_max = 2.5}), 12.5131241,
       40.0905275},
      {"histogram_bins", tf::histogram_fixed_width_bins({-1., 0., 1.5, 2., 5., 15.}, {0., 5.}, 5), 11, 55},
      {"linspace_axis", tf::linspace({0., 10.}, {1., 20.}, 3, {.axis = -1}), 46.5, 239},
      {"linspace_first", tf::linspace({0., 10.}, {1., 20.}, 4, {.axis = 0}), 61.9999991, 204.666662},
      {"eye_batch", tf::eye(2, {.num_columns = 3, .batch_shape = {2}}), 4, 17},
      {"boolean_mask", tf::boolean_mask(x, {true, false, true, true}, {.axis = 1}), 6.31409714, -6.137658},
      {"boolean_mask_two", tf::boolean_mask(img, img.index({0, ls::all, ls::all, 0}) > .5, {.axis = 1}), 84.5404005,
       336.076345},
      {"space_to_batch", tf::space_to_batch(img.index({ls::all, {{}, 4}}), {2, 3}, {{0, 0}, {0, 0}}), 46.443873,
       183.544295},
      {"batch_to_space", tf::batch_to_space(waves({4, 2, 2, 1}, .3), {2, 2}, {{0, 1}, {1, 0}}), 6.40310466, 10.0824644},
      {"parallel_stack", tf::parallel_stack({x, x * 2}), 21.9777358, -0.564815182},
      {"broadcast_shape", tf::broadcast_dynamic_shape({1, 2, 3}, {5, 1, 3}), 10, 18},
      {"volume_patches",
       tf::extract_volume_patches(tf::reshape(tf::range(64.), {1, 4, 4, 4, 1}), {1, 2, 3, 2, 1}, {1, 1, 1, 2, 1},
                                  "SAME"),
       9780, 39904},
      {"shape_n", tf::shape_n({x, img})[1], 18, 47},
      {"edit_distance",
       tf::edit_distance(ls::sparse::from_dense(Tensor{{"a", "b"}}), ls::sparse::from_dense(Tensor{{"a", "c"}})), 0.5,
       0.5},
      {"edit_distance_plain",
       tf::edit_distance(ls::sparse::from_dense(Tensor{{"a", "b"}, {"c", "d"}}),
                         ls::sparse::from_dense(Tensor{{"a", "c"}, {"x", "y"}}), {.normalize = false}),
       3, 5},
      {"sets_union", ls::sets::union_(Tensor{{1, 2, 3}}, Tensor{{2, 3, 4}}).values(), 10, 30},
      {"sets_sparse",
       ls::sets::intersection(ls::sparse::from_dense(Tensor{{1, 2, 3}}), ls::sparse::from_dense(Tensor{{2, 3, 4}}))
           .values(),
       5, 8},
      {"sets_b_minus_a", ls::sets::difference(Tensor{{1, 2, 3}}, Tensor{{2, 3, 4}}, {.aminusb = false}).values(), 4, 4},
      {"sets_size", ls::sets::size(ls::sparse::from_dense({{1, 2, 0}, {3, 3, 3}})), 3, 4},
      {"fake_quant_args", ls::quantization::fake_quant_with_min_max_args(x * 4, -3, 3), 25.5529413, 20.894117},
      {"fake_quant_bits",
       ls::quantization::fake_quant_with_min_max_args(x * 4, -3, 3, {.num_bits = 4, .narrow_range = true}), 25.2857141,
       20.9999999},
      {"fake_quant_vars", ls::quantization::fake_quant_with_min_max_vars(x * 4, -3., 3.), 25.5529413, 20.894117},
      {"fake_quant_channel",
       ls::quantization::fake_quant_with_min_max_vars_per_channel(x, {-.5, -.1, -1., -2.}, {.5, .4, .3, .2}),
       4.20274507, -2.2709802},
      {"quantize_dequantize", ls::quantization::quantize_and_dequantize_v2(x, -6., 6., true, 4, {.range_given = true}),
       6.85714293, 6.85714293},
      {"quantize", ls::quantization::dequantize(std::get<0>(ls::quantization::quantize(x, -1., 1., "quint8")), -1., 1.),
       7.33333415, 6.5215714},
      {"identity_n", tf::identity_n({x, i})[0], 7.32591194, 6.54107629},
      {"unravel", tf::unravel_index({22, 41}, {7, 6}), 18, 47},
      {"python_sum", ls::sum(x), 2.24631238, 6.11249974},
      {"conv2d_explicit", ls::nn::conv2d(img, k, 1, {{0, 0}, {1, 0}, {0, 2}, {0, 0}}), 129.1575, 430.804882},
      {"conv2d_explicit_word",
       ls::nn::conv2d(img, k, {.strides = {1, 2, 2, 1}, .padding = {{0, 0}, {1, 0}, {0, 2}, {0, 0}}}), 32.8680401,
       122.604361},
      {"conv2d_dilated", ls::nn::conv2d(img, k, 1, "VALID", {.dilations = 2}), 80.8193386, 352.310205},
      {"convolution", ls::nn::convolution(img, k, {.padding = "SAME"}), 132.878852, 516.83785},
      {"convolution_1d", ls::nn::convolution(seq, k1, {.strides = 2, .padding = "VALID"}), 5.22195505, -1.4751012},
      {"convolution_3d", ls::nn::convolution(vol, k3, {.dilations = {1, 2, 1}}), 84.7656119, -35.3533771},
      {"separable",
       ls::nn::separable_conv2d(img, waves({2, 2, 3, 2}, .3), waves({1, 1, 6, 2}, .7), {1, 1, 1, 1}, "SAME"),
       24.2392359, -20.1706109},
      {"separable_dilated",
       ls::nn::separable_conv2d(img, waves({2, 2, 3, 2}, .3), waves({1, 1, 6, 2}, .7),
                                {.strides = {1, 1, 1, 1}, .padding = "VALID", .dilations = {2, 1}}),
       25.8050543, -12.2265122},
      {"conv3d", ls::nn::conv3d(vol, k3, {1, 1, 1, 1, 1}, "VALID"), 91.1185643, 89.927963},
      {"atrous", ls::nn::atrous_conv2d(img, k, 2, "SAME"), 127.105658, 446.100158},
      {"pool", ls::nn::pool(img, {2, 2}, "MAX", {.strides = {2, 2}}), 32.3898168, 123.417307},
      {"pool_1d", ls::nn::pool(seq, {3}, "AVG", {.padding = "SAME"}), 8.73163263, -2.14155883},
      {"pool_3d", ls::nn::pool(vol, {2, 1, 2}, "AVG"), 39.5857459, -3.2419786},
      {"argmax_pool", std::get<1>(ls::nn::max_pool_with_argmax(img, 2, 2, "VALID")), 2628, 10568},
  });
}

TEST_F(SurfaceOfTensorFlow, ComputeTheSame) {
  expect_sums({
      {"max_pool1d", ls::nn::max_pool1d(seq, 2, 1, "SAME"), 16.1315986, 39.826886},
      {"avg_pool3d", ls::nn::avg_pool3d(vol, 2, 1, "SAME"), 51.3119594, 4.77241167},
      {"moments", std::get<1>(ls::nn::moments(img, {.axes = {0, 1, 2}})), 0.288927265, 0.551995739},
      {"moments_keep", std::get<0>(ls::nn::moments(img, {0, 1, 2}, {.keepdims = true})), 1.9122839, 3.85534251},
      {"weighted_mean", std::get<0>(ls::nn::weighted_moments(a, 0, {{1.}, {2.}})), 6, 9.66666675},
      {"weighted_variance", ls::nn::weighted_moments(a, 0, {{1.}, {2.}}).variance, 2.27777779, 3.66666675},
      {"statistics", ls::nn::sufficient_statistics(a, {0})[1], 10.5, 17},
      {"statistics_shift", ls::nn::sufficient_statistics(a, {0}, {.shift = .5})[2], 24.75, 43},
      {"normalize_moments", std::get<1>(ls::nn::normalize_moments(2., Tensor{1.}, Tensor{2.}, ls::None)), 0.75, 0.75},
      {"lrn", ls::nn::lrn(img), 55.9210516, 224.974927},
      {"lrn_words", ls::nn::local_response_normalization(img, {.depth_radius = 2, .bias = 2., .alpha = .1, .beta = .7}), 52.9814685, 212.332866},
      {"silu", ls::nn::silu(lg, {.beta = 2.}), 2.16021733, 4.98913672},
      {"stateless_dropout", ls::nn::experimental::stateless_dropout(tf::ones({8}), {.rate = .5, .seed = {1, 0}}), 6, 10},
      {"softmax_axis", ls::nn::softmax_cross_entropy_with_logits(lb, lg, {.axis = 0}), 1.39147675, 2.9412277},
      {"softmax_axis_words", ls::nn::softmax_cross_entropy_with_logits({.labels = lb, .logits = lg, .axis = 0}), 1.39147675, 2.9412277},
      {"weighted_entropy", ls::nn::weighted_cross_entropy_with_logits(lb, lg, {.pos_weight = 2.}), 5.51883543, 19.2140496},
      {"poisson_full", ls::nn::log_poisson_loss(tf::abs(lg) * 3, lg, {.compute_full_loss = true}), 9.1209501, 36.5609038},
      {"lookup_norm", ls::nn::embedding_lookup(a * 3, {1, 0}, {.max_norm = 1.}), 2.72839123, 7.13815022},
      {"lookup_sparse", ls::nn::embedding_lookup_sparse(a, ls::SparseTensor({{0, 0}, {0, 1}, {1, 0}}, constant({0, 1, 1}, ls::int64), {2, 2}), ls::None, {.combiner = "mean"}), 12.75, 35.5},
      {"lookup_weights", ls::nn::embedding_lookup_sparse(a, ls::SparseTensor({{0, 0}, {0, 1}, {1, 0}}, constant({0, 1, 1}, ls::int64), {2, 2}), ls::SparseTensor({{0, 0}, {0, 1}, {1, 0}}, {.5, 2., 3.}, {2, 2}), {.combiner = "sqrtn"}), 15.5036759, 39.8543887},
      {"safe_lookup", ls::nn::safe_embedding_lookup_sparse(a, ls::SparseTensor({{0, 0}, {0, 1}, {2, 0}}, constant({0, 1, 1}, ls::int64), {3, 2}), {.combiner = "sum"}), 18, 59},
      {"safe_lookup_default", ls::nn::safe_embedding_lookup_sparse(a, ls::SparseTensor({{0, 0, 0}, {0, 1, 1}, {1, 0, 0}}, constant({0, -1, 1}, ls::int64), {2, 2, 2}), ls::SparseTensor({{0, 0, 0}, {0, 1, 1}, {1, 0, 0}}, {2., 3., 0.}, {2, 2, 2}), {.default_id = 1}), 25.5, 99.5},
      {"greedy", std::get<0>(ls::nn::ctc_greedy_decoder(tf::math::sin(tf::reshape(tf::range(15.), {5, 1, 3})), Tensor{5}))[0].values(), 0, 0},
      {"greedy_logits", ls::nn::ctc_greedy_decoder(tf::math::sin(tf::reshape(tf::range(15.), {5, 1, 3})), {5}, {.merge_repeated = false, .blank_index = 0}).log_probability, 3.44250154, -3.44250154},
      {"beam", std::get<1>(ls::nn::ctc_beam_search_decoder(tf::math::sin(tf::reshape(tf::range(15.), {5, 1, 3})), {5}, {.beam_width = 10, .top_paths = 2})), 3.92278075, -5.95880675},
      {"beam_labels", ls::nn::ctc_beam_search_decoder(tf::math::sin(tf::reshape(tf::range(15.), {5, 1, 3})), {5}, {.beam_width = 10, .top_paths = 2}).decoded[1].values(), 2, 4},
      {"unique_labels", std::get<0>(ls::nn::ctc_unique_labels(constant({{3, 4, 4, 3}, {1, 2, 3, 4}}))), 17, 53},
      {"unique_places", std::get<1>(ls::nn::ctc_unique_labels(constant({{3, 4, 4, 3}, {1, 2, 3, 4}}))), 8, 28},
      {"collapse", std::get<0>(ls::nn::collapse_repeated(constant({{1, 1, 2, 2, 1}, {3, 4, 5, 5, 5}}), {5, 4})), 16, 70},
      {"erosion", ls::nn::erosion2d(img, waves({2, 2, 3}, .3), {1, 1, 1, 1}, "VALID", "NHWC", {1, 1, 1, 1}), 36.8254686, -146.056131},
      {"dilation", ls::nn::dilation2d(img, waves({2, 2, 3}, .3), {1, 2, 1, 1}, "SAME", "NHWC", {1, 1, 2, 1}), 118.806404, 471.634817},
      {"diag_words", ls::linalg::diag({1., 2.}, {.num_cols = 3, .padding_value = 9.}), 39, 146},
      {"diag_two", ls::linalg::diag({{1., 2., 3.}, {4., 5., 6.}}, {.k = {-1, 0}}), 15, 38},
      {"diag_part_two", ls::linalg::diag_part(m, {.k = {-1, 1}, .padding_value = 9., .align = "LEFT_RIGHT"}), 29.5561982, 136.838679},
      {"set_diag_k", ls::linalg::set_diag(m, {7., 8.}, {.k = 1}), 26.5419533, 84.6132584},
      {"tensor_diag", ls::linalg::tensor_diag({{1., 2.}, {3., 4.}}), 10, 33},
      {"tensor_diag_part", ls::linalg::tensor_diag_part(a), 5.5, 10},
      {"eigh", std::get<0>(ls::linalg::eigh(s)), 2.99999976, 5.20710635},
      {"eig", tf::math::real(std::get<0>(ls::linalg::eig(s))), 2.99999976, 3.79289293},
      {"eigvals", tf::math::imag(ls::linalg::eigvals({{0., 1.}, {-1., 0.}})), 2, -1},
      {"logm", tf::math::real(ls::linalg::logm(tf::cast(s, ls::complex64))), 1.44779987, 2.12293878},
      {"inv_adjoint", ls::linalg::inv(a, {.adjoint = true}), 7.00000006, 2.33333337},
      {"lu", std::get<0>(ls::linalg::lu(m)), 12.9530247, 20.164698},
      {"lu_reconstruct", [&] { const auto [f, p] = ls::linalg::lu(m); return ls::linalg::lu_reconstruct(f, p); }(), 13.3028105, 18.3147308},
      {"lu_solve", [&] { const auto [f, p] = ls::linalg::lu(m); return ls::linalg::lu_solve(f, p, {{1.}, {2.}, {3.}}); }(), 2.04192087, 4.24176088},
      {"lu_inverse", [&] { const auto [f, p] = ls::linalg::lu(tf::stack({m, m * 2 + 1})); return ls::linalg::lu_matrix_inverse(f, p); }(), 2.05782284, 4.60657829},
      {"matvec", ls::linalg::matvec(a, {1., 2.}, {.transpose_a = true}), 18, 29},
      {"normalize", std::get<0>(ls::linalg::normalize(a)), 1.79415114, 5.46788917},
      {"qr", std::get<1>(ls::linalg::qr(a)) * tf::sign(std::get<1>(ls::linalg::qr(a)).index({{{}, 1}, {{}, 1}})), 8.53815031, 14.8627067},
      {"solve_adjoint", ls::linalg::solve(a, {{1.}, {2.}}, {.adjoint = true}), 1, 1},
      {"svd_values", ls::linalg::svd(a, {.compute_uv = false}), 6.10327849, 6.35983247},
      {"rank", ls::linalg::matrix_rank(m, {.tol = 2.}), 3, 3},
      {"pinv", ls::linalg::pinv(m, {.rcond = .5}), 1.38955843, 3.26347427},
      {"adjoint", tf::math::imag(ls::linalg::adjoint(tf::complex(a, a))), 10.5, -31},
      {"tridiagonal", ls::linalg::tridiagonal_solve({{0., 1.}, {2., 2.}, {1., 0.}}, {1., 2.}, {.diagonals_format = "compact"}), 1.5, 2.5},
      {"tridiagonal_matrix", ls::linalg::tridiagonal_solve(m, tf::transpose(m), {.diagonals_format = "matrix", .transpose_rhs = true}), 3.70209692, 6.95175914},
      {"tridiagonal_matmul", ls::linalg::tridiagonal_matmul({{0., 1.}, {2., 2.}, {1., 0.}}, a, {.diagonals_format = "compact"}), 21, 64},
      {"banded", ls::linalg::banded_triangular_solve({{1., 1.}, {0., 2.}}, {{1.}, {2.}}), 1, 1},
      {"mdct", ls::signal::mdct(tf::range(16.), 8), 164.319922, -489.286188},
      {"mdct_words", ls::signal::mdct(seq.index({ls::ellipsis, 0}), 4, {.window_fn = ls::None, .pad_end = true, .norm = "ortho"}), 5.03136623, 8.38815608},
  });
}

TEST_F(SurfaceOfTensorFlow, AgreeToo) {
  expect_sums({
      {"inverse_mdct", ls::signal::inverse_mdct(ls::signal::mdct(tf::range(16.), 8)), 102.900674, 449.717423},
      {"dct1", ls::signal::dct(x, {.type = 1}), 16.6754538, -7.77294999},
      {"dct4", ls::signal::dct(x, 4, {.norm = "ortho"}), 6.88440571, -2.62456362},
      {"dct_n", ls::signal::dct(x, {.n = 6}) + ls::signal::idct(x, {.n = 3}).index({ls::all, {{}, 1}}), 37.0691281,
       -5.89918399},
      {"frame", ls::signal::frame(tf::range(10.), 4, 2, {.pad_end = true}), 89, 334},
      {"frame_axis", ls::signal::frame(x, 2, 1, {.axis = 0}), 9.86571172, -9.63313886},
      {"inverse_stft",
       ls::signal::inverse_stft(ls::signal::stft(tf::math::sin(tf::range(16.)), 8, 4), 8, 4,
                                {.window_fn = ls::signal::inverse_stft_window_fn(4)}),
       7.6720364, -12.6669128},
      {"hann", ls::signal::hann_window(6, {.periodic = false}), 2.49999997, 8.74999973},
      {"hamming64", ls::signal::hamming_window(6, {.dtype = ls::float64}), 3.24, 12.72},
      {"kaiser", ls::signal::kaiser_window(6, {.beta = 5.}), 2.73085356, 9.55798745},
      {"vorbis", ls::signal::vorbis_window(6), 3.61321034, 12.646236},
      {"kaiser_derived", ls::signal::kaiser_bessel_derived_window(6), 3.42842469, 11.9994864},
      {"glimpse", ls::image::extract_glimpse(img, {2, 2}, Tensor{{0., 0.}}), 8.21253028, 32.1635461},
      {"glimpse_zero",
       ls::image::extract_glimpse(img, {3, 4}, Tensor{{6., 1.}},
                                  {.centered = false, .normalized = false, .noise = "zero"}),
       13.8639187, 50.9749576},
      {"gradients", std::get<0>(ls::image::image_gradients(img)), 42.6118594, 5.25030315},
      {"ssim_filter", ls::image::ssim(img, img * .5 + .1, 1., {.filter_size = 4}), 0.735986531, 0.735986531},
      {"ssim_multiscale",
       ls::image::ssim_multiscale(tf::abs(tf::math::sin(tf::reshape(tf::range(40000.), {1, 200, 200, 1}))),
                                  tf::abs(tf::math::cos(tf::reshape(tf::range(40000.), {1, 200, 200, 1}))), 1.),
       0, 0},
      {"ssim_two_scales",
       ls::image::ssim_multiscale(img, img * .5 + .1, 1., {.power_factors = {.4, .6}, .filter_size = 3}), 0.762482882,
       0.762482882},
      {"distorted",
       std::get<0>(ls::image::stateless_sample_distorted_bounding_box({40, 40, 3}, Tensor{{{0., 0., .5, .5}}},
                                                                      {.seed = {1, 2}, .min_object_covered = .1})),
       6, 6},
      {"distorted_box",
       ls::image::stateless_sample_distorted_bounding_box({40, 40, 3}, Tensor{{{0., 0., .5, .5}}},
                                                          {.seed = {1, 2}, .area_range = {.3, .8}})
           .bboxes,
       2.27500004, 6.75000015},
      {"soft_suppression",
       std::get<1>(ls::image::non_max_suppression_with_scores({{0., 0., 1., 1.}, {0., 0., .9, 1.}}, {.9, .8}, 2,
                                                              {.soft_nms_sigma = .5})),
       1.25588647, 1.61177295},
      {"combined_suppression",
       std::get<1>(ls::image::combined_non_max_suppression(Tensor{{{{0., 0., 1., 1.}}, {{0., 0., .9, 1.}}}},
                                                           Tensor{{{.9}, {.8}}}, 2, 2)),
       0.899999976, 0.899999976},
      {"jpeg_ratio",
       tf::shape(ls::io::decode_jpeg(ls::io::encode_jpeg(tf::cast(tf::abs(img[0]) * 255, ls::uint8), {.quality = 100}),
                                     {.ratio = 2})),
       10, 19},
      {"jpeg_shape", ls::io::extract_jpeg_shape(ls::io::encode_jpeg(tf::cast(tf::abs(img[0]) * 255, ls::uint8))), 17,
       29},
      {"jpeg_crop",
       tf::shape(ls::io::decode_and_crop_jpeg(ls::io::encode_jpeg(tf::cast(tf::abs(img[0]) * 255, ls::uint8)),
                                              {1, 1, 3, 4}, {.channels = 1})),
       8, 14},
      {"is_jpeg", ls::io::is_jpeg(ls::io::encode_jpeg(tf::cast(tf::abs(img[0]) * 255, ls::uint8))), 1, 1},
      {"decode_wav",
       std::get<0>(
           ls::audio::decode_wav(ls::audio::encode_wav(tf::reshape(tf::math::sin(tf::range(8.)), {8, 1}), 8000))),
       4.54400635, -5.86123657},
      {"keras_eye", kops::eye(2, 3, {.k = 1}), 2, 8},
      {"keras_histogram", kops::histogram({1., 2., 2.5}, {.bins = 3}).hist, 3, 7},
      {"keras_histogram_edges", std::get<1>(kops::histogram(x[0], {.bins = 4, .range = {{-.5, .8}}})), 2.09999996,
       5.49999982},
      {"keras_linspace", kops::linspace(0., 1., 4, {.endpoint = false}), 1.5, 5},
      {"keras_logspace", kops::logspace(0., 2., 3), 111, 321},
      {"keras_logspace_base", kops::logspace(0., 2., {.num = 4, .endpoint = false, .base = 2}), 7.24264061, 21.1421354},
      {"keras_select", kops::select({x > .5, x < 0}, {x, x * 2}, 9.), 36.8101882, 75.3649781},
      {"keras_fori",
       kops::fori_loop(
           0, 4, [](const Tensor& i, const Tensor& v) { return v + i; }, 1),
       7, 7},
      {"keras_while", kops::while_loop([](const Tensor& i) { return i < 5; }, [](const Tensor& i) { return i + 1; }, 0),
       5, 5},
  });
}

TEST_F(SurfaceOfTensorFlow, HaveTensorFlowsGradients) {
  expect_sums({
      {"erfinv", gradient_of_squares(x * .9, [&](const Tensor& v) { return tf::math::erfinv(v); }), 32.738236,
       44.5441422},
      {"dawsn", gradient_of_squares(x, [&](const Tensor& v) { return tf::math::special::dawsn(v); }), 2.44694987,
       0.27408354},
      {"expint", gradient_of_squares(tf::abs(x) + .1, [&](const Tensor& v) { return tf::math::special::expint(v); }),
       142.093028, 167.843331},
      {"boolean_mask",
       gradient_of_squares(x,
                           [&](const Tensor& v) {
                             return tf::boolean_mask(v, {true, false, true, true}, {.axis = 1});
                           }),
       12.6281943, 14.6137972},
      {"linspace", gradient_of_squares(x, [&](const Tensor& v) { return tf::linspace(v, v * 2, 3, {.axis = -1}); }),
       106.225723, 94.8456024},
      {"fake_quant",
       gradient_of_squares(x * 4,
                           [&](const Tensor& v) { return ls::quantization::fake_quant_with_min_max_args(v, -2, 2); }),
       5.58431388, -3.04313727},
      {"quantize_dequantize",
       gradient_of_squares(x,
                           [&](const Tensor& v) {
                             return ls::quantization::quantize_and_dequantize_v2(v, -.5, .5, true, 4,
                                                                                 {.range_given = true});
                           }),
       1.42857146, -0.714285731},
      {"conv2d_explicit",
       gradient_of_squares(k,
                           [&](const Tensor& v) {
                             return ls::nn::conv2d(img, v, 1, {{0, 0}, {1, 0}, {0, 2}, {0, 0}});
                           }),
       1830.12971, 6878.64779},
      {"separable",
       gradient_of_squares(
           img,
           [&](const Tensor& v) {
             return ls::nn::separable_conv2d(v, waves({2, 2, 3, 2}, .3), waves({1, 1, 6, 2}, .7), {1, 1, 1, 1}, "SAME");
           }),
       148.786527, 46.04694},
      {"pool_1d",
       gradient_of_squares(seq, [&](const Tensor& v) { return ls::nn::pool(v, {3}, "AVG", {.padding = "SAME"}); }),
       11.7879439, 0.664049573},
      {"argmax_pool",
       gradient_of_squares(img, [&](const Tensor& v) { return ls::nn::max_pool_with_argmax(v, 2, 2, "VALID").output; }),
       64.7796336, 220.305529},
      {"weighted_variance",
       gradient_of_squares(x,
                           [&](const Tensor& v) {
                             return ls::nn::weighted_moments(v, 1, {1., 2., 3., 4.}).variance;
                           }),
       0.78562629, 0.935193073},
      {"lrn", gradient_of_squares(img, [&](const Tensor& v) { return ls::nn::lrn(v); }), 32.6873006, 132.587834},
      {"silu", gradient_of_squares(x, [&](const Tensor& v) { return ls::nn::silu(v, {.beta = 2.}); }), 7.85044993,
       29.3117579},
      {"softmax_axis",
       gradient_of_squares(
           lg, [&](const Tensor& v) { return ls::nn::softmax_cross_entropy_with_logits(lb, v, {.axis = 0}); }),
       1.30784786, 2.16509412},
      {"lookup_norm",
       gradient_of_squares(a,
                           [&](const Tensor& v) {
                             return ls::nn::embedding_lookup(v * 3, {1, 0, 1}, {.max_norm = 1.});
                           }),
       8.94069672e-08, 3.12924385e-07},
      {"lookup_sparse",
       gradient_of_squares(a,
                           [&](const Tensor& v) {
                             return ls::nn::embedding_lookup_sparse(
                                 v, ls::SparseTensor({{0, 0}, {0, 1}, {1, 0}}, constant({0, 1, 1}, ls::int64), {2, 2}),
                                 ls::None, {.combiner = "mean"});
                           }),
       25.5, 81.5},
      {"safe_lookup",
       gradient_of_squares(a,
                           [&](const Tensor& v) {
                             return ls::nn::safe_embedding_lookup_sparse(
                                 v, ls::SparseTensor({{0, 0}, {0, 1}, {2, 0}}, constant({0, 1, 1}, ls::int64), {3, 2}),
                                 {.combiner = "sqrtn"});
                           }),
       35.9999993, 108.999999},
      {"dilation",
       gradient_of_squares(
           img,
           [&](const Tensor& v) {
             return ls::nn::dilation2d(v, waves({2, 2, 3}, .3), {1, 2, 1, 1}, "SAME", "NHWC", {1, 1, 2, 1});
           }),
       237.612807, 1001.73059},
      {"diag_two",
       gradient_of_squares(Tensor{{1., 2., 3.}, {4., 5., 6.}},
                           [&](const Tensor& v) {
                             return ls::linalg::diag(v, {.k = {-1, 0}});
                           }),
       30, 110},
      {"set_diag",
       gradient_of_squares(m,
                           [&](const Tensor& v) {
                             return ls::linalg::set_diag(v, {7., 8.}, {.k = 1});
                           }),
       23.0839066, 45.2265169},
      {"eigvals", gradient_of_squares(s, [&](const Tensor& v) { return tf::math::real(ls::linalg::eig(v).e); }),
       7.99999964, 16.9999992},
      {"inv_adjoint", gradient_of_squares(a, [&](const Tensor& v) { return ls::linalg::inv(v, {.adjoint = true}); }),
       213.555555, -42.5925903},
      {"solve_adjoint",
       gradient_of_squares(a,
                           [&](const Tensor& v) {
                             return ls::linalg::solve(v, {{1.}, {2.}}, {.adjoint = true});
                           }),
       10, -2},
      {"svd_values", gradient_of_squares(a, [&](const Tensor& v) { return ls::linalg::svd(v, {.compute_uv = false}); }),
       21.0000029, 64.0000081},
      {"tridiagonal",
       gradient_of_squares(m,
                           [&](const Tensor& v) {
                             return ls::linalg::tridiagonal_solve(v, {1., 2., 3.}, {.diagonals_format = "matrix"});
                           }),
       2.93139355, -10.3689438},
      {"tridiagonal_matmul",
       gradient_of_squares(
           m, [&](const Tensor& v) { return ls::linalg::tridiagonal_matmul(v, m, {.diagonals_format = "matrix"}); }),
       352.599054, 343.298943},
      {"mdct", gradient_of_squares(tf::range(16.), [&](const Tensor& v) { return ls::signal::mdct(v, 8); }), 1646.41079,
       7195.47883},
      {"dct4", gradient_of_squares(x, [&](const Tensor& v) { return ls::signal::dct(v, 4, {.norm = "ortho"}); }),
       14.6518216, 13.0821486},
      {"ssim_two_scales",
       gradient_of_squares(
           img,
           [&](const Tensor& v) {
             return ls::image::ssim_multiscale(v, img * .5 + .1, 1., {.power_factors = {.4, .6}, .filter_size = 3});
           }),
       2.45257965, -1.83874084},
  });
}

}  // namespace surface_of_tensorflow
