// Lines of Keras's and TensorFlow's guides, as literally as C++ permits. The numbers are those of Keras 3.15 and
// TensorFlow 2.21.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::layers;
namespace nn = lockstep::nn;
namespace ops = lockstep::ops;
using ls::Tensor;
using ls::data::Dataset;

namespace {

using Numbers = std::vector<std::vector<std::int64_t>>;

// ---- layers and models ----

TEST(GuideLines, InputAndActivationsGoByTheirNamesInKerasAndTensorFlow) {
  const auto inputs = keras::Input({4}, {.name = "features"});
  const auto x = layers::Dense(3, {.activation = nn::relu, .kernel_regularizer = ls::regularizers::l2(0.01)})(inputs);
  const keras::Model model(inputs, layers::Dense(2, {.activation = ls::activations::softmax})(x));
  EXPECT_EQ(model.get_layer(1).get_config().at("activation"), "relu");
  EXPECT_EQ(model.get_layer(2).get_config().at("activation"), "softmax");
  expect_near(nn::softmax({{1.0, 1.0}}), {0.5, 0.5});
  expect_near(nn::sparse_softmax_cross_entropy_with_logits({1}, {{0.0, 0.0}}), {0.6931472F});
  EXPECT_FLOAT_EQ(float(ls::regularizers::l1_l2(0.5, 0.25)({1.0, -2.0})), 2.75F);
}

TEST(GuideLines, KerassPackagesAreInKeras) {
  const keras::models::Sequential model({keras::layers::Input({2}), keras::layers::Dense(1)});
  model.compile({.optimizer = keras::optimizers::Adam(), .loss = keras::losses::MeanSquaredError()});
  EXPECT_EQ(keras::models::clone_model(model).count_params(), 3);
  EXPECT_EQ(keras::utils::to_categorical({1}, 2).shape(), (ls::Shape{1, 2}));
}

TEST(GuideLines, FunctionsAreInitializersRegularizersConstraintsAndActivations) {
  const auto dense = layers::Dense(
      2, {.activation = [](const Tensor& x) { return x * 2.0; },
          .kernel_initializer = [](const ls::Shape& shape, ls::DType dtype) { return ops::ones(shape, dtype) * 3.0; },
          .kernel_regularizer = [](const Tensor& w) { return ops::reduce_sum(w) * 0.5; },
          .kernel_constraint = [](const Tensor& w) { return ops::minimum(w, 1.0); }});
  expect_near(dense(Tensor{{1.0, 1.0}}), {12, 12});
  ASSERT_EQ(dense.losses().size(), 1);
  EXPECT_FLOAT_EQ(float(dense.losses()[0]), 6);
  const ls::GradientTape::Variables variables = dense.trainable_variables();
  ls::optimizers::SGD(0.5).apply({ops::ones({2, 2}), ops::zeros({2})}, variables);
  expect_near(dense.kernel(), {1, 1, 1, 1});
  EXPECT_EQ(dense.get_config().at("kernel_initializer").at("class_name"), "function");
}

class WarmUp : public ls::schedules::LearningRateSchedule {
 public:
  explicit WarmUp(double rate) : rate_(rate) {}
  float operator()(std::int64_t step) const override { return static_cast<float>(rate_ * double(step + 1)); }

 private:
  double rate_;
};

TEST(GuideLines, LearningRatesAreSchedulesAndFunctions) {
  ls::Variable w(1.0);
  const auto optimizer = ls::optimizers::SGD(WarmUp(0.25));
  optimizer.apply({Tensor::scalar(1.0F)}, {w});
  optimizer.apply({Tensor::scalar(1.0F)}, {w});
  EXPECT_EQ(float(w), 0.25F);  // 1 - 0.25 - 0.5
  ls::optimizers::SGD([] { return 0.125; }).apply({Tensor::scalar(1.0F)}, {w});
  EXPECT_EQ(float(w), 0.125F);
  ls::optimizers::SGD({.learning_rate = std::make_shared<WarmUp>(0.125)}).apply({Tensor::scalar(1.0F)}, {w});
  EXPECT_EQ(float(w), 0);
}

class AutoEncoder : public keras::Model {
 public:
  AutoEncoder()
      : Model("AutoEncoder"),
        encoder(track("encoder", keras::Sequential({layers::Dense(2)}))),
        decoder(track("decoder", layers::Dense(4))) {}
  keras::Structure call(const keras::Structure& x, const keras::CallContext&) override { return decoder(encoder(x)); }
  keras::Sequential encoder;
  keras::LayerHandle decoder;
};

TEST(GuideLines, ModelsAreTracked) {
  AutoEncoder model;
  EXPECT_EQ(model(ops::ones({3, 4})).leaf().shape(), (ls::Shape{3, 4}));
  EXPECT_EQ(model.trainable_variables().size(), 4);
  EXPECT_EQ(model.encoder.get_layer(0).kernel().shape(), (ls::Shape{4, 2}));
}

TEST(GuideLines, MasksAreComputed) {
  const auto embedding = layers::Embedding(5, 2, {.mask_zero = true});
  EXPECT_EQ(floats(embedding.compute_mask(Tensor{{1, 0, 3}})), (std::vector<float>{1, 0, 1}));
  EXPECT_FALSE(layers::Dense(2).compute_mask(Tensor{{1.0, 2.0}}).leaf().defined());
}

// A query_mask that is given counts for nothing: Keras puts the mask of the query, or none, in its place.
TEST(GuideLines, TheMaskOfTheQueryIsItsOwn) {
  ls::random::set_random_seed(1);
  const auto attention = layers::MultiHeadAttention(2, 3);
  const Tensor q = ls::random::uniform({1, 3, 4});
  const Tensor plain = attention(q, q);
  EXPECT_EQ(floats(attention(q, q, {.query_mask = {{true, false, true}}})), floats(plain));
}

TEST(GuideLines, StatesOfRecurrentLayersAreReset) {
  const auto lstm = layers::LSTM(2, {.stateful = true});
  const Tensor x = ops::ones({1, 3, 2});
  const std::vector<float> first = floats(lstm(x));
  EXPECT_NE(floats(lstm(x)), first);
  lstm.reset_states();
  EXPECT_EQ(floats(lstm(x)), first);
}

TEST(GuideLines, NormalizationAdapts) {
  const Tensor x = {{1.0, 2.0}, {3.0, 5.0}, {8.0, 13.0}};
  const auto normalization = layers::Normalization();
  normalization.adapt(x);
  const std::vector<double> expected = {-1.01904929, -1.00514138, -0.33968309, -0.35897905, 1.35873234, 1.3641206};
  expect_near(normalization(x), expected, 1e-5F);
  expect_near(normalization.weights()[1], {8.66666698F, 21.55555725F}, 1e-5F);

  const auto of_batches = layers::Normalization();
  of_batches.adapt(Dataset::from_tensor_slices({x, x}).batch(2));
  expect_near(of_batches(x), expected, 1e-5F);

  const auto of_all = layers::Normalization({.axis = std::nullopt});
  of_all.adapt(x);
  expect_near(of_all(x), {-1.0544393F, -0.81110716F, -0.56777507F, -0.08111075F, 0.64888567F, 1.86554635F}, 1e-5F);

  EXPECT_EQ(error_of([&] {
              normalization.adapt(ops::ones({2, 3}));
            }),
            "Normalization '" + normalization.name() +
                "': invalid data of adapt(): found shape (2, 3), expected one like (3, 2), for which the layer was "
                "built");
  EXPECT_THROW(layers::Dense(1).adapt(x), ls::errors::InvalidArgumentError);
  EXPECT_THROW(layers::Normalization({.mean = 1.0, .variance = 2.0}).adapt(x), ls::errors::FailedPreconditionError);
}

TEST(GuideLines, WindowsMustFitTheirInput) {
  EXPECT_EQ(error_of([] {
              (void)layers::Conv2D(3, 5, {.name = "c"})(keras::Input({4, 8, 1}));
            }),
            "Conv2D 'c': invalid input of shape (None, 4, 8, 1): its output would be empty, because the window spans 5 "
            "elements of axis 1, which has 4; a larger input, a smaller window or padding \"same\" is expected");
  EXPECT_THROW((void)layers::Conv1D(3, 3, {.dilation_rate = 2})(ops::ones({1, 4, 1})),
               ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)layers::SeparableConv2D(3, 5)(ops::ones({1, 4, 4, 1})), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)layers::MaxPooling2D(5)(keras::Input({4, 4, 1})), ls::errors::InvalidArgumentError);
  EXPECT_EQ(layers::Conv2D(3, 5, {.padding = "same"})(keras::Input({4, 4, 1})).leaf().shape()[1], 4);
}

TEST(GuideLines, ModelsAreCloned) {
  const keras::Sequential model({keras::Input({2}), layers::Dense(3, {.name = "hidden"}), layers::Dense(1)});
  const keras::Model clone = keras::clone_model(model);
  EXPECT_EQ(clone.name(), model.name());
  EXPECT_EQ(clone.get_layer("hidden").kernel().shape(), (ls::Shape{2, 3}));
  EXPECT_NE(floats(clone.get_weights()[0]), floats(model.get_weights()[0]));

  const auto inputs = keras::Input({2}, {.name = "x"});
  const auto hidden = layers::Dense(3, {.name = "hidden"})(inputs);
  const keras::Model functional(inputs, layers::Dense(1)(hidden) + layers::Dense(1)(inputs));
  EXPECT_EQ(keras::clone_model(functional)(ops::ones({5, 2})).leaf().shape(), (ls::Shape{5, 1}));
  const keras::Model wider =
      keras::clone_model(functional, {.clone_function = [](const keras::LayerHandle& layer) {
                           return layer.name() == "hidden" ? layers::Dense(7, {.name = "wide"}) : layers::Dense(1);
                         }});
  EXPECT_EQ(wider.get_layer("wide").kernel().shape(), (ls::Shape{2, 7}));
  EXPECT_EQ(functional.get_layer("hidden").kernel().shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(wider(ops::ones({5, 2})).leaf().shape(), (ls::Shape{5, 1}));
}

// ---- training ----

TEST(GuideLines, ATapeStopsRecordingForAWhile) {
  ls::Variable x(3.0);
  ls::GradientTape tape({.persistent = true});
  Tensor y = x * x;
  {
    auto paused = tape.stop_recording();
    y = y * ops::stop_gradient(y) + x * 0.0;
    EXPECT_THROW((void)tape.stop_recording(), ls::errors::FailedPreconditionError);
  }
  const Tensor z = x * x * x;
  EXPECT_EQ(float(tape.gradient(z, x)), 27);
  EXPECT_FALSE(tape.gradient(x.numpy() * 1.0, x).defined());
}

TEST(GuideLines, FitValidatesAfterListedEpochs) {
  const keras::Sequential model({keras::Input({2}), layers::Dense(1)});
  model.compile({.optimizer = "sgd", .loss = "mse", .metrics = {ls::metrics::MeanAbsoluteError({.name = "zeta"})}});
  const Tensor x = ops::ones({4, 2}), y = ops::ones({4, 1});
  const auto fit = [&](keras::ValidationFreq often) {
    return model.fit(x, y, {.epochs = 4, .verbose = 0, .validation_data = {x, y}, .validation_freq = often});
  };
  EXPECT_EQ(fit({1, 3})["val_loss"].size(), 2);
  EXPECT_EQ(fit(3)["val_loss"].size(), 1);
  EXPECT_THROW((void)keras::ValidationFreq(0), ls::errors::InvalidArgumentError);
  std::vector<std::string> names;
  for (const auto& [name, values] : fit(1).history) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "val_loss", "val_zeta", "zeta"}));
  EXPECT_EQ(model.get_metrics_result().at(1).first, "zeta");
}

TEST(GuideLines, TrainOnBatchCountsThisBatchAlone) {
  const keras::Sequential model({keras::Input({1}), layers::Dense(1, {.kernel_initializer = "zeros"})});
  model.compile({.optimizer = ls::optimizers::SGD(0.0), .loss = "mse", .metrics = {"mae"}});
  EXPECT_EQ(double(model.train_on_batch(Tensor{{1.0}}, Tensor{{1.0}}).at("mae")), 1);
  EXPECT_EQ(double(model.train_on_batch(Tensor{{1.0}}, Tensor{{3.0}}).at("mae")), 3);
  EXPECT_EQ(double(model.test_on_batch(Tensor{{1.0}}, Tensor{{4.0}}).at("mae")), 4);
  const auto weighted = model.train_on_batch(Tensor{{1.0}, {1.0}}, Tensor{{0.0}, {1.0}}, {}, {{0, 2.0}, {1, 3.0}});
  EXPECT_EQ(double(weighted.at("loss")), 1.5);  // (2 · 0 + 3 · 1) / 2
}

class StepsOfItsOwn : public keras::Model {
 public:
  using Model::Model;
  keras::Results test_step(const keras::Batch&) override {
    b.update_state(Tensor{2.0});
    a.update_state(Tensor{1.0});
    return {{"zz", 3.0}, {"a", 1.0}, {"b", 2.0}, {"c", 5.0}};
  }
  std::vector<ls::metrics::MetricPtr> metrics() const override { return {b, a}; }
  ls::metrics::MetricPtr a = ls::metrics::Mean("a"), b = ls::metrics::Mean("b");
};

TEST(GuideLines, ResultsOfACustomStepAreInKerassOrder) {
  const auto inputs = keras::Input({2});
  const StepsOfItsOwn model(inputs, layers::Dense(1)(inputs));
  model.compile({.optimizer = "sgd", .loss = "mse"});
  std::vector<std::string> names;
  for (const auto& [name, value] : model.evaluate(ops::ones({4, 2}), ops::ones({4, 1}), {.verbose = 0}))
    names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "a", "c", "zz"}));
}

// ---- data ----

Numbers windows_of(const ls::data::Windows& windows) {
  Numbers all;
  for (const Dataset& window : windows) {
    all.emplace_back();
    for (const Tensor& value : window) all.back().push_back(std::int64_t(value));
  }
  return all;
}

TEST(GuideLines, DatasetsHaveWindows) {
  const Dataset seven = Dataset::range(7);
  EXPECT_EQ(windows_of(seven.window(3)), (Numbers{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(windows_of(seven.window(3, {.shift = 1})),
            (Numbers{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 6}, {5, 6}, {6}}));
  EXPECT_EQ(windows_of(seven.window(3, {.shift = 1, .drop_remainder = true})),
            (Numbers{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}, {4, 5, 6}}));
  EXPECT_EQ(windows_of(seven.window(2, {.shift = 3, .stride = 2})), (Numbers{{0, 2}, {3, 5}, {6}}));
  EXPECT_EQ(windows_of(seven.window(2, {.shift = 3, .stride = 2, .drop_remainder = true})), (Numbers{{0, 2}, {3, 5}}));
  EXPECT_EQ(windows_of(seven.window(3, {.shift = 1, .stride = 3})),
            (Numbers{{0, 3, 6}, {1, 4}, {2, 5}, {3, 6}, {4}, {5}, {6}}));
  EXPECT_EQ(seven.window(3, {.shift = 1, .drop_remainder = true}).cardinality(), 5);
  EXPECT_EQ(seven.window(9, {.drop_remainder = true}).cardinality(), 0);
  EXPECT_EQ(seven.window(2, {.shift = 9}).cardinality(), 1);

  const auto batches = seven.window(3, {.shift = 2, .drop_remainder = true}).flat_map([](const Dataset& window) {
    return window.batch(3);
  });
  std::int64_t sum = 0;
  for (const Tensor& batch : batches) sum += std::int64_t(ops::reduce_sum(batch));
  EXPECT_EQ(sum, 27);  // 3 + 9 + 15
  const auto pairs = Dataset::zip(seven, seven).window(2).flat_map([](const Dataset& x, const Dataset& y) {
    return Dataset::zip(x.batch(2), y.batch(2));
  });
  for (const auto& [x, y] : pairs) EXPECT_EQ(x.leaf().to_vector<std::int64_t>(), y.leaf().to_vector<std::int64_t>());

  auto iterator = batches.make_iterator();
  (void)iterator.next();
  auto resumed = batches.make_iterator();
  resumed.restore_state(iterator.save_state());
  EXPECT_EQ(resumed.next()->leaf().to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_THROW((void)seven.window(0), ls::errors::InvalidArgumentError);
}

TEST(GuideLines, DatasetsAreReduced) {
  const Tensor sum = Dataset::range(5).reduce(Tensor::scalar<std::int64_t>(0),
                                              [](const Tensor& state, const Tensor& x) { return state + x; });
  EXPECT_EQ(std::int64_t(sum), 10);
  const auto [count, total] =
      Dataset::range(4).reduce({Tensor::scalar(0), Tensor::scalar<std::int64_t>(0)},
                               [](const ls::data::Element& state, const ls::data::Element& x) -> ls::data::Element {
                                 return {state[0].leaf() + 1, state[1].leaf() + x.leaf()};
                               });
  EXPECT_EQ(int(count.leaf()), 4);
  EXPECT_EQ(int(total.leaf()), 6);
}

TEST(GuideLines, FunctionsOfDatasetsTakePartsOfAllKinds) {
  const Tensor x = {1.0, 2.0};
  const auto dataset = Dataset::from_tensor_slices({{{"a", x}, {"b", x * 2.0}}, x, x, x});
  float sum = 0;
  const auto mapped = dataset.map([](const ls::data::Element& features, const Tensor& label, const Tensor& w,
                                     const Tensor&) { return features.at("b").leaf() * label * w; },
                                  ls::data::AUTOTUNE);
  for (const Tensor& value : mapped.prefetch(ls::data::AUTOTUNE)) sum += float(value);
  EXPECT_EQ(sum, 18);  // 2 + 16
  const auto doubled =
      Dataset::zip(Dataset::range(3), Dataset::range(3)).map([](const auto& a, const auto& b) { return a + b; });
  sum = 0;
  for (const Tensor& value : doubled) sum += float(value);
  EXPECT_EQ(sum, 6);
  sum = 0;
  for (const auto& part : ls::data::Element{x, x}) sum += float(ops::reduce_sum(part));
  EXPECT_EQ(sum, 6);
}

Numbers sequences_of(const Dataset& dataset) {
  Numbers all;
  for (const auto& batch : dataset) {
    for (const Tensor& part : batch.flatten()) all.push_back(part.to_vector<std::int64_t>());
  }
  return all;
}

TEST(GuideLines, SequencesOfATimeSeries) {
  using ls::utils::timeseries_dataset_from_array;
  const Tensor d = ops::range(10, ls::DType::kInt64);
  EXPECT_EQ(sequences_of(timeseries_dataset_from_array(d[{0, 7}], d[{3, 10}], 3, {.batch_size = 4})),
            (Numbers{{0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5}, {3, 4, 5, 6}, {4, 5, 6}, {7}}));
  EXPECT_EQ(sequences_of(
                timeseries_dataset_from_array(d, {}, 3, {.sequence_stride = 2, .sampling_rate = 2, .batch_size = 2})),
            (Numbers{{0, 2, 4, 2, 4, 6}, {4, 6, 8}}));
  EXPECT_EQ(sequences_of(timeseries_dataset_from_array(d, {}, 2, {.start_index = 2, .end_index = 7})),
            (Numbers{{2, 3, 3, 4, 4, 5, 5, 6}}));
  ls::random::set_random_seed(3);
  EXPECT_EQ(sequences_of(timeseries_dataset_from_array(d, {}, 2, {.batch_size = 4, .shuffle = true})),
            (Numbers{{3, 4, 6, 7, 0, 1, 2, 3}, {1, 2, 8, 9, 7, 8, 5, 6}, {4, 5}}));
  EXPECT_EQ(sequences_of(timeseries_dataset_from_array(d, {}, 2, {.batch_size = 4, .shuffle = true, .seed = 5})),
            (Numbers{{7, 8, 6, 7, 4, 5, 5, 6}, {2, 3, 3, 4, 1, 2, 8, 9}, {0, 1}}));
  EXPECT_THROW((void)timeseries_dataset_from_array(d, {}, 2, {.sampling_rate = 10}), ls::errors::InvalidArgumentError);
}

TEST(GuideLines, ArraysAreNormalized) {
  expect_near(ls::utils::normalize({{3.0, 4.0}, {0.0, 0.0}}), {0.6F, 0.8F, 0, 0});
  expect_near(ls::utils::normalize({{3.0, -4.0}, {1.0, 1.0}}, 0, 1), {0.75F, -0.8F, 0.25F, 0.2F});
  expect_near(ls::utils::normalize({{3.0, -4.0}, {1.0, 1.0}}, -1, std::numeric_limits<double>::infinity()),
              {0.75F, -1, 1, 1});
}

// ---- errors, files ----

TEST(GuideLines, ShapesThatCannotBeAreNamed) {
  const ls::Shape huge{0, std::int64_t{1} << 62, 4};
  EXPECT_THROW((void)Tensor::zeros(huge), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)Tensor::from_vector(std::vector<float>{}, huge), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)Tensor::full({-1, 2}, 1.0), ls::errors::InvalidArgumentError);
  EXPECT_EQ(
      error_of([] {
        (void)ls::random::normal({ls::kUnknownDim, 2});
      }),
      "random.normal: invalid shape: found (None, 2), expected known dimensions that fit into memory; while a model is "
      "built, take unknown ones from ops::shape(x), as in {ops::shape(x)[0], 2}");
  EXPECT_THROW((void)ls::random::randint({ls::kUnknownDim}, 0, 3), ls::errors::InvalidArgumentError);
}

TEST(GuideLines, SavingMakesMissingFoldersAndSignaturesTakeOneTensor) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / ("guide_lines_" + std::to_string(getpid()));
  fs::remove_all(folder);
  const keras::Sequential model({keras::Input({2}), layers::Dense(1)});
  model.save((folder / "a" / "b" / "model.keras").string());
  model.save((folder / "c" / "model.h5").string());
  model.save_weights((folder / "d" / "e" / "model.weights.h5").string());
  ls::saved_model::save(model, (folder / "f" / "g").string());
  const Tensor x = {{1.0, 2.0}};
  EXPECT_EQ(floats(keras::load_model((folder / "a" / "b" / "model.keras").string())(x)), floats(model(x)));
  const auto infer = ls::saved_model::load((folder / "f" / "g").string()).signatures("serving_default");
  expect_near(infer(x).begin()->second, numbers(model(x)));
  fs::remove_all(folder);
}

}  // namespace
