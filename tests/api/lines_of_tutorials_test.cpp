// Lines of the tutorials of TensorFlow and Keras (regression, image segmentation, DeepDream, translation, text
// generation, preprocessing, custom optimizers), as close to Python as C++ permits. Expected numbers: TensorFlow 2.21
// and Keras 3.15.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "lockstep/ops/examples.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::ops;
using ls::Tensor;

// Named: units of a build hold several files.
namespace lines_of_tutorials {

TEST(TutorialPrograms, InputsAndOutputsOfAModelAreLists) {
  const keras::Sequential model({keras::Input({4}), layers::Dense(3, {.name = "hidden"}), layers::Dense(2)});
  EXPECT_EQ(model.inputs().size(), 1U);
  EXPECT_EQ(model.inputs()[0].shape(), (ls::Shape{ls::kUnknownDim, 4}));
  EXPECT_EQ(model.outputs()[0].shape(), (ls::Shape{ls::kUnknownDim, 2}));
  EXPECT_EQ(model.input().shape(), (ls::Shape{ls::kUnknownDim, 4}));
  const keras::Model inner(model.inputs(), model.get_layer("hidden").output());
  const Tensor x = ops::ones({2, 4});
  EXPECT_EQ(inner(x).shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(inner.predict(x, {.verbose = 0}).shape(), (ls::Shape{2, 3}));
  const keras::Model both(model.inputs(), {model.get_layer("hidden").output(), model.output()});
  EXPECT_EQ(both(x).size(), 2U);
  const keras::Model in_list({model.input()}, model.outputs());
  EXPECT_EQ(in_list(x).shape(), (ls::Shape{2, 2}));  // as Keras unpacks a list of one
}

TEST(TutorialPrograms, ArgumentsByName) {
  const std::int64_t filters = 4, size = 3;
  const auto x = keras::Input({.shape = {8, 8, 3}, .name = "image"});
  const auto shape = [](const keras::Structure& y) { return y.shape(); };
  const std::int64_t n = ls::kUnknownDim;
  EXPECT_EQ(shape(layers::Conv2D(filters, {.kernel_size = size})(x)), (ls::Shape{n, 6, 6, 4}));
  EXPECT_EQ(shape(layers::Conv2D({.filters = filters, .kernel_size = {3, 1}})(x)), (ls::Shape{n, 6, 8, 4}));
  EXPECT_EQ(shape(layers::Conv2D(filters, {size, 3}, {.padding = "same"})(x)), (ls::Shape{n, 8, 8, 4}));
  EXPECT_EQ(shape(layers::DepthwiseConv2D({.kernel_size = 3})(x)), (ls::Shape{n, 6, 6, 3}));
  EXPECT_EQ(shape(layers::DepthwiseConv2D({3, 3}, {.strides = 2})(x)), (ls::Shape{n, 3, 3, 3}));
  EXPECT_EQ(shape(layers::SeparableConv2D(filters, {.kernel_size = 3})(x)), (ls::Shape{n, 6, 6, 4}));
  EXPECT_EQ(shape(layers::Reshape({.target_shape = {64, 3}})(x)), (ls::Shape{n, 64, 3}));
  EXPECT_EQ(shape(layers::Reshape({8 * size, 8})(x)), (ls::Shape{n, 24, 8}));
  EXPECT_EQ(shape(layers::Permute({.dims = {3, 1, 2}})(x)), (ls::Shape{n, 3, 8, 8}));
  EXPECT_EQ(shape(layers::ZeroPadding2D({.padding = {1, 2}})(x)), (ls::Shape{n, 10, 12, 3}));
  EXPECT_EQ(shape(layers::ZeroPadding2D()(x)), (ls::Shape{n, 10, 10, 3}));
  EXPECT_EQ(shape(layers::Cropping2D({.cropping = 1})(x)), (ls::Shape{n, 6, 6, 3}));
  EXPECT_EQ(shape(layers::Resizing({.height = 4, .width = 5})(x)), (ls::Shape{n, 4, 5, 3}));
  EXPECT_EQ(shape(layers::RandomCrop({.height = 4, .width = 5})(x)), (ls::Shape{n, 4, 5, 3}));
  EXPECT_EQ(layers::RandomRotation({.factor = 0.1}).get_config().at("factor"),
            layers::RandomRotation(0.1).get_config().at("factor"));
  EXPECT_EQ(layers::RandomRotation({-0.1, 0.2}).get_config().at("factor"), (ls::Json{-0.1, 0.2}));
  EXPECT_EQ(layers::RandomZoom(0.1, 0.2).get_config().at("width_factor"), 0.2);
  EXPECT_EQ(layers::RandomContrast({.factor = 0.2, .seed = 3}).get_config().at("seed"), 3);
  EXPECT_EQ(layers::Dropout({.rate = 0.25}).get_config().at("rate"), 0.25);
  EXPECT_EQ(layers::Rescaling({.scale = 1. / 127.5, .offset = -1}).get_config().at("offset"), -1);
  EXPECT_EQ(layers::Rescaling(0.5, -1).get_config().at("offset"), -1);
  EXPECT_EQ(layers::Dot({.axes = 1, .normalize = true}).get_config().at("axes"), 1);
  EXPECT_EQ(layers::Bidirectional({.layer = layers::GRU(2), .merge_mode = "sum"}).get_config().at("merge_mode"), "sum");
  EXPECT_EQ(keras::initializers::RandomNormal(0.0, 0.02, {.seed = 1}).get_config().at("stddev"), 0.02);
  EXPECT_EQ(keras::initializers::RandomUniform(-1, 1).get_config().at("minval"), -1.0);
}

TEST(TutorialPrograms, StatisticsOfNormalization) {
  const auto normalizer = layers::Normalization({.axis = -1});
  normalizer.adapt(Tensor{{1.0, 10.0}, {3.0, 30.0}});
  EXPECT_EQ(normalizer.mean().shape(), (ls::Shape{1, 2}));
  EXPECT_EQ(numbers(normalizer.mean()), (Numbers{2, 20}));
  EXPECT_EQ(numbers(normalizer.variance().numpy()), (Numbers{1, 100}));
  EXPECT_THROW(layers::Normalization().mean(), ls::errors::FailedPreconditionError);
  const auto norm = layers::BatchNormalization();
  norm.build({ls::kUnknownDim, 2});
  EXPECT_EQ(numbers(norm.gamma()), (Numbers{1, 1}));
  EXPECT_EQ(numbers(norm.beta()), (Numbers{0, 0}));
}

class OwnStep : public keras::Model {
 public:
  using Model::Model;
  keras::Results train_step(const keras::Batch& data) override {
    const auto& [x, y, sample_weight] = data;
    ls::GradientTape tape;
    const auto y_pred = (*this)(x, {.training = true});
    const auto loss = this->loss(y, y_pred);
    optimizer().apply(tape.gradient(loss, trainable_variables()), trainable_variables());
    return {{"loss", loss}};
  }
};

TEST(TutorialPrograms, TheLossOfCompileIsCalled) {
  const auto x = keras::Input({2});
  OwnStep model(x, layers::Dense(1, {.kernel_initializer = "ones"})(x));
  EXPECT_THROW(model.loss({{1.0}}, {{2.0}}), ls::errors::FailedPreconditionError);
  model.compile({.optimizer = keras::optimizers::SGD(0.1), .loss = keras::losses::MeanSquaredError()});
  EXPECT_FLOAT_EQ(float(model.loss({{1.0}}, {{3.0}})), 4);
  const Tensor data = {{1.0, 2.0}}, target = {{0.0}};
  const auto callbacks = std::vector<keras::CallbackPtr>{keras::callbacks::EarlyStopping({.monitor = "loss"})};
  const auto history = model.fit(data, target, {.epochs = 2, .verbose = 0, .callbacks = callbacks});
  EXPECT_EQ(history.history["loss"], (std::vector<double>{0, 0}));  // the result of the tracker, which nobody updated
  EXPECT_NEAR(float(model.loss(target, model(data))), 0.36 * 0.04, 1e-5);
}

// As self.loss(...) of Keras: what a function gives is not reduced.
TEST(TutorialPrograms, AFunctionOfCompileIsCalledAsItIs) {
  const auto x = keras::Input({2});
  const keras::Model model(x, layers::Dense(1, {.kernel_initializer = "ones"})(x));
  const Tensor y = {{0.0}, {0.0}}, predicted = model({{1.0, 2.0}, {3.0, 4.0}});
  model.compile({.loss = keras::losses::mean_squared_error});
  EXPECT_EQ(numbers(model.loss(y, predicted)), (Numbers{9, 49}));
  EXPECT_THROW(model.loss(y, predicted, {1.0, 2.0}), ls::errors::InvalidArgumentError);
  model.compile({.loss = [](const Tensor& t, const Tensor& p) { return ls::ops::square(p - t) * 2; }});
  EXPECT_EQ(numbers(model.loss(y, predicted)), (Numbers{18, 98}));
  model.compile({.loss = keras::losses::MeanSquaredError()});
  EXPECT_EQ(numbers(model.loss(y, predicted, {1.0, 2.0})), (Numbers{53.5}));
}

TEST(TutorialPrograms, OneResultIsANumber) {
  const keras::Sequential model({keras::Input({1}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile({.optimizer = "sgd", .loss = "mean_absolute_error"});
  const Tensor x = {{1.0}, {2.0}}, y = {3.0, 3.0};
  std::map<std::string, double> results;
  results["model"] = model.evaluate(x, y, {.verbose = 0});
  EXPECT_FLOAT_EQ(float(results["model"]), 1.5F);
  const auto predictions = model.predict(x, {.verbose = 0}).flatten();
  const auto error = predictions - y;
  EXPECT_EQ(numbers(error), (Numbers{-2, -1}));
  EXPECT_EQ(numbers(keras::ops::argsort(keras::ops::negative(predictions))), (Numbers{1, 0}));
  EXPECT_EQ(ls::len(model.predict(x, {.verbose = 0})), 2);
  model.compile({.optimizer = "sgd", .loss = "mae", .metrics = {"mse"}});
  EXPECT_THROW(results["model"] = model.evaluate(x, y, {.verbose = 0}), ls::errors::InvalidArgumentError);
}

TEST(TutorialPrograms, MembersOfArrays) {
  const auto images = ops::cast(ops::reshape(ops::range(24), {2, 3, 4}), ls::uint8);
  const auto x = images.reshape(2, 12).astype("float32") / 255;
  EXPECT_EQ(x.shape(), (ls::Shape{2, 12}));
  EXPECT_EQ(x.dtype(), ls::float32);
  EXPECT_EQ(images.reshape({-1, 4}).shape(), (ls::Shape{6, 4}));
  EXPECT_EQ(images.flatten().shape(), (ls::Shape{24}));
  EXPECT_EQ(images.sum().dtype(), ls::int64);
  EXPECT_EQ(int(images.sum()), 276);
  EXPECT_EQ(images.mean().dtype(), ls::float64);
  EXPECT_FLOAT_EQ(float(images.mean()), 11.5F);
  EXPECT_NEAR(double(images.std()), 6.922186552431729, 1e-9);
  EXPECT_EQ(int(images.max()), 23);
  EXPECT_EQ(int(images.argmax()), 23);
  EXPECT_EQ(numbers(Tensor{{1, 5, 2}, {7, 0, 3}}.argmax(1)), (Numbers{1, 0}));
  EXPECT_EQ((Tensor{{1, 2, 3}}.transpose().shape()), (ls::Shape{3, 1}));
}

class Scale : public keras::Layer {
 public:
  explicit Scale(double factor) : factor(factor) {}
  void build(const keras::Nested<ls::Shape>& shape) override {
    w = add_weight({.shape = {shape[-1]}, .initializer = "ones", .name = "w"});
  }
  keras::Structure call(const keras::Structure& x) override { return x.leaf() * w * factor; }
  double factor;
  ls::Variable w;
};

TEST(TutorialPrograms, ModelsWithClassesThatAreNotRegisteredAreCloned) {
  const auto x = keras::Input({2});
  const keras::Model model(x, layers::Dense(1)(keras::make_layer<Scale>(3.0)(x)));
  const auto clone = keras::models::clone_model(model);
  clone.set_weights(model.get_weights());
  const Tensor data = {{1.0, 2.0}, {0.5, -1.0}};
  EXPECT_EQ(numbers(clone(data)), numbers(model(data)));
  EXPECT_EQ(clone.layers()[1].name(), model.layers()[1].name());
  EXPECT_NE(clone.layers()[1].get(), model.layers()[1].get());
}

class Attention : public keras::Layer {
 public:
  Attention() { dense = track("dense", layers::Dense(2, {.kernel_initializer = "ones"})); }
  keras::Structure call(const keras::Structure& x, const keras::CallContext& context) override {
    last = dense(x);
    Tensor y = last;
    if (const Tensor state = context.tensor("state"); state.defined()) y = y + state;
    if (context.value("double") == true) y = y * 2.0;
    return y;
  }
  keras::LayerHandle dense;
  Tensor last;
};

class Outer : public keras::Model {
 public:
  Outer() {
    attention = track("attention", keras::make_layer<Attention>());
    for (int i = 0; i < 2; ++i) more.push_back(keras::make_layer<Attention>());
    track("more", more);
  }
  keras::Structure call(const keras::Structure& x) override { return more[1](more[0](attention(x))); }
  keras::CustomLayer<Attention> attention;
  std::vector<keras::CustomLayer<Attention>> more;
};

TEST(TutorialPrograms, TrackedLayersKeepTheirClassAndTakeKeywords) {
  Outer model;
  const Tensor x = {{1.0, 2.0}};
  EXPECT_EQ(numbers(model(x)), (Numbers{12, 12}));
  EXPECT_EQ(numbers(model.attention->last), (Numbers{3, 3}));
  EXPECT_EQ(model.trainable_variables().size(), 6U);
  const Tensor state = {1.0, 0.0};
  EXPECT_EQ(numbers(model.attention(x, {.arguments = {{"state", state}, {"double", true}}})), (Numbers{8, 6}));
}

class Momentum : public keras::optimizers::Optimizer {
 public:
  explicit Momentum(double learning_rate, double momentum = 0.9)
      : Optimizer({.learning_rate = learning_rate, .name = "momentum"}), momentum(momentum) {}
  void build(const std::vector<ls::Variable>& variables) override {
    if (built()) return;
    Optimizer::build(variables);
    for (const auto& variable : variables) slots.push_back(add_variable_from_reference(variable, "momentum"));
  }
  void update_step(const Tensor& gradient, const ls::Variable& variable, const Tensor& learning_rate) override {
    const auto& m = slots[get_variable_index(variable)];
    assign(m, m * momentum - learning_rate * gradient);
    assign_add(variable, m);
  }
  double momentum;
  std::vector<ls::Variable> slots;
};

TEST(TutorialPrograms, OptimizersWithUpdateStep) {
  const auto train = [](const keras::optimizers::OptimizerPtr& optimizer) {
    const keras::Sequential model({keras::Input({2}), layers::Dense(1, {.kernel_initializer = "ones"})});
    model.compile({.optimizer = optimizer, .loss = "mse"});
    const Tensor x = {{1.0, 2.0}, {-1.0, 0.5}}, y = {{1.0}, {0.0}};
    model.fit(x, y, {.epochs = 3, .verbose = 0});
    return numbers(model.get_weights()[0]);
  };
  const Numbers own = train(std::make_shared<Momentum>(0.05)),
                keras_own = train(keras::optimizers::SGD(0.05, {.momentum = 0.9}));
  ASSERT_EQ(own.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(own[i], keras_own[i], 1e-6);
}

TEST(TutorialPrograms, GradientAscentOnImages) {
  const keras::Sequential model(
      {keras::Input({ls::kUnknownDim, ls::kUnknownDim, 1}),
       layers::Conv2D(1, 3, {.kernel_initializer = "ones", .name = "a"}),
       layers::Conv2D(1, 1, {.activation = "relu", .kernel_initializer = "ones", .name = "b"})});
  const keras::Model dream(model.inputs(), {model.get_layer("a").output(), model.get_layer("b").output()});
  Tensor img = ops::ones({6, 6, 1}) * 0.5;
  for (const std::int64_t size : {6, 8}) {
    img = ops::image::resize(img, {size, size});
    for (int step = 0; step < 3; ++step) {
      ls::GradientTape tape;
      tape.watch(img);
      std::vector<Tensor> losses;
      EXPECT_EQ(len(dream(ops::expand_dims(img, 0))), 2);
      for (const auto& act : dream(ops::expand_dims(img, 0))) losses.push_back(ops::reduce_mean(act));
      const auto loss = ops::reduce_sum(losses);
      auto gradients = tape.gradient(loss, img);
      ASSERT_TRUE(gradients.defined());
      gradients /= ops::reduce_std(gradients) + 1e-8;
      img = ops::clip_by_value(img + gradients * 0.01, -1, 1);
    }
  }
  EXPECT_NEAR(float(ops::reduce_mean(img)), 0.60562706, 1e-5);
}

TEST(TutorialPrograms, NormsOfMatrices) {
  const Tensor m = {{1.0, -2.0}, {3.0, 4.0}};
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_NEAR(float(ops::norm(m, {.ord = "fro", .axis = {0, 1}})), 5.477226, 1e-5);
  EXPECT_NEAR(float(ops::norm(m, {.ord = "euclidean"})), 5.477226, 1e-5);
  EXPECT_NEAR(float(ops::norm(m, {.ord = 1, .axis = {-2, -1}})), 6, 1e-5);
  EXPECT_NEAR(float(ops::norm(m, {.ord = infinity, .axis = {-2, -1}})), 7, 1e-5);
  EXPECT_NEAR(float(ops::norm(m, {.ord = 2, .axis = {-2, -1}})), 5.116673, 1e-5);
  EXPECT_EQ(ops::norm(ops::stack({m, m}), {.ord = 2, .axis = {1, 2}, .keepdims = true}).shape(), (ls::Shape{2, 1, 1}));
  EXPECT_THROW(ops::norm(m, {.ord = "nuclear"}), ls::errors::InvalidArgumentError);
  EXPECT_THROW(ops::norm(m, {.ord = 3, .axis = {0, 1}}), ls::errors::InvalidArgumentError);
}

TEST(TutorialPrograms, SmallForms) {
  const Tensor x = {1, 2, 3};
  EXPECT_EQ(ls::constant({1}, ls::int64).shape(), (ls::Shape{1}));
  EXPECT_EQ(ls::constant(1, ls::int64).shape(), ls::Shape());
  const std::vector<std::string> sources = {"a", "b", "c"}, targets = {"d", "e", "f"};
  const auto pairs = ls::data::Dataset::from_tensor_slices({sources, targets}).batch(2);
  EXPECT_EQ(ls::len(*pairs.begin()), 2);
  EXPECT_EQ((*pairs.begin())[1].shape(), (ls::Shape{2}));
  EXPECT_EQ(ls::data::Dataset::from_tensor_slices(sources).cardinality(), 3);
  EXPECT_EQ(numbers(ops::roll(x, 1, 0)), (Numbers{3, 1, 2}));
  EXPECT_EQ(numbers(ops::roll(x, ls::constant(-1), {0})), (Numbers{2, 3, 1}));
  EXPECT_EQ(numbers(ops::range(0, ls::constant(7), 3)), (Numbers{0, 3, 6}));
  EXPECT_NEAR(float(ops::sqrt(6.0)), 2.4494898, 1e-6);
  EXPECT_EQ(ops::zeros({2, 1}, {.dtype = ls::bool_}).dtype(), ls::bool_);
  EXPECT_EQ(numbers(ops::math::unsorted_segment_mean({{1.0}, {3.0}, {5.0}}, {1, 1, 0}, 3)), (Numbers{5, 2, 0}));
  EXPECT_EQ(ops::strings::join({"[START]", ls::constant("go"), "[END]"}, {.separator = " "}).item<std::string>(),
            "[START] go [END]");
  EXPECT_NEAR(float(ls::nn::l2_normalize(Tensor{3.0, 4.0}, {.axis = -1})[0]), 0.6, 1e-6);
  EXPECT_NEAR(float(ls::nn::sigmoid_cross_entropy_with_logits({.labels = {1.0}, .logits = {0.5}})[0]), 0.474077, 1e-5);
  const auto dataset = ls::data::Dataset::range(6).shuffle({.buffer_size = 6, .seed = 1}).batch({.batch_size = 4});
  EXPECT_EQ(next(iter(dataset)).shape(), (ls::Shape{4}));
  const auto lookup = layers::StringLookup({.vocabulary = std::vector<std::string>{"a", "b"}});
  EXPECT_EQ(int(lookup("b")), 2);
  const Tensor limit = {2.0};
  EXPECT_LE(float(ops::reduce_max(ops::random::uniform({9}, {.minval = -limit, .maxval = limit}))), 2);
  EXPECT_EQ(numbers(keras::applications::inception_v3::preprocess_input({{{0.0, 127.5, 255.0}}})), (Numbers{-1, 0, 1}));
  EXPECT_EQ(keras::utils::img_to_array(ops::ones({2, 3}, ls::uint8)).shape(), (ls::Shape{2, 3, 1}));
}

TEST(TutorialPrograms, ExamplesInFiles) {
  const auto path = std::filesystem::temp_directory_path() / ("examples_" + std::to_string(getpid()) + ".tfrecord");
  const auto example = [](std::int64_t n, const std::string& word, double x) {
    return ls::train::Example(
        {.features = ls::train::Features(
             {.feature = {{"n", ls::train::Feature({.int64_list = ls::train::Int64List({.value = {n, -1}})})},
                          {"word", ls::train::Feature({.bytes_list = ls::train::BytesList({.value = {word}})})},
                          {"x", ls::train::Feature({.float_list = ls::train::FloatList({.value = {x}})})}}})});
  };
  const std::string bytes = example(7, "goat", 0.5).SerializeToString();
  // tf.train.Example's bytes.
  EXPECT_EQ(bytes.size(), 57U);
  const auto read = ls::train::Example::FromString(bytes);
  EXPECT_EQ(read.features.feature.at("n").int64_list->value, (std::vector<std::int64_t>{7, -1}));
  EXPECT_EQ(read.features.feature.at("word").WhichOneof("kind"), "bytes_list");
  EXPECT_THROW(ls::train::Example::FromString("\xff\xff"), ls::errors::InvalidArgumentError);
  {
    ls::io::TFRecordWriter writer(path.string());
    for (int i = 0; i < 3; ++i) writer.write(example(i, "w" + std::to_string(i), 0.5 * i).SerializeToString());
  }
  const ls::io::FeatureDescription description = {{"n", ls::io::VarLenFeature(ls::int64)},
                                                  {"word", ls::io::FixedLenFeature({}, ls::string)},
                                                  {"x", ls::io::FixedLenFeature({1}, ls::float32)},
                                                  {"none", ls::io::FixedLenFeature({}, ls::int64, 4)}};
  double sum = 0;
  for (const auto& parsed : ls::data::TFRecordDataset(path.string()).map([&](const Tensor& record) {
         return ls::io::parse_single_example(record, description);
       })) {
    EXPECT_EQ(parsed["x"].shape(), (ls::Shape{1}));
    EXPECT_EQ(int(parsed["none"]), 4);
    EXPECT_EQ(parsed["word"].leaf().item<std::string>(), "w" + std::to_string(int(2 * float(parsed["x"]))));
    sum += double(ops::reduce_sum(ls::sparse::to_dense(parsed["n"])));
  }
  EXPECT_EQ(sum, 0);
  std::filesystem::remove(path);
}

TEST(TutorialPrograms, RaggedTensors) {
  const auto digits = ls::ragged::constant({{3, 1, 4, 1}, {}, {5, 9, 2}, {6}, {}});
  EXPECT_EQ(numbers(ops::reduce_sum(digits, {.axis = 1})), (Numbers{9, 0, 16, 6, 0}));
  EXPECT_EQ(double(ops::reduce_mean(digits, 1)[0]), 2.25);
  EXPECT_EQ(digits.to_string(), "[[3, 1, 4, 1], [], [5, 9, 2], [6], []]");
  EXPECT_EQ((digits * 2 + digits).to_string(), "[[9, 3, 12, 3], [], [15, 27, 6], [18], []]");
  EXPECT_EQ(ops::concat({digits, ls::ragged::constant({{5, 3}})}, 0).nrows(), 6);
  EXPECT_EQ(ops::concat({digits, digits}, 1).to_string(),
            "[[3, 1, 4, 1, 3, 1, 4, 1], [], [5, 9, 2, 5, 9, 2], [6, 6], []]");
  EXPECT_EQ(digits.to_tensor({.default_value = -1}).shape(), (ls::Shape{5, 4}));
  EXPECT_EQ(digits.to_tensor({.shape = ls::Shape{ls::kUnknownDim, 2}}).shape(), (ls::Shape{5, 2}));
  EXPECT_EQ(int(digits[2][-1]), 2);
  EXPECT_EQ(numbers(digits.bounding_shape()), (Numbers{5, 4}));
  EXPECT_EQ(digits.shape(), (ls::Shape{5, ls::kUnknownDim}));
  const auto rows = ls::RaggedTensor::from_value_rowids(ls::constant({3, 1, 4, 1, 5, 9, 2}), {0, 0, 0, 0, 2, 2, 3});
  EXPECT_EQ(rows.to_string(), "[[3, 1, 4, 1], [], [5, 9], [2]]");
  EXPECT_EQ(numbers(rows.value_rowids()), (Numbers{0, 0, 0, 0, 2, 2, 3}));
  EXPECT_EQ(ls::RaggedTensor::from_tensor({{1, 2, -1}, {3, -1, -1}}, {.padding = -1}).to_string(), "[[1, 2], [3]]");
  const auto deep = ls::ragged::constant({{{1, 2}, {}}, {{3}}});
  EXPECT_EQ(deep.ragged_rank(), 2);
  EXPECT_EQ(deep[0].to_string(), "[[1, 2], []]");
  EXPECT_EQ(deep.to_tensor().shape(), (ls::Shape{2, 2, 2}));
  EXPECT_EQ(numbers(deep.to_sparse().indices()), (Numbers{0, 0, 0, 0, 0, 1, 1, 0, 0}));
  const ls::RaggedTensor chars = ops::strings::unicode_split(Tensor{"ab", "c"});
  EXPECT_EQ(chars.to_tensor().shape(), (ls::Shape{2, 2}));
  EXPECT_THROW(ls::RaggedTensor::from_row_splits(ls::constant({1, 2}), {0, 3}), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)(digits + rows), ls::errors::InvalidArgumentError);
  EXPECT_THROW((void)digits[5], ls::errors::OutOfRangeError);
}

TEST(TutorialPrograms, SparseTensors) {
  const auto a = ls::SparseTensor({.indices = {{0, 2}, {3, 4}}, .values = {31, 2}, .dense_shape = {4, 10}});
  const auto b = ls::SparseTensor({.indices = {{0, 2}, {3, 0}}, .values = {56, 38}, .dense_shape = {4, 10}});
  const auto sum = ls::sparse::add(a, b);
  EXPECT_EQ(numbers(sum.values()), (Numbers{87, 38, 2}));
  EXPECT_EQ(int(ops::reduce_sum(ls::sparse::to_dense(sum))), 127);
  const auto c = ls::SparseTensor({.indices = {{0, 1}, {1, 0}, {1, 1}}, .values = {13, 15, 17}, .dense_shape = {2, 2}});
  EXPECT_EQ(numbers(ls::sparse::sparse_dense_matmul(c, {{4}, {6}})), (Numbers{78, 162}));
  EXPECT_EQ(numbers(ls::sparse::from_dense({{1, 0, 0, 8}, {0, 0, 0, 0}}).indices()), (Numbers{0, 0, 0, 3}));
  EXPECT_EQ(ls::sparse::concat(1, {a, b}).shape(), (ls::Shape{4, 20}));
  EXPECT_EQ(numbers(ls::sparse::slice(a, {0, 0}, {1, 10}).values()), (Numbers{31}));
  EXPECT_EQ(numbers(ls::sparse::to_dense(ls::sparse::eye(2, 3))), (Numbers{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(numbers(ls::sparse::map_values([](const Tensor& x) { return x + 5; }, a).values()), (Numbers{36, 7}));
  EXPECT_THROW(ls::SparseTensor({.indices = {{0, 2}}, .values = {1, 2}, .dense_shape = {4, 10}}),
               ls::errors::InvalidArgumentError);
}

}  // namespace lines_of_tutorials
