#include "lockstep/keras/layers/layers.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/models/from_config_internal.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/models/summary_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

std::string read_text(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/lockstep/keras/testdata/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Json read_config(const std::string& name) { return parse_json(read_text(name), name); }

void expect_values(const Tensor& tensor, const std::vector<float>& expected, float tolerance = 1e-6f) {
  const auto found = tensor.to_vector<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << "at " << i;
}

Tensor floats(std::vector<float> values, Shape shape) { return Tensor::from_vector(values, shape); }

// ---- configs: what Keras wrote is read and written again, byte for byte ---------------------------------

class ClassConfig : public testing::TestWithParam<std::string> {};

TEST_P(ClassConfig, RoundTrips) {
  const Json object = read_config("classes.json")[GetParam()];
  const LayerPtr layer = deserialize_layer(object);
  EXPECT_EQ(dump_json(serialize_operation(*layer)), dump_json(object));
}

std::vector<std::string> class_names() {
  std::vector<std::string> names;
  const Json classes = read_config("classes.json");
  for (const auto& [name, object] : classes.items()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Layers, ClassConfig, testing::ValuesIn(class_names()),
                         [](const auto& info) { return info.param; });

class ModelConfig : public testing::TestWithParam<std::string> {};

TEST_P(ModelConfig, RoundTrips) {
  const Json object = read_config(GetParam() + ".json");
  const ModelPtr model = model_from_json(object);
  EXPECT_EQ(dump_json(model_to_json(*model)), dump_json(object));
}
INSTANTIATE_TEST_SUITE_P(Models, ModelConfig, testing::Values("f1", "f2", "f3", "f4", "s1", "s2"));

class ModelSummary : public testing::TestWithParam<std::string> {};

TEST_P(ModelSummary, IsKerass) {
  const ModelPtr model = model_from_json(read_config(GetParam() + ".json"));
  EXPECT_EQ(summary_text(*model, {.line_length = 76}),
            read_text(GetParam() + ".summary").substr(0, read_text(GetParam() + ".summary").size() - 1));
}
INSTANTIATE_TEST_SUITE_P(Models, ModelSummary, testing::Values("f1", "f3", "s1", "s2"));

// ---- the C++ interface gives the same configs -----------------------------------------------------------

TEST(FunctionalApi, BuildsWhatKerasBuilds) {
  reset_auto_names();
  const Tensor i = layers::Input({4});
  const Tensor x = layers::Dense(3, {.activation = "relu"})(i);
  const Tensor y = layers::Dense(3)(i);
  Tensor z = x + y * 2.0 - 1.0;
  z = z / 3.0;
  z = -z;
  Structure w = layers::Add()({z, x});
  w = layers::Dropout(0.5)(w);
  w = layers::BatchNormalization()(w);
  const Model model(i, w);
  EXPECT_EQ(dump_json(model_to_json(*model.impl())), dump_json(read_config("f1.json")));
}

TEST(FunctionalApi, KeepsMasksAsArguments) {
  reset_auto_names();
  const Tensor i = layers::Input({5}, {.dtype = "int32"});
  const Tensor e = layers::Embedding(10, 4, {.mask_zero = true})(i);
  const Tensor l = layers::LSTM(6)(e);
  const Model model(i, layers::Dense(2, {.activation = "softmax"})(l));
  EXPECT_EQ(dump_json(model_to_json(*model.impl())), dump_json(read_config("f2.json")));
}

TEST(SequentialApi, BuildsWhatKerasBuilds) {
  reset_auto_names();
  const Sequential model({layers::Input({28, 28, 1}), layers::Conv2D(32, 3, {.activation = "relu"}),
                          layers::MaxPooling2D(), layers::Flatten(), layers::Dense(64, {.activation = "relu"}),
                          layers::Dense(10)});
  EXPECT_EQ(dump_json(model_to_json(*model.impl())), dump_json(read_config("s1.json")));
  EXPECT_EQ(model.count_params(), 347146);
  EXPECT_EQ(model.weights()[0]->path(), "sequential/conv2d/kernel");
}

TEST(SequentialApi, WithoutInputIsBuiltByItsFirstCall) {
  const Sequential model({layers::Dense(3), layers::Dense(2)});
  EXPECT_FALSE(model.built());
  EXPECT_TRUE(model.weights().empty());
  const Tensor y = model(Tensor::zeros({5, 4}));
  EXPECT_EQ(y.shape(), (Shape{5, 2}));
  EXPECT_EQ(model.weights().size(), 4u);
}

// ---- numbers --------------------------------------------------------------------------------------------

TEST(Layers, Dense) {
  const LayerHandle dense =
      layers::Dense(2, {.activation = "relu", .kernel_initializer = "ones", .bias_initializer = "ones"});
  expect_values(dense(floats({1, 2, -3, -4}, {2, 2})), {4, 4, 0, 0});
}

TEST(Layers, ConvSamePadsTheEnd) {
  const LayerHandle conv = layers::Conv1D(1, 2, {.padding = "same", .kernel_initializer = "ones"});
  expect_values(conv(floats({1, 2, 3}, {1, 3, 1})), {3, 5, 3});
  const LayerHandle strided = layers::Conv1D(1, 3, {.strides = 2, .padding = "same", .kernel_initializer = "ones"});
  expect_values(strided(floats({1, 2, 3, 4}, {1, 4, 1})), {6, 7});
}

TEST(Layers, Conv1DTranspose) {
  const auto run = [](layers::ConvTransposeOptions options, int k) {
    const LayerHandle conv = layers::Conv1DTranspose(1, k, std::move(options));
    const Tensor x = floats({1, 10, 100}, {1, 3, 1});
    (void)conv(x);
    std::vector<float> kernel;
    for (int i = 1; i <= k; ++i) kernel.push_back(static_cast<float>(i));
    conv->weights()[0]->assign(floats(kernel, {k, 1, 1}));
    return conv(x).leaf();
  };
  expect_values(run({.strides = 2}, 3), {1, 2, 13, 20, 130, 200, 300});
  expect_values(run({.strides = 2, .padding = "same"}, 3), {1, 2, 13, 20, 130, 200});
  expect_values(run({.strides = 3}, 2), {1, 2, 0, 10, 20, 0, 100, 200, 0});
  expect_values(run({.strides = 2, .output_padding = Window(1)}, 3), {1, 2, 13, 20, 130, 200, 300, 0});
}

TEST(Layers, BatchNormalizationUpdatesItsStatistics) {
  const LayerHandle norm = layers::BatchNormalization();
  const Tensor x = floats({1, 2, 3, 4}, {4, 1});
  const Tensor y = norm(x, {.training = true});
  const float s = 1.0f / std::sqrt(1.25f + 0.001f);
  expect_values(y, {-1.5f * s, -0.5f * s, 0.5f * s, 1.5f * s});
  expect_values(norm->weights()[2]->numpy(), {0.025f});
  expect_values(norm->weights()[3]->numpy(), {0.99f + 0.0125f});
  norm->set_trainable(false);
  (void)norm(x, {.training = true});
  expect_values(norm->weights()[2]->numpy(), {0.025f});
}

TEST(Layers, DropoutDrawsKerassMask) {
  const LayerHandle dropout = layers::Dropout(0.5, {.seed = 42});
  expect_values(dropout(Tensor::full({8}, 1.0), {.training = true}), {0, 0, 2, 0, 0, 2, 2, 0});
  expect_values(dropout(Tensor::full({2}, 1.0)), {1, 1});
}

TEST(Layers, UpSamplingBilinear) {
  const LayerHandle up = layers::UpSampling2D({1, 2}, {.interpolation = "bilinear"});
  expect_values(up(floats({0, 1, 2, 3}, {1, 1, 4, 1})), {0, .25f, .75f, 1.25f, 1.75f, 2.25f, 2.75f, 3});
}

TEST(Layers, MaskedStepsRepeatTheOutput) {
  const Tensor x = floats({0, 1, 2, 0}, {1, 4, 1});
  const Tensor masked = layers::Masking()(x);
  ASSERT_TRUE(masked.mask().defined());
  const LayerHandle rnn = layers::SimpleRNN(1, {.activation = "linear",
                                                .kernel_initializer = "ones",
                                                .recurrent_initializer = "ones",
                                                .return_sequences = true});
  expect_values(rnn(masked), {0, 1, 3, 3});
  const LayerHandle both = layers::Bidirectional(layers::SimpleRNN(1, {.activation = "linear",
                                                                       .kernel_initializer = "ones",
                                                                       .recurrent_initializer = "ones",
                                                                       .return_sequences = true}));
  expect_values(both(masked), {0, 0, 1, 3, 3, 2, 0, 0});
}

TEST(Layers, SoftmaxOfAFullyMaskedRowIsZero) {
  const LayerHandle softmax = layers::Softmax();
  const Tensor mask = Tensor::from_vector(std::vector<bool>{true, true, false, false, false, false}, {2, 3});
  expect_values(softmax(floats({1, 1, 5, 1, 2, 3}, {2, 3}), {.mask = mask}), {0.5f, 0.5f, 0, 0, 0, 0});
}

TEST(Layers, ActivityRegularizerIsDividedByTheBatch) {
  const LayerHandle layer = layers::ActivityRegularization({.l1 = 0.5});
  layer->clear_losses();
  (void)layer(floats({1, -1, 2, -2}, {2, 2}));
  ASSERT_EQ(layer->losses().size(), 1u);
  expect_values(layer->losses()[0], {1.5f});
  layer->clear_losses();
}

TEST(Layers, LossesAreThoseOfTheLastCall) {
  const LayerHandle activity = layers::ActivityRegularization({.l1 = 0.5});
  const Sequential model({activity, layers::Dense(1, {.kernel_initializer = "ones", .kernel_regularizer = "l2"})});
  const Tensor x = floats({1, -1, 2, -2}, {2, 2});
  for (int call = 0; call < 3; ++call) {
    (void)model(x);
    ASSERT_EQ(model.impl()->losses().size(), 2u);
    expect_values(model.impl()->losses()[0], {1.5f});
    expect_values(model.impl()->losses()[1], {0.02f});
  }
  (void)activity(floats({1, 1}, {1, 2}));
  ASSERT_EQ(model.impl()->losses().size(), 2u);
  expect_values(model.impl()->losses()[0], {1});
}

TEST(Layers, LossesOfADestroyedLayerAreDropped) {
  for (int i = 0; i < 3; ++i) {
    const LayerHandle layer = layers::ActivityRegularization({.l1 = 0.5});
    EXPECT_TRUE(layer->losses().empty());
    (void)layer(floats({1, -1}, {1, 2}));
    EXPECT_EQ(layer->losses().size(), 1u);
  }
}

TEST(Arguments, UnknownObjectsAreNamedWithTheirLayer) {
  const auto message = [](const std::function<void()>& fn) -> std::string {
    try {
      fn();
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_THAT(message([] { layers::Dense(2, {.kernel_regularizer = "L3", .name = "d"}); }),
              testing::StartsWith("Dense 'd': 'kernel_regularizer': unknown regularizer 'L3'"));
  EXPECT_THAT(message([] { layers::LSTM(2, {.recurrent_initializer = "orthogonol", .name = "r"}); }),
              testing::StartsWith("LSTMCell 'lstm_cell': 'recurrent_initializer': unknown initializer 'orthogonol'"));
}

// ---- arguments of a call --------------------------------------------------------------------------------

Code code_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kInternal;
}

TEST(CallArguments, TensorsByPositionBindToNames) {
  const LayerHandle softmax = layers::Softmax();
  const Tensor x = floats({1, 1, 5, 1, 2, 3}, {2, 3});
  const Tensor mask = Tensor::from_vector(std::vector<bool>{true, true, false, false, false, false}, {2, 3});
  expect_values(softmax(x, mask), {0.5f, 0.5f, 0, 0, 0, 0});
  CallArguments twice;
  twice.args = {ArgValue(x), ArgValue(mask)};
  twice.set("mask", ArgValue(mask));
  EXPECT_EQ(code_of([&] { softmax->invoke(twice); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { softmax(x, mask, mask); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { layers::Dense(1)(x, mask); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { softmax(x, {.attention_mask = mask}); }), Code::kInvalidArgument);
}

// Values of Keras 3.15.1.
TEST(CallArguments, ACallWithSeveralTensorsIgnoresTheImplicitMask) {
  const Tensor masked = layers::Masking()(floats({0, 1, 2, 0}, {1, 4, 1}));
  const LayerHandle rnn = layers::SimpleRNN(1, {.activation = "linear",
                                                .kernel_initializer = "ones",
                                                .recurrent_initializer = "ones",
                                                .bias_initializer = "ones",
                                                .return_sequences = true});
  expect_values(rnn(masked), {0, 2, 5, 5});
  const Tensor state = floats({5}, {1, 1});
  expect_values(rnn(masked, {.initial_state = state}), {6, 8, 11, 12});
  expect_values(rnn(masked, state), {6, 8, 11, 12});
  const Tensor mask = Tensor::from_vector(std::vector<bool>{false, true, true, false}, {1, 4});
  expect_values(rnn(masked, {.initial_state = state, .mask = mask}), {0, 7, 10, 10});
}

TEST(CallArguments, AttentionTakesQueryAndValueAndReturnsItsScores) {
  const LayerHandle attention = layers::MultiHeadAttention(2, 3);
  const Tensor query = Tensor::full({1, 4, 5}, 0.5), value = Tensor::full({1, 2, 5}, 0.25);
  const Structure found = attention(query, value, {.return_attention_scores = true});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].leaf().shape(), (Shape{1, 4, 5}));
  expect_values(found[1], std::vector<float>(16, 0.5f));
  EXPECT_EQ(attention(query, value, value).leaf().shape(), (Shape{1, 4, 5}));
}

TEST(CallArguments, MergingLayersHaveFunctions) {
  const Tensor a = floats({1, 2}, {1, 2}), b = floats({3, 5}, {1, 2});
  expect_values(layers::add({a, b}), {4, 7});
  expect_values(layers::subtract({a, b}), {-2, -3});
  expect_values(layers::average({a, b}), {2, 3.5f});
  expect_values(layers::concatenate({a, b}), {1, 2, 3, 5});
  EXPECT_EQ(layers::concatenate({a, b}, {.axis = 0}).shape(), (Shape{2, 2}));
  expect_values(layers::dot({a, b}, {1}), {13});
}

TEST(CallArguments, ABracedPoolSizeIsAWindow) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {1, 2, 3, 1});
  expect_values(layers::MaxPooling2D({2, 3})(x), {6});
  expect_values(layers::AveragePooling2D({2, 1})(x), {2.5f, 3.5f, 4.5f});
}

// ---- subclassing ----------------------------------------------------------------------------------------

class Classifier : public Model {
 public:
  Classifier() : Model("Classifier"), hidden(track("hidden", layers::Dense(4))), out(track("out", layers::Dense(2))) {}
  Structure call(const Structure& x, const CallContext&) override { return out(hidden(x)); }
  LayerHandle hidden, out;
};

TEST(Subclassing, IsBuiltByItsFirstCall) {
  const Classifier model;
  EXPECT_FALSE(model.save_spec().has_value());
  const Tensor y = model(Tensor::zeros({3, 5}));
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  ASSERT_TRUE(model.save_spec().has_value());
  EXPECT_EQ(model.save_spec()->leaf().shape, (Shape{kUnknownDim, 5}));
  EXPECT_EQ(model.weights().size(), 4u);
  EXPECT_EQ(model.impl()->children()[1].first, "out");
}

// ---- bad input ------------------------------------------------------------------------------------------

TEST(BadInput, IsRefusedWithAReason) {
  const auto layer = [](const char* text) { return code_of([&] { deserialize_layer(parse_json(text, "test")); }); };
  EXPECT_EQ(layer(R"({"module":"keras.layers","class_name":"Lambda","config":{}})"), Code::kUnimplemented);
  EXPECT_EQ(layer(R"({"module":"keras.layers","class_name":"Densse","config":{"units":1}})"), Code::kNotFound);
  EXPECT_EQ(layer(R"({"module":"keras.layers","class_name":"Dense","config":{"units":-1}})"), Code::kInvalidArgument);
  EXPECT_EQ(layer(R"({"module":"keras.layers","class_name":"Dense","config":{"units":"x"}})"), Code::kInvalidArgument);
  EXPECT_EQ(layer(R"({"module":"keras.layers","class_name":"Dense","config":{"units":1,"unitz":2}})"),
            Code::kInvalidArgument);
  EXPECT_EQ(
      layer(
          R"({"class_name":"Functional","config":{"name":"m","layers":[],"input_layers":["x",0,0],"output_layers":["x",0,0]}})"),
      Code::kInvalidArgument);
}

// ---- LoRA ----------------------------------------------------------------------------------------------

TEST(Lora, IsAddedToALayerThatIsBuilt) {
  const Sequential model({layers::Input({3}), layers::Dense(2, {.name = "dense"}), layers::Dense(1)});
  const LayerHandle dense = model.layers()[0];
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, Shape({2, 3}));
  const Structure before = model.predict(x);
  dense.enable_lora({.rank = 2, .lora_alpha = 6});
  expect_values(model.predict(x).leaf(), before.leaf().to_vector<float>());  // b is zero
  ASSERT_EQ(dense.weights().size(), 4U);
  EXPECT_EQ(dense.weights()[2].path(), "dense/lora_kernel_a");
  EXPECT_EQ(dense.weights()[2].shape(), Shape({3, 2}));
  EXPECT_EQ(dense.weights()[3].shape(), Shape({2, 2}));
  std::vector<std::string> trained;
  for (const Variable& variable : dense.trainable_weights()) trained.push_back(variable.name());
  EXPECT_EQ(trained, (std::vector<std::string>{"bias", "lora_kernel_a", "lora_kernel_b"}));
  EXPECT_EQ(dense.get_config()["lora_rank"], 2);
  EXPECT_EQ(dense.get_config()["lora_alpha"], 6);
  // The model's program, made by the first call of predict(), is made again.
  dense.kernel().assign(Tensor::zeros({3, 2}));
  dense.weights()[2].assign({{1, 0}, {0, 1}, {0, 0}});
  dense.weights()[3].assign({{1, 0}, {0, 10}});
  model.layers()[1].kernel().assign({{1}, {1}});
  expect_values(model.predict(x).leaf(), {3 * (1 + 20), 3 * (4 + 50)});
}

TEST(Lora, RequiresAKernelThatMayChange) {
  const LayerHandle dense = layers::Dense(2);
  EXPECT_EQ(code_of([&] { dense.enable_lora({.rank = 2}); }), Code::kFailedPrecondition);
  dense(Tensor::zeros({1, 3}));
  EXPECT_EQ(code_of([&] { dense.enable_lora({.rank = 0}); }), Code::kInvalidArgument);
  dense.enable_lora({.rank = 2});
  EXPECT_EQ(code_of([&] { dense.enable_lora({.rank = 2}); }), Code::kFailedPrecondition);
  EXPECT_EQ(code_of([&] { layers::Flatten().enable_lora({.rank = 2}); }), Code::kInvalidArgument);
  const LayerHandle positive = layers::Dense(2, {.kernel_constraint = "non_neg"});
  positive(Tensor::zeros({1, 3}));
  EXPECT_EQ(code_of([&] { positive.enable_lora({.rank = 2}); }), Code::kInvalidArgument);
}

TEST(BadInput, HugeUnitsDoNotTakeMemory) {
  const LoadScope scope(1 << 20);
  const LayerHandle dense = layers::Dense(1'000'000'000'000);
  EXPECT_EQ(code_of([&] { dense(layers::Input({4})); }), Code::kResourceExhausted);
}

TEST(BadInput, DanglingCallsAreNamed) {
  Json object = read_config("f1.json");
  object["config"]["layers"][1]["inbound_nodes"][0]["args"][0]["config"]["keras_history"][0] = "nowhere";
  EXPECT_EQ(code_of([&] { model_from_json(object); }), Code::kInvalidArgument);
}

TEST(BadInput, WrongShapesAreNamed) {
  const Sequential model({layers::Input({4}), layers::Dense(1)});
  EXPECT_EQ(code_of([&] { model(Tensor::zeros({2, 5})); }), Code::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::keras
