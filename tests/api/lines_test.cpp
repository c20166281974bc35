// Lines of Keras and TensorFlow programs, written as literally as C++ permits: each compiles and means the same.
#include <gtest/gtest.h>

#include <sstream>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::layers;
namespace ops = lockstep::ops;
using ls::Tensor;
using ls::distribute::MirroredStrategy;
using ls::distribute::PerReplica;
using ls::distribute::ReduceOp;

namespace {

// ---- losses, metrics, optimizers ----

TEST(Lines, LossesAreCalled) {
  const auto loss_fn = ls::losses::MeanSquaredError();
  const Tensor y = {{1.0, 2.0}, {3.0, 5.0}};
  const Tensor p = {{0.5, 1.0}, {2.0, 2.0}};
  EXPECT_FLOAT_EQ(float(loss_fn(y, p)), 2.8125F);              // (0.25 + 1 + 1 + 9) / 4
  EXPECT_FLOAT_EQ(float(loss_fn(y, p, {1.0, 2.0})), 5.3125F);  // (0.625 + 2 * 5) / 2
  EXPECT_EQ(loss_fn.name(), "mean_squared_error");
  EXPECT_EQ(loss_fn.get_config().at("reduction"), "sum_over_batch_size");
}

TEST(Lines, MetricsAreUpdated) {
  const auto metric = ls::metrics::SparseCategoricalAccuracy();
  metric.update_state({1, 0, 1}, {{0.1, 0.9}, {0.2, 0.8}, {0.3, 0.7}});
  EXPECT_FLOAT_EQ(float(metric.result()), 2.0F / 3);
  metric.reset_state();
  EXPECT_EQ(float(metric.result()), 0);
  EXPECT_EQ(metric.name(), "sparse_categorical_accuracy");
  const auto mean = ls::metrics::Mean("loss");
  EXPECT_EQ(float(mean({1.0, 2.0, 6.0})), 3);
}

TEST(Lines, OptimizersApplyGradients) {
  const auto optimizer = ls::optimizers::SGD(0.5);
  ls::Variable w(2.0), b(1.0);
  ls::GradientTape tape;
  const Tensor loss = w * w + b * 3.0;
  const auto grads = tape.gradient(loss, {w, b});
  optimizer.apply_gradients(zip(grads, std::vector<ls::Variable>{w, b}));
  EXPECT_EQ(float(w), 0);      // 2 - 0.5 * 4
  EXPECT_EQ(float(b), -0.5F);  // 1 - 0.5 * 3
  EXPECT_EQ(optimizer.learning_rate(), 0.5F);
  EXPECT_EQ(optimizer.iterations(), 1);
  optimizer.set_learning_rate(0.25);
  EXPECT_EQ(optimizer.learning_rate(), 0.25F);
  EXPECT_THROW((void)ls::zip(grads, {w}), ls::errors::InvalidArgumentError);
}

TEST(Lines, SchedulesInitializersRegularizersAndConstraintsAreCalled) {
  const auto schedule = ls::schedules::ExponentialDecay(0.1, 10, 0.5);
  EXPECT_FLOAT_EQ(schedule(10), 0.05F);
  EXPECT_EQ(floats(ls::initializers::Ones()({2})), (std::vector<float>{1, 1}));
  EXPECT_FLOAT_EQ(float(ls::regularizers::L2(0.5)({1.0, 2.0})), 2.5F);
  EXPECT_EQ(floats(ls::constraints::NonNeg()({-1.0, 2.0})), (std::vector<float>{0, 2}));
}

TEST(Lines, EmptyHandlesThrow) {
  ls::losses::LossPtr loss;
  EXPECT_THROW((void)loss({1.0}, {1.0}), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)loss->name(), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)(*loss).name(), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)ls::metrics::MetricPtr().result(), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)ls::optimizers::OptimizerPtr().learning_rate(), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)ls::schedules::SchedulePtr()(0), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)ls::initializers::InitializerPtr()({2}), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)keras::CallbackPtr()->class_name(), ls::errors::FailedPreconditionError);
  keras::LayerHandle layer;
  EXPECT_THROW((void)layer(Tensor{1.0}), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)layer(Tensor{1.0}, Tensor{1.0}), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)layer.kernel(), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)layer->name(), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)keras::Sequential({layer}), ls::Error);
  EXPECT_THROW((void)keras::Model(keras::ModelPtr()).name(), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)ls::Variable().read(), ls::errors::FailedPreconditionError);
  try {
    (void)layer.name();
    FAIL();
  } catch (const ls::Error& error) {
    EXPECT_STREQ(error.what(),
                 "this Layer handle is empty: it was default-constructed or moved from; assign a Layer "
                 "to it before using it");
  }
}

// ---- layers ----

TEST(Lines, LayersHaveKernels) {
  const auto dense = layers::Dense(3, {.kernel_initializer = "ones"});
  EXPECT_THROW((void)dense.kernel(), ls::errors::FailedPreconditionError);
  const Tensor y = dense(Tensor{{1.0, 2.0}});
  EXPECT_EQ(floats(y), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(dense.kernel().shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(dense.bias().shape(), (ls::Shape{3}));
  EXPECT_EQ(dense.weight("kernel"), dense.kernel());
  dense.bias().assign(1.0);
  EXPECT_EQ(floats(dense(Tensor{{1.0, 2.0}})), (std::vector<float>{4, 4, 4}));
  EXPECT_THROW((void)dense.weight("gamma"), ls::errors::NotFoundError);
  EXPECT_EQ(dense.weights().size(), 2);
  EXPECT_EQ(dense.count_params(), 9);

  const auto lstm = layers::LSTM(4);
  lstm.build(ls::Shape{ls::kUnknownDim, 5, 2});
  EXPECT_EQ(lstm.weight("recurrent_kernel").shape(), (ls::Shape{4, 16}));
}

TEST(Lines, LayersHaveInputsAndOutputs) {
  const auto inputs = layers::Input({4});
  const auto hidden = layers::Dense(3, {.name = "hidden"});
  EXPECT_THROW((void)hidden.output(), ls::errors::FailedPreconditionError);
  const auto outputs = layers::Dense(2)(hidden(inputs));
  const keras::Model model(inputs, outputs);
  const keras::Model features(model.inputs(), model.get_layer("hidden").output());
  const Tensor x = ops::ones({2, 4});
  EXPECT_EQ(floats(features(x)), floats(hidden(x)));
  EXPECT_TRUE(same(hidden.input().leaf(), hidden.input().leaf()) || hidden.input().leaf().shape()[1] == 4);
  for (const auto& layer : model.layers()) layer.set_trainable(false);
  EXPECT_TRUE(model.trainable_variables().empty());
  EXPECT_EQ(model.output().leaf().shape()[1], 2);
}

TEST(Lines, SequentialTakesAllKindsOfLayers) {
  const keras::Sequential model({
      layers::Input({8, 8, 1}),
      layers::Conv2D(16, {3, 3}, {.activation = "relu", .padding = "same"}),
      layers::MaxPooling2D({2, 2}),
      layers::Flatten(),
      keras::Sequential({layers::Dense(5)}),
      layers::Dense(2),
  });
  EXPECT_EQ(model(ops::zeros({3, 8, 8, 1})).leaf().shape(), (ls::Shape{3, 2}));
}

TEST(Lines, LayersMerge) {
  const Tensor a = {{1.0, 2.0}}, b = {{3.0, 4.0}};
  EXPECT_EQ(floats(layers::add({a, b})), (std::vector<float>{4, 6}));
  EXPECT_EQ(floats(layers::concatenate({a, b})), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(layers::concatenate({a, b}, 0).shape(), (ls::Shape{2, 2}));
}

TEST(Lines, LayersTakeTheKeywordsOfTheirCalls) {
  const auto lstm = layers::LSTM(2, {.return_state = true});
  const Tensor x = ops::ones({1, 3, 2});
  const Tensor h = ops::zeros({1, 2}), c = ops::zeros({1, 2});
  const auto result = lstm(x, {.initial_state = {h, c}});
  EXPECT_EQ(floats(result[0]), floats(lstm(x)[0]));
  const auto mha = layers::MultiHeadAttention(2, 3);
  const auto attended = mha(x, x, {.return_attention_scores = true});
  EXPECT_EQ(attended[1].leaf().shape(), (ls::Shape{1, 2, 3, 3}));
}

class Linear : public keras::Layer {
 public:
  explicit Linear(std::int64_t units) : Layer("Linear"), units_(units) {}
  void build(const keras::Nested<ls::Shape>& shape) override {
    w = add_weight({.shape = {shape.leaf()[-1], units_}, .initializer = "ones", .regularizer = "l2", .name = "w"});
    b = add_weight({.shape = {units_}, .initializer = "zeros", .constraint = "non_neg", .name = "b"});
  }
  keras::Structure call(const keras::Structure& inputs, const keras::CallContext&) override {
    add_loss(ops::reduce_sum(inputs) * 0.5);
    return ops::matmul(inputs, w) + b;
  }
  ls::Variable w, b;

 private:
  std::int64_t units_;
};

TEST(Lines, LayersOfOnesOwn) {
  const auto linear = keras::make_layer<Linear>(2);
  EXPECT_EQ(floats(linear(Tensor{{1.0, 2.0}})), (std::vector<float>{3, 3}));
  ASSERT_EQ(linear.losses().size(), 2);
  EXPECT_EQ(float(linear.losses()[0]), 1.5F);
  EXPECT_FLOAT_EQ(float(linear.losses()[1]), 0.04F);  // l2 = 0.01
}

TEST(Lines, MistakesAreNamed) {
  const Tensor a = ops::ones({2, 3}), b = ops::ones({4, 5}), none;
  EXPECT_EQ(error_of([&] { (void)(a + b); }),
            "AddV2: shapes (2, 3) and (4, 5) cannot be broadcast to one shape (inputs: float32(2, 3), float32(4, 5))");
  EXPECT_EQ(error_of([&] {
              (void)ops::stack({a, b});
            }),
            "Pack: the tensors differ in their shapes (inputs: float32(2, 3), float32(4, 5))");
  EXPECT_EQ(error_of([&] {
              (void)(a * Tensor{1, 2, 3});
            }),
            "Mul: 'T' is float32 by one argument and int32 by another; cast one of them (inputs: float32(2, 3), "
            "int32(3,))");
  Linear alone(2);
  EXPECT_EQ(error_of([&] { (void)alone(layers::Input({3})); }),
            "layer '" + alone.name() +
                "' is not held by a handle and cannot be part of a model: use make_layer<Linear>(...)");
  const keras::Sequential model({layers::Input({3}), layers::Dense(1)});
  model.compile({.loss = "mse"});
  EXPECT_EQ(error_of([&] { model.fit(none, none, {.verbose = 0}); }), "x is an undefined tensor");
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  EXPECT_EQ(error_of([&] { (void)strategy.reduce(ReduceOp::kSum, PerReplica<Tensor>({a})); }),
            "reduce: found 1 values, expected one for each of 2 replicas");
}

// ---- models ----

TEST(Lines, ModelsTakeDicts) {
  const auto title = layers::Input({2}, {.name = "title"});
  const auto body = layers::Input({3}, {.name = "body"});
  const auto x = layers::concatenate({title, body});
  const auto priority = layers::Dense(1, {.name = "priority"})(x);
  const auto department = layers::Dense(4, {.activation = "softmax", .name = "department"})(x);
  const keras::Model model({title, body}, {{"priority", priority}, {"department", department}});
  const Tensor a = ops::ones({4, 2}), b = ops::ones({4, 3});
  const auto y = model({{"title", a}, {"body", b}});
  EXPECT_EQ(y.at("department").leaf().shape(), (ls::Shape{4, 4}));

  model.compile({.optimizer = ls::optimizers::SGD(0.01),
                 .loss = {{"priority", ls::losses::MeanSquaredError()}, {"department", "categorical_crossentropy"}},
                 .loss_weights = {{"priority", 1.0}, {"department", 0.2}},
                 .metrics = {{"priority", {"mae", "mse"}}, {"department", "accuracy"}}});
  const auto history = model.fit({{"title", a}, {"body", b}},
                                 {{"priority", ops::ones({4, 1})}, {"department", ops::ones({4, 4}) * 0.25}},
                                 {.epochs = 1, .verbose = 0});
  EXPECT_EQ(history["priority_mae"].size(), 1);
  EXPECT_EQ(history["department_accuracy"].size(), 1);
  const auto results =
      model.evaluate({{"title", a}, {"body", b}},
                     {{"priority", ops::ones({4, 1})}, {"department", ops::ones({4, 4}) * 0.25}}, {.verbose = 0});
  EXPECT_NEAR(results.at("loss"), results.at("priority_loss") + 0.2 * results.at("department_loss"), 1e-5);

  const auto dataset =
      ls::data::Dataset::from_tensor_slices(
          {{{"title", a}, {"body", b}}, {{"priority", ops::ones({4, 1})}, {"department", ops::ones({4, 4}) * 0.25}}})
          .batch(2);
  for (const auto& [inputs, targets] : dataset) {
    EXPECT_EQ(inputs.at("body").leaf().shape(), (ls::Shape{2, 3}));
    EXPECT_EQ(model(inputs).at("priority").leaf().shape(), targets.at("priority").leaf().shape());
  }
  EXPECT_EQ(model.fit(dataset, {.verbose = 0})["loss"].size(), 1);
}

Tensor tripled_error(const Tensor& y_true, const Tensor& y_pred) { return ops::abs(y_true - y_pred) * 3.0; }

class WeightedError : public ls::losses::Loss {
 public:
  explicit WeightedError(double factor) : factor_(factor) {}
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override {
    return ops::reduce_mean(ops::square(y_true - y_pred), -1) * factor_;
  }

 private:
  double factor_;
};

TEST(Lines, CompileTakesFunctionsNamesAndObjects) {
  const keras::Sequential model({layers::Input({2}), layers::Dense(1, {.kernel_initializer = "ones"})});
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  const Tensor y = {{1.0}, {5.0}};  // predictions 3 and 7: errors of 2
  const auto loss_of = [&](keras::CompileOptions options) {
    model.compile(std::move(options));
    return model.evaluate(x, y, {.verbose = 0}).at("loss");
  };
  EXPECT_FLOAT_EQ(loss_of({.loss = "mse"}), 4);
  EXPECT_FLOAT_EQ(loss_of({.loss = ls::losses::MeanAbsoluteError()}), 2);
  EXPECT_FLOAT_EQ(loss_of({.loss = tripled_error}), 6);
  EXPECT_FLOAT_EQ(loss_of({.loss = [](const Tensor& t, const Tensor& p) { return ops::square(t - p) * 0.5; }}), 2);
  EXPECT_FLOAT_EQ(loss_of({.loss = WeightedError(0.25)}), 1);
  EXPECT_FLOAT_EQ(loss_of({.loss = std::make_shared<WeightedError>(0.5)}), 2);
  EXPECT_FLOAT_EQ(loss_of({.loss = ls::losses::mean_absolute_error}), 2);

  model.compile({.loss = "mse", .metrics = {"mae", ls::metrics::MeanSquaredError(), tripled_error}});
  const auto results = model.evaluate(x, y, {.verbose = 0});
  EXPECT_FLOAT_EQ(results.at("mae"), 2);
  EXPECT_FLOAT_EQ(results.at("lambda"), 6);
}

class Recorder : public ls::callbacks::Callback {
 public:
  explicit Recorder(std::vector<double>& out) : out_(&out) {}
  void on_epoch_end(int, keras::Logs& logs) override {
    out_->push_back(logs.at("loss"));
    out_->push_back(static_cast<double>(model().get_weights().size()));
    out_->push_back(optimizer().learning_rate());
  }

 private:
  std::vector<double>* out_;
};

TEST(Lines, FitTakesCallbacksAsValuesAndPairsToValidate) {
  const keras::Sequential model({layers::Input({2}), layers::Dense(1)});
  model.compile({.optimizer = ls::optimizers::SGD(0.125), .loss = "mse"});
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}}, y = {{1.0}, {5.0}};
  std::vector<double> seen;
  const auto history =
      model.fit(x, y, {.epochs = 2, .verbose = 0, .callbacks = {Recorder(seen)}, .validation_data = {x, y}});
  ASSERT_EQ(seen.size(), 6);
  EXPECT_EQ(seen[0], history["loss"][0]);
  EXPECT_EQ(seen[1], 2);
  EXPECT_EQ(seen[2], 0.125);
  EXPECT_EQ(history["val_loss"].size(), 2);
  int tested = 0;
  model.evaluate(
      x, y,
      {.verbose = 0, .callbacks = {ls::callbacks::LambdaCallback({.on_test_end = [&](const auto&) { ++tested; }})}});
  EXPECT_EQ(tested, 1);
}

class CountsEpochs : public ls::callbacks::Callback {
 public:
  explicit CountsEpochs(int count) : count(count) {}
  explicit CountsEpochs(const ls::Json& config) : CountsEpochs(config.at("count").get<int>()) {}
  ls::Json get_config() const override { return {{"count", count}}; }
  void on_epoch_end(int, keras::Logs&) override { ++count; }
  keras::CallbackState save_state() const override { return {count, {}}; }
  void restore_state(const keras::CallbackState& state) override { count = state.values.get<int>(); }
  int count;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(CountsEpochs, "Lines")

class CountsMore : public CountsEpochs {
 public:
  CountsMore() : CountsEpochs(0) {}
};

TEST(Lines, CallbacksAreRegistered) {
  const auto config = keras::serialize_callback(std::make_shared<CountsEpochs>(3));
  EXPECT_EQ(config.at("registered_name"), "Lines>CountsEpochs");
  const auto made = std::dynamic_pointer_cast<CountsEpochs>(keras::deserialize_callback(config));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->count, 3);
  EXPECT_THROW((void)keras::deserialize_callback({{"class_name", "CountsMore"}, {"config", ls::Json::object()}}),
               ls::errors::InvalidArgumentError);

  // The states of a checkpoint go to the callbacks of the same classes.
  const auto more = std::make_shared<CountsMore>();
  more->count = 7;
  const auto state = keras::CallbackList({made, more}, nullptr, {}).save_state();
  EXPECT_EQ(state.values[0].at("class"), "Lines>CountsEpochs");
  const auto other = std::make_shared<CountsEpochs>(0);
  const auto other_more = std::make_shared<CountsMore>();
  keras::CallbackList({other_more, other}, nullptr, {}).restore_state(state);
  EXPECT_EQ(other->count, 3);
  EXPECT_EQ(other_more->count, 7);
}

TEST(Lines, ModelsHaveVariablesLossesAndMetrics) {
  const keras::Sequential model(
      {layers::Input({2}),
       layers::Dense(1, {.kernel_initializer = "ones", .kernel_regularizer = ls::regularizers::L2(0.5)})});
  model.compile({.loss = "mse", .metrics = {"mae"}});
  EXPECT_EQ(model.trainable_variables().size(), 2);
  ASSERT_EQ(model.losses().size(), 1);
  EXPECT_EQ(float(model.losses()[0]), 1);
  (void)model.evaluate(Tensor{{1.0, 2.0}}, Tensor{{1.0}}, {.verbose = 0});
  EXPECT_FALSE(model.metrics().empty());
}

// ---- distribution ----

TEST(Lines, StrategyRunTakesNestedStructures) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const PerReplica<Tensor> x({Tensor{1.0}, Tensor{2.0}});
  const auto twice = [](const std::vector<Tensor>& list, const std::map<std::string, Tensor>& dict) {
    return list[0] * 2.0 + dict.at("x");
  };
  const auto sums =
      strategy.run(twice, std::vector<PerReplica<Tensor>>{x}, std::map<std::string, PerReplica<Tensor>>{{"x", x}});
  EXPECT_EQ(float(sums[1]), 6);
  const auto of_pair =
      strategy.run([](const std::pair<Tensor, int>& pair) { return pair.first * pair.second; }, std::pair{x, 5});
  EXPECT_EQ(float(of_pair[1]), 10);

  const auto [loss, count] = strategy.run([](const Tensor& each) { return std::pair{each * 3.0, 1}; }, x);
  EXPECT_EQ(float(strategy.reduce(ReduceOp::kSum, loss)), 9);
  EXPECT_EQ(int(strategy.reduce(ReduceOp::kSum, count)), 2);
  const auto [a, b, c] = strategy.run([](const Tensor& each) { return std::tuple{each, each + 1, each + 2}; }, x);
  EXPECT_EQ(float(c[1]), 4);
}

TEST(Lines, ADistributedLoopIsThatOfTensorFlow) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto dataset =
      ls::data::Dataset::from_tensor_slices({Tensor{{1.0}, {2.0}, {3.0}, {4.0}}, Tensor{{2.0}, {4.0}, {6.0}, {8.0}}})
          .batch(4);
  const auto distributed = strategy.experimental_distribute_dataset(dataset);
  auto scope = strategy.scope();
  const keras::Sequential model({layers::Dense(1, {.use_bias = false, .kernel_initializer = "zeros"})});
  const auto optimizer = ls::optimizers::SGD(0.01);
  const auto loss_fn = ls::losses::MeanSquaredError({.reduction = "none"});
  const auto train_step = [&](const keras::Structure& batch) {
    const auto& [x, y] = batch;
    ls::GradientTape tape;
    const Tensor loss =
        ls::nn::compute_average_loss(loss_fn(y, model(x, {.training = true})), {.global_batch_size = 4});
    const auto grads = tape.gradient(loss, model.trainable_variables());
    optimizer.apply_gradients(zip(grads, model.trainable_variables()));
    return loss;
  };
  for (const auto& batch : distributed) {
    const auto losses = strategy.run(train_step, batch);
    EXPECT_FLOAT_EQ(float(strategy.reduce(ReduceOp::kSum, losses)), 30);  // (4 + 16 + 36 + 64) / 4
  }
  EXPECT_FLOAT_EQ(float(model.get_layer(0).kernel()), 0.3F);  // 0.01 * 2 * (2 + 8 + 18 + 32) / 4
}

TEST(Lines, RegularizationIsScaled) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto scaled = strategy.run([] { return ls::nn::scale_regularization_loss({3.0}); });
  EXPECT_EQ(float(scaled[0]), 1.5F);
  const auto [clipped, norm] = ops::clip_by_global_norm({Tensor{3.0}, Tensor{4.0}}, 1.0);
  EXPECT_EQ(float(norm), 5);
  EXPECT_FLOAT_EQ(float(clipped[1]), 0.8F);
}

// ---- data, tensors, random numbers ----

TEST(Lines, DatasetsAreUnpacked) {
  using ls::data::Dataset;
  float sum = 0;
  for (const auto& [x, y] : Dataset::from_tensor_slices({Tensor{1.0, 2.0}, Tensor{10.0, 20.0}}).batch(2)) {
    sum += float(ops::reduce_sum(x * y));
  }
  EXPECT_EQ(sum, 50);
  const auto weighted = Dataset::from_tensor_slices({Tensor{1.0, 2.0}, Tensor{3.0, 4.0}, Tensor{0.5, 2.0}});
  sum = 0;
  for (const auto& [x, y, sample_weight] : weighted.parts<3>()) sum += float((x + y) * sample_weight);
  EXPECT_EQ(sum, 14);
  EXPECT_THROW(for (const auto& [x, y] : weighted)(void)(x * y), ls::errors::InvalidArgumentError);
  const auto [x, y, w] = (*weighted.begin()).parts<3>();
  EXPECT_EQ(float(w.leaf()), 0.5F);
  std::int64_t last = -1;
  for (const auto& [step, batch] : weighted.enumerate()) last = std::int64_t(step.leaf());
  EXPECT_EQ(last, 1);
}

TEST(Lines, TensorsAreWrittenAsInPython) {
  Tensor t = {{1, 2}, {3, 4}};
  std::ostringstream out;
  out << t << t.shape();
  EXPECT_EQ(out.str(), "tf.Tensor(\n[[1 2]\n [3 4]], shape=(2, 2), dtype=int32)(2, 2)");
  Tensor x = ops::ones({4, 2});
  x += ops::ones({2});
  EXPECT_EQ(float(ops::reduce_sum(x[{0, 2}])), 8);
  EXPECT_EQ(floats(ops::reduce_sum(x, 0)), (std::vector<float>{8, 8}));
  ls::Variable v(3.0);
  EXPECT_EQ(float(v * 2.0), 6);
  v.assign(0.0);
  EXPECT_EQ(float(v), 0);
}

TEST(Lines, RandomFunctionsTakeNames) {
  const auto by_name = ls::random::normal({2, 3}, {.mean = 1.0, .stddev = 0.5, .seed = 3});
  EXPECT_EQ(floats(by_name), floats(ls::random::normal({2, 3}, 1.0, 0.5, ls::DType::kFloat32, std::int64_t{3})));
  EXPECT_EQ(ls::random::uniform({2, 3}).shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(floats(ls::random::uniform({4}, {.minval = -1.0, .seed = 1})),
            floats(ls::random::uniform({4}, -1.0, 1.0, ls::DType::kFloat32, std::int64_t{1})));
  const auto integers = ls::random::randint({8}, 0, 10, {.dtype = ls::DType::kInt64, .seed = 5});
  EXPECT_EQ(integers.dtype(), ls::DType::kInt64);
  EXPECT_EQ(floats(ls::random::shuffle({1.0, 2.0, 3.0}, {.seed = 1})).size(), 3);
  EXPECT_EQ(ls::random::dropout(ops::ones({4}), 0.5, {.seed = 1}).shape(), (ls::Shape{4}));
}

}  // namespace
