// Attributes of layers by name, attributes that are assigned to twice, the logs of predict, and lists of lists.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::ops;
using ls::Tensor;

namespace attributes_and_logs {

TEST(AttributesTest, WeightsAndLayersOfLayers) {
  const auto norm = layers::BatchNormalization();
  norm(ops::ones({2, 3}));
  EXPECT_EQ(numbers(norm.moving_mean()), Numbers({0, 0, 0}));
  EXPECT_EQ(numbers(norm.moving_variance()), Numbers({1, 1, 1}));
  EXPECT_EQ(norm.trainable_variables().size(), 2u);
  EXPECT_EQ(norm.non_trainable_variables().size(), 2u);
  EXPECT_EQ(layers::Dropout(0.5, {.seed = 1}).non_trainable_variables().size(), 1u);

  const auto separable = layers::SeparableConv2D(5, 3);
  separable(ops::ones({1, 4, 4, 2}));
  EXPECT_EQ(separable.depthwise_kernel().shape(), (ls::Shape{3, 3, 2, 1}));
  EXPECT_EQ(separable.pointwise_kernel().shape(), (ls::Shape{1, 1, 2, 5}));

  const auto lstm = layers::LSTM(2);
  const auto both = layers::Bidirectional(layers::GRU(3));
  lstm(ops::ones({1, 4, 3}));
  both(ops::ones({1, 4, 3}));
  EXPECT_EQ(lstm.cell().kernel().shape(), (ls::Shape{3, 8}));
  EXPECT_EQ(lstm.recurrent_kernel().shape(), (ls::Shape{2, 8}));
  EXPECT_EQ(both.forward_layer().weights().size(), both.backward_layer().weights().size());
  EXPECT_EQ(layers::TimeDistributed(layers::Dense(4, {.name = "inner"})).layer().name(), "inner");
  EXPECT_EQ(error_of([&] { lstm.layer(); }), "LSTM '" + lstm.name() + "' has no layer");
}

// As Keras 3.15 does, which keeps the layers of an attribute that another assignment replaces: they are trained, and
// files have them as `layers` of the model. Order and paths are Keras's.
class Replaced : public keras::Model {
 public:
  Replaced() {
    dense = track("dense", layers::Dense(2, {.name = "first"}));
    dense(ops::ones({1, 4}));
    dense = track("dense", layers::Dense(3, {.name = "second"}));
    track("mean", keras::metrics::Mean({.name = "a"}));
    track("mean", keras::metrics::Mean({.name = "b"}));
    track("list", std::vector<keras::LayerHandle>{layers::Dense(5, {.name = "third"})});
    track("list", std::vector<keras::LayerHandle>{layers::Dense(6, {.name = "fourth"})});
  }
  keras::Structure call(const keras::Structure& x) override { return dense(x); }
  keras::LayerHandle dense;
};
TEST(AttributesTest, ReplacedLayersStay) {
  Replaced model;
  EXPECT_EQ(model(ops::ones({2, 4})).leaf().shape(), (ls::Shape{2, 3}));
  std::string names;
  for (const auto& layer : model.layers()) names += layer.name() + " ";
  for (const auto& metric : model.metrics()) names += metric.name() + " ";
  EXPECT_EQ(names, "first second third fourth a b ");
  EXPECT_EQ(model.weights().size(), 4u);
  EXPECT_EQ(model.trainable_weights().size(), 4u);
  EXPECT_EQ(model.trainable_weights().at(0).path(), "first/kernel");

  const auto file = std::filesystem::temp_directory_path() / ("replaced_" + std::to_string(getpid()) + ".weights.h5");
  model.save_weights(file);
  Replaced other;
  other(ops::ones({2, 4}));
  other.load_weights(file);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(numbers(other.get_weights()[i]), numbers(model.get_weights()[i]));
  std::filesystem::remove(file);
}

class SeesOutputs : public keras::Callback {
 public:
  void on_predict_batch_end(std::int64_t batch, const keras::Logs& logs) override {
    batches.push_back(batch);
    outputs.push_back(Tensor(logs["outputs"]));
    EXPECT_EQ(logs["outputs"].outputs().num_leaves(), 1u);
    EXPECT_NE(error_of([&] { static_cast<void>(static_cast<double>(logs["outputs"])); }), "");
  }
  std::vector<std::int64_t> batches;
  std::vector<Tensor> outputs;
};
TEST(LogsTest, PredictGivesTheOutputsOfBatches) {
  const auto model = keras::Sequential({keras::Input({3}), layers::Dense(2)});
  const Tensor x = waves({5, 3}, 0.3);
  SeesOutputs seen;
  const Tensor all = model.predict(x, {.batch_size = 2, .verbose = 0, .callbacks = {seen}});
  EXPECT_EQ(seen.batches, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(numbers(ops::concat(seen.outputs, 0)), numbers(all));

  model.compile({.optimizer = "sgd", .loss = "mse", .steps_per_execution = 2});
  SeesOutputs pairs;
  model.predict(x, {.batch_size = 2, .verbose = 0, .callbacks = {pairs}});
  EXPECT_EQ(pairs.batches, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(pairs.outputs.at(0).shape(), (ls::Shape{4, 2}));
}

TEST(LogsTest, ALambdaCallbackAddsToTheLogs) {
  const auto model = keras::Sequential({keras::Input({3}), layers::Dense(1)});
  model.compile("sgd", "mse");
  const auto history =
      model.fit(ops::ones({2, 3}), ops::ones({2, 1}),
                {.verbose = 0,
                 .callbacks = {keras::callbacks::LambdaCallback(
                     {.on_epoch_begin = [](int, const keras::Logs&) {},
                      .on_epoch_end = [](int epoch, keras::Logs& logs) { logs["epoch"] = epoch + 1.0; }})}});
  EXPECT_EQ(history["epoch"].at(0), 1.0);
}

TEST(ListsTest, VectorsOfVectorsAreTensors) {
  const std::vector<std::vector<double>> rows = {{1, 2}, {3, 4}};
  const Tensor x = rows;
  EXPECT_EQ(x.dtype(), ls::float64);
  EXPECT_EQ(x.shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(numbers(ls::constant(rows)), Numbers({1, 2, 3, 4}));
  EXPECT_EQ(numbers(ops::matmul(x, rows)), Numbers({7, 10, 15, 22}));
  EXPECT_EQ(Tensor(std::vector<std::vector<std::vector<int>>>{{{1}, {2}, {3}}}).shape(), (ls::Shape{1, 3, 1}));
  EXPECT_EQ(Tensor(std::vector<std::vector<bool>>{{true, false}}).dtype(), ls::bool_);
  EXPECT_EQ(Tensor(std::vector<std::vector<std::string>>{{"a", "b"}})[0].string_values(),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(error_of([] {
              Tensor(std::vector<std::vector<int>>{{1}, {2, 3}});
            }),
            "invalid tensor: lists of 1 and of 2 elements on axis 1");
  EXPECT_EQ(ops::cast(x, "int").dtype(), ls::int64);
  EXPECT_EQ(keras::Variable({.initializer = x, .shape = x.shape(), .dtype = "int"}).dtype(), ls::int64);
}

TEST(ListsTest, ShapesByName) {
  namespace kops = ls::keras::ops;
  const Tensor rows = ops::shape(waves({4, 2}, 0.1))[0];
  EXPECT_EQ(numbers(kops::ones({.shape = {rows}, .dtype = "int64"})), Numbers({1, 1, 1, 1}));
  EXPECT_EQ(kops::zeros({.shape = {2, 3}, .dtype = "int64"}).dtype(), ls::int64);
  EXPECT_EQ(kops::zeros({.shape = {rows, 3}}).shape(), (ls::Shape{4, 3}));
  EXPECT_EQ(numbers(kops::full({.shape = {2}, .fill_value = 3.5})), Numbers({3.5, 3.5}));
  EXPECT_EQ(kops::ones({}).shape(), ls::Shape{});
  EXPECT_EQ(ops::zeros({.shape = {2, 3}, .dtype = ls::int32}).dtype(), ls::int32);
  EXPECT_EQ(ops::ones({.shape = {rows, 1}}).shape(), (ls::Shape{4, 1}));
  EXPECT_EQ(ops::ones({}).shape(), ls::Shape{});
  EXPECT_EQ(ops::ones({3}).shape(), ls::Shape{3});
}

TEST(LogsTest, AreDicts) {
  keras::Results results = {{"loss", 1.0}};
  const Tensor loss = 2.0;
  results.update({{"loss", loss}, {"student_loss", loss + 1}});
  results.update({{"total", keras::Structure(loss)}});
  EXPECT_EQ(results.keys(), (std::vector<std::string>{"loss", "student_loss", "total"}));
  EXPECT_EQ(double(results["loss"]), 2);
  EXPECT_TRUE(results.contains("total"));
  EXPECT_EQ(double(results.get("mae", 0.5)), 0.5);
  keras::Logs logs = {{"loss", 1.0}};
  logs.update({{"lr", 0.1}, {"loss", 3.0}});
  EXPECT_EQ(double(logs["lr"]) + double(logs["loss"]), 3.1);
}

TEST(MapFnTest, TakesASpecificationOfTheResults) {
  const auto twice = [](const Tensor& row) { return row * 2; };
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  const Tensor y = ls::map_fn(twice, x, {.fn_output_signature = ls::TensorSpec({2}, ls::float32)});
  EXPECT_EQ(numbers(y), Numbers({2, 4, 6, 8}));
  EXPECT_EQ(ls::map_fn(twice, x, {.fn_output_signature = ls::float32}).leaf().shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(ls::map_fn(twice, x, {.fn_output_signature = "float32"}).leaf().shape(), (ls::Shape{2, 2}));
}

TEST(ListsTest, ArgumentsOfCsvFilesByName) {
  const auto file = std::filesystem::temp_directory_path() / ("by_name_" + std::to_string(getpid()) + ".csv");
  std::ofstream(file) << "1.5,a,0\n2.5,,1\n";
  const auto dataset = ls::data::experimental::make_csv_dataset(file.string(), {.batch_size = 2,
                                                                                .column_names = {"x", "kind"},
                                                                                .column_defaults = {0.0, "NA"},
                                                                                .select_columns = {"x", "kind"},
                                                                                .header = false,
                                                                                .num_epochs = 1,
                                                                                .shuffle = false});
  static_cast<void>(dataset);
  std::filesystem::remove(file);
  EXPECT_EQ(error_of([&] { ls::data::experimental::make_csv_dataset(file.string(), {.header = false}); }),
            "make_csv_dataset requires batch_size");
}

}  // namespace attributes_and_logs
