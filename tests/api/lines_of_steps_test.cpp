// Lines of programs whose steps do not call the model on the batch as it is, and lines of examples on graphs, images
// and texts, as literally as C++ permits. The numbers are Keras's and TensorFlow's.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;
using ls::Tensor;

namespace lines_of_steps {

// Data are rows of a table, which the model is called on as a whole, as in examples on graphs.
class Lookup : public keras::Model {
 public:
  explicit Lookup(const Tensor& table) : table(table) {}
  keras::Structure call(const keras::Structure& inputs) override {
    const auto& [table, scale] = inputs;
    return Tensor(dense(table)) * scale;
  }
  keras::Results train_step(const keras::Structure& data) override {
    const auto& [rows, targets] = data;
    ls::GradientTape tape;
    const auto outputs = ls::ops::gather((*this)({table, ls::constant(0.5)}), rows);
    const auto loss = compute_loss({.y = targets, .y_pred = outputs});
    optimizer().apply_gradients(ls::zip(tape.gradient(loss, trainable_weights()), trainable_weights()));
    return compute_metrics({}, targets, outputs);
  }
  keras::Results test_step(const keras::Structure& data) override {
    const auto& [rows, targets] = data;
    return compute_metrics({}, targets, ls::ops::gather((*this)({table, ls::constant(0.5)}), rows));
  }
  keras::Structure predict_step(const keras::Structure& rows) override {
    return ls::ops::gather((*this)({table, ls::constant(0.5)}), rows);
  }
  Tensor table;
  keras::LayerHandle dense = track("dense", layers::Dense(2, {.kernel_initializer = "ones"}));
};

TEST(StepLines, StepsMayCallTheModelOnOtherValuesThanTheBatch) {
  Lookup model(waves({5, 3}, 0.7));
  model.compile({.optimizer = ls::optimizers::SGD(0.1), .loss = "mse", .metrics = {"mae"}});
  const auto history = model.fit(
      ls::ops::range(4), waves({4, 2}, 0.3),
      {.batch_size = 2, .epochs = 2, .validation_data = {ls::ops::range(5), waves({5, 2}, 0.2)}, .shuffle = false});
  expect_near(history.history["mae"], {0.806738853, 0.783756196});
  expect_near(history.history["val_mae"], {0.687970757, 0.66944778});
  expect_near(numbers(model.predict(ls::ops::range(2))), {0.767133296, 0.781288922, 0.424624264, 0.439058751});
}

class Doubled : public keras::Model {
 public:
  // def call(self, x, training=True)
  keras::Structure call(const keras::Structure& x, const keras::CallContext& context) override {
    const bool training = context.value("training") != false;
    return Tensor(dense(x)) * (training ? 2.0 : 1.0);
  }
  keras::LayerHandle dense = track("dense", layers::Dense(1, {.kernel_initializer = "ones"}));
};

TEST(StepLines, TrainingMayBeTrueByDefault) {
  Doubled model;
  const auto x = ls::ops::ones({2, 3}), y = ls::ops::zeros({2, 1});
  EXPECT_EQ(numbers(kops::sum(model(x))), Numbers{12});
  EXPECT_EQ(numbers(kops::sum(model(x, {.training = true}))), Numbers{12});
  EXPECT_EQ(numbers(kops::sum(model(x, {.training = false}))), Numbers{6});
  EXPECT_EQ(double(model.predict(x).sum()), 6);
  model.compile("sgd", "mse");
  EXPECT_EQ(double(model.evaluate(x, y)), 9);
  EXPECT_EQ(double(model.fit(x, y).history["loss"][0]), 36);
}

class Twice : public layers::Layer {
 public:
  keras::Structure call(const keras::Structure& x, const keras::CallContext& context) override {
    return x * (context.value("training") != false ? 2.0 : 1.0);
  }
};

TEST(StepLines, TrainingOfLayersMayBeTrueByDefaultToo) {
  const keras::Sequential model({layers::Rescaling(1.0), keras::make_layer<Twice>()});
  const auto x = ls::ops::ones({1, 2});
  EXPECT_EQ(numbers(model(x)), (Numbers{2, 2}));
  EXPECT_EQ(numbers(model(x, {.training = false})), (Numbers{1, 1}));
  EXPECT_EQ(numbers(model(x, {.training = true})), (Numbers{2, 2}));
  const auto layer = keras::make_layer<Twice>();
  EXPECT_EQ(numbers(layer(x)), (Numbers{2, 2}));
  EXPECT_EQ(numbers(layer(x, {.training = false})), (Numbers{1, 1}));
}

// A dataset of dicts without targets: steps get the dict.
class Towers : public keras::Model {
 public:
  keras::Structure call(const keras::Structure& features) override { return features["a"] * features["b"]; }
  keras::Results train_step(const keras::Structure& features) override {
    return {{"product", kops::sum((*this)(features))}};
  }
  keras::Results test_step(const keras::Structure& features) override {
    const auto& [a, b] = std::pair{features["a"], features["b"]};
    return {{"sum", kops::sum(a + b)}};
  }
};

TEST(StepLines, ADictWithoutTargetsIsWhatAStepGets) {
  Towers model;
  model.compile({.optimizer = "sgd"});
  const Tensor a = {{1.0, 2.0}, {3.0, 4.0}}, b = {{5.0, 6.0}, {7.0, 8.0}};
  const auto dataset = ls::data::Dataset::from_tensor_slices({{"a", a}, {"b", b}}).batch(2);
  EXPECT_EQ(model.fit(dataset, {.verbose = 0}).history["product"][0], 70);
  EXPECT_EQ(model.evaluate(dataset, {.verbose = 0})["sum"], 36);
}

class Codes : public keras::Layer {
 public:
  Codes() : Layer("Codes") {}
  keras::Structure call(const keras::Structure& x) override { return x; }
  int count = 7;
};

class Named : public keras::Model {
 public:
  explicit Named(const std::string& name) : Model(keras::Layer::Options{.name = name}) {}
};

TEST(StepLines, LayersOfModelsAreModelsAndClassesOfOnesOwn) {
  const auto part_input = keras::Input({3});
  const keras::Model part(part_input, layers::Dense(2, {.kernel_initializer = "ones"})(part_input),
                          {.name = "encoder"});
  std::vector<keras::LayerHandle> parts;
  parts.push_back(part.impl());
  parts.push_back(keras::make_layer<Codes>());
  const keras::Sequential model(parts, {.name = "whole"});
  EXPECT_EQ(model.name(), "whole");
  EXPECT_EQ(Named("gnn_model").name(), "gnn_model");
  const keras::Model encoder(model.get_layer("encoder"));
  EXPECT_EQ(double(encoder.predict(ls::ops::ones({1, 3})).sum()), 6);
  const std::string codes = model.layers()[1].name();
  EXPECT_EQ(model.get_layer<Codes>(codes)->count, 7);
  EXPECT_EQ(error_of([&] { model.get_layer<Codes>("encoder"); }), "layer 'encoder' is a Functional, expected a Codes");
  EXPECT_EQ(model.layers()[1].as<Codes>()->count, 7);
  EXPECT_EQ(model.get_layer<Codes>({.index = 1})->count, 7);
  EXPECT_EQ(model.get_layer({.index = 0}).name(), "encoder");
}

TEST(StepLines, ArgumentsMayBeTensorsAndVectors) {
  const Tensor x = {1.0, 2.0, 3.0}, ids = {0, 0, 2};
  EXPECT_EQ(numbers(kops::repeat(x, kops::bincount(ids))), (Numbers{1, 1, 3}));
  EXPECT_EQ(numbers(kops::segment_sum(x, ids, {.num_segments = kops::shape(x)[0]})), (Numbers{3, 0, 3}));
  EXPECT_EQ(numbers(kops::one_hot(std::vector<int>{1, 0}, 2)), (Numbers{0, 1, 1, 0}));
  EXPECT_EQ(numbers(ls::ops::reduce_mean(Tensor{{1.0, 3.0}}, 1, {.keepdims = true})), Numbers{2});
  EXPECT_EQ(numbers(ls::ops::argsort(ids, {.direction = "DESCENDING", .stable = true})), (Numbers{2, 0, 1}));
  EXPECT_EQ(std::string(ls::strings::lower("The End").item<std::string>()), "the end");
  double sum = 0;
  for (const auto& [row, factor] : ls::zip(Tensor{{1.0, 2.0}, {3.0, 4.0}}, std::vector<double>{1, 10}))
    sum += double(row.sum()) * factor;
  EXPECT_EQ(sum, 73);
}

TEST(StepLines, ColorsAreConverted) {
  const auto x = ls::ops::abs(waves({2, 3}, 0.7));
  const auto of = [&](Tensor (*convert)(const Tensor&)) { return numbers(convert(x)); };
  expect_near(of(ls::image::rgb_to_yuv), {0.49049705, 0.24357165, -0.43030471, 0.49472693, -0.070836291, 0.32326335});
  expect_near(of(ls::image::yuv_to_rgb), {1.1232975, -0.82640922, 1.3090901, 1.2630613, 0.52733648, 1.543926});
  expect_near(of(ls::image::rgb_to_yiq), {0.49049705, -0.49354255, -0.030084401, 0.49472693, 0.30969164, 0.11662194});
  expect_near(of(ls::image::yiq_to_rgb), {1.2276549, -0.81302267, 0.96645194, 1.4012284, 0.54505992, 1.0902801});
  expect_near(of(ls::image::rgb_to_hsv), {0.55771172, 1.0, 0.98544973, 0.99501628, 0.61192715, 0.86320937});
  expect_near(of(ls::image::hsv_to_rgb), {0.98544973, 0.35060561, 0.35060561, 0.35078323, 0.23327501, 0.32971913});
}

// As the example on NeRF calls fit: Keras takes the batches as the dataset has them, and batch_size for arrays only.
class CountsTestBatches : public keras::Callback {
 public:
  explicit CountsTestBatches(int& count) : count_(&count) {}
  void on_test_batch_end(std::int64_t, const keras::Logs&) override { ++*count_; }

 private:
  int* count_;
};

TEST(StepLines, ABatchSizeNextToADatasetIsThatOfTheValidationData) {
  const Tensor x = waves({6, 2}, 0.5), y = waves({6, 1}, 0.9);
  keras::Sequential model({keras::Input({2}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile("sgd", "mse");
  int batches = 0;
  const auto history =
      model.fit(ls::data::Dataset::from_tensor_slices({x, y}).batch(3), {.batch_size = 2,
                                                                         .epochs = 1,
                                                                         .verbose = 0,
                                                                         .callbacks = {CountsTestBatches(batches)},
                                                                         .validation_data = {x, y}});
  EXPECT_NEAR(history.history["loss"][0], 0.69627500, 2e-6);
  EXPECT_NEAR(history.history["val_loss"][0], 0.64894348, 2e-6);
  EXPECT_EQ(batches, 3);
}

// Deprecated, but many programs of Keras 2 have it. Expected numbers: Keras 3.15, whose loss is the mean of y_pred
// then.
class CompiledSteps : public keras::Model {
 public:
  using Model::Model;
  keras::Results train_step(const keras::Structure& data) override {
    const auto& [x, y] = data;
    ls::GradientTape tape;
    const auto y_pred = (*this)(x, {.training = true});
    const auto loss = compiled_loss(y, y_pred);
    optimizer().apply_gradients(ls::zip(tape.gradient(loss, trainable_variables()), trainable_variables()));
    compiled_metrics().update_state(y, y_pred);
    keras::Results results;
    for (const auto& metric : metrics()) results[metric.name()] = metric.result();
    return results;
  }
};

TEST(StepLines, CompiledLossAndMetrics) {
  const auto inputs = keras::Input({2});
  CompiledSteps model(inputs, keras::layers::Dense(1, {.kernel_initializer = "ones"})(inputs));
  model.compile({.optimizer = "sgd", .loss = "mse", .metrics = {"mae"}});
  const Tensor x = ls::ops::reshape(ls::ops::range(8.0), {4, 2}) / 8.0, y = ls::ops::ones({4, 1});
  const auto history = model.fit(x, y, {.batch_size = 2, .epochs = 2, .verbose = 0, .shuffle = false}).history;
  EXPECT_NEAR(history["mae"][0], 0.5074805, 1e-6);
  EXPECT_NEAR(history["mae"][1], 0.5053079, 1e-6);
  EXPECT_NEAR(history["loss"][0], 0.8824805, 1e-6);
  EXPECT_NEAR(history["loss"][1], 0.8834445, 1e-6);
}

}  // namespace lines_of_steps
