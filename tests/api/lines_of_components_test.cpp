// Lines of programs with their own components (cells, layers of several arguments, metrics, steps), and keywords of
// Keras's functions, as literally as C++ permits.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;
namespace distribute = lockstep::distribute;
using ls::Tensor;

namespace lines_of_components {

// ---- recurrent cells ----

class MinimalRNNCell : public layers::Cell {
 public:
  explicit MinimalRNNCell(std::int64_t units) : units(units) {}
  explicit MinimalRNNCell(const ls::Json& config) : MinimalRNNCell(config.at("units").get<std::int64_t>()) {}
  std::vector<std::int64_t> state_size() const override { return {units}; }
  void build(const keras::Nested<ls::Shape>& input_shape) override {
    kernel = add_weight({.shape = {input_shape[-1], units}, .initializer = "ones", .name = "kernel"});
    recurrent_kernel = add_weight({.shape = {units, units}, .initializer = "ones", .dtype = "float32"});
  }
  keras::Structure call(const keras::Structure& inputs, const keras::Structure& states) override {
    const auto prev_output = states[0];
    const auto h = kops::matmul(inputs, kernel);
    const auto output = h + kops::matmul(prev_output, recurrent_kernel);
    return {output, {output}};
  }
  ls::Json get_config() const override {
    auto config = Layer::get_config();
    config["units"] = units;
    return config;
  }
  std::int64_t units;
  ls::Variable kernel, recurrent_kernel;
};

TEST(ComponentLines, RecurrentLayersRunCellsOfOnesOwn) {
  const Tensor x = {{{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}};
  const auto rnn = layers::RNN(keras::make_layer<MinimalRNNCell>(2));
  EXPECT_EQ(numbers(rnn(x)), (Numbers{37, 37}));  // h1 = 3, h2 = 7 + 2 h1 = 13, h3 = 11 + 2 h2 = 37
  EXPECT_EQ(rnn.trainable_variables().size(), 2U);
  const auto stacked = layers::RNN({keras::make_layer<MinimalRNNCell>(2), keras::make_layer<MinimalRNNCell>(1)},
                                   {.return_sequences = true});
  EXPECT_EQ(numbers(stacked(x)), (Numbers{6, 32, 106}));  // 2 h1, 2 h2 + 6, 2 h3 + 32
  const auto masked = layers::RNN(keras::make_layer<MinimalRNNCell>(2));
  EXPECT_EQ(numbers(masked(x, {.mask = Tensor{{true, true, false}}})), (Numbers{13, 13}));
  EXPECT_NE(error_of([] { layers::RNN(layers::Dense(2)); }).find("derives from layers::Cell"), std::string::npos);

  const auto inputs = keras::Input({ls::kUnknownDim, 2});
  const keras::Model model(inputs, layers::RNN(keras::make_layer<MinimalRNNCell>(2), {.return_state = true})(inputs));
  EXPECT_EQ(numbers(model(x)[1]), (Numbers{37, 37}));
  keras::register_keras_serializable<MinimalRNNCell>("Lines");
  const auto path = std::filesystem::temp_directory_path() / ("cell_" + std::to_string(getpid()) + ".keras");
  model.get_layer(1).weights()[0].assign(ls::ops::ones({2, 2}) * 2.0);
  model.save(path.string(), {.overwrite = true});
  EXPECT_EQ(numbers(keras::models::load_model(path.string())(x)[0]), numbers(model(x)[0]));
  std::filesystem::remove(path);
}

TEST(ComponentLines, StatesAreHandedOver) {
  ls::random::set_random_seed(3);
  const auto lstm = layers::LSTM(2, {.stateful = true});
  const Tensor x = ls::ops::ones({1, 3, 2});
  lstm(x);
  ASSERT_EQ(lstm.states().size(), 2U);
  const auto other = layers::LSTM(2);
  other.build({1, 3, 2});
  other.set_weights(lstm.get_weights());
  const auto continued = other(x, {.initial_state = lstm.states()});
  EXPECT_EQ(numbers(lstm(x)), numbers(continued));
  EXPECT_TRUE(other.states().empty());
}

// ---- layers and models ----

class CrossAttention : public layers::Layer {
 public:
  std::vector<std::string> argument_names() const override { return {"x", "context"}; }
  keras::Structure call(const keras::Structure& inputs) override {
    const auto& [x, context] = inputs;
    return x + kops::mean(context, {.axis = 1, .keepdims = true});
  }
};

TEST(ComponentLines, CallsTakeSeveralArguments) {
  const auto attention = keras::make_layer<CrossAttention>();
  EXPECT_EQ(numbers(attention(Tensor{{{1.0}, {2.0}}}, Tensor{{{3.0}, {5.0}, {7.0}}})), (Numbers{6, 7}));
  const auto x = keras::Input({2, 1}), context = keras::Input({3, 1});
  const keras::Model model({x, context}, attention(x, context));
  EXPECT_EQ(numbers(model({Tensor{{{1.0}, {2.0}}}, Tensor{{{3.0}, {5.0}, {7.0}}}})), (Numbers{6, 7}));
}

class Codebook : public layers::Layer {
 public:
  Codebook() { embeddings = track("embeddings", keras::Variable(ls::ops::ones({2, 3}), {.name = "codes"})); }
  keras::Structure call(const keras::Structure& x) override { return kops::matmul(x, embeddings); }
  keras::Variable embeddings;
};

class Scaled : public keras::Model {
 public:
  Scaled() {
    codebook = track("codebook", keras::make_layer<Codebook>());
    scale = track("scale", keras::Variable(2.0));
    offset = add_weight({.shape = {3}, .initializer = "zeros", .trainable = false});
  }
  keras::Structure call(const keras::Structure& x) override { return codebook(x) * scale + offset; }
  keras::LayerHandle codebook;
  keras::Variable scale, offset;
};

TEST(ComponentLines, VariablesOfOnesOwnAreWeights) {
  Scaled model;
  const Tensor x = {{1.0, 2.0}};
  ls::GradientTape tape;
  const auto y = model(x);
  EXPECT_EQ(numbers(y), (Numbers{6, 6, 6}));
  ASSERT_EQ(model.trainable_variables().size(), 2U);
  EXPECT_EQ(model.weights().size(), 3U);
  EXPECT_EQ(float(tape.gradient(y, model.scale)), 9);
  const auto inputs = keras::Input({2});
  EXPECT_EQ(numbers(keras::Model(inputs, keras::make_layer<Codebook>()(inputs))(x)), (Numbers{3, 3, 3}));
}

TEST(ComponentLines, ModelsAreBuiltForAShape) {
  const keras::Sequential model({layers::Dense(3), layers::Dense(1)});
  EXPECT_FALSE(model.built());
  keras::Sequential(model).build({ls::kUnknownDim, 4});
  EXPECT_EQ(model.count_params(), 19);
  Scaled own;
  own.build({ls::kUnknownDim, 2});
  EXPECT_TRUE(own.built());
}

TEST(ComponentLines, WeightsOfAnotherShapeAreSkipped) {
  const auto path = std::filesystem::temp_directory_path() / ("skip_" + std::to_string(getpid()) + ".weights.h5");
  const keras::Sequential a({keras::Input({4}), layers::Dense(3), layers::Dense(2)});
  const keras::Sequential b({keras::Input({4}), layers::Dense(3), layers::Dense(5)});
  a.save_weights(path.string(), {.overwrite = true});
  b.load_weights(path.string(), {.skip_mismatch = true});
  EXPECT_EQ(numbers(a.get_weights()[0]), numbers(b.get_weights()[0]));
  EXPECT_THROW(b.load_weights(path.string()), ls::Error);
  // The bias of the second layer of c fits, but not the kernel before it: Keras leaves both alone.
  const keras::Sequential c({keras::Input({4}), layers::Dense(7), layers::Dense(2, {.bias_initializer = "ones"})});
  const keras::Sequential d({keras::Input({4}), layers::Dense(3), layers::Dense(2)});
  c.load_weights(path.string(), {.skip_mismatch = true});
  EXPECT_EQ(numbers(c.get_weights()[3]), (Numbers{1, 1}));
  d.load_weights(path.string(), {.skip_mismatch = true});
  EXPECT_EQ(numbers(d.get_weights()[2]), numbers(a.get_weights()[2]));
  std::filesystem::remove(path);
}

TEST(ComponentLines, PreprocessingLayersAdaptToListsInBraces) {
  const auto normalization = layers::Normalization({.axis = std::nullopt});
  normalization.adapt({1.0, 3.0});
  EXPECT_EQ(numbers(normalization(Tensor{1.0, 3.0})), (Numbers{-1, 1}));
  const ls::Shape shape = {2, 2};
  EXPECT_EQ(layers::Reshape({.target_shape = shape})(ls::ops::ones({3, 4})).shape(), (ls::Shape{3, 2, 2}));
  EXPECT_EQ(layers::Reshape(shape)(ls::ops::ones({3, 4})).shape(), (ls::Shape{3, 2, 2}));
  EXPECT_NE(error_of([] {
              keras::make_layer<MinimalRNNCell>(1)->build(ls::Shape{1, 2});
              keras::WeightOptions{.dtype = "flot32"};
            }).find("unknown dtype 'flot32'"),
            std::string::npos);
}

// ---- training ----

class TruePositives : public keras::metrics::Metric {
 public:
  explicit TruePositives(const std::string& name = "true_positives") : Metric(name) {
    count = add_weight({.shape = {}, .initializer = "zeros", .name = "count"});
  }
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight, const Tensor&) override {
    Tensor values = ls::ops::cast(y_true == kops::argmax(y_pred, {.axis = 1}), ls::float32);
    if (sample_weight.defined()) values = values * sample_weight;
    count.assign_add(kops::sum(values));
  }
  Tensor result() const override { return count.value(); }
  ls::Variable count;
};

class OwnStep : public keras::Model {
 public:
  using Model::Model;
  keras::Results test_step(const keras::Batch& data) override {
    tracker.update_state(kops::mean(kops::square(data.y - (*this)(data.x))));
    keras::Results results;
    for (const auto& m : metrics()) results[m.name()] = m.result();
    results["loss"] = results["loss"] * 2;
    return results;
  }
  std::vector<keras::metrics::MetricPtr> metrics() const override { return {tracker}; }
  keras::metrics::MetricPtr tracker = keras::metrics::Mean({.name = "loss"});
};

class Batches : public keras::callbacks::Callback {
 public:
  void on_train_batch_end(std::int64_t, const keras::Logs& logs) override { losses.push_back(logs.get("loss")); }
  std::vector<double> losses;
};

TEST(ComponentLines, MetricsMakeTheirVariables) {
  const keras::metrics::MetricPtr metric = std::make_shared<TruePositives>();
  metric.update_state({0, 1, 1}, {{0.9, 0.1}, {0.2, 0.8}, {0.7, 0.3}});
  EXPECT_EQ(float(metric.result()), 2);
  metric.reset_state();
  metric.update_state({0, 1}, {{0.9, 0.1}, {0.2, 0.8}}, {0.5, 3.0});
  EXPECT_EQ(float(metric.result()), 3.5);
  const auto inputs = keras::Input({2});
  const keras::Model model(inputs, layers::Activation("linear")(inputs));
  model.compile({.loss = "mse", .metrics = {std::make_shared<TruePositives>()}});
  const auto results = model.evaluate(Tensor{{0.9, 0.1}, {0.2, 0.8}}, Tensor{0, 0}, {.verbose = 0});
  EXPECT_EQ(results["true_positives"], 1);
}

TEST(ComponentLines, ResultsAreAssignedByName) {
  const auto inputs = keras::Input({1});
  const OwnStep model(inputs, layers::Activation("linear")(inputs));
  model.compile();
  auto results = model.evaluate(Tensor{{1.0}}, Tensor{{3.0}}, {.verbose = 0});
  EXPECT_EQ(results["loss"], 4);
  EXPECT_EQ(error_of([&] { static_cast<void>(double(results["los"])); }).substr(0, 12), "results have");
}

TEST(ComponentLines, LogsAreReadByName) {
  const keras::Sequential model({keras::Input({1}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile({.optimizer = keras::optimizers::SGD(0.0), .loss = "mse"});
  Batches batches;
  model.fit(Tensor{{1.0}, {2.0}, {3.0}}, Tensor{{1.0}, {2.0}, {5.0}},
            {.batch_size = 2, .verbose = 0, .callbacks = {batches}, .shuffle = false});
  ASSERT_EQ(batches.losses.size(), 2U);
  EXPECT_NEAR(batches.losses[1], 4.0 / 3, 1e-6);
  EXPECT_EQ(double(keras::Logs().get("loss")), 0);
}

// The outputs are a list whose order is not that of the sorted names. Expected numbers: Keras 3.15.
TEST(ComponentLines, TargetsGoByTheNamesOfTheOutputs) {
  const auto i = keras::Input({1}, {.name = "z"}), j = keras::Input({1}, {.name = "a"});
  const auto q = layers::Dense(1, {.kernel_initializer = "ones", .name = "q"})(i);
  const auto p = layers::Dense(1, {.kernel_initializer = "ones", .name = "p"})(j);
  const keras::Model model({i, j}, {q, p});
  const Tensor x1 = {{1.0}, {2.0}}, x2 = {{10.0}, {20.0}};
  const keras::Structure x = {{"a", x2}, {"z", x1}}, y = {{"p", x2 + 1}, {"q", x1 + 3}};
  const std::vector<keras::LossTree> losses = {"mse", {"mse", "mae"}, {{"p", "mae"}, {"q", "mse"}}};
  for (const auto& loss : losses) {
    model.compile({.optimizer = keras::optimizers::SGD(0.0), .loss = loss, .metrics = {{"q", {"mae"}}}});
    const auto history = model.fit(x, y, {.verbose = 0}).history;
    EXPECT_EQ(history["loss"][0], 10);
    EXPECT_EQ(history["p_loss"][0], 1);
    EXPECT_EQ(history["q_mae"][0], 3);
    EXPECT_EQ(model.evaluate({x1, x2}, y, {.verbose = 0})["q_loss"], 9);
  }
  EXPECT_EQ(numbers(model.predict(x, {.verbose = 0})[0]), (Numbers{1, 2}));
}

TEST(ComponentLines, SchedulesByKeyword) {
  namespace schedules = keras::optimizers::schedules;
  const auto decay = schedules::ExponentialDecay(0.5, {.decay_steps = 2, .decay_rate = 0.25, .staircase = true});
  EXPECT_EQ(decay(3), 0.125F);
  EXPECT_EQ(schedules::ExponentialDecay({.initial_learning_rate = 0.5, .decay_steps = 2, .decay_rate = 0.25})(4),
            0.03125F);
  EXPECT_EQ(schedules::InverseTimeDecay(1.0, {.decay_steps = 1, .decay_rate = 1, .staircase = false})(3), 0.25F);
  EXPECT_EQ(schedules::PolynomialDecay(1.0, {.decay_steps = 4, .end_learning_rate = 0.5})(2), 0.75F);
  EXPECT_NEAR(schedules::CosineDecay(1.0, {.decay_steps = 2, .alpha = 0.5})(1), 0.75, 1e-6);
  EXPECT_EQ(schedules::CosineDecay(1.0, 2, {.alpha = 0.5})(2), 0.5F);
  EXPECT_EQ(schedules::CosineDecayRestarts({.initial_learning_rate = 1.0, .first_decay_steps = 2})(2), 1.0F);
  EXPECT_EQ(schedules::PiecewiseConstantDecay({.boundaries = {1, 3}, .values = {1.0, 0.5, 0.25}})(2), 0.5F);
  EXPECT_EQ(error_of([] { schedules::ExponentialDecay(0.5, {.decay_steps = 2}); }),
            "ExponentialDecay requires decay_rate");
}

TEST(ComponentLines, MetricsWithRequiredArgumentsByKeyword) {
  const auto iou = keras::metrics::MeanIoU({.num_classes = 2, .name = "iou"});
  iou.update_state({0, 0, 1, 1}, {0, 1, 0, 1});
  EXPECT_NEAR(float(iou.result()), 1.0 / 3, 1e-6);
  EXPECT_EQ(iou.name(), "iou");
  const auto one = keras::metrics::IoU({.num_classes = 2, .target_class_ids = {0}});
  one.update_state({0, 0, 1, 1}, {0, 1, 0, 1});
  EXPECT_NEAR(float(one.result()), 1.0 / 3, 1e-6);
  EXPECT_EQ(keras::metrics::OneHotMeanIoU({.num_classes = 3}).get_config().at("num_classes"), 3);
  EXPECT_EQ(keras::metrics::PrecisionAtRecall({.recall = 0.8}).get_config().at("recall"), 0.8);
  EXPECT_EQ(numbers(keras::utils::to_categorical({1}, {.num_classes = 3})), (Numbers{0, 1, 0}));
  EXPECT_FLOAT_EQ(float(keras::utils::normalize({{3.0, 4.0}}, {.axis = 1})[0][0]), 0.6F);
  EXPECT_THROW(keras::metrics::MeanIoU({.name = "iou"}), ls::errors::InvalidArgumentError);
  EXPECT_THROW(keras::metrics::PrecisionAtRecall({.num_thresholds = 10}), ls::errors::InvalidArgumentError);
}

TEST(ComponentLines, KeywordsOfOperations) {
  EXPECT_EQ(kops::ones({2}, {.dtype = "int64"}).dtype(), ls::int64);
  EXPECT_EQ(kops::zeros({2}, {.dtype = ls::int32}).dtype(), ls::int32);
  EXPECT_EQ(numbers(kops::arange({.start = 1, .stop = 7, .step = 2})), (Numbers{1, 3, 5}));
  EXPECT_EQ(kops::arange(3, {.dtype = "float32"}).dtype(), ls::float32);
  EXPECT_EQ(numbers(kops::linspace(0.0, 1.0, {.num = 3})), (Numbers{0, 0.5, 1}));
  EXPECT_EQ(numbers(kops::linspace(kops::log(1.0), 2.0, {.num = 2})), (Numbers{0, 2}));
  EXPECT_EQ(numbers(ls::ops::slice(Tensor{{1, 2}, {3, 4}}, {.begin = {0, 1}, .size = {2, -1}})), (Numbers{2, 4}));
  EXPECT_EQ(float(ls::sum({Tensor{1.0}, Tensor{2.5}})), 3.5);
  EXPECT_EQ(float(ls::sum({})), 0);
}

// ---- strategies ----

TEST(ComponentLines, ReplicasMergeTheirCalls) {
  distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  ls::Variable seen(ls::constant(0), {.trainable = false,
                                      .synchronization = ls::VariableSynchronization::kOnRead,
                                      .aggregation = ls::VariableAggregation::kSum});
  const auto results = strategy.run([&] {
    const auto context = distribute::get_replica_context();
    seen.assign_add(context->replica_id_in_sync_group() + 1);
    const Tensor v = ls::constant(1.0) * double(context->replica_id_in_sync_group() + 1);
    const auto merge = [](distribute::Strategy& own, const distribute::PerReplica<Tensor>& value,
                          const distribute::PerReplica<int>& weight) { return own.reduce("MEAN", value) * weight[0]; };
    return context->merge_call(merge, v, 4);
  });
  EXPECT_EQ(float(results[0]), 6);
  EXPECT_EQ(float(results[1]), 6);
  EXPECT_EQ(int(seen.read_value()), 3);

  const keras::Sequential model({keras::Input({1}), layers::Activation("linear")});
  const distribute::PerReplica<Tensor> x({Tensor{{1.0}, {2.0}}, Tensor{{3.0}}});
  const auto predictions = strategy.run([&](const Tensor& rows) { return model(rows); }, x);
  EXPECT_EQ(numbers(strategy.gather(predictions, 0)), (Numbers{1, 2, 3}));
  EXPECT_EQ(numbers(strategy.reduce("SUM", predictions, 0)), (Numbers{6}));
  EXPECT_EQ(error_of([&] { strategy.reduce("MAX", predictions, 0); }),
            "invalid reduce_op 'MAX': expected \"SUM\" or \"MEAN\"");
}

}  // namespace lines_of_components
