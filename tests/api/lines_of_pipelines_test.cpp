// Lines of programs on data pipelines, tables and modules. The numbers are those of TensorFlow 2.21 and Keras 3.15.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lockstep/bases.h"
#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
using ls::Tensor;

namespace pipelines {

namespace tf = lockstep::ops;

TEST(PaddedBatch, TakesShapesAndValuesByName) {
  const auto dataset = ls::data::Dataset::range(3).map([](const ls::Tensor& i) -> ls::Nested<ls::Tensor> {
    return {{"image", ls::ops::fill({i}, 1.0)}, {"n", i}};
  });
  const auto batch = *dataset
                          .padded_batch({.batch_size = 3,
                                         .padded_shapes = {{"n", {}}, {"image", {4}}},
                                         .padding_values = {{"n", -1}, {"image", 0.5}}})
                          .begin();
  EXPECT_EQ(batch["image"].leaf().to_vector<float>(),
            (std::vector<float>{0.5, 0.5, 0.5, 0.5, 1, 0.5, 0.5, 0.5, 1, 1, 0.5, 0.5}));
}

TEST(PipelineLines, EachComponentHasItsPadding) {
  auto dataset = ls::data::Dataset::from_tensor_slices({ls::constant({1, 2}), ls::constant({"a", "b"})});
  dataset = dataset.map([](const Tensor& n, const Tensor& word) {
    return keras::Structure{tf::range(n), tf::fill(tf::reshape(n, {1}), word), tf::ones({2})};
  });
  const auto batch = *dataset.padded_batch(2, {.padding_values = {-1, "none", 0.5}}).begin();
  EXPECT_EQ(numbers(batch[0]), (Numbers{0, -1, 0, 1}));
  EXPECT_EQ(batch[1].leaf().string_values()[1], "none");
  EXPECT_EQ(dataset.padded_batch({.batch_size = 2, .padding_values = {0, "", 0}}).element_spec()[0].shape().rank(), 2);
  EXPECT_EQ(error_of([&] {
              *dataset.padded_batch(2, {.padding_values = {0, ""}}).begin();
            }),
            "padded_batch: invalid padding_values: found 2, expected 3, one for each tensor");
}

TEST(PipelineLines, TablesAreReadFromTextFiles) {
  const std::string path = testing::TempDir() + "/words.txt";
  std::ofstream(path) << "apple 3\npear 5\n";
  using ls::lookup::TextFileIndex;
  const ls::lookup::StaticHashTable lines(ls::lookup::TextFileInitializer(path, ls::string, TextFileIndex::WHOLE_LINE,
                                                                          ls::int64, TextFileIndex::LINE_NUMBER),
                                          -1);
  EXPECT_EQ(numbers(lines.lookup(ls::constant({"pear 5", "pear"}))), (Numbers{1, -1}));
  const ls::lookup::StaticHashTable columns(
      ls::lookup::TextFileInitializer(path, {.key_index = 0, .value_index = 1, .delimiter = " "}), -1);
  EXPECT_EQ(numbers(columns.lookup(ls::constant({"pear", "apple"}))), (Numbers{5, 3}));
  EXPECT_EQ(
      error_of([&] { ls::lookup::TextFileInitializer(path, {.key_index = 0, .value_index = 2, .delimiter = " "}); }),
      path + ": line 1 has no column 2 (the delimiter is ' ')");
}

class Tiles : public keras::Layer {
 public:
  keras::Structure call(const keras::Structure& inputs) override {
    const Tensor x = inputs, n = tf::shape(x)[0];
    return {tf::tile(tf::reduce_mean(x, 0, {.keepdims = true}), {n, 2, 1, 1}), x.index({ls::all, {{}, n}})};
  }
};

TEST(PipelineLines, ShapesOfTensorsThatAreComputedAreAsKnownAsInTensorFlow) {
  const auto [tiled, cut] = keras::make_layer<Tiles>()(layers::Input({4, 4, 3})).parts<2>();
  EXPECT_EQ(tiled.shape().to_string(), "(None, 8, 4, 3)");
  EXPECT_EQ(cut.shape().to_string(), "(None, None, 4, 3)");
}

class Rows : public keras::Layer {
 public:
  void build(const ls::Nested<ls::Shape>& input_shape) override {
    const auto [batch, steps, units] = input_shape.parts<3>();
    steps_ = steps;
    inner_ = input_shape[{1, {}}];
  }
  keras::Structure call(const keras::Structure& x) override { return x; }
  std::int64_t steps_ = 0;
  ls::Shape inner_;
};

TEST(PipelineLines, ShapesHaveParts) {
  auto rows = keras::make_layer<Rows>();
  rows(tf::ones({2, 5, 3}));
  EXPECT_EQ(rows->steps_, 5);
  EXPECT_EQ(rows->inner_, (ls::Shape{5, 3}));
}

class Greeter : public ls::Module {
 public:
  ls::lookup::StaticHashTable table =
      track("table", ls::lookup::StaticHashTable(ls::lookup::KeyValueTensorInitializer({"a"}, {"Ada"}), "?"));
  ls::Function greet = track("greet", ls::function(
                                          [this](const keras::Structure& x) {
                                            return ls::constant("hello ") + table.lookup(x["name"]) + x["sign"];
                                          },
                                          {.input_signature = {{{"name", ls::TensorSpec({ls::None}, ls::string)},
                                                                {"sign", ls::TensorSpec({}, ls::string)}}}}));
};

TEST(PipelineLines, SignaturesOfDictsHaveTheNamesOfTheirKeys) {
  const std::string folder = testing::TempDir() + "/greeter";
  Greeter greeter;
  ls::saved_model::save(greeter, folder);
  const auto infer = ls::saved_model::load(folder).signatures("serving_default");
  const auto out = infer({{"name", ls::constant({"a", "b"})}, {"sign", ls::constant("!")}});
  EXPECT_EQ(out["output_0"].string_values()[0], "hello Ada!");
  EXPECT_EQ(out["output_0"].string_values()[1], "hello ?!");
  EXPECT_EQ(error_of([&] { out["output"]; }), "there is no tensor 'output'; there are: output_0");
}

TEST(PipelineLines, HistoriesHaveALastValue) {
  keras::Sequential model({layers::Dense(1)});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  const auto history = model.fit(tf::ones({4, 2}), tf::ones({4, 1}),
                                 {.epochs = 3, .verbose = 0, .callbacks = keras::callbacks::TerminateOnNaN()});
  EXPECT_EQ(history.history["loss"][-1], history["loss"][2]);
}

TEST(PipelineLines, RandomOperationsHaveAStateForEachDtype) {
  const auto draw = [](const ls::DType& dtype) {
    return double(tf::random::uniform({}, {.dtype = dtype, .seed = 777}));
  };
  EXPECT_FLOAT_EQ(draw(ls::float32), 0.79950869083404541);
  EXPECT_DOUBLE_EQ(draw(ls::float64), 0.39607028025197155);
  EXPECT_FLOAT_EQ(draw(ls::float32), 0.46288836002349854);
  EXPECT_DOUBLE_EQ(draw(ls::float64), 0.70310730168664515);
  EXPECT_EQ(numbers(tf::random::shuffle(tf::range(10), {.seed = 777})), (Numbers{9, 8, 2, 4, 1, 7, 0, 5, 3, 6}));
  EXPECT_EQ(numbers(tf::random::shuffle(tf::range(10.f), {.seed = 777})), (Numbers{9, 8, 2, 4, 1, 7, 0, 5, 3, 6}));
}

class Trained : public keras::Model {
 public:
  explicit Trained(const keras::Model& inner) : inner_(track("inner", inner)) {}
  keras::Results train_step(const keras::Structure& data) override {
    const auto& [x, y] = data;
    keras::Results results;
    for (const auto& metric : metrics()) {
      if (metric.name() != "loss") metric.update_state(y, inner_(x));
      results[metric.name()] = metric.result();
    }
    return results;
  }

 private:
  keras::Model inner_;
};

TEST(PipelineLines, ModelsWithoutCallHaveTheMetricsOfCompile) {
  Trained model(keras::Sequential({layers::Input({2}), layers::Dense(1, {.kernel_initializer = "ones"})}));
  model.compile({.optimizer = "sgd", .metrics = {"mae", keras::metrics::MeanSquaredError({.name = "squares"})}});
  const auto history = model.fit(tf::ones({4, 2}), tf::ones({4, 1}), {.verbose = 0});
  EXPECT_EQ(history["mae"][0], 1);
  EXPECT_EQ(history["squares"][0], 1);
}

TEST(PipelineLines, WeightsOfABatchOfOneRowCountAsInKeras) {
  keras::Sequential model(
      {layers::Input({2}), layers::Dense(3, {.activation = "sigmoid", .kernel_initializer = "ones"})});
  const Tensor x = tf::reshape(tf::sin(tf::range(10.f) * 0.3), {5, 2});
  const Tensor y = tf::cast(tf::reshape(tf::cos(tf::range(15.f) * 0.7), {5, 3}) > 0.0, ls::float32);
  model.compile("sgd", keras::losses::Dice({.reduction = "mean_with_sample_weight"}));
  const keras::EvaluateOptions options = {
      .batch_size = 4, .verbose = 0, .sample_weight = ls::constant({0.5, 1.0, 2.0, 0.25, 0.7})};
  EXPECT_NEAR(double(model.evaluate(x, y, options)), 0.4403560757637024, 1e-6);
}

TEST(PipelineLines, ValuesOfDictsAreLists) {
  const keras::Structure features = {{"a", ls::constant({1.0, 2.0})}, {"b", ls::constant({3.0, 4.0})}};
  EXPECT_EQ(numbers(tf::stack(features.values(), {.axis = 1})), (Numbers{1, 3, 2, 4}));
  EXPECT_EQ(numbers(tf::concat(features.values(), {.axis = 0})), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(numbers(layers::concatenate(features.values())), (Numbers{1, 2, 3, 4}));
}

TEST(PipelineLines, CallbacksTakeTheirFirstArgumentByPosition) {
  EXPECT_EQ(keras::callbacks::EarlyStopping("loss", {.patience = 2})->class_name(), "EarlyStopping");
  EXPECT_EQ(keras::callbacks::EarlyStopping({.monitor = "loss", .patience = 2})->class_name(), "EarlyStopping");
  EXPECT_EQ(keras::callbacks::ReduceLROnPlateau("loss")->class_name(), "ReduceLROnPlateau");
  EXPECT_EQ(keras::callbacks::TensorBoard(testing::TempDir() + "/logs")->class_name(), "TensorBoard");
}

template <typename Conv>
class Doubled : public Conv {
 public:
  using Conv::Conv;
  Tensor convolution_op(const Tensor& inputs, const Tensor& kernel) override {
    return Conv::convolution_op(inputs, kernel * 2.0);
  }
};

template <typename Conv>
void expect_doubled(const layers::ConvOptions& options, const Tensor& x) {
  const auto layer = keras::make_layer<Doubled<Conv>>(4, 3, options);
  const auto plain = keras::make_layer<Conv>(4, 3, options);
  layer(x);
  plain(x);
  plain->set_weights({layer->get_weights()[0] * 2.0, layer->get_weights()[1]});
  EXPECT_TRUE(bool(tf::reduce_all(tf::abs(layer(x) - plain(x)) < 1e-5)));
}

TEST(PipelineLines, ConvolutionsHaveAnOperationToOverride) {
  const Tensor x = tf::random::uniform({2, 8, 8, 4}, {.seed = 1});
  expect_doubled<class layers::Conv2D>(
      {.activation = "relu", .strides = 2, .padding = "same", .bias_initializer = "ones"}, x);
  expect_doubled<class layers::Conv2D>(
      {.padding = "same", .data_format = "channels_first", .dilation_rate = 2, .bias_initializer = "ones"}, x);
  expect_doubled<class layers::Conv2D>({.groups = 2}, x);
  expect_doubled<class layers::Conv1D>({.activation = "tanh", .padding = "causal"}, x[0]);
  expect_doubled<class layers::Conv3D>({.padding = "same"}, tf::random::uniform({2, 4, 4, 4, 3}, {.seed = 1}));
}

// GCC takes {.filepath = "x", .compile = false} for a std::string where the parameter is one.
TEST(PipelineLines, PathsAreArgumentsByNameToo) {
  const std::string folder = testing::TempDir() + "/by_name";
  std::filesystem::create_directories(folder);
  keras::Sequential model({layers::Input({2}), layers::Dense(1)});
  model.compile("sgd", "mse");
  model.save({.filepath = folder + "/m.keras", .overwrite = true});
  model.save_weights({.filepath = folder + "/m.weights.h5", .overwrite = true});
  model.load_weights({.filepath = folder + "/m.weights.h5", .skip_mismatch = true});
  EXPECT_FALSE(keras::models::load_model({.filepath = folder + "/m.keras", .compile = false}).compiled());
  const ls::Variable v(1.0);
  ls::train::CheckpointManager manager(ls::train::Checkpoint({{"v", v}}),
                                       {.directory = folder + "/ckpt", .max_to_keep = 2});
  manager.save();
  EXPECT_EQ(manager.checkpoints()[-1], folder + "/ckpt/ckpt-1");
  model.fit(
      tf::ones({4, 2}), tf::ones({4, 1}),
      {.verbose = 0, .callbacks = keras::callbacks::CSVLogger({.filename = folder + "/log.csv", .append = true})});
  EXPECT_TRUE(std::filesystem::exists(folder + "/log.csv"));
}

}  // namespace pipelines
