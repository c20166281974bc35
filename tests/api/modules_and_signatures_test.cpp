// Functions of modules and their SavedModels, lookup tables in layers, and lines of TensorFlow's tutorials on core
// APIs, audio and object detection. The numbers are those of TensorFlow 2.21.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
using ls::Tensor;

namespace modules_and_signatures {

class Adder : public ls::Module {
 public:
  Adder() {
    w = track("w", ls::Variable({1.f, 2.f}));
    add = track("add", ls::function([this](const Tensor& x, const Tensor& y) { return x * w + y; },
                                    {.input_signature = {ls::TensorSpec({ls::None, 2}, ls::float32, "x"),
                                                         ls::TensorSpec({2}, ls::float32)}}));
    call = track("__call__",
                 ls::function(
                     [this](const Tensor& x) {
                       return std::map<std::string, Tensor>{{"sum", x + w}, {"id", table.lookup(ls::constant({"b"}))}};
                     },
                     {.input_signature = {ls::TensorSpec({ls::None, 2}, ls::float32)}}));
  }
  ls::Variable w;
  ls::Function add, call;
  ls::lookup::StaticHashTable table{ls::lookup::KeyValueTensorInitializer({"a", "b"}, {1, 2}), {.default_value = -1}};
};

class OneFunction : public ls::Module {
 public:
  ls::Variable w = track("w", ls::Variable(3.0));
  ls::Function times = track("times", ls::function([this](const Tensor& x) { return x * w; },
                                                   {.input_signature = {ls::TensorSpec({ls::None}, ls::float32)}}));
};

TEST(ModulesTest, SavedModelsHaveTheFunctionsThatAModuleTracks) {
  const std::string folder = testing::TempDir() + "/adder";
  Adder adder;
  expect_near(numbers(adder.add(ls::constant({{1., 2.}}), ls::constant({1., 1.}))), {2, 5});
  ls::saved_model::save(adder, folder);
  auto loaded = ls::saved_model::load(folder);
  EXPECT_TRUE(loaded.signature_names().empty());
  const auto result = loaded.call("__call__", {ls::constant({{1., 2.}})});
  expect_near(numbers(result["sum"]), {2, 4});
  expect_near(numbers(result["id"]), {2});

  const auto twice = ls::function([](const Tensor& x) { return x * 2.0; },
                                  {.input_signature = {ls::TensorSpec({}, ls::float32, "v")}});
  ls::saved_model::save(adder, folder,
                        {.signatures = {{"serving_default", adder.call}, {"add", adder.add}, {"twice", twice}}});
  loaded = ls::saved_model::load(folder);
  EXPECT_EQ(loaded.signature_names().size(), 3U);
  EXPECT_EQ(loaded.signatures("add").input_names(), (std::vector<std::string>{"args_1", "x"}));
  expect_near(numbers(loaded.signatures("twice")({{"v", ls::constant(4.0)}}).at("output_0")), {8});

  ls::saved_model::save(OneFunction(), folder);  // the only function is the default
  loaded = ls::saved_model::load(folder);
  expect_near(numbers(loaded.signatures("serving_default")({{"inputs", ls::constant({2.0})}}).at("output_0")), {6});
}

TEST(ModulesTest, WrongUsesOfFunctionsAreErrors) {
  Adder adder;
  EXPECT_EQ(error_of([&] {
              adder.add(ls::constant({{1., 2.}}));
            }),
            "function: invalid call: found 1 arguments, expected 2 of input_signature");
  EXPECT_EQ(error_of([] { ls::Function()(1.0); }), "Function: the call requires a function, found an empty Function");
  const ls::Function unsigned_function = ls::function([](const Tensor& x) { return x; });
  EXPECT_EQ(
      error_of([&] { ls::saved_model::save(adder, testing::TempDir() + "/x", {.signatures = unsigned_function}); }),
      "signature 'serving_default' requires a function with an input_signature, or get_concrete_function()");
}

class Ids : public keras::Layer {
 public:
  keras::Structure call(const keras::Structure& words) override {
    return {table.lookup(words), vocabulary.lookup(words)};
  }
  ls::lookup::StaticHashTable table{ls::lookup::KeyValueTensorInitializer({"a", "b"}, {1, 2}), {.default_value = -1}};
  ls::lookup::StaticVocabularyTable vocabulary{
      ls::lookup::KeyValueTensorInitializer(ls::constant({"a", "b"}), ls::constant({0, 1}, {.dtype = ls::int64})), 3};
};

TEST(ModulesTest, LayersMayLookUpInTables) {
  const auto words = layers::Input({.shape = {}, .dtype = "string"});
  keras::Model model(words, keras::make_layer<Ids>()(words));
  const auto ids = model.predict(ls::constant({"b", "x", "a"}), {.verbose = 0});
  EXPECT_EQ(numbers(ids[0]), (Numbers{2, -1, 1}));
  EXPECT_EQ(numbers(ids[1]), (Numbers{1, 4, 0}));  // as tf.lookup.StaticVocabularyTable
  const std::string folder = testing::TempDir() + "/ids";
  ls::saved_model::save(model, folder);
  const auto served = ls::saved_model::load(folder).signatures("serving_default")({{"inputs", ls::constant({"b"})}});
  EXPECT_EQ(numbers(served.at("output_1")), (Numbers{1}));
  EXPECT_NE(error_of([&] { Adder().table.lookup(words); }).find("requires a layer here"), std::string::npos);
}

TEST(ModulesTest, ListsHavePythonsSlices) {
  keras::Sequential model({layers::Input({4}), layers::Dense(3), layers::Dense(2), layers::Dense(1)});
  for (const auto& layer : model.layers()[{0, -1}]) layer.set_trainable(false);
  EXPECT_EQ(model.trainable_variables().size(), 2U);
  EXPECT_EQ((model.layers()[{1, ls::None}].size()), 2U);
  EXPECT_TRUE((model.layers()[{2, 1}].empty()));
  EXPECT_EQ((model.weights()[{-2, {}}].size()), 2U);
  const ls::Variable x(2.0);
  EXPECT_TRUE(bool(x == 2.0f));
  EXPECT_FALSE(bool(x != 2));
  EXPECT_EQ(std::string(ls::strings::split(ls::constant("a/b"), "/")[-2]), "a");
  EXPECT_NE(error_of([] { ls::strings::split(ls::constant("a/b"), "/")[2]; }), "");
}

class Positions : public keras::Layer {
 public:
  void build(const keras::Nested<ls::Shape>& input_shape) override {
    positions = keras::ops::arange(0, input_shape[1], 1);
  }
  keras::Structure call(const keras::Structure& x) override { return x + keras::ops::cast(positions, "float32"); }
  Tensor positions;
};

TEST(ModulesTest, ExtentsAreNumbers) {
  expect_near(numbers(keras::make_layer<Positions>()(ls::ops::zeros({1, 3}))), {0, 1, 2});
}

TEST(TutorialLines, SpectrogramsOfFramesThatAreNoPowerOfTwo) {
  const auto spectrum = ls::signal::stft(waves({600}, 0.11), {.frame_length = 255, .frame_step = 128});
  EXPECT_EQ(spectrum.shape(), (ls::Shape{3, 129}));
  const auto magnitude = ls::ops::abs(spectrum);
  expect_near(numbers(magnitude.index({1, {0, 4}})), {0.106218278, 0.418343186, 1.541647315, 11.73999023}, 2e-5);
  EXPECT_NEAR(magnitude.sum().item<double>(), 406.95697, 1e-3);
}

TEST(TutorialLines, BoxesThatOverlapBetterOnesAreDropped) {
  const Tensor boxes = {{{0., 0., 1., 1.}, {0., 0.05, 1., 1.05}, {0., .5, 1., 1.5}, {2., 2., 3., 3.}}};
  const Tensor scores = {{{.9, .1}, {.8, .7}, {.3, .75}, {.2, .6}}};
  const auto best =
      ls::image::combined_non_max_suppression(ls::ops::expand_dims(boxes, 2), scores, 2, 4,
                                              {.iou_threshold = 0.5, .score_threshold = 0.25, .clip_boxes = false});
  expect_near(numbers(best.nmsed_boxes), {0, 0, 1, 1, 0, .5, 1, 1.5, 0, 0.05, 1, 1.05, 0, .5, 1, 1.5});
  expect_near(numbers(best.nmsed_scores), {0.9, 0.75, 0.7, 0.3});
  expect_near(numbers(best.nmsed_classes), {0, 1, 1, 0});
  expect_near(numbers(best.valid_detections), {4});
  const auto soft = ls::image::non_max_suppression_with_scores(boxes[0], scores.index({0, ls::all, 0}), 3,
                                                               {.iou_threshold = 0.6, .soft_nms_sigma = 0.5});
  expect_near(numbers(soft.selected_indices), {0, 1, 2});
  expect_near(numbers(soft.selected_scores), {0.9, 0.352841049, 0.232477874});
}

TEST(TutorialLines, KeywordsOfNeuralNetworkFunctions) {
  const auto [mean, variance] = ls::nn::moments(waves({2, 3, 4}, 0.5), {.axes = {0, 1}, .keepdims = true});
  EXPECT_EQ(mean.shape(), (ls::Shape{1, 1, 4}));
  expect_near(numbers(mean), {0.0530694239, 0.039046485, 0.0154635906, -0.0119053125});
  expect_near(numbers(variance), {0.455922574, 0.498693019, 0.541257143, 0.544481695});
  EXPECT_EQ(ls::nn::depth_to_space(waves({1, 2, 2, 4}, 0.5), {.block_size = 2}).shape(), (ls::Shape{1, 4, 4, 1}));
  const auto converted = ls::convert_to_tensor({0.5, 0.25}, {.dtype = ls::float64});
  EXPECT_EQ(converted.dtype(), ls::float64);
  expect_near(numbers(ls::nn::leaky_relu(ls::constant({-1.0, 2.0}), {.alpha = 0.3})), {-0.3, 2});
}

TEST(TutorialLines, SlicesOfNestedVectors) {
  const std::vector<std::int64_t> targets = {1, 2};
  const std::vector<std::vector<std::int64_t>> contexts = {{1, 2, 3}, {4, 5, 6}}, labels = {{1, 0, 0}, {0, 1, 0}};
  for (const auto& [pair, label] : ls::data::Dataset::from_tensor_slices({{targets, contexts}, labels}).skip(1)) {
    const auto [target, context] = pair.parts<2>();
    EXPECT_EQ(numbers(target), (Numbers{2}));
    EXPECT_EQ(numbers(context), (Numbers{4, 5, 6}));
    EXPECT_EQ(numbers(label), (Numbers{0, 1, 0}));
  }
  const auto named = ls::data::Dataset::from_tensor_slices({{{"x", targets}, {"y", contexts}}, labels});
  for (const auto& [features, label] : named.take(1)) EXPECT_EQ(numbers(features["y"]), (Numbers{1, 2, 3}));
}

class HalfOfTargets : public keras::losses::Loss {
 public:
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override {
    return ls::ops::square(y_true * 0.5 - y_pred);
  }
};

TEST(TutorialLines, NumbersTakeTheDtypeOfTensors) {
  Tensor loss = 0;
  for (const auto& x : {ls::constant(1.5), ls::constant(2.0)}) loss += x;
  EXPECT_EQ(loss.dtype(), ls::float32);
  EXPECT_EQ(float(loss), 3.5f);
  Tensor sum = 0.0;
  sum += ls::constant(2.5, ls::float64);
  EXPECT_EQ(sum.dtype(), ls::float64);
  EXPECT_EQ((Tensor(2) * ls::constant(3.0, ls::bfloat16)).dtype(), ls::bfloat16);
  EXPECT_EQ((Tensor(7) - ls::constant(3, ls::int64)).dtype(), ls::int64);
  EXPECT_NE(error_of([] { Tensor(0.5) + ls::constant(3); }), "no error");        // as tf.constant(3) + 0.5
  EXPECT_NE(error_of([] { ls::constant(0) + ls::constant(1.5); }), "no error");  // constants have their dtype
}

TEST(TutorialLines, SlicesOfKerasTensorsAreWritten) {
  const auto x = keras::Input({4, 5});
  keras::Model model(x,
                     {x.index({ls::all, {ls::None, ls::None, -1}, ls::newaxis, 2}), x.index({ls::ellipsis, {1, 3}})});
  const auto nodes = model.get_config()["layers"];
  EXPECT_EQ(nodes[1]["class_name"], "GetItem");
  const ls::Json all = {{"class_name", "__slice__"},
                        {"config", {{"start", nullptr}, {"stop", nullptr}, {"step", nullptr}}}};
  EXPECT_EQ(nodes[1]["inbound_nodes"][0]["args"][1][0], all);
  EXPECT_EQ(nodes[1]["inbound_nodes"][0]["args"][1][1]["config"]["step"], -1);
  const std::string file = testing::TempDir() + "/slices.keras";
  model.save(file);
  const auto found = keras::models::load_model(file).predict(waves({2, 4, 5}, 0.3), {.verbose = 0});
  const auto expected = model.predict(waves({2, 4, 5}, 0.3), {.verbose = 0});
  EXPECT_EQ(numbers(found[0]), numbers(expected[0]));
  EXPECT_EQ(ls::Tensor(found[0]).shape(), (ls::Shape{2, 4, 1}));
  EXPECT_EQ(numbers(found[1]), numbers(expected[1]));
}

TEST(TutorialLines, LossesGetTargetsAsFloats) {
  EXPECT_NEAR(float(HalfOfTargets()(ls::constant({{1}, {2}}), ls::constant({{0.25}, {1.5}}))), 0.15625, 1e-6);
  keras::Sequential model({layers::Input({1}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile(
      {.loss = [](const Tensor& y, const Tensor& p) { return ls::ops::reduce_mean(ls::ops::square(y - p)); }});
  const auto x = ls::constant({{1.0}, {3.0}});
  EXPECT_NEAR(double(model.evaluate(x, ls::constant({{0.5}, {1.0}}, ls::float64), {.verbose = 0})), 2.125, 1e-6);
  EXPECT_NEAR(double(model.evaluate(x, ls::constant({{0}, {1}}), {.verbose = 0})), 2.5, 1e-6);
}

TEST(TutorialLines, BinaryAccuracyOfLogits) {
  const auto metric = keras::metrics::BinaryAccuracy({.threshold = 0.0});
  metric.update_state(ls::constant({1.0, 0.0, 1.0, 0.0}), ls::constant({0.2, -3.0, -0.1, 0.4}));
  EXPECT_EQ(float(metric.result()), 0.5f);
}

// Keras 3.15: ops.clip(np.sin(np.arange(6)).reshape(2, 3), [-0.1, 0.0, 0.1], 0.2).
TEST(TutorialLines, LimitsOfClipAreTensors) {
  const ls::Tensor low = {-0.1F, 0.0F, 0.1F};
  const std::vector<double> expected = {0, 0.2, 0.2, 0.14112, 0, 0.1};
  expect_near(numbers(keras::ops::clip(waves({2, 3}, 1), low, 0.2)), expected);
  const auto inputs = keras::Input({3});
  const keras::Model model(inputs, keras::ops::clip(inputs, low, 0.2));
  expect_near(numbers(model.predict(waves({2, 3}, 1), {.verbose = 0})), expected);
  const std::vector<ls::Tensor> rows = {low, low};
  EXPECT_EQ(ls::convert_to_tensor(rows, {.dtype = ls::float32}).shape(), (ls::Shape{2, 3}));
}

TEST(TutorialLines, VectorsAreListsForConvertToTensor) {
  const std::vector<double> fractions = {0.5, 0.25};
  EXPECT_EQ(keras::ops::convert_to_tensor(fractions).dtype(), ls::float32);
  EXPECT_EQ(keras::ops::array(fractions).dtype(), ls::float32);
  EXPECT_EQ(keras::ops::array(fractions, {.dtype = "float64"}).dtype(), ls::float64);
  EXPECT_EQ(keras::ops::convert_to_tensor(std::vector<int>{1, 2}).dtype(), ls::int32);
  EXPECT_EQ(ls::math::reduce_std(waves({2, 3}, 1), 1, {.keepdims = true}).shape(), (ls::Shape{2, 1}));
  const keras::Sequential model({ls::layers::Lambda([](const Tensor& x) { return x * 2; }, {.input_shape = {3}})});
  EXPECT_EQ(model.output_shape(), (ls::Shape{ls::None, 3}));
}

TEST(TutorialLines, ExtentsOfShapesOfModelsAreExtents) {
  const keras::Sequential model({keras::Input({3}), ls::layers::Dense(5)});
  const std::int64_t rows = 2;
  EXPECT_EQ(keras::random::normal({.shape = {rows, model.output_shape()[1]}, .seed = 21}).shape(), (ls::Shape{2, 5}));
}

TEST(TutorialLines, VectorsOfVectorsInDictsAreTensors) {
  const std::vector<std::vector<std::string>> words = {{"a", "b"}, {"c", "d"}, {"e", "f"}};
  const std::vector<std::vector<double>> numbers = {{1, 2}, {3, 4}, {5, 6}};
  const keras::Structure features = {{"words", words}, {"numbers", numbers}};
  const auto dataset = ls::data::Dataset::from_tensor_slices({features, ls::constant({0, 1, 1})});
  for (const auto& [x, y] : dataset.batch(2).take(1)) {
    EXPECT_EQ(x["words"].shape(), (ls::Shape{2, 2}));
    EXPECT_EQ(x["numbers"].shape(), (ls::Shape{2, 2}));
  }
}

TEST(TutorialLines, DefaultsOfCsvColumnsAreValues) {
  const auto columns = ls::io::decode_csv(ls::constant({"1.5,a,3", ",,4"}), {.record_defaults = {0.5, "none", 0}});
  expect_near(numbers(columns[0]), {1.5, 0.5});
  EXPECT_EQ(columns[1].to_vector<std::string>(), (std::vector<std::string>{"a", "none"}));
  EXPECT_EQ(columns[2].dtype(), ls::int32);
}

class Rows : public ls::Module {
 public:
  ls::Variable rows = track("rows", ls::Variable(ls::ops::zeros({0, 2}), {.shape = {{ls::None, 2}}}));
  ls::Function push = track("push", ls::function([this](const Tensor& x) {
                              rows.assign(ls::ops::concat({rows, x}, 0));
                              return ls::ops::shape(rows)[0];
                            }));
  ls::Function size = track("size", ls::function([this] { return ls::ops::shape(rows)[0]; }));
};

class Store : public ls::Module {
 public:
  std::vector<std::shared_ptr<Rows>> parts =
      track("parts", std::vector<std::shared_ptr<Rows>>{std::make_shared<Rows>(), std::make_shared<Rows>()});
  // The only function with an input signature, but a signature requires results.
  ls::Function fill = track("fill", ls::function([this](const Tensor& x) { parts[1]->push(x); },
                                                 {.input_signature = {ls::TensorSpec({ls::None, 2}, ls::float32)}}));
};

TEST(ModulesTest, SavedModelsHaveTheCalledFunctionsOfAllModules) {
  const std::string folder = testing::TempDir() + "/store";
  Store store;
  store.fill(ls::ops::ones({3, 2}));
  EXPECT_EQ(int(store.parts[1]->size()), 3);
  EXPECT_EQ(store.parts[0]->push.concrete_functions().size(), 0u);
  EXPECT_EQ(store.parts[1]->push.concrete_functions().size(), 1u);
  ls::saved_model::save(store, folder);
  auto loaded = ls::saved_model::load(folder);
  EXPECT_TRUE(loaded.signature_names().empty());
  loaded.call("fill", {ls::ops::ones({2, 2})});
  const auto part = loaded.child("parts").child("1");
  EXPECT_EQ(int(part.call("size", {})), 5);
  EXPECT_EQ(int(part.call("push", {ls::ops::ones({3, 2})})), 8);
  // TensorFlow has not traced it for four rows either.
  EXPECT_THROW(part.call("push", {ls::ops::ones({4, 2})}), ls::Error);
}

TEST(ModulesTest, AConcreteFunctionIsASignature) {
  const std::string folder = testing::TempDir() + "/concrete";
  Rows rows;
  const ls::Function any = rows.push.get_concrete_function(ls::TensorSpec({ls::None, 2}, ls::float32, "x"));
  EXPECT_EQ(any, rows.push.get_concrete_function(ls::TensorSpec({ls::None, 2}, ls::float32, "x")));
  rows.push(ls::ops::ones({3, 2}));  // as the concrete function above
  EXPECT_EQ(rows.push.concrete_functions(), std::vector{any});
  EXPECT_THROW(any(ls::ops::ones({3})), ls::Error);
  EXPECT_THROW(ls::saved_model::save(rows, folder, {.signatures = rows.push}), ls::Error);
  ls::saved_model::save(rows, folder, {.signatures = {{"push", any}}});
  auto loaded = ls::saved_model::load(folder);
  EXPECT_EQ(int(loaded.signatures("push")({{"x", ls::ops::ones({4, 2})}}).at("output_0")), 7);
  EXPECT_EQ(int(loaded.call("push", {ls::ops::ones({1, 2})})), 8);
}

}  // namespace modules_and_signatures
