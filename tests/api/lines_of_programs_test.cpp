// Forms of arguments that programs use, members of arrays, metrics outside of a strategy's scope, functions as losses
// in files, and SavedModels of modules. Numbers are those of Keras, TensorFlow and NumPy.
#include <gtest/gtest.h>

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
namespace ops = lockstep::ops;
using ls::Tensor;

namespace lines_of_programs {

class Folder {
 public:
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("lockstep_lines_of_programs_" + std::to_string(getpid()))).string();
};

Tensor squares(const Tensor& y, const Tensor& p) { return keras::ops::mean(keras::ops::square(y - p), {.axis = -1}); }
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(squares, "Programs");

TEST(LinesOfPrograms, AFunctionAsLossIsWrittenAsAFunction) {
  keras::Sequential model({layers::Input({3}), layers::Dense(2)});
  EXPECT_EQ(model.get_compile_config(), ls::Json::object());
  const auto written = [&](keras::LossTree loss) {
    model.compile({.optimizer = "sgd", .loss = std::move(loss)});
    return model.get_compile_config()["loss"].dump();
  };
  const std::string head = R"({"module":"builtins","class_name":"function","config":")";
  const std::string tail = R"(","registered_name":"function"})";
  EXPECT_EQ(written(squares), head + "Programs>squares" + tail);
  EXPECT_EQ(written(keras::losses::mean_squared_error), head + "mean_squared_error" + tail);
  EXPECT_EQ(written({squares}), "[" + head + "Programs>squares" + tail + "]");
  EXPECT_EQ(written("mse"), R"("mse")");
  EXPECT_NE(written(keras::losses::MeanSquaredError()).find(R"("class_name":"MeanSquaredError")"), std::string::npos);

  const Folder folder;
  model.compile({.optimizer = "sgd", .loss = keras::losses::mean_squared_error});
  const Tensor y = waves({4, 2}, 0.2), p = waves({4, 2}, 0.3);
  EXPECT_EQ(model.loss(y, p).shape(), ls::Shape({4}));
  model.save(folder.path + "/m.keras");
  EXPECT_EQ(keras::models::load_model(folder.path + "/m.keras").loss(y, p).shape(), ls::Shape({4}));
}

TEST(LinesOfPrograms, FormsOfArguments) {
  Tensor mask = std::nullopt;
  EXPECT_TRUE(mask == std::nullopt);
  EXPECT_FALSE(Tensor({1, 2}) == std::nullopt);
  EXPECT_FALSE(ls::keras::Structure(std::nullopt).defined());
  const auto attention = layers::MultiHeadAttention(2, 2);
  const Tensor x = waves({1, 3, 4}, 0.1);
  EXPECT_EQ(attention(x, x, {.attention_mask = std::nullopt}).shape(), ls::Shape({1, 3, 4}));
  const auto cell = layers::GRUCell(2);
  const Tensor state = waves({1, 2}, 0.4);
  const auto [output, next] = cell(x.index({ls::all, 0}), {.states = state, .training = false});
  expect_near(output, numbers(cell(x.index({ls::all, 0}), state)[0]));

  const ls::TensorSpec spec({.shape = {ls::kUnknownDim, 3}, .dtype = "int32", .name = "x"});
  EXPECT_EQ(spec, ls::TensorSpec({ls::kUnknownDim, 3}, ls::int32, "x"));
  EXPECT_EQ(ls::TensorSpec({.shape = {2}}).dtype, ls::float32);

  const ls::Variable counted(1.0, {.trainable = false, .name = "v", .dtype = "float64"});
  const ls::Variable of_keras(1, {.trainable = false, .name = "w", .dtype = "int64"});
  EXPECT_EQ(counted.dtype(), ls::float64);
  EXPECT_EQ(of_keras.dtype(), ls::int64);
  EXPECT_EQ(of_keras.name(), "w");
  EXPECT_FALSE(of_keras.trainable());

  EXPECT_EQ(keras::Input({.shape = {3}, .batch_size = ls::None, .name = ls::None}).shape(),
            ls::Shape({ls::kUnknownDim, 3}));
  keras::Sequential model({layers::Input({3}), layers::Dense(2)});
  model.compile({.optimizer = "sgd", .loss = "mse", .metrics = std::nullopt});
  EXPECT_TRUE(model.get_compile_config()["loss_weights"].is_null());

  const ls::Json config = {{"sizes", {6, 4}}, {"names", {"a", "b"}}};
  const std::vector<int> sizes = config["sizes"];
  EXPECT_EQ(sizes, std::vector<int>({6, 4}));
  const std::vector<std::string> names = config["names"];
  EXPECT_EQ(names, std::vector<std::string>({"a", "b"}));
}

TEST(LinesOfPrograms, ListsOfNumbersAreArrays) {
  const std::vector<float> list = {1, 2};
  const Tensor x = {{1.0, 2.0}, {3.0, 5.0}}, row = list;
  EXPECT_EQ(numbers(row), Numbers({1, 2}));
  EXPECT_EQ(Tensor(std::vector<int>{3}).dtype(), ls::int32);
  EXPECT_EQ(numbers(x + list), Numbers({2, 4, 4, 7}));
  EXPECT_EQ(numbers(std::vector<int>{1, 2} * x), Numbers({1, 4, 3, 10}));
  EXPECT_EQ((x - std::vector<double>{1, 2}).dtype(), ls::float32);
  EXPECT_EQ(ls::len(list), 2);
  EXPECT_EQ(ls::constant(std::vector<double>{1, 2}).dtype(), ls::float32);
  EXPECT_EQ(ls::convert_to_tensor(std::vector<double>{1, 2}).dtype(), ls::float32);
  EXPECT_EQ(ls::convert_to_tensor(std::vector<std::string>{"a", "b"}).shape(), ls::Shape({2}));
}

TEST(LinesOfPrograms, MembersOfArrays) {
  const Tensor x = {{1.0, 2.0}, {3.0, 5.0}};
  EXPECT_EQ(numbers(x.var()), Numbers({2.1875}));
  EXPECT_EQ(numbers(x.var(0)), Numbers({1, 2.25}));
  EXPECT_EQ(numbers(x.var({.axis = 1, .keepdims = true})), Numbers({0.25, 1}));
  EXPECT_EQ(x.var({.axis = 1, .keepdims = true}).shape(), ls::Shape({2, 1}));
  EXPECT_EQ(numbers(x.prod()), Numbers({30}));
  EXPECT_EQ(numbers(x.sum({0, 1})), Numbers({11}));
  EXPECT_EQ(numbers(x.mean({0, 1})), Numbers({2.75}));
  EXPECT_NEAR(x.std({.axis = {0, 1}}).item<double>(), 1.47902, 1e-5);
  EXPECT_EQ(numbers(x.cumsum()), Numbers({1, 3, 6, 11}));
  EXPECT_EQ(numbers(x.cumsum(0)), Numbers({1, 2, 4, 7}));
  EXPECT_EQ(numbers(x.repeat(2)), Numbers({1, 1, 2, 2, 3, 3, 5, 5}));
  EXPECT_EQ(numbers(x.repeat(2, 1)), Numbers({1, 1, 2, 2, 3, 3, 5, 5}));
  EXPECT_EQ(numbers(x.clip(1.5, 4)), Numbers({1.5, 2, 3, 4}));
  EXPECT_EQ(numbers(Tensor({1.25, 2.5}).round()), Numbers({1, 2}));
  EXPECT_NEAR(Tensor({1.256}).round(1)[0].item<double>(), 1.3, 1e-6);
  EXPECT_EQ(numbers(x.dot(x)), Numbers({7, 12, 18, 31}));
  EXPECT_EQ(numbers(x.swapaxes(0, -1)), Numbers({1, 3, 2, 5}));
  EXPECT_EQ(x.reshape(1, 4).squeeze(0).shape(), ls::Shape({4}));
  EXPECT_TRUE(bool((x > 2).any()));
  EXPECT_FALSE(bool((x > 2).all()));
  const keras::Structure predictions = x;
  EXPECT_EQ(numbers(predictions.mean({.axis = 0})), Numbers({2, 3.5}));
  EXPECT_EQ(numbers(predictions.var(0)), Numbers({1, 2.25}));

  const keras::Structure dict = {{"a", x}, {"b", x[0]}};
  EXPECT_EQ(dict.keys(), std::vector<std::string>({"a", "b"}));
  EXPECT_EQ(dict.values()[1].shape(), ls::Shape({2}));
  EXPECT_TRUE(dict.contains("a"));
  EXPECT_FALSE(dict.contains("c"));
  const auto [first, second] = ops::split(x, {.num_or_size_splits = 2, .axis = 1});
  EXPECT_EQ(numbers(second), Numbers({2, 5}));
  EXPECT_THROW((ops::unstack(x, {.axis = 0}).parts<3>()), ls::errors::InvalidArgumentError);
}

TEST(LinesOfPrograms, VariablesThatAreReadOnUseAreCombinedOutsideOfTheScope) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  ls::Variable sum;
  keras::metrics::MetricPtr mean;
  {
    const auto scope = strategy.scope();
    sum = ls::Variable(
        0.0, {.synchronization = ls::VariableSynchronization::kOnRead, .aggregation = ls::VariableAggregation::kSum});
    mean = keras::metrics::Mean();
  }
  strategy.run([&] {
    const auto id = ops::cast(ls::distribute::get_replica_context()->replica_id_in_sync_group(), ls::float32);
    sum.assign_add(2.0 * id + 1.0);
    mean.update_state(id);
  });
  EXPECT_EQ(float(sum), 4.0f);
  EXPECT_EQ(float(mean.result()), 0.5f);
  mean.reset_state();
  strategy.run([&] { mean.update_state(3.0); });
  EXPECT_EQ(float(mean.result()), 3.0f);
}

TEST(LinesOfPrograms, EpsilonIsThatOfTheProgram) {
  keras::config::set_epsilon(1e-3);
  const Tensor clipped = keras::losses::binary_crossentropy({{1.0, 0.0}}, {{0.0, 0.25}});
  const Tensor percentage = keras::losses::mean_absolute_percentage_error({{0.0}}, {{2.0}});
  keras::config::set_epsilon(0.25);
  const auto correlation = keras::metrics::ConcordanceCorrelation();
  correlation.update_state({{0.0, 1.0, 2.0, 3.0}}, {{0.0, 1.0, 1.0, 2.0}});
  EXPECT_NEAR(float(correlation.result()), 0.6666666865348816, 1e-6);
  keras::config::set_epsilon(1e-7);
  EXPECT_NEAR(clipped[0].item<double>(), 3.597718675716959, 1e-5);
  EXPECT_NEAR(percentage[0].item<double>(), 200000.0, 0.1);
  EXPECT_THROW(keras::config::set_image_data_format("channels_first"), ls::errors::InvalidArgumentError);
}

TEST(LinesOfPrograms, FunctionsOfTensorFlowAndKerasByKeyword) {
  const Tensor logits = waves({5, 2, 4}, 0.3);
  const Tensor losses = ls::nn::ctc_loss(
      {.labels = {{1, 2, 0}, {3, 1, 1}}, .logits = logits, .label_length = {2, 3}, .logit_length = {5, 4}});
  EXPECT_NEAR(losses[0].item<double>(), 3.4939947, 2e-5);
  EXPECT_NEAR(losses[1].item<double>(), 5.962813, 2e-5);
  const Tensor last = ls::nn::ctc_loss({{1, 2, 0}, {0, 1, 1}}, ops::transpose(logits, {1, 0, 2}), {2, 3}, {5, 5},
                                       {.logits_time_major = false, .blank_index = -1});
  EXPECT_NEAR(last[0].item<double>(), 3.5196884, 2e-5);
  EXPECT_NEAR(last[1].item<double>(), 5.0602903, 2e-5);

  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}};
  EXPECT_EQ(numbers(ops::math::segment_prod(x, {0, 0, 1})), Numbers({3, 8, 5, 6}));
  EXPECT_EQ(numbers(ops::math::unsorted_segment_prod(x, {1, 1, 0}, {.num_segments = 2})), Numbers({5, 6, 3, 8}));
  expect_near(ops::math::unsorted_segment_sqrt_n(x, {1, 1, 1}, 2), numbers({{0.0, 0.0}, {5.19615242, 6.92820323}}));

  EXPECT_EQ(numbers(keras::random::uniform({3}, 0.0, 2.0, {.seed = 4})),
            numbers(keras::random::uniform({3}, {.minval = 0.0, .maxval = 2.0, .seed = 4})));
  EXPECT_EQ(numbers(ls::random::stateless_normal({.shape = {3}, .seed = {1, 2}})),
            numbers(ls::random::stateless_normal({3}, {1, 2})));
}

class Dense : public ls::Module {
 public:
  Dense(int in_features, int out_features) {
    w = track("w", ls::Variable(waves({in_features, out_features}, 0.5), {.name = "w"}));
    b = track("b", ls::Variable(ops::zeros({out_features}), {.name = "b"}));
  }
  Tensor operator()(const Tensor& x) const { return ls::nn::relu(ops::matmul(x, w) + b); }
  ls::Variable w, b;
};
class Net : public ls::Module {
 public:
  ls::keras::Structure operator()(const Tensor& x) {
    step.assign_add(1);
    return {{"mean", ops::reduce_mean(x, {.axis = 1})}, {"out", dense_2(dense_1(x))}};
  }
  Dense dense_1 = track("dense_1", Dense(5, 3)), dense_2 = track("dense_2", Dense(3, 2));
  ls::Variable step = track("step", ls::Variable(0, {.trainable = false, .dtype = ls::int64}));
};

TEST(LinesOfPrograms, ModulesAsSavedModelsAndEndpointsAsLayers) {
  const Folder folder;
  const Tensor x = waves({2, 5}, 0.7);
  Net net;
  ls::saved_model::ExportArchive archive;
  archive.track(net);
  archive.add_endpoint("__call__", [&](const Tensor& x) { return net(x); },
                       {.input_signature = {ls::TensorSpec({ls::kUnknownDim, 5}, ls::float32, "x")}});
  archive.add_endpoint("twice", [&](const Tensor& x) { return net.dense_1(x) * 2; },
                       {ls::TensorSpec({ls::kUnknownDim, 5}, ls::float32, "x")});
  archive.write_out(folder.path + "/net");
  const auto loaded = ls::saved_model::load(folder.path + "/net");
  expect_near(loaded(x)["out"], numbers(net(x)["out"]));
  EXPECT_EQ(int(loaded.child("step").variable()), 1);
  expect_near(loaded.child("dense_1/w").variable(), numbers(net.dense_1.w));
  expect_near(loaded.signatures("serving_default")(x).at("mean"), numbers(net(x)["mean"]));
  expect_near(loaded.signatures().at("serving_default")(x).at("mean"), numbers(net(x)["mean"]));

  const auto twice = layers::TFSMLayer(folder.path + "/net", {.call_endpoint = "twice"});
  expect_near(twice(x), numbers(net.dense_1(x) * 2));
  EXPECT_THROW(layers::TFSMLayer(folder.path + "/net"), ls::errors::InvalidArgumentError);
}

TEST(LinesOfPrograms, NoneTextsAndPartsWhereProgramsWriteThem) {
  EXPECT_EQ(ls::Shape({ls::None, 3}).to_string(), "(None, 3)");
  const auto x = layers::Input({ls::None, 3});
  EXPECT_EQ(x.shape().to_string(), "(None, None, 3)");
  keras::Sequential model({layers::Dense(2)});
  model.build({ls::None, 3});
  EXPECT_EQ(model.count_params(), 8);
  model.compile({.optimizer = "sgd", .loss = "mse", .loss_weights = ls::None});
  const keras::Model none = {};
  EXPECT_TRUE(!none && none == ls::None && model && model != ls::None);

  const std::vector<std::string> words = {"b", "a"};
  const Tensor texts = words;
  EXPECT_EQ(texts.string_values(), words);
  const auto dataset = ls::data::Dataset::from_tensor_slices({{"word", words}, {"length", Tensor{1, 2}}});
  EXPECT_EQ(len(dataset), 2);
  const keras::Structure element = next(iter(dataset));
  std::string names;
  for (const auto& [name, value] : element.items()) names += name + std::to_string(value.leaf().rank());
  EXPECT_EQ(names, "word0length0");

  const auto [left, right] = ops::split(Tensor{{1, 2, 3, 4}}, 2, 1);
  EXPECT_EQ(numbers(right), (Numbers{3, 4}));
  const auto [first, second] = ops::unstack(Tensor{{1, 2}, {3, 4}});
  EXPECT_EQ(numbers(second), (Numbers{3, 4}));
}

TEST(LinesOfPrograms, FunctionsByTheirNamesInPython) {
  EXPECT_EQ(numbers(ops::roll(ops::range(5), 2, {.axis = 0})), (Numbers{3, 4, 0, 1, 2}));
  EXPECT_EQ(numbers(ops::roll(Tensor{{1, 2, 3}, {4, 5, 6}}, {1, -1}, {.axis = {0, 1}})), (Numbers{5, 6, 4, 2, 3, 1}));
  EXPECT_EQ(numbers(ls::math::reduce_sum(ls::linalg::eye(ops::shape(ops::ones({3, 2}))[0]))), Numbers{3});
  const auto x = layers::Input({3});
  const keras::Model model(x, ops::matmul(x, ops::eye(ops::shape(x)[1])) * ops::reduce_sum(ops::eye(ops::shape(x)[0])));
  EXPECT_EQ(numbers(model.predict(Tensor{{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}})), (Numbers{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(numbers(keras::metrics::mean_squared_error(Tensor{{1.0, 2.0}}, Tensor{{2.0, 4.0}})), Numbers{2.5});
  const auto config = layers::RandomZoom({-0.5, 0.0}, {-0.25, 0.0}, {.seed = 1}).get_config();
  EXPECT_EQ(config.at("height_factor"), ls::Json({-0.5, 0.0}));
  EXPECT_EQ(config.at("width_factor"), ls::Json({-0.25, 0.0}));

  const auto rate = [](const Tensor& step) {
    return ls::cond(
        step < 3, [&] { return ops::cast(step, ls::float32) * 0.5; }, [] { return 1.25; });
  };
  EXPECT_EQ(numbers(rate(ls::constant(1))), Numbers{0.5});
  EXPECT_EQ(numbers(rate(ls::constant(3))), Numbers{1.25});
}

class Head : public ls::Module {
 public:
  explicit Head(int n) : w(track("w", ls::Variable(ops::ones({n, 2}), {.name = "w"}))) {}
  ls::Variable w;
};
class Heads : public ls::Module {
 public:
  std::map<std::string, Head> heads = track("heads", std::map<std::string, Head>{{"b", Head(2)}, {"a", Head(3)}});
};

TEST(LinesOfPrograms, CheckpointsOfDictsListsAndIterators) {
  const Folder folder;
  const Heads module;
  EXPECT_EQ(module.trainable_variables()[0].shape(), (ls::Shape{3, 2}));
  std::string path = ls::train::Checkpoint(module).write(folder.path + "/module");
  std::vector<std::string> names;
  for (const auto& [name, shape] : ls::train::list_variables(path)) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"_CHECKPOINTABLE_OBJECT_GRAPH", "heads/a/w/.ATTRIBUTES/VARIABLE_VALUE",
                                             "heads/b/w/.ATTRIBUTES/VARIABLE_VALUE"}));

  const std::vector<ls::Variable> listed = {ls::Variable(1.0), ls::Variable(2.0)};
  path = ls::train::Checkpoint({{"listed", listed}, {"mapped", {{"two", listed[1]}}}}).write(folder.path + "/list");
  const ls::Variable two(0.0);
  ls::train::Checkpoint({{"mapped", {{"two", two}}}}).read(path);
  EXPECT_EQ(float(two), 2);

  auto iterator = iter(ls::data::Dataset::range(6).batch(2));
  const ls::train::Checkpoint checkpoint({{"iterator", iterator}});
  next(iterator);
  path = checkpoint.write(folder.path + "/iterator");
  EXPECT_EQ(numbers(next(iterator)), (Numbers{2, 3}));
  next(iterator);
  checkpoint.read(path);
  EXPECT_EQ(numbers(next(iterator)), (Numbers{2, 3}));
}

}  // namespace lines_of_programs
