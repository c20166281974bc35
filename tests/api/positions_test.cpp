// Arguments by position, in the order of the signatures of Keras 3.15.
#include <sstream>

#include <gtest/gtest.h>

#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::layers;
using ls::Tensor;

namespace positions {

template <typename A, typename B>
void expect_same(const A& by_position, const B& by_name) {
  ls::Json left = by_position.get_config(), right = by_name.get_config();
  left.erase("name"), right.erase("name");
  EXPECT_EQ(left, right);
}

TEST(ArgumentsByPosition, Layers) {
  expect_same(layers::Dense(10, "relu"), layers::Dense(10, {.activation = "relu"}));
  expect_same(layers::Dense(10, "relu", {.use_bias = false}),
              layers::Dense(10, {.activation = "relu", .use_bias = false}));
  expect_same(layers::Embedding(10, 4, "zeros"), layers::Embedding(10, 4, {.embeddings_initializer = "zeros"}));
  expect_same(layers::BatchNormalization(1, 0.9, 1e-5),
              layers::BatchNormalization({.axis = 1, .momentum = 0.9, .epsilon = 1e-5}));
  expect_same(layers::LayerNormalization(-1, 1e-6, {.center = false}),
              layers::LayerNormalization({.axis = -1, .epsilon = 1e-6, .center = false}));
  expect_same(layers::GroupNormalization(4, -1), layers::GroupNormalization({.groups = 4}));
  expect_same(layers::ReLU(6.0, 0.1, 0.2), layers::ReLU({.max_value = 6.0, .negative_slope = 0.1, .threshold = 0.2}));
  expect_same(layers::LSTM(3, "relu", "hard_sigmoid"),
              layers::LSTM(3, {.activation = "relu", .recurrent_activation = "hard_sigmoid"}));
  expect_same(layers::RNN(layers::GRUCell(2, {.name = "c"}), true, true),
              layers::RNN(layers::GRUCell(2, {.name = "c"}), {.return_sequences = true, .return_state = true}));
  expect_same(layers::Bidirectional(layers::LSTM(4, {.name = "l"}), "sum"),
              layers::Bidirectional(layers::LSTM(4, {.name = "l"}), {.merge_mode = "sum"}));
  expect_same(layers::MultiHeadAttention(2, 16, ls::None, 0.1), layers::MultiHeadAttention(2, 16, {.dropout = 0.1}));
  expect_same(layers::Resizing(4, 4, "nearest"), layers::Resizing(4, 4, {.interpolation = "nearest"}));
  expect_same(layers::RandomFlip("horizontal", 1), layers::RandomFlip("horizontal", {.seed = 1}));
  expect_same(layers::RandomTranslation(0.1, 0.2, "constant", {.seed = 1}),
              layers::RandomTranslation(0.1, 0.2, {.fill_mode = "constant", .seed = 1}));
  expect_same(layers::RandomShear(0.3, 0.2, {.seed = 1}),
              layers::RandomShear({.x_factor = 0.3, .y_factor = 0.2, .seed = 1}));
  expect_same(layers::TextVectorization(100, "lower"),
              layers::TextVectorization({.max_tokens = 100, .standardize = "lower"}));
}

TEST(ArgumentsByPosition, OptimizersSchedulesLossesAndMetrics) {
  using namespace keras::optimizers;
  expect_same(SGD(0.5, 0.9, true), SGD({.learning_rate = 0.5, .momentum = 0.9, .nesterov = true}));
  expect_same(Adam(1e-3, 0.8, 0.98, 1e-9),
              Adam({.learning_rate = 1e-3, .beta_1 = 0.8, .beta_2 = 0.98, .epsilon = 1e-9}));
  expect_same(AdamW(1e-3, 1e-2, {.clipnorm = 1.0}),
              AdamW({.learning_rate = 1e-3, .weight_decay = 1e-2, .clipnorm = 1.0}));
  expect_same(RMSprop(1e-3, 0.8), RMSprop({.learning_rate = 1e-3, .rho = 0.8}));
  expect_same(schedules::ExponentialDecay(0.1, 100, 0.9, true),
              schedules::ExponentialDecay(0.1, 100, 0.9, {.staircase = true}));
  expect_same(schedules::CosineDecay(0.1, 100, 0.2), schedules::CosineDecay(0.1, 100, {.alpha = 0.2}));
  using namespace keras::losses;
  expect_same(Huber(1.5), Huber({.delta = 1.5}));
  expect_same(MeanSquaredError("sum"), MeanSquaredError({.reduction = "sum"}));
  expect_same(BinaryCrossentropy(true, 0.1), BinaryCrossentropy({.from_logits = true, .label_smoothing = 0.1}));
  expect_same(SparseCategoricalCrossentropy(true, 2),
              SparseCategoricalCrossentropy({.from_logits = true, .ignore_class = 2}));
  namespace metrics = keras::metrics;
  EXPECT_EQ(metrics::SparseCategoricalAccuracy("acc").name(), "acc");
  expect_same(metrics::BinaryAccuracy("acc", "float32", 0.6), metrics::BinaryAccuracy({.threshold = 0.6}));
  expect_same(metrics::AUC(100, "PR"), metrics::AUC({.num_thresholds = 100, .curve = "PR"}));
  expect_same(metrics::Precision(0.6), metrics::Precision({.thresholds = 0.6}));
  expect_same(metrics::TopKCategoricalAccuracy(3, "top"), metrics::TopKCategoricalAccuracy(3, {.name = "top"}));
  EXPECT_EQ(metrics::MeanMetricWrapper(keras::losses::mean_squared_error, "m").name(), "m");
}

TEST(ArgumentsByPosition, FitEvaluatePredictAndCallbacks) {
  keras::Sequential model({keras::Input({2}), layers::Dense(1, "linear")});
  model.compile("sgd", "mse");
  const Tensor x = waves({8, 2}, .3), y = waves({8, 1}, .7);
  int batches = 0;
  const auto count =
      keras::callbacks::LambdaCallback({.on_train_batch_end = [&](int, const keras::Logs&) { ++batches; }});
  const auto stop = keras::callbacks::EarlyStopping("loss", 0.01, 5);
  const auto history = model.fit(x, y, 4, 3, 0, {.callbacks = {count, stop}});
  EXPECT_EQ(history.history["loss"].size(), 3U);
  EXPECT_EQ(batches, 6);
  EXPECT_EQ(model.evaluate(x, y, 8, 0).size(), 1U);
  EXPECT_EQ(model.predict(x, 3, 0).shape(), (ls::Shape{8, 1}));
}

// `namespace tf = lockstep::tf` is TensorFlow's package.
TEST(TensorFlowPackage, HasItsFunctionsAndPackages) {
  namespace tf = lockstep::tf;
  const Tensor x = tf::reshape(tf::range(6.0), {2, 3});
  EXPECT_EQ(numbers(tf::reduce_sum(x, {.axis = 1})), (Numbers{3, 12}));
  EXPECT_EQ(numbers(tf::cast(tf::argmax(x, 1), tf::int32)), (Numbers{2, 2}));
  EXPECT_EQ(tf::TensorShape({ls::None, 3}).to_string(), "(None, 3)");
  tf::random::set_seed(1);  // the numbers are those of tf.random, not of keras.random
  EXPECT_NEAR(numbers(tf::random::normal({2}))[0], -1.1012203, 1e-6);
  tf::Variable v(1.0);
  tf::GradientTape tape;
  EXPECT_EQ(float(tape.gradient(tf::square(v), v)), 2);
  EXPECT_EQ(tf::data::Dataset::range(3).cardinality(), 3);
  EXPECT_EQ(tf::keras::layers::Dense(3, {.name = "d"}).name(), "d");
}

TEST(Printing, ListsAndDictsAsPythonPrintsThem) {
  const auto text = [](const auto& value) {
    std::ostringstream out;
    out << value;
    return out.str();
  };
  keras::Sequential model({keras::Input({1}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile("sgd", "mse", {.metrics = {"mae"}});
  const Tensor x = {{1.0}, {2.0}};
  const auto history = model.fit(x, x, {.epochs = 2, .verbose = 0});
  EXPECT_EQ(text(history.history["loss"]), "[0.0, 0.0]");
  EXPECT_EQ(text(history.history), "{'loss': [0.0, 0.0], 'mae': [0.0, 0.0]}");
  EXPECT_EQ(text(history.epoch), "[0, 1]");
  EXPECT_EQ(text(model.metrics_names()), "['loss', 'compile_metrics']");
  EXPECT_EQ(text(model.evaluate(x, x + 0.5, {.verbose = 0})), "[0.25, 0.5]");
  EXPECT_EQ(text(ls::train::CheckpointPath()), "None");
}

TEST(Slices, OfListsOfTensors) {
  const keras::Structure outputs = {Tensor(1.0), Tensor(2.0), Tensor(3.0), Tensor(4.0)};
  const auto texts = [](const keras::Structure& list) {
    Numbers out;
    for (const Tensor& leaf : list.flatten()) out.push_back(leaf.item<double>());
    return out;
  };
  EXPECT_EQ(texts(outputs[{{}, 2}]), (Numbers{1, 2}));
  EXPECT_EQ(texts(outputs[{-3, {}}]), (Numbers{2, 3, 4}));
  EXPECT_EQ(texts(outputs[{1, -1}]), (Numbers{2, 3}));
  EXPECT_EQ(texts(outputs[{{}, {}, -2}]), (Numbers{4, 2}));
  EXPECT_EQ(texts(outputs[{3, 1}]), Numbers{});
  EXPECT_EQ(texts(outputs[{9, {}}]), Numbers{});
  const keras::Structure one = waves({4, 2}, .5);
  EXPECT_EQ(Tensor(one[{1, 3}]).shape(), (ls::Shape{2, 2}));
}

TEST(DatasetsOfLists, ADictOfListsHasTheirElements) {
  const auto data = ls::data::Dataset::from_tensor_slices({{"age", {30, 40}}, {"name", {"ann", "bob"}}});
  Numbers ages;
  std::string names;
  for (const auto& row : data) {
    ages.push_back(Tensor(row["age"]).item<double>());
    names += Tensor(row["name"]).item<std::string>();
  }
  EXPECT_EQ(ages, (Numbers{30, 40}));
  EXPECT_EQ(names, "annbob");
}

TEST(FitOfFunctions, ThatReturnBatchAfterBatchAsPythonsGeneratorsDo) {
  keras::Sequential model({keras::Input({2}), layers::Dense(1)});
  model.compile("sgd", "mse");
  int calls = 0;
  const auto endless = [&] {
    ++calls;
    return std::pair{waves({4, 2}, .3), waves({4, 1}, .7)};
  };
  const auto history = model.fit(endless, {.epochs = 2, .verbose = 0, .steps_per_epoch = 3});
  EXPECT_EQ(history.history["loss"].size(), 2U);
  EXPECT_GE(calls, 6);
  int left = 3;
  const auto some = [&]() -> std::optional<ls::data::Element> {
    if (left-- == 0) return std::nullopt;
    return std::pair{waves({4, 2}, .3), waves({4, 1}, .7)};
  };
  EXPECT_GT(double(model.evaluate(some, {.verbose = 0})), 0);
  EXPECT_EQ(model.predict([] { return waves({4, 2}, .3); }, {.verbose = 0, .steps = 2}).shape(), (ls::Shape{8, 1}));
}

TEST(InitializersOfTensorFlow, DrawItsNumbers) {
  namespace tf = lockstep::tf;
  tf::random::set_seed(1);
  EXPECT_NEAR(numbers(tf::random_normal_initializer({.seed = 1})({2}))[1], -0.024650828912854195, 1e-7);
  EXPECT_NEAR(numbers(tf::random_uniform_initializer(-1., 1., 2)({2}))[0], 0.6019580364227295, 1e-6);
  EXPECT_NEAR(numbers(tf::random_normal_initializer()({2}))[0], -0.055061012506484985, 1e-7);
  EXPECT_EQ(numbers(tf::constant_initializer({1, 2, 3, 4})({2, 2})), (Numbers{1, 2, 3, 4}));
  keras::utils::set_random_seed(1);
  const auto dense = layers::Dense(2, {.kernel_initializer = tf::random_normal_initializer(0., 0.02)});
  dense.build({ls::None, 3});
  EXPECT_NEAR(numbers(dense.kernel())[0], -0.022024404257535934, 1e-7);
  EXPECT_EQ(dense.get_config()["kernel_initializer"].at("module"), "tensorflow.python.ops.init_ops_v2");
}

TEST(Accumulation, GradientsMayBeHeldByVariables) {
  ls::Variable w({1.0, 2.0}), sum({0.5, 0.5});
  keras::optimizers::SGD(1.0).apply_gradients(ls::zip(std::vector{sum}, std::vector{w}));
  EXPECT_EQ(numbers(w.value()), (Numbers{0.5, 1.5}));
  const auto [a, b] = ls::List<Tensor>(std::vector<Tensor>{Tensor(1.0), Tensor(2.0)});
  EXPECT_EQ(double(a) + double(b), 3);
}

TEST(Tapes, SourcesMayBeVariablesAndTensors) {
  ls::GradientTape tape({.persistent = true});
  ls::Variable a(3.0);
  const Tensor c = ls::constant(2.0);
  tape.watch(c);
  const Tensor y = a * a * c;
  const auto [da, dc] = tape.gradient(y, {a, c});
  EXPECT_EQ(float(da), 12);
  EXPECT_EQ(float(dc), 9);
  EXPECT_EQ(float(tape.gradient(y, a, {.output_gradients = ls::constant(2.0)})), 24);
  EXPECT_EQ(float(tape.gradient(y, c, ls::constant(2.0))), 18);
}

// TensorFlow 2.21 with two logical CPUs.
TEST(GeneratorsInStrategies, EachReplicaHasNumbersOfItsOwn) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  std::optional<ls::random::Generator> g;
  {
    const auto scope = strategy.scope();
    g = ls::random::Generator::from_seed(1);
  }
  const auto expect_each = [&](const auto& draw, const Numbers& first, const Numbers& second) {
    const auto drawn = strategy.run(draw);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_NEAR(numbers(Tensor(drawn[0]))[i], first[i], 1e-6);
      EXPECT_NEAR(numbers(Tensor(drawn[1]))[i], second[i], 1e-6);
    }
  };
  expect_each([&] { return g->normal({2}); }, {-0.8793044686317444, 1.468078851699829},
              {0.020661573857069016, 1.9473345279693604});
  expect_each([&] { return g->normal({2}); }, {-0.5039703249931335, -0.1730082631111145},
              {0.1251838058233261, -0.2541404366493225});
  expect_each([&] { return g->uniform({1}, 0, 1000, ls::int32); }, {414}, {504});
  expect_each([&] { return g->truncated_normal({1}); }, {1.889937162399292}, {-0.30880358815193176});
  const auto seeds = strategy.run([&] { return g->make_seeds(1); });
  EXPECT_EQ(Tensor(seeds[0]).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2429557786260784753, 0}));
  EXPECT_EQ(Tensor(seeds[1]).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5167319970851696272, 0}));
  const auto scope = strategy.scope();
  EXPECT_NEAR(numbers(g->normal({2}))[0], 2.2674954, 1e-6);
}

TEST(GeneratorsInStrategies, AStateThatIsAVariableIsShared) {
  ls::random::Generator h = ls::random::Generator::from_seed(1);
  ls::random::Generator k = ls::random::Generator::from_state(h.state(), {.alg = "philox"});
  EXPECT_NEAR(numbers(k.normal({2}))[0], 0.43842274, 1e-6);
  EXPECT_NEAR(numbers(h.normal({2}))[0], 1.6307176, 1e-6);
  EXPECT_NEAR(numbers(k.normal({2}))[0], -0.79253083, 1e-6);
}

}  // namespace positions
