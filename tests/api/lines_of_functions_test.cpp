// Functions of tf.nn, tf.signal, tf.image, tf.strings, tf.linalg and tf.math as programs call them, and what word2vec
// needs. Numbers are TensorFlow's.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/sums.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::ops;
using ls::Tensor;

namespace lines_of_functions {

TEST(FunctionLines, AreTensorFlows) {
  const auto x = waves({3, 4}, 0.7), m = waves({3, 3}, 0.9) + 3 * ops::eye(3), sig = waves({64}, 0.3);
  const Tensor v = {3.0, 1.0, 2.0};
  const auto img = ops::abs(waves({1, 8, 6, 3}, 0.21));
  const auto [s, u, vv] = ops::linalg::svd(x);
  const auto st = ls::signal::stft(sig, {.frame_length = 16, .frame_step = 8, .fft_length = 16});
  expect_sums({
      {"gnd3", ops::gather_nd(ops::stack({x, x}), {{{0, 1}}, {{1, 0}}}, {.batch_dims = 1}), 0.979205817, 1.31419396},
      {"tsa", ops::tensor_scatter_nd_add(x, {.indices = {{0, 1}, {0, 1}}, .updates = {1.0, 2.0}}), 10.325912,
       12.5410764},
      {"rec", ops::matmul(u * s, vv, {.adjoint_b = true}), 7.32591168, 6.5410733},
      {"band", ops::linalg::band_part(m, {.num_lower = 0, .num_upper = -1}), 12.0858521, 21.9977497},
      {"diagk", ops::linalg::diag(v, {.k = 1}), 6, 23},
      {"nrm", ops::linalg::normalize(x, {.axis = 1}).normalized, 5.22768801, 4.63529657},
      {"istft", ls::signal::inverse_stft(st, {.frame_length = 16, .frame_step = 8}), 27.9264794, -0.58427012},
      {"mel",
       ls::signal::linear_to_mel_weight_matrix({.num_mel_bins = 4,
                                                .num_spectrogram_bins = 9,
                                                .sample_rate = 8000,
                                                .lower_edge_hertz = 80.0,
                                                .upper_edge_hertz = 3800.0}),
       5.72796198, 22.858948},
      {"mfcc", ls::signal::mfccs_from_log_mel_spectrograms(ops::math::log(ops::abs(waves({2, 8}, 0.4)) + 1e-6)),
       46.70417, -151.750659},
      {"dct", ls::signal::dct(sig, {.type = 2, .norm = "ortho"}), 13.1154123, 14.9208065},
      {"oa", ls::signal::overlap_and_add(ops::reshape(sig, {8, 8}), 4), 35.8849856, 15.9169856},
      {"fftshift", ops::math::real(ls::signal::fftshift(ls::signal::fft(ops::cast(sig, ls::complex64)))), 22.7102103,
       -25.171004},
      {"resizen", ls::image::resize(img, {.size = {16, 9}, .method = ls::image::ResizeMethod::NEAREST_NEIGHBOR}),
       276.825958, 1106.26888},
      {"bb",
       ls::image::crop_and_resize(img, {.boxes = {{0.1, 0.1, 0.8, 0.9}}, .box_indices = {0}, .crop_size = {4, 4}}),
       30.5462523, 121.481081},
      {"gam", ls::image::adjust_gamma(img, {.gamma = 0.7, .gain = 1.1}), 111.488685, 446.654419},
      {"rot", ls::image::rot90(img, {.k = 1}), 91.7896185, 365.065402},
      {"ctb",
       ls::image::crop_to_bounding_box(img,
                                       {.offset_height = 1, .offset_width = 1, .target_height = 4, .target_width = 4}),
       29.4091998, 115.309573},
      {"cid", ls::image::convert_image_dtype(img, {.dtype = ls::uint8}), 23379, 93595},
      {"nms",
       ls::image::non_max_suppression({.boxes = {{0., 0., 1., 1.}, {0., 0., 1., 0.9}, {0.5, 0.5, 2., 2.}},
                                       .scores = {0.9, 0.8, 0.7},
                                       .max_output_size = 3,
                                       .iou_threshold = 0.5}),
       2, 4},
      {"bc", ops::math::bincount({1, 1, 3}, {.minlength = 5}), 3, 8},
      {"cm", ops::math::confusion_matrix({1, 2, 0}, {1, 0, 0}, {.num_classes = 3}), 3, 13},
      {"igamma", ops::math::igamma(v, v), 1.80292457, 3.62303346},
      {"pol", ops::math::polyval({1.0, 2.0, 3.0}, v), 35, 63},
      {"ss", ops::searchsorted({1.0, 2.0, 3.0}, {1.5, 3.0}, {.side = "right"}), 4, 7},
      {"rs", ops::reverse_sequence(x, {1, 2, 3}, {.seq_axis = 1, .batch_axis = 0}), 7.32591194, 4.65034117},
      {"s2b",
       ops::space_to_batch(img.index({ls::all, {{}, 4}, {{}, 4}}),
                           {.block_shape = {2, 2}, .paddings = {{0, 0}, {0, 0}}}),
       31.0745483, 125.378943},
      {"zf", ops::math::zero_fraction(ls::nn::relu(x)), 0.416666657, 0.416666657},
      {"intopk", ops::cast(ops::math::in_top_k({1, 0, 2}, m, {.k = 1}), ls::int32), 1, 3},
      {"inter", ls::sparse::to_dense(ls::sets::intersection({{1, 2}}, {{2, 3}})), 2, 2},
      {"hist", ops::histogram_fixed_width(v, {0.0, 5.0}, {.nbins = 5}), 3, 9},
      {"lrn", ls::nn::local_response_normalization(img, {.depth_radius = 2}), 55.9210516, 224.974927},
      {"c1d", ls::nn::conv1d(ops::reshape(sig, {1, 16, 4}), ops::ones({3, 4, 2}), {.stride = 2, .padding = "SAME"}),
       71.5155315, -0.0986671448},
      {"wce", ls::nn::weighted_cross_entropy_with_logits({.labels = {1.0, 0.0, 1.0}, .logits = v, .pos_weight = 2.0}),
       1.66429245, 3.48526621},
      {"lp", ls::nn::log_poisson_loss(v, v), 16.1928749, 24.6892691},
      {"crelu", ls::nn::crelu(x), 7.32591194, 27.3596265},
      {"swish", ls::nn::swish(x), 3.9924906, 8.38421038},
      {"mp1", ls::nn::max_pool1d(ops::reshape(sig, {1, 16, 4}), {.ksize = 2, .strides = 2, .padding = "VALID"}),
       19.9772514, 46.1796513},
      {"erosion", ls::nn::max_pool_with_argmax(img, {.ksize = 2, .strides = 2, .padding = "SAME"}).output, 32.3898168,
       123.417307},
      {"sc",
       ls::nn::separable_conv2d(img, ops::ones({2, 2, 3, 1}), ops::ones({1, 1, 3, 2}),
                                {.strides = {1, 1, 1, 1}, .padding = "SAME"}),
       633.365, 2526.74355},
      {"c3",
       ls::nn::conv3d(ops::reshape(img, {1, 2, 4, 6, 3}), ops::ones({1, 2, 2, 3, 1}),
                      {.strides = {1, 1, 1, 1, 1}, .padding = "VALID"}),
       229.082483, 872.728802},
      {"atr", ls::nn::atrous_conv2d(img, ops::ones({2, 2, 3, 1}), {.rate = 2, .padding = "SAME"}), 267.253937,
       1048.08659},
  });
  const Tensor t = {"The cat sat", "a  dog", ""};
  EXPECT_EQ(ls::strings::to_hash_bucket(t, 97)[1].item<int>(), 5);
  EXPECT_EQ(ls::strings::to_hash_bucket_fast(t, {.num_buckets = 97})[1].item<int>(), 79);
  EXPECT_EQ(ls::strings::to_hash_bucket_strong(t, 97, {.key = {1, 2}})[0].item<int>(), 74);
  EXPECT_EQ(ls::strings::as_string(ls::constant(3.14159), {.precision = 2}).to_vector<std::string>()[0], "3.14");
  EXPECT_EQ(ls::strings::ngrams({"a", "b", "c"}, {.ngram_width = 2, .separator = "+"}).to_vector<std::string>(),
            (std::vector<std::string>{"a+b", "b+c"}));
  EXPECT_EQ(numbers(ls::strings::unicode_decode("hé", "UTF-8")), (Numbers{104, 233}));
  EXPECT_EQ(numbers(ls::strings::length({"hé"}, {.unit = "UTF8_CHAR"})), (Numbers{2}));
}

TEST(FunctionLines, NumbersThatAreComputed) {
  const Tensor ids = {0, 2, 0}, data = {1.0, 2.0, 4.0};
  EXPECT_EQ(numbers(ops::math::unsorted_segment_sum(
                {.data = data, .segment_ids = ids, .num_segments = ops::reduce_max(ids) + 1})),
            (Numbers{5, 0, 2}));
  EXPECT_EQ(numbers(ops::math::unsorted_segment_max(data, ids, {.num_segments = 3}))[0], 4);
  EXPECT_EQ(numbers(ops::repeat(data, ops::math::bincount(ids))), (Numbers{1, 1, 4}));
  EXPECT_EQ(numbers(ops::roll(data, {.shift = ls::constant({1}), .axis = {0}})), (Numbers{4, 1, 2}));
  EXPECT_EQ(numbers(ops::linspace({.start = 0.0, .stop = 1.0, .num = 3})), (Numbers{0, 0.5, 1}));
  EXPECT_NE(error_of([] { ops::linspace({.start = 0.0}); }).find("requires start and stop"), std::string::npos);
  const Tensor equal = {{1.0, 2.0}, {1.0, 2.0}};
  EXPECT_EQ(numbers(keras::activations::softmax(equal, {.axis = 0})), (Numbers{0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(numbers(ls::nn::softmax(equal, {.axis = 0})), (Numbers{0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(numbers(keras::activations::relu(Tensor{-2.0, 3.0, 9.0}, {.negative_slope = 0.5, .max_value = 6.0})),
            (Numbers{-1, 3, 6}));
  EXPECT_EQ(numbers(keras::activations::leaky_relu(Tensor{-2.0}, {.negative_slope = 0.5})), (Numbers{-1}));
  EXPECT_EQ(numbers(ls::nn::leaky_relu(Tensor{-2.0}, {.alpha = 0.5})), (Numbers{-1}));
}

TEST(Word2Vec, PairsOfWords) {
  const std::vector<int> sequence = {1, 2, 3, 4, 5, 1, 6, 7};
  const auto [pairs, labels] = keras::preprocessing::sequence::skipgrams(
      sequence, {.vocabulary_size = 8, .window_size = 2, .negative_samples = 0, .shuffle = false});
  EXPECT_EQ(pairs.size(), 26U);
  EXPECT_EQ(labels, std::vector<std::int32_t>(26, 1));
  EXPECT_EQ(pairs[2], (std::pair<std::int64_t, std::int64_t>{2, 1}));
  expect_sums({{"table", keras::utils::make_sampling_table({.size = 10}), 0.0953046466, 0.340989238}});
  keras::utils::set_random_seed(5);
  const auto [mixed, kinds] = keras::utils::skipgrams(
      std::vector<int>{1, 2, 3, 2}, {.vocabulary_size = 8, .window_size = 1, .negative_samples = 0.5, .seed = 7});
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(mixed, (Pairs{{2, 1}, {2, 7}, {1, 4}, {3, 2}, {1, 2}, {3, 7}, {3, 2}, {2, 3}, {2, 3}}));
  EXPECT_EQ(kinds, (std::vector<std::int32_t>{1, 0, 0, 1, 1, 0, 1, 1, 1}));
  const auto [sampled, labels_of_sample] = keras::utils::skipgrams(
      std::vector<int>{1, 2, 3, 2},
      {.vocabulary_size = 8, .window_size = 1, .sampling_table = Tensor{0.9, 0.5, 0.5, 0.5}, .seed = 3});
  EXPECT_EQ(sampled, (Pairs{{1, 2}, {1, 1}, {2, 4}, {2, 3}, {2, 1}, {2, 5}, {2, 2}, {2, 3}}));
  EXPECT_EQ(labels_of_sample, (std::vector<std::int32_t>{1, 0, 0, 1, 1, 0, 0, 1}));
}

TEST(Word2Vec, LossesOfASample) {
  ls::Variable weights(waves({20, 3}, 0.3)), biases(ops::zeros({20}));
  const auto labels = ls::constant({{1}, {3}}, ls::int64);
  const auto inputs = waves({2, 3}, 0.9);
  ops::random::set_seed(9);
  ls::GradientTape tape;
  auto loss = ops::reduce_mean(ls::nn::nce_loss(
      {.weights = weights, .biases = biases, .labels = labels, .inputs = inputs, .num_sampled = 5, .num_classes = 20}));
  EXPECT_NEAR(loss.item<double>(), 8.84823036, 1e-5);
  const auto gradients = tape.gradient(loss, {weights, biases});
  expect_sums({{"weights", gradients[0], 2.33982842, 6.05107757}, {"biases", gradients[1], 3.54611928, 10.3459555}});
  loss = ls::nn::sampled_softmax_loss({.weights = weights,
                                       .biases = biases,
                                       .labels = labels,
                                       .inputs = inputs,
                                       .num_sampled = 5,
                                       .num_classes = 20,
                                       .seed = 4});
  expect_sums({{"softmax", loss, 3.83632946, 6.09015584}});
}

class Owner : public ls::Module {
 public:
  explicit Owner(const keras::Model& model) : model(track("model", model)) {}
  keras::Model model;
};

// As in TensorFlow with Keras 3: checkpoints have the model's variables, variables() does not.
TEST(ModuleLines, ModulesOwnModels) {
  keras::Sequential model({keras::Input({2}), layers::Dense(1)});
  Owner owner(model);
  EXPECT_TRUE(owner.variables().empty());
  const auto path = (std::filesystem::temp_directory_path() / ("owner_" + std::to_string(getpid()) + "/ckpt")).string();
  const auto saved = ls::train::Checkpoint({{"owner", owner}}).write(path);
  const Numbers before = numbers(model.weights()[0].value());
  model.weights()[0].assign(ops::zeros({2, 1}));
  ls::train::Checkpoint({{"owner", owner}}).read(path).assert_consumed();
  EXPECT_EQ(numbers(model.weights()[0].value()), before);
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

class Decoder : public keras::layers::Layer {
 public:
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  std::vector<std::string> argument_names() const override { return {"inputs", "context"}; }
  keras::Structure call(const keras::Structure& arguments, const keras::CallContext& context) override {
    const auto& [inputs, other] = arguments;
    const Tensor mask = context.mask;
    seen = mask.defined();
    return inputs + attention(inputs, inputs) + other;
  }
  bool seen = true;
  keras::LayerHandle attention = track("attention", layers::MultiHeadAttention({.num_heads = 1, .key_dim = 2}));
};

// Of `call(self, inputs, context, mask=None)`: Keras passes no mask to it where it gets two tensors.
TEST(MaskLines, OfSeveralArgumentsIsNone) {
  const auto decoder = keras::make_layer<Decoder>();
  const Tensor x = layers::Embedding(4, 2, {.mask_zero = true})(Tensor{{1, 0}});
  decoder(x, ops::ones({1, 2, 2}));
  EXPECT_FALSE(decoder->seen);
  const auto inputs = keras::Input({2, 2});
  EXPECT_EQ(Tensor(decoder(inputs, inputs)).shape()[-1], 2);
}

// The outputs have the mask of the first argument, which the attention within takes from it.
TEST(MaskLines, OfTheFirstArgumentGoesOn) {
  const auto ids = keras::Input({2}), context = keras::Input({2, 2});
  const auto embedded = layers::Embedding(4, 2, {.mask_zero = true})(ids);
  const keras::Model model({ids, context}, keras::make_layer<Decoder>()(embedded, context));
  const Tensor y = model({Tensor{{1, 0}}, ops::ones({1, 2, 2})});
  ASSERT_TRUE(y.mask().defined());
  EXPECT_EQ(numbers(ops::cast(y.mask(), ls::float32)), (Numbers{1, 0}));
}

TEST(LambdaLines, TheShapeOfOutputs) {
  const auto twice = [](const Tensor& x) { return x * 2; };
  const auto inputs = keras::Input({1, 2, 3});
  EXPECT_EQ(Tensor(layers::Lambda(twice, {.output_shape = {1, 2, 3}})(inputs)).shape()[3], 3);
}

}  // namespace lines_of_functions
