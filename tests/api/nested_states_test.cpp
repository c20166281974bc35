// The states of recurrent layers of several cells, functions of Keras's losses where a function is given, variables and
// numbers in braces as arguments, functions of sparse tensors. Expected values are those of Keras 3.15 and TensorFlow
// 2.21; keras.utils.set_random_seed(21) comes before the layers.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = ls::keras;
namespace layers = ls::keras::layers;
namespace losses = ls::keras::losses;
namespace ops = ls::ops;
using ls::Tensor;

namespace nested_states {

void expect_first(const Tensor& found, const Numbers& expected) {
  const Numbers values = numbers(found);
  ASSERT_GE(values.size(), expected.size());
  expect_near(Numbers(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(expected.size())), expected);
}

// "(2,)", "[(2, 3), [(2, 2), (2, 2)]]": the shapes of a structure, as keras.tree.map_structure gives them.
std::string shapes(const keras::Structure& structure) {
  if (structure.is_leaf()) return structure.shape().to_string();
  std::string all;
  for (const keras::Structure& part : structure.parts()) all += (all.empty() ? "" : ", ") + shapes(part);
  return "[" + all + "]";
}

class TwoStates : public layers::Cell {
 public:
  std::vector<std::int64_t> state_size() const override { return {3, 2}; }
  keras::Structure call(const keras::Structure& inputs, const keras::Structure& states) override {
    const auto& [a, b] = states;
    const auto c = inputs + a;
    return {c, {c, b + 1.0}};
  }
};

class Counter : public layers::Cell {
 public:
  std::vector<std::int64_t> state_size() const override { return {3}; }
  keras::Structure call(const keras::Structure& inputs, const keras::Structure& states) override {
    const auto count = states[0] + 1.0;
    return {inputs * count, {count}};
  }
};

TEST(NestedStates, OfSeveralCells) {
  keras::utils::set_random_seed(21);
  const Tensor x = waves({2, 5, 3}, 0.37);
  const std::vector<keras::LayerHandle> rnn_cells = {layers::LSTMCell(4), layers::LSTMCell(2)};
  const auto lstm_layer = layers::RNN(layers::StackedRNNCells(rnn_cells), {.return_state = true});
  const auto [output, state1, state2] = lstm_layer(x).parts<3>();
  expect_first(output, {-0.067749165, 0.040991113, -0.06721317, 0.04170477});
  const auto [h, c] = state1;
  expect_first(
      h, {0.0044493871, -0.072127372, -0.036016122, 0.066142917, 0.082133211, -0.070352457, -0.11140715, 0.011924161});
  expect_first(state2[1], {-0.13296863, 0.081876494, -0.13745654, 0.080485128});
  const auto [again, next1, next2] = lstm_layer(x, {.initial_state = {state1, state2}}).parts<3>();
  expect_first(again, {-0.087227285, 0.058139749, -0.091294602, 0.068638042});
  expect_first(next2[0], {-0.087227285, 0.058139749, -0.091294602, 0.068638042});
  EXPECT_EQ(shapes(lstm_layer.get_initial_state(2)), "[[(2, 4), (2, 4)], [(2, 2), (2, 2)]]");
  EXPECT_EQ(shapes(lstm_layer(x, {.initial_state = lstm_layer.get_initial_state({.batch_size = 2})})),
            "[(2, 2), [(2, 4), (2, 4)], [(2, 2), (2, 2)]]");
  EXPECT_EQ(error_of([&] { (void)layers::Dense(2).get_initial_state(2); }).find("Dense 'dense"), 0u);
}

TEST(NestedStates, ACellOfOneStateHasItAsKerasGivesIt) {
  const Tensor x = waves({2, 5, 3}, 0.37);
  const auto mixed =
      layers::RNN({layers::GRUCell(3), layers::LSTMCell(2), layers::SimpleRNNCell(2)}, {.return_state = true});
  const auto result = mixed(x);
  EXPECT_EQ(shapes(result), "[(2, 2), [(2, 3)], [(2, 2), (2, 2)], [(2, 2)]]");
  EXPECT_EQ(shapes(mixed.get_initial_state(2)), "[[(2, 3)], [(2, 2), (2, 2)], [(2, 2)]]");
  EXPECT_EQ(shapes(mixed(x, {.initial_state = {result[1], result[2], result[3]}})), shapes(result));
  EXPECT_EQ(shapes(mixed(x, {.initial_state = {result[1][0], result[2], result[3]}})),
            "[(2, 2), (2, 3), [(2, 2), (2, 2)], [(2, 2)]]");
  const auto inputs = keras::Input({5, 3});
  const auto symbolic = mixed(inputs);
  EXPECT_EQ(shapes(symbolic), "[(None, 2), (None, 3), [(None, 2), (None, 2)], (None, 2)]");
  EXPECT_EQ(shapes(keras::Model(inputs, symbolic)(x)), "[(2, 2), (2, 3), [(2, 2), (2, 2)], (2, 2)]");
  const auto both =
      layers::Bidirectional(layers::RNN({layers::LSTMCell(2), layers::GRUCell(2)}, {.return_state = true}));
  EXPECT_EQ(shapes(both(x)), "[(2, 4), [(2, 2), (2, 2)], [(2, 2)], [(2, 2), (2, 2)], [(2, 2)]]");

  const auto gru = layers::GRUCell(3);
  const Tensor step = x.index({ls::all, 0}), zeros = ops::zeros({2, 3});
  EXPECT_EQ(shapes(gru(step, zeros)), "[(2, 3), (2, 3)]");
  EXPECT_EQ(shapes(gru(step, gru.get_initial_state(2))), "[(2, 3), [(2, 3)]]");
  const auto stack = layers::StackedRNNCells({layers::GRUCell(3), layers::LSTMCell(2)});
  EXPECT_EQ(shapes(stack(step, stack.get_initial_state(2))), "[(2, 2), [[(2, 3)], [(2, 2), (2, 2)]]]");

  // Cells of the user's: of two states a list, of one a tensor.
  const auto own = layers::RNN({keras::make_layer<TwoStates>(), keras::make_layer<Counter>()}, {.return_state = true});
  const auto [last, two, count] = own(x).parts<3>();
  EXPECT_EQ(shapes(two), "[(2, 3), (2, 2)]");
  EXPECT_EQ(numbers(count), Numbers(6, 5.0));
  expect_first(last, {2.709192, 1.7823225, 0.61422437, 3.3891056, 3.2629228, 2.695118});
}

TEST(NestedStates, InModelsAndFiles) {
  keras::utils::set_random_seed(21);
  const Tensor x = waves({2, 5, 3}, 0.37);
  const auto inputs = keras::Input({5, 3});
  const auto encoder = layers::RNN({layers::GRUCell(3), layers::LSTMCell(2)}, {.return_state = true});
  const auto [encoded, g, l] = encoder(inputs).parts<3>();
  const auto decoder = layers::RNN({layers::GRUCell(3), layers::LSTMCell(2)});
  const keras::Model model(inputs, {decoder(inputs, {.initial_state = {g, l}}), g, l});
  const auto result = model(x);
  expect_first(result[0], {-0.0059016068, 0.0051684799, 0.033420928, 0.014661825});
  expect_first(result[2][1], {0.014854744, -0.035036445, 0.038870916, -0.039324339});
  const std::string path =
      (std::filesystem::temp_directory_path() / ("nested_states_" + std::to_string(getpid()) + ".keras")).string();
  model.save(path);
  const auto loaded = keras::models::load_model(path)(x);
  std::filesystem::remove(path);
  expect_first(loaded[0], numbers(result[0]));
  expect_first(loaded[2][1], numbers(result[2][1]));
}

TEST(ArgumentsOfPrograms, FunctionsOfLosses) {
  keras::Sequential model(
      {layers::Input({2}), layers::Dense(2, {.activation = "sigmoid", .kernel_initializer = "ones"})});
  const Tensor x = waves({4, 2}, 0.3), y = ops::cast(waves({4, 2}, 0.7) > 0.2, "float32");
  const auto loss_of = [&](const keras::LossTree& loss) {
    model.compile({.optimizer = "sgd", .loss = loss});
    return double(model.evaluate(x, y, {.verbose = 0})["loss"]);
  };
  EXPECT_NEAR(loss_of(losses::binary_crossentropy), 1.005043, 1e-6);
  EXPECT_NEAR(loss_of(losses::binary_focal_crossentropy), 0.61643434, 1e-6);
  EXPECT_NEAR(loss_of(losses::categorical_crossentropy), 0.69314718, 1e-6);
  EXPECT_NEAR(loss_of(losses::categorical_focal_crossentropy), 0.043321699, 1e-6);
  EXPECT_NEAR(loss_of(losses::huber), 0.17890689, 1e-6);
  EXPECT_NEAR(loss_of(losses::cosine_similarity), -0.60355341, 1e-6);
  EXPECT_NEAR(loss_of(losses::dice), 0.40541369, 1e-6);
  EXPECT_NEAR(loss_of(losses::tversky), 0.40541369, 1e-6);
  model.compile("sgd", losses::binary_crossentropy);
  EXPECT_NE(model.get_compile_config()["loss"].dump().find(R"("config":"binary_crossentropy")"), std::string::npos);
  model.compile({.optimizer = "sgd", .loss = {losses::huber}});
  EXPECT_NE(model.get_compile_config()["loss"].dump().find(R"("config":"huber")"), std::string::npos);
  auto loaded = keras::Sequential({layers::Input({2}), layers::Dense(2)});
  loaded.compile_from_config(model.get_compile_config());
  EXPECT_EQ(loaded.get_compile_config()["loss"], model.get_compile_config()["loss"]);
  EXPECT_NEAR(double(losses::sparse_categorical_crossentropy({1}, {{0.25, 0.75}})[0]), -std::log(0.75), 1e-6);
}

TEST(ArgumentsOfPrograms, VariablesByName) {
  const keras::Variable zeros(
      {.initializer = keras::initializers::Zeros(), .shape = {2, 3}, .dtype = "int32", .trainable = false});
  EXPECT_EQ(zeros.shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(zeros.dtype(), ls::int32);
  EXPECT_FALSE(zeros.trainable());
  const keras::Variable two({.initializer = 2, .dtype = "float32", .name = "two"});
  EXPECT_EQ(two.name(), "two");
  EXPECT_EQ(two.dtype(), ls::float32);
  EXPECT_EQ(two.shape(), ls::Shape());
  const ls::Variable one({.initial_value = 1.0, .trainable = false, .name = "one"});
  EXPECT_EQ(float(one), 1.0f);
  EXPECT_FALSE(one.trainable());
  EXPECT_EQ(ls::Variable({.initial_value = waves({2, 2}, 0.1), .dtype = ls::float64}).dtype(), ls::float64);
  EXPECT_EQ(error_of([] { keras::Variable({.initializer = ops::ones({3}), .shape = {2}}); }),
            "invalid Variable: its initial value has shape (3,), expected (2,)");
  EXPECT_EQ(error_of([] { keras::Variable({.initializer = keras::initializers::Zeros()}); }),
            "Variable requires a shape where its value is made by an initializer");
}

TEST(ArgumentsOfPrograms, NumbersInBracesAreTensorsOfFit) {
  keras::Sequential model({layers::Input({1}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile("sgd", "mse");
  const Tensor x = {{1.0}, {2.0}}, y = {{1.0}, {0.0}};
  const double loss = model.evaluate(x, y, {.verbose = 0});
  EXPECT_EQ(loss, 2.0);
  EXPECT_EQ(double(model.evaluate(x, {{1.0}, {0.0}}, {.verbose = 0})), loss);
  EXPECT_EQ(double(model.evaluate({{1.0}, {2.0}}, y, {.verbose = 0})), loss);
  EXPECT_EQ(double(model.evaluate({{1.0}, {2.0}}, {{1.0}, {0.0}}, {.verbose = 0})), loss);
  EXPECT_EQ(model.fit(x, {{1.0}, {0.0}}, {.epochs = 2, .verbose = 0}).history["loss"][0], loss);
  EXPECT_EQ(model.fit({{1.0}, {2.0}}, y, {.epochs = 2, .verbose = 0}).history["loss"].size(), 2u);
  EXPECT_EQ(model.fit({{1.0}, {2.0}}, {{1.0}, {0.0}}, {.epochs = 3, .verbose = 0}).history["loss"].size(), 3u);
  EXPECT_EQ(model.fit({x}, {y}, {.epochs = 1, .verbose = 0}).history["loss"].size(), 1u);
}

TEST(ArgumentsOfPrograms, NumbersBecomeTensors) {
  namespace keras_ops = ls::keras::ops;
  EXPECT_EQ(keras_ops::convert_to_tensor(1e-9).dtype(), ls::float32);
  EXPECT_EQ(keras_ops::convert_to_tensor(3).dtype(), ls::int32);
  EXPECT_EQ(keras_ops::convert_to_tensor(true).dtype(), ls::DType::kBool);
  EXPECT_EQ(float(keras_ops::convert_to_tensor(3, "float32") / 2), 1.5f);
  EXPECT_EQ(keras_ops::array(2.5).shape(), ls::Shape());
}

TEST(ArgumentsOfPrograms, BoundariesOfBins) {
  auto bins = layers::Discretization({.num_bins = 4, .epsilon = 0.01});
  EXPECT_TRUE(bins.bin_boundaries().empty());
  bins.adapt({{-1.5, 1.0, 3.4, 0.5}, {0.0, 3.0, 1.3, 0.0}});
  expect_first(bins.bin_boundaries(), {0, 0.5, 1.3});
  EXPECT_EQ(layers::Discretization({.bin_boundaries = {0.0, 1.5}}).bin_boundaries(), (Numbers{0.0, 1.5}));
  EXPECT_NE(
      error_of([] { (void)layers::Dense(1, {.name = "d"}).bin_boundaries(); }).find("Dense 'd' has no bin_boundaries"),
      std::string::npos);
}

TEST(ArgumentsOfPrograms, SparseTensors) {
  namespace sparse = ls::sparse;
  const auto st = sparse::from_dense({{1, 0, 0, 8}, {0, 0, 0, 0}, {0, 0, 3, 0}});
  const auto other = sparse::SparseTensor({.indices = {{0, 0}, {1, 2}}, .values = {5, -2}, .dense_shape = {3, 4}});
  EXPECT_EQ(numbers(sparse::transpose(st).indices()), (Numbers{0, 0, 2, 2, 3, 0}));
  EXPECT_EQ(numbers(sparse::to_dense(sparse::transpose(st, {.perm = {1, 0}}))[3]), (Numbers{8, 0, 0}));
  EXPECT_EQ(numbers(sparse::transpose(st, {1, 0}).values()), (Numbers{1, 3, 8}));
  const auto [filled, empty] = sparse::fill_empty_rows(st, -1);
  EXPECT_EQ(numbers(filled.values()), (Numbers{1, 8, -1, 3}));
  EXPECT_EQ(numbers(empty), (Numbers{0, 1, 0}));
  expect_first(sparse::softmax(ls::SparseTensor({{0, 0}, {0, 2}, {1, 1}}, {1.0, 2.0, 3.0}, {2, 3})).values(),
               {0.26894143, 0.7310586, 1.0});
  EXPECT_EQ(numbers(sparse::to_dense(sparse::maximum(st, other))), (Numbers{5, 0, 0, 8, 0, 0, 0, 0, 0, 0, 3, 0}));
  EXPECT_EQ(numbers(sparse::to_dense(sparse::minimum(st, other))), (Numbers{1, 0, 0, 0, 0, 0, -2, 0, 0, 0, 0, 0}));
  EXPECT_EQ(numbers(sparse::reduce_max(st, {.axis = 1})), (Numbers{8, 0, 3}));
  EXPECT_EQ(numbers(sparse::reduce_max(other)), Numbers{5});
  EXPECT_EQ(numbers(sparse::reduce_sum(st, {.axis = 1, .keepdims = true})), (Numbers{9, 0, 3}));
  EXPECT_EQ(sparse::reduce_sum(st, {.axis = 1, .keepdims = true}).shape(), (ls::Shape{3, 1}));
  EXPECT_EQ(numbers(sparse::reduce_sum(st, 0)), (Numbers{1, 0, 3, 8}));
  EXPECT_EQ(sparse::expand_dims(st).shape(), (ls::Shape{3, 4, 1}));
  EXPECT_EQ(sparse::expand_dims(st, 0).shape(), (ls::Shape{1, 3, 4}));
  EXPECT_EQ(numbers(sparse::retain(st, {true, false, true}).values()), (Numbers{1, 3}));
  const auto parts = sparse::split(st, {.num_split = 2, .axis = 1});
  EXPECT_EQ(numbers(sparse::to_dense(parts[1])), (Numbers{0, 8, 0, 0, 3, 0}));
  EXPECT_EQ(numbers(sparse::to_dense(sparse::concat({.axis = 1, .sp_inputs = parts}))), numbers(sparse::to_dense(st)));
  EXPECT_EQ(numbers(sparse::slice(st, {.start = {0, 2}, .size = {3, 2}}).values()), (Numbers{8, 3}));
  EXPECT_EQ(numbers(sparse::map_values([](const Tensor& a, const Tensor& b) { return a + b; }, st, 5).values()),
            (Numbers{6, 13, 8}));
  const auto words = ls::SparseTensor({{0, 0}, {0, 1}, {1, 0}}, {2, 0, 3}, {2, 2});
  EXPECT_EQ(numbers(sparse::to_indicator(words, 4)), (Numbers{1, 0, 1, 0, 0, 0, 0, 1}));
}

// A cell whose states begin with ones.
class Halving : public layers::Cell {
 public:
  std::vector<std::int64_t> state_size() const override { return {2}; }
  void build(const keras::Nested<ls::Shape>& input_shape) override {
    kernel = add_weight({.shape = {input_shape[-1], 2}, .initializer = keras::initializers::Constant(0.1)});
  }
  keras::Structure call(const keras::Structure& inputs, const keras::Structure& states) override {
    const Tensor h = states[0] * 0.5 + ops::matmul(inputs, kernel);
    return {h, {h}};
  }
  keras::Structure get_initial_state(const ls::Extent& batch_size) const override {
    return {ops::ones({batch_size, 2})};
  }
  ls::Variable kernel;
};

TEST(NestedStates, SequencesBeginWithTheStatesOfAnOwnCell) {
  const Tensor x = ops::reshape(ops::range(12, {.dtype = ls::float32}), {2, 2, 3});
  const auto rnn = layers::RNN(keras::make_layer<Halving>());
  expect_near(rnn(x), {1.6, 1.6, 4.3, 4.3});
  EXPECT_EQ(numbers(rnn.get_initial_state(2)[0]), (Numbers{1, 1, 1, 1}));
  const auto inputs = keras::Input({ls::None, 3});
  keras::Model model(inputs, layers::RNN(keras::make_layer<Halving>())(inputs));
  expect_near(model.predict(x, {.verbose = 0}), {1.6, 1.6, 4.3, 4.3});
  // The sums of the states of the first cell.
  const auto ones =
      layers::SimpleRNNCell(1, {.activation = "linear", .kernel_initializer = "ones", .recurrent_initializer = "ones"});
  expect_near(layers::RNN({keras::make_layer<Halving>(), ones})(x), {4.8, 13.8});
  // As in Keras, a stateful layer begins with them too, and with zeros after reset_state().
  const auto stateful = layers::RNN(keras::make_layer<Halving>(), {.stateful = true});
  expect_near(stateful(x), {1.6, 1.6, 4.3, 4.3});
  expect_near(stateful(x), {1.75, 1.75, 5.125, 5.125});
  stateful.reset_state();
  expect_near(stateful(x), {1.35, 1.35, 4.05, 4.05});
}

}  // namespace nested_states
