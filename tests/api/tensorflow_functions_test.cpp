// Functions and lines of TensorFlow's guides on slicing, matrices, images, random numbers and modules, as literally as
// C++ permits. Expected numbers: TensorFlow 2.21.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::ops;
using ls::GradientTape;
using ls::Tensor;
using ls::Variable;

// Named: units of a build hold several files.
namespace tensorflow_functions {

// ---- indexing ----

TEST(TensorFlowFunctions, MasksAndTensorsAreIndices) {
  const Tensor x = {4, 5, 6, 7};
  expect_near(x[x > 4], {5, 6, 7});
  expect_near(x[Tensor{true, false, true, true}], {4, 6, 7});
  expect_near(x[ls::constant(2)], {6});
  expect_near(x[Tensor{0, -1}], {4, 7});
  expect_near(x[{{}, ls::constant(2)}], {4, 5});
  expect_near(x[{-ls::constant(2), {}}], {6, 7});
  const auto w = ls::constant({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  expect_near(w.index({ls::all, {{}, ls::constant(2)}}), {1, 2, 4, 5});
  expect_near(w.index({ops::argmax(Tensor{1, 2}), 0}), {4});
  expect_near(w[w > 2.5], {3, 4, 5, 6});
  EXPECT_THROW((x[Tensor{true, false}]), ls::errors::InvalidArgumentError);
  EXPECT_THROW(x[ls::constant(1.0)], ls::errors::InvalidArgumentError);
  EXPECT_THROW(x[ls::constant(4)], ls::errors::OutOfRangeError);
  const Variable v({1.0, -2.0, 3.0});
  GradientTape tape;
  const auto y = ops::reduce_sum(ops::pow(v[v > 0.0], 2));
  expect_near(tape.gradient(y, v), {2, 0, 6});
}

TEST(TensorFlowFunctions, RowsAndLengths) {
  const Tensor x = {{1, 2}, {3, 4}};
  int sum = 0;
  for (const auto& row : x) sum += int(row[1]);
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(ls::len(x), 2);
  EXPECT_EQ(len(x[0]), 2);
  EXPECT_EQ(ls::len(std::vector<int>{1, 2, 3}), 3);
  EXPECT_THROW(ls::len(ls::constant(1)), ls::errors::InvalidArgumentError);
  const auto shape = ops::ones({2, 3, 4}).shape();
  EXPECT_EQ((shape[{1, {}}]), (ls::Shape{3, 4}));
  EXPECT_EQ((shape[{{}, -1}]), (ls::Shape{2, 3}));
  EXPECT_EQ(ls::prod(shape), 24);
  EXPECT_EQ(int(ops::reduce_prod(shape)), 24);
  EXPECT_THROW(ls::prod({2, ls::kUnknownDim}), ls::errors::InvalidArgumentError);
  expect_near(ls::constant(shape), {2, 3, 4});
}

// A layer that cuts a table to the length of its inputs, which is not known when the model is built.
class Positions : public layers::Layer {
 public:
  keras::Structure call(const keras::Structure& inputs) override {
    const auto length = ops::shape(inputs)[1];
    const auto table = waves({8, 2}, 0.3);
    return inputs + table.index({ls::newaxis, {{}, length}, ls::all});
  }
};

TEST(TensorFlowFunctions, LengthsNeedNotBeKnown) {
  const auto inputs = keras::Input({ls::kUnknownDim, 2});
  const keras::Model model({.inputs = inputs, .outputs = keras::make_layer<Positions>()(inputs), .name = "positions"});
  EXPECT_EQ(model.name(), "positions");
  expect_near(model(ops::zeros({1, 3, 2})), numbers(waves({3, 2}, 0.3)));
  EXPECT_EQ(model.predict(ops::zeros({2, 5, 2}), {.verbose = 0}).shape(), (ls::Shape{2, 5, 2}));
}

class Scale : public layers::Layer {
 public:
  void build(const keras::Nested<ls::Shape>& input_shape) override {
    kernel = add_weight({.shape = {input_shape[-1], 2 * input_shape[-1]}, .initializer = "ones", .name = "kernel"});
  }
  keras::Structure call(const keras::Structure& x) override { return ops::matmul(x, kernel); }
  Variable kernel;
};

TEST(TensorFlowFunctions, ExtentsOfTheInputShape) {
  const auto layer = keras::make_layer<Scale>();
  EXPECT_EQ(layer(ops::ones({1, 3})).shape(), (ls::Shape{1, 6}));
  EXPECT_EQ(layer->kernel.shape(), (ls::Shape{3, 6}));
}

// ---- keywords ----

TEST(TensorFlowFunctions, KeywordArguments) {
  const auto x = ls::constant({{1.0, 2.0}, {3.0, 4.0}});
  expect_near(ops::reduce_sum(x, {.axis = 1}), {3, 7});
  EXPECT_EQ(ops::reduce_mean(x, {.axis = {0, 1}, .keepdims = true}).shape(), (ls::Shape{1, 1}));
  expect_near(ops::reduce_std(x, {.axis = 0}), {1, 1});
  expect_near(ops::argmax(x, {.axis = 1}), {1, 1});
  EXPECT_EQ(ops::concat({x, x}, {.axis = -1}).shape(), (ls::Shape{2, 4}));
  EXPECT_EQ(ops::stack({x, x}, {.axis = 1}).shape(), (ls::Shape{2, 2, 2}));
  EXPECT_EQ(ops::squeeze(ops::expand_dims(x, {.axis = 0}), {.axis = 0}).shape(), (ls::Shape{2, 2}));
  expect_near(ops::matmul(x, x, {.transpose_b = true}), {5, 11, 11, 25});
  expect_near(ops::transpose(x, {.perm = {1, 0}}), {1, 3, 2, 4});
  expect_near(ops::cumsum(x, {.axis = 1, .reverse = true}), {3, 2, 7, 4});
  expect_near(ops::one_hot({0, 2}, 3, {.on_value = 5.0, .off_value = -1.0, .axis = 0}), {5, -1, -1, -1, -1, 5});
  expect_near(ops::gather(x, {1}, {.axis = 1}), {2, 4});
  expect_near(ops::clip_by_value(x, {.clip_value_min = 2, .clip_value_max = 3}), {2, 2, 3, 3});
  EXPECT_EQ(ops::cast(x, {.dtype = ls::int32}).dtype(), ls::int32);
  expect_near(ops::norm(x, {.axis = 1}), {std::sqrt(5.0), 5});
  EXPECT_EQ(ops::split(x, 2, {.axis = 1})[1].shape(), (ls::Shape{2, 1}));
  EXPECT_EQ(layers::Conv2D(3, {.kernel_size = 5, .padding = "same"}).get_config().at("kernel_size"),
            (ls::Json::array({5, 5})));
  EXPECT_EQ(layers::Dense({.units = 3, .activation = "relu"}).get_config().at("units"), 3);
  EXPECT_EQ(layers::Embedding({.input_dim = 3, .output_dim = 4}).get_config().at("output_dim"), 4);
  EXPECT_EQ(layers::MultiHeadAttention({.num_heads = 2, .key_dim = 4}).get_config().at("key_dim"), 4);
  const Tensor labels = {0, 1}, logits = {{1.0, 2.0}, {3.0, 1.0}};
  expect_near(keras::losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true}),
              {1.3132616, 2.126928});
}

// ---- matrices ----

const Tensor& tall() {
  static const Tensor x = {{4.0, 1.0, 2.0}, {1.0, 3.0, 0.0}, {2.0, 0.0, 5.0}, {1.0, 2.0, 2.0}};
  return x;
}

TEST(TensorFlowFunctions, Factorizations) {
  const auto [q, r] = ops::linalg::qr(tall());
  expect_near(r, {-4.69041586, -1.91880655, -4.26401424, 0, -3.21219277, 0.679229975, 0, 0, -3.7890408}, 1e-5);
  expect_near(ops::matmul(q, r), numbers(tall()), 1e-5);
  EXPECT_EQ(ops::linalg::qr(tall(), {.full_matrices = true}).q.shape(), (ls::Shape{4, 4}));
  const auto [s, u, v] = ops::linalg::svd(tall());
  expect_near(s, {7.14734316, 3.6073494, 2.21416211}, 1e-5);
  expect_near(ops::einsum("s,us,vs -> uv", s, u, v), numbers(tall()), 1e-5);
  expect_near(ops::linalg::svdvals(tall()), numbers(s), 1e-5);
  const Tensor m = {{2.0, 1.0}, {1.0, 3.0}};
  const auto [e, w] = ops::linalg::eigh(m);
  expect_near(e, {1.38196588, 3.61803341}, 1e-5);
  expect_near(ops::abs(w), {0.850650728, 0.525731146, 0.525731146, 0.850650728}, 1e-5);
  expect_near(ops::linalg::eigvalsh(m), numbers(e));

  const Variable x(tall()), y(m);
  GradientTape tape({.persistent = true});
  const auto largest = ops::reduce_sum(ops::linalg::svd(x).s[{{}, 2}]);
  const auto upper = ops::linalg::qr(x).r;
  const auto from_qr = ops::reduce_sum(upper * upper.index({0, 0}));
  const auto values = ops::linalg::eigh(y).e;
  const auto from_eigh = ops::reduce_sum(values * values) + ops::linalg::logdet(y);
  expect_near(tape.gradient(largest, x),
              {0.401832163, 0.342964351, 0.33354336, 0.293899387, 0.699878991, -0.222375706, 0.293027788, -0.272369146,
               0.785819888, 0.282758355, 0.322049171, 0.150882408},
              1e-5);
  expect_near(tape.gradient(from_qr, x),
              {20.8567142, 0.0213471614, 0.878577054, 2.02186108, 4.16119814, 4.33605576, 7.7650609, 5.98631334,
               4.52987528, 1.67399895, 5.78078938, 5.08988762},
              1e-4);
  const auto by_values = tape.gradient(from_eigh, y);
  expect_near(by_values + ops::transpose(by_values), {9.2, 3.6, 3.6, 12.8}, 1e-4);
}

TEST(TensorFlowFunctions, SolutionsAndFunctionsOfMatrices) {
  const Tensor b = {{1.0}, {2.0}, {3.0}, {4.0}}, m = {{2.0, 1.0}, {1.0, 3.0}}, lower = {{2.0, 0.0}, {1.0, 3.0}};
  const Tensor rhs = {{1.0}, {2.0}};
  expect_near(ops::linalg::lstsq(tall(), b), {-0.456888616, 0.999693036, 0.852715611}, 1e-5);
  expect_near(ops::linalg::lstsq(tall(), b, {.l2_regularizer = 0.1}), {-0.439940721, 0.986198306, 0.842345238}, 1e-5);
  expect_near(ops::linalg::pinv(tall()),
              {0.32985574, -0.0322184414, -0.0853021964, -0.11660023, -0.0877569318, 0.24578087, -0.0349800736,
               0.175207123, -0.123350672, -0.0251611099, 0.209573492, 0.0994170159},
              1e-5);
  expect_near(ops::linalg::triangular_solve(lower, rhs), {0.5, 0.5});
  expect_near(ops::linalg::triangular_solve(lower, rhs, {.adjoint = true}), {1.0 / 6, 2.0 / 3});
  expect_near(ops::linalg::cholesky_solve(ops::linalg::cholesky(m), rhs), {0.2, 0.6});
  expect_near(ops::linalg::logdet(m), {1.60943794});
  expect_near(ops::linalg::slogdet(-m).sign, {1});
  expect_near(ops::linalg::slogdet(-m).log_abs_determinant, {1.60943794});
  expect_near(ops::linalg::expm(m), {13.181509, 14.8839474, 14.8839474, 28.0654621}, 1e-4);
  expect_near(ops::linalg::sqrtm(m), {1.37638211, 0.32491976, 0.32491976, 1.70130181}, 1e-5);
  expect_near(ops::linalg::matrix_rank(ops::ones({3, 3})), {1});
  expect_near(ops::linalg::matvec(m, {1.0, 2.0}), {4, 7});
  expect_near(ops::linalg::cross({1.0, 2.0, 3.0}, {3.0, 1.0, 2.0}), {1, 7, -5});
  expect_near(ops::linalg::set_diag(m, {7.0, 8.0}), {7, 1, 1, 8});
  expect_near(ops::linalg::diag({1.0, 2.0}), {1, 0, 0, 2});
  expect_near(ops::linalg::diag_part(m), {2, 3});
  expect_near(ops::linalg::band_part(m, 0, -1), {2, 1, 0, 3});
  expect_near(ops::linalg::normalize(m, std::nullopt, 1).normalized,
              {0.894427180, 0.44721359, 0.316227764, 0.948683262});
  expect_near(ops::linalg::matrix_transpose(lower), {2, 1, 0, 3});
  expect_near(ops::einsum("ij,jk", m, m), {5, 5, 5, 10});
  expect_near(ops::einsum("...ij,...jk", m, m), {5, 5, 5, 10});
  expect_near(ops::einsum("ii", m), {5});
  EXPECT_THROW(ops::einsum("ij,jk->iz", m, m), ls::errors::InvalidArgumentError);
  EXPECT_NE(error_of([&] { ops::einsum("ij,jk->iz", m, m); }).find("'ij,jk->iz': the output label 'z'"),
            std::string::npos);
  EXPECT_THROW(keras::ops::einsum("ij,jk->iz", m, m), ls::errors::InvalidArgumentError);
}

// ---- arrays ----

TEST(TensorFlowFunctions, RepeatsGridsAndCounts) {
  const auto x = ls::constant({{1.0, 2.0}, {3.0, 4.0}});
  expect_near(ops::repeat(x, 2), {1, 1, 2, 2, 3, 3, 4, 4});
  expect_near(ops::repeat(x, {1, 2}, 0), {1, 2, 3, 4, 3, 4});
  expect_near(ops::repeat(x, 3, {.axis = -1}), {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4});
  EXPECT_THROW(ops::repeat(x, {1, 2, 3}, 0), ls::errors::InvalidArgumentError);
  const auto grid = ops::meshgrid({1, 2, 3}, {4, 5});
  expect_near(grid[0], {1, 2, 3, 1, 2, 3});
  expect_near(grid[1], {4, 4, 4, 5, 5, 5});
  expect_near(ops::meshgrid({1, 2, 3}, {4, 5}, "ij")[0], {1, 1, 2, 2, 3, 3});
  expect_near(ops::sequence_mask({1, 3, 0}), {1, 0, 0, 1, 1, 1, 0, 0, 0});
  expect_near(ops::sequence_mask({1, 3}, 4, ls::float32), {1, 0, 0, 0, 1, 1, 1, 0});
  expect_near(ops::math::confusion_matrix({0, 1, 2, 1}, {0, 2, 2, 1}), {1, 0, 0, 0, 1, 1, 0, 0, 1});
  expect_near(ops::math::confusion_matrix({0, 1, 1}, Tensor({0.2, 0.4, 0.9}) > 0.5), {1, 0, 1, 1});
  const auto counted = ls::function([](const Tensor& x) { return ops::math::confusion_matrix(x, x > 1); });
  expect_near(counted(Tensor({0, 2, 1})), {1, 0, 0, 1, 0, 0, 0, 1, 0});
  expect_near(ops::histogram_fixed_width({-1.0, 0.0, 0.1, 0.5, 1.0, 2.0}, {0.0, 1.0}, 5), {3, 0, 1, 0, 2});
  expect_near(ops::searchsorted({1, 3, 5, 5}, {5, 0, 4}), {2, 0, 2});
  expect_near(ops::searchsorted({{1.0, 2.0}, {3.0, 4.0}}, {{2.0}, {3.0}}, "right"), {2, 1});
  expect_near(ops::unique_with_counts({3, 1, 3}).count, {2, 1});
  expect_near(ops::math::invert_permutation({2, 0, 1}), {1, 2, 0});
  expect_near(ops::math::bincount({1, 1, 3}), {0, 2, 0, 1});
  expect_near(ops::where(Tensor{true, false}, 1.0, 0.0), {1, 0});
  expect_near(ops::one_hot(1, 3), {0, 1, 0});
  expect_near(ops::range(0, ops::shape(x)[0]), {0, 1});
  expect_near(ops::reduce_sum(ls::Tensors{ls::constant(1.0), ls::constant(2.0)}), {3});
}

TEST(TensorFlowFunctions, TensorArrays) {
  auto array = ls::TensorArray(ls::float32, {.size = 3});
  array = array.write(0, {1.0, 2.0});
  array = array.write(ls::constant(2), {3.0, 4.0});
  expect_near(array.stack(), {1, 2, 0, 0, 3, 4});
  expect_near(array.read(2), {3, 4});
  EXPECT_THROW(array.read(1), ls::errors::InvalidArgumentError);
  EXPECT_THROW(array.write(3, Tensor{1.0, 2.0}), ls::errors::OutOfRangeError);
  EXPECT_THROW(array.write(1, Tensor{1.0}), ls::errors::InvalidArgumentError);
  auto growing = ls::TensorArray({.dtype = ls::int32, .size = 0, .dynamic_size = true});
  for (int i = 0; i < 3; ++i) growing = growing.write(i, ls::constant(i * i));
  EXPECT_EQ(growing.size(), 3);
  expect_near(growing.stack(), {0, 1, 4});
  expect_near(ls::TensorArray(ls::int32, {.size = 2}).unstack({{1, 2}, {3, 4}}).concat(), {1, 2, 3, 4});
}

// ---- random numbers ----

TEST(TensorFlowFunctions, Generators) {
  auto g = ls::random::Generator::from_seed(1);
  expect_near(g.normal({2, 3}), {0.43842274, -0.53439844, -0.07710262, 1.5658046, -0.1012345, -0.2744976});
  expect_near(g.uniform({3}), {0.24253201, 0.9569695, 0.27728307});
  expect_near(g.uniform({3}, 0, 10, ls::int32), {4, 1, 5});
  expect_near(g.truncated_normal({2}, {.mean = 1.0, .stddev = 2.0}), {0.66425133, 4.7706947});
  EXPECT_EQ(g.uniform_full_int({2}).to_vector<std::uint64_t>()[0], 11452714407818463321u);
  expect_near(g.state(), {4097, 0, 0});
  const auto parts = g.split(3);
  ASSERT_EQ(parts.size(), 3u);
  auto second = parts[1];
  expect_near(second.normal({2}), {0.60473955, 0.11398244});
  const auto seeds = g.make_seeds(2);
  EXPECT_EQ(seeds.index({0, 0}).item<std::int64_t>(), -7204024886673235746);
  g.skip(3);
  expect_near(g.state(), {6145, 0, 0});
  g.reset_from_seed(2);
  expect_near(g.normal({2}, {.mean = 1.0, .stddev = 2.0}), {0.79753101, 0.4510048});
  expect_near(g.uniform({2}, -1.0, 1.0, ls::float64), {-0.13264377, -0.47613386});
  auto copy = ls::random::Generator::from_state({1, 2, 3});
  expect_near(copy.normal({2}), {-0.26016375, -1.220522});
  EXPECT_THROW(g.uniform({2}, {.minval = 1, .dtype = ls::int32}), ls::errors::InvalidArgumentError);
  ls::random::set_global_generator(ls::random::Generator::from_seed(1));
  expect_near(ls::random::get_global_generator().normal({1}), {0.43842274});
}

TEST(TensorFlowFunctions, StatelessNumbers) {
  namespace random = ls::random;
  expect_near(random::stateless_normal({2}, {1, 2}, {.mean = 1.0, .stddev = 2.0}), {2.08822012, 1.41476059});
  expect_near(random::stateless_uniform({2}, {1, 2}), {0.84406042, 0.19204533});
  expect_near(random::stateless_uniform({3}, {1, 2}, 0, 5, ls::int32), {0, 4, 4});
  expect_near(random::stateless_uniform({2}, {1, 2}, {.minval = -1.0, .maxval = 1.0}), {0.68812084, -0.61590934});
  expect_near(random::stateless_truncated_normal({2}, {1, 2}), {0.54411012, 0.20738031});
  expect_near(random::stateless_categorical({{0.0, 1.0, 0.5}}, 4, {1, 2}), {2, 2, 0, 2});
  expect_near(random::split({1, 2}, 3), {1105988140, 1738052849, -335576002, 370444179, 10670227, -246211131});
  expect_near(random::fold_in({1, 2}, 3), {1105988140, 3});
}

TEST(TensorFlowFunctions, NumbersOfASeedThatIsSet) {
  for (int time = 0; time < 2; ++time) {
    ops::random::set_seed(5);
    expect_near(ops::random::normal({3}), {-0.18030666, -0.95028627, -0.03964049});
    expect_near(ops::random::uniform({3}), {0.70170748, 0.04336786, 0.56045723});
    expect_near(ops::random::normal({2}, {.mean = 1.0, .stddev = 2.0, .seed = 3}), {-1.92339754, -0.18037438});
    expect_near(ops::random::uniform({3}, 0, 9, ls::int32), {0, 0, 5});
    expect_near(ops::random::truncated_normal({2}), {0.03700283, 0.34592864});
    expect_near(ops::random::shuffle(ops::range(5)), {2, 3, 0, 4, 1});
    expect_near(ops::random::categorical({{0.0, 1.0, 0.5}}, 4), {0, 1, 1, 1});
    expect_near(ops::random::normal({2}, {.seed = 3}), {-1.1615473, -0.1216567});
  }
  keras::utils::set_random_seed(5);
  expect_near(ops::random::normal({3}), {-0.18030666, -0.95028627, -0.03964049});
  expect_near(keras::random::normal({2}), {-0.75053442, -0.18934812});
  expect_near(ops::random::uniform({3}), {0.70170748, 0.04336786, 0.56045723});
}

// ---- modules ----

class SimpleModule : public ls::Module {
 public:
  explicit SimpleModule(const std::string& name = {}) : Module(name) {
    fixed = track("fixed", Variable(5.0, {.trainable = false, .name = "do_not_train_me"}));
    a_variable = track("a_variable", Variable(5.0, {.name = "train_me"}));
  }
  Tensor operator()(const Tensor& x) const { return a_variable * x + fixed; }
  Variable a_variable, fixed;
};

class DenseModule : public ls::Module {
 public:
  DenseModule(int in_features, int out_features) {
    w = track("w", Variable(waves({in_features, out_features}, 0.5), {.name = "w"}));
    b = track("b", Variable(ops::zeros({out_features}), {.name = "b"}));
  }
  Tensor operator()(const Tensor& x) const { return ls::nn::relu(ops::matmul(x, w) + b); }
  Variable w, b;
};

class SequentialModule : public ls::Module {
 public:
  explicit SequentialModule(const std::string& name = {})
      : Module(name), dense_1(track("dense_1", DenseModule(3, 3))), dense_2(track("dense_2", DenseModule(3, 2))) {}
  Tensor operator()(const Tensor& x) const { return dense_2(dense_1(x)); }
  DenseModule dense_1, dense_2;
};

TEST(TensorFlowFunctions, Modules) {
  const SimpleModule simple("simple"), unnamed;
  EXPECT_EQ(float(simple(ls::constant(5.0))), 30);
  EXPECT_EQ(simple.name(), "simple");
  EXPECT_EQ(unnamed.name(), "simple_module");
  ASSERT_EQ(simple.variables().size(), 2u);
  EXPECT_EQ(simple.variables()[0].name(), "train_me");
  EXPECT_EQ(simple.trainable_variables().size(), 1u);
  EXPECT_EQ(simple.non_trainable_variables()[0].name(), "do_not_train_me");

  const SequentialModule model("the_model");
  expect_near(ops::reduce_sum(model({{2.0, 2.0, 2.0}})), {6.96927071}, 1e-5);
  EXPECT_EQ(model.submodules().size(), 2u);
  std::vector<std::string> names;
  for (const auto& variable : model.variables()) names.push_back(variable.name());
  EXPECT_EQ(names, (std::vector<std::string>{"b", "w", "b", "w"}));

  const auto folder = std::filesystem::temp_directory_path() / ("module_" + std::to_string(getpid()));
  ls::train::Checkpoint({{"model", model}}).write(folder / "my_checkpoint");
  std::vector<std::string> keys;
  for (const auto& [name, shape] : ls::train::list_variables(folder / "my_checkpoint")) keys.push_back(name);
  EXPECT_EQ(keys, (std::vector<std::string>{
                      "_CHECKPOINTABLE_OBJECT_GRAPH", "model/dense_1/b/.ATTRIBUTES/VARIABLE_VALUE",
                      "model/dense_1/w/.ATTRIBUTES/VARIABLE_VALUE", "model/dense_2/b/.ATTRIBUTES/VARIABLE_VALUE",
                      "model/dense_2/w/.ATTRIBUTES/VARIABLE_VALUE"}));
  const SequentialModule restored;
  restored.dense_1.w.assign(ops::zeros({3, 3}));
  ls::train::Checkpoint({{"model", restored}}).restore(folder / "my_checkpoint").expect_partial();
  expect_near(ops::reduce_sum(restored({{2.0, 2.0, 2.0}})), {6.96927071}, 1e-5);
  std::filesystem::remove_all(folder);
}

}  // namespace tensorflow_functions
