// Lines with None, dtypes by name, functions of structures, samplers of candidates, complex numbers, Lambda layers, and
// classes that derive from optimizers with state of their own. Numbers are those of Keras 3.15 and TensorFlow 2.21.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "lockstep/bases.h"
#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;
using ls::Tensor;

namespace names_and_none {

TEST(Names, DTypesByName) {
  using namespace keras::random;
  expect_near(normal({3}, 0.0, 1.0, "float32", 1), numbers(normal({.shape = {3}, .seed = 1})), 1e-5);
  EXPECT_EQ(uniform({2}, {.minval = 1, .maxval = 2, .dtype = "float64", .seed = 2}).dtype(), ls::float64);
  EXPECT_EQ(randint({4}, 0, 10, "int64", 1).dtype(), ls::int64);
  EXPECT_EQ(categorical(Tensor{{1.0, 2.0}}, 3, "int64").dtype(), ls::int64);
  EXPECT_EQ(ls::ops::random::uniform({2}, 0, 5, "int32").dtype(), ls::int32);
  EXPECT_EQ(ls::random::stateless_uniform({2}, {1, 2}, 0, 10, "int32").dtype(), ls::int32);
  EXPECT_EQ(ls::ops::argmax(Tensor{{1.0, 2.0}}, 1, "int32").dtype(), ls::int32);
  EXPECT_EQ(ls::ops::one_hot(Tensor{1, 2}, 3, "int32").dtype(), ls::int32);
  EXPECT_EQ(ls::ops::shape(Tensor{1, 2}, {.out_type = "int64"}).dtype(), ls::int64);
  EXPECT_EQ(ls::ops::eye(2, 2, "float64").dtype(), ls::float64);
  EXPECT_EQ(ls::ops::sequence_mask(Tensor{1, 2}, 3, "int32").dtype(), ls::int32);
  EXPECT_EQ(ls::constant({1, 2}, "float32").dtype(), ls::float32);
  EXPECT_EQ(ls::constant({{1, 2}}, {.dtype = "int64"}).dtype(), ls::int64);
  EXPECT_EQ(ls::ops::bitcast(Tensor{1, 2}, "float32").dtype(), ls::float32);
  EXPECT_EQ(ls::ops::saturate_cast(Tensor{300, -2}, "uint8").to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{255, 0}));
  EXPECT_EQ(ls::image::convert_image_dtype(Tensor{1.0, 0.0}, "uint8").dtype(), ls::uint8);
  EXPECT_EQ(ls::TensorArray("float32", {.size = 3}).dtype(), ls::float32);
  EXPECT_EQ(ls::ragged::constant({{1, 2}, {3}}, {.dtype = "int64"}).dtype(), ls::int64);
  EXPECT_EQ(kops::zeros({2}, "int32").dtype(), ls::int32);
  EXPECT_EQ(kops::full({2}, 3.0, "int32").dtype(), ls::int32);
  expect_near(kops::arange(0, 2, 0.5, "float32"), {0, 0.5, 1, 1.5}, 1e-5);
  expect_near(kops::linspace(0, 1, {.num = 5, .endpoint = false}), {0, 0.2, 0.4, 0.6, 0.8}, 1e-5);
  expect_near(kops::eye(2, {.M = 3, .k = 1}), {0, 1, 0, 0, 0, 1}, 1e-5);
  expect_near(kops::eye(3, {.k = -1}), {0, 0, 0, 1, 0, 0, 0, 1, 0}, 1e-5);
  expect_near(kops::tri(2, {.M = 3, .k = 1}), {1, 1, 0, 1, 1, 1}, 1e-5);
  EXPECT_NE(error_of([] { normal({2}, 0.0, 1.0, "float31"); }).find("unknown dtype 'float31'"), std::string::npos);
  const auto rows = ls::ops::ones({3, 2});
  expect_near(ls::ops::range({.start = 0, .limit = ls::ops::shape(rows)[0], .delta = 1}), {0, 1, 2}, 1e-5);
}

TEST(Names, NoneWhereKerasAllowsIt) {
  const Tensor x = waves({2, 3, 4}, 0.3);
  keras::utils::set_random_seed(1);
  const auto lstm = layers::LSTM(2);
  expect_near(lstm(x, {.initial_state = ls::None, .mask = ls::None, .training = ls::None}), numbers(lstm(x)), 1e-5);
  const auto attention = layers::MultiHeadAttention(2, 2);
  Tensor padding_mask = ls::None;
  EXPECT_TRUE(padding_mask == ls::None);
  expect_near(attention({.query = x, .value = x, .key = ls::None, .attention_mask = padding_mask}),
              numbers(attention(x, x)), 1e-5);
  const auto loss = keras::losses::MeanSquaredError();
  EXPECT_EQ(float(loss(Tensor{1.0}, Tensor{3.0}, ls::None)), 4);
  const auto mean = keras::metrics::Mean();
  mean.update_state(Tensor{1.0, 2.0}, ls::None);
  EXPECT_EQ(float(mean.result()), 1.5);
  keras::Sequential model(
      {keras::Input({2}), layers::Dense(1, {.activation = ls::None, .kernel_regularizer = ls::None})});
  model.compile({.optimizer = "sgd", .loss = "mse", .metrics = ls::None});
  const Tensor rows = {{1.0, 2.0}, {3.0, 4.0}}, y = {{1.0}, {2.0}};
  model.fit(rows, y,
            {.batch_size = ls::None,
             .verbose = 0,
             .validation_data = ls::None,
             .class_weight = ls::None,
             .sample_weight = ls::None});
  const auto weighted = model.test_on_batch(rows, y, {.sample_weight = Tensor{1.0, 0.0}});
  EXPECT_NEAR(double(weighted.at("loss")), double(model.test_on_batch(rows, y, Tensor{1.0, 0.0}).at("loss")), 1e-6);
  model.train_on_batch(rows, y, {.class_weight = {{1, 0.5}, {2, 2.0}}});
  EXPECT_EQ(float(kops::max(Tensor{1.0, 3.0}, ls::None)), 3);
}

TEST(Trees, FunctionsOfStructures) {
  const keras::Structure a{{"b", {Tensor{1}, Tensor{2}}}, {"a", Tensor{3}}},
      b{{"b", {Tensor{10}, Tensor{20}}}, {"a", Tensor{30}}};
  const auto sum = keras::tree::map_structure([](const Tensor& x, const Tensor& y) { return x + y; }, a, b);
  Numbers flat;
  for (const Tensor& x : keras::tree::flatten(sum)) flat.push_back(numbers(x)[0]);
  EXPECT_EQ(flat, (Numbers{33, 11, 22}));  // dicts by sorted key
  EXPECT_EQ(sum.entries()[0].first, "b");
  const auto packed = ls::nest::pack_sequence_as(a, ls::nest::flatten(b));
  EXPECT_EQ(numbers(packed["b"][1]), (Numbers{20}));
  EXPECT_TRUE(ls::nest::is_nested(a));
  EXPECT_FALSE(ls::nest::is_nested(Tensor{1}));
  ls::nest::assert_same_structure(a, b);
  EXPECT_NE(error_of([&] {
              ls::nest::assert_same_structure(a, {{"b", Tensor{1}}, {"a", Tensor{1}}});
            }).find("['b']"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              ls::nest::assert_same_structure(a, {{"b", b["b"]}, {"c", Tensor{1}}});
            }).find("['a']"),
            std::string::npos);
  const auto first = keras::tree::traverse(
      [](const keras::Structure& part) -> std::optional<keras::Structure> {
        return part.is_list() ? std::optional(keras::Structure(part[0])) : std::nullopt;
      },
      a);
  EXPECT_EQ(numbers(first["b"]), (Numbers{1}));
}

TEST(Names, ComplexNumbersAndSpectra) {
  const Tensor z = ls::ops::complex(Tensor{1.0, 2.0, 3.0}, Tensor{0.5, -1.0, 2.0});
  expect_near(ls::ops::math::real(z), {1, 2, 3}, 1e-5);
  expect_near(ls::ops::math::imag(ls::ops::math::conj(z)), {-0.5, 1, -2}, 1e-5);
  expect_near(ls::ops::math::angle(z), {0.4636476, -0.4636476, 0.5880026}, 1e-5);
  expect_near(ls::ops::math::angle(Tensor{-1.0, 2.0}), {3.1415927, 0}, 1e-5);
  const Tensor x = {1.0, 2.0, 3.0, 4.0};
  expect_near(ls::ops::abs(ls::signal::rfft(x)), {10, 2.8284271, 2}, 1e-5);
  expect_near(ls::signal::irfft(ls::signal::rfft(x)), {1, 2, 3, 4}, 1e-5);
  expect_near(ls::ops::abs(ls::signal::rfft(x, 6)), {10, 5.5677643, 2.6457512, 2}, 1e-5);
  const Tensor m = {{1.0, 2.0}, {3.0, 5.0}};
  expect_near(ls::ops::math::real(ls::signal::fft2d(ls::ops::cast(m, ls::complex64))), {11, -3, -5, 1}, 1e-5);
}

TEST(Names, LambdaLayers) {
  const keras::Sequential model(
      {keras::Input({2}), layers::Lambda([](const Tensor& x) { return x * 2 + 1; }),
       layers::Lambda([](const auto& x) { return kops::sum(x, -1, true); }, {.output_shape = {1}, .name = "total"})});
  EXPECT_EQ(numbers(model(Tensor{{1.0, 2.0}})), (Numbers{8}));
  EXPECT_EQ(model.get_layer("total").class_name(), "Lambda");
  EXPECT_EQ(numbers(keras::models::clone_model(model)(Tensor{{1.0, 2.0}})), (Numbers{8}));
  EXPECT_NE(error_of([&] { model.save("lambda.keras"); }).find("Lambda"), std::string::npos);
}

TEST(Optimizers, LossScaleHasItsScale) {
  const auto optimizer = keras::optimizers::LossScaleOptimizer(keras::optimizers::SGD(0.5),
                                                               {.initial_scale = 8.0, .dynamic_growth_steps = 2});
  const ls::Variable v(1.0);
  Numbers found;
  for (const float gradient : {8.0f, 16.0f, std::numeric_limits<float>::infinity(), 4.0f}) {
    optimizer.apply({Tensor::scalar(gradient)}, {v});
    for (const double x :
         {double(float(v)), double(float(optimizer.dynamic_scale())), double(int(optimizer.step_counter()))})
      found.push_back(x);
  }
  EXPECT_EQ(found, (Numbers{0.5, 8, 1, -0.5, 16, 0, -0.5, 8, 0, -0.75, 8, 1}));
  EXPECT_EQ(optimizer.inner_optimizer().get_config()["learning_rate"], 0.5);
  EXPECT_NE(error_of([] { keras::optimizers::SGD().dynamic_scale(); }).find("LossScaleOptimizer"), std::string::npos);
}

class Halved : public keras::optimizers::ScheduleFreeAdamW {
 public:
  using ScheduleFreeAdamW::ScheduleFreeAdamW;
  void update_step(const Tensor& gradient, const ls::Variable& variable, const Tensor& learning_rate) override {
    ScheduleFreeAdamW::update_step(gradient * 0.5, variable, learning_rate);
  }
};

class CountedScale : public keras::optimizers::LossScaleOptimizer {
 public:
  using LossScaleOptimizer::LossScaleOptimizer;
  void apply_aggregated(std::vector<Tensor> gradients, const std::vector<ls::Variable>& variables) override {
    ++steps;
    LossScaleOptimizer::apply_aggregated(std::move(gradients), variables);
  }
  int steps = 0;
};

TEST(Optimizers, ClassesThatDeriveFromThem) {
  const keras::optimizers::OptimizerPtr halved = Halved(0.1);
  const ls::Variable w(Tensor{1.0, 2.0});
  Numbers found;
  for (int i = 0; i < 3; ++i) {
    halved.apply({Tensor{0.5, -0.25}}, {w});
    for (const double x : numbers(w)) found.push_back(x);
  }
  const Numbers expected = {0.9, 2.1, 0.85, 2.15, 0.8, 2.2};
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << i;

  const auto counted = std::make_shared<CountedScale>(keras::optimizers::SGD(0.5));
  keras::Sequential model({keras::Input({2}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile({.optimizer = counted, .loss = "mse"});
  model.fit(Tensor{{1.0, 2.0}}, Tensor{{1.0}}, {.epochs = 2, .verbose = 0});
  EXPECT_EQ(counted->steps, 2);
  EXPECT_EQ(float(model.optimizer().dynamic_scale()), 32768);
}

TEST(Names, CandidateSamplers) {
  const Tensor classes = ls::ops::cast(Tensor{{1}, {3}}, ls::int64);
  using namespace ls::ops::random;
  set_seed(7);
  const auto [sampled, true_expected, sampled_expected] = log_uniform_candidate_sampler(
      {.true_classes = classes, .num_true = 1, .num_sampled = 4, .unique = true, .range_max = 20, .seed = 3});
  EXPECT_EQ(numbers(sampled), (Numbers{0, 3, 18, 2}));
  expect_near(true_expected, {0.5106177, 0.3165430}, 1e-5);
  expect_near(sampled_expected, {0.7252018, 0.3165430, 0.0814476, 0.3912175}, 1e-5);
  set_seed(7);
  EXPECT_EQ(numbers(log_uniform_candidate_sampler(classes, 1, 4, false, 20, 3).sampled_candidates),
            (Numbers{0, 3, 18, 0}));
  set_seed(7);
  EXPECT_EQ(numbers(uniform_candidate_sampler(classes, 1, 4, true, 20, 3).sampled_candidates), (Numbers{1, 8, 2, 18}));
  set_seed(7);
  const auto fixed = fixed_unigram_candidate_sampler({.true_classes = classes,
                                                      .num_true = 1,
                                                      .num_sampled = 3,
                                                      .unique = true,
                                                      .range_max = 4,
                                                      .unigrams = {1.0, 2.0, 3.0, 4.0},
                                                      .seed = 3});
  EXPECT_EQ(numbers(fixed.sampled_candidates), (Numbers{2, 0, 3}));
  expect_near(fixed.sampled_expected_count, {0.9, 0.3, 1.2}, 1e-5);
}

class Noise : public layers::Layer {
 public:
  keras::Structure call(const keras::Structure& x) override {
    return x * 0.0 + keras::random::normal({2, 3}, {.seed = seed_generator});
  }
  keras::random::SeedGenerator seed_generator = track("seed_generator", keras::random::SeedGenerator(5));
};

TEST(Names, ExportedLayersDrawNumbersOfKnownShapes) {
  const auto inputs = keras::Input({.shape = {3}, .batch_size = 2});
  const keras::Model model(inputs, keras::make_layer<Noise>()(inputs));
  const auto path = std::filesystem::temp_directory_path() / ("noise_" + std::to_string(getpid()));
  ls::saved_model::save(model, path.string());
  auto infer = ls::saved_model::load(path.string()).signatures("serving_default");
  const Tensor x = ls::ops::ones({2, 3});
  const Tensor first = infer(x).begin()->second, second = infer(x).begin()->second;
  EXPECT_EQ(first.shape(), (ls::Shape{2, 3}));
  EXPECT_NE(numbers(first), numbers(second));
  std::filesystem::remove_all(path);
}

TEST(Names, NoneOrAnObject) {
  for (const bool some : {true, false}) {
    const auto dense = layers::Dense(2, {.kernel_regularizer = some ? keras::regularizers::l2(0.1) : ls::None,
                                         .kernel_constraint = some ? keras::constraints::NonNeg() : ls::None});
    EXPECT_EQ(dense.get_config()["kernel_regularizer"].is_null(), !some);
    EXPECT_EQ(dense.get_config()["kernel_constraint"].is_null(), !some);
  }
}

TEST(Names, NullIsNone) {
  const ls::Variable x(2.0), y(3.0);
  ls::GradientTape tape;
  const auto gradients = tape.gradient(x * x, {{"x", x}, {"y", y}});
  EXPECT_TRUE(gradients["y"] == nullptr);
  EXPECT_TRUE(gradients["x"] != nullptr);
  EXPECT_TRUE(nullptr == Tensor());
}

TEST(Names, IteratorsByTheirFullNames) {
  const auto dataset = ls::data::Dataset::range(3);
  auto iterator = ls::iter(dataset);
  EXPECT_EQ(int(ls::next(iterator)), 0);
  EXPECT_EQ(int(next(iterator)), 1);
  EXPECT_EQ(int(ls::next(ls::iter(dataset))), 0);
  try {
    throw ls::errors::NotFoundError("x");
  } catch (const ls::errors::OpError& error) {
    EXPECT_EQ(error.message(), "x");
  }
}

}  // namespace names_and_none
