// Lines of programs with own recurrent cells, models of several arguments, callbacks and pipelines. Numbers are those
// of Keras 3.15 and TensorFlow 2.21.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace tf = lockstep::tf;
using keras::Structure;
using ls::Tensor;

namespace lines_of_cells_and_pipelines {

// A cell whose states begin with ones and whose output is wider than its state.
class Halving : public layers::Cell {
 public:
  std::vector<std::int64_t> state_size() const override { return {2}; }
  std::int64_t output_size() const override { return 4; }
  void build(const keras::Nested<ls::Shape>& input_shape) override {
    kernel = add_weight({.shape = {input_shape[-1], 2}, .initializer = keras::initializers::Constant(0.1)});
  }
  Structure call(const Structure& inputs, const Structure& states, const keras::CallContext& context) override {
    Tensor h = states[0] * 0.5 + tf::matmul(inputs, kernel);
    if (context.training) h = h + 1;
    return {tf::concat({h, -h}, {.axis = -1}), {h}};
  }
  Structure get_initial_state(const ls::Extent& batch_size) const override { return {tf::ones({batch_size, 2})}; }
  ls::Variable kernel;
};

std::vector<float> first_columns(const Structure& y) {
  EXPECT_EQ(y.shape(), (ls::Shape{2, 4}));
  return floats(Tensor(y).index({ls::all, 0}));
}

TEST(LinesOfCells, SequencesBeginWithTheStatesOfTheCell) {
  const Tensor x = tf::reshape(tf::range(12, {.dtype = tf::float32}), {2, 2, 3});
  const auto rnn = layers::RNN(keras::make_layer<Halving>());
  expect_near(first_columns(rnn(x)), {1.6, 4.3}, 1e-5);
  expect_near(first_columns(rnn(x, {.training = true})), {3.1, 5.8}, 1e-5);
  EXPECT_EQ(floats(rnn.get_initial_state(2)[0]), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(keras::make_layer<Halving>().state_size(), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(layers::LSTMCell(3).state_size(), (std::vector<std::int64_t>{3, 3}));

  const auto inputs = keras::Input({ls::None, 3});
  keras::Model model(inputs, layers::RNN(keras::make_layer<Halving>())(inputs));
  EXPECT_EQ(model.output_shape(), (ls::Shape{ls::kUnknownDim, 4}));
  expect_near(floats(model.predict(x, {.verbose = 0}).index({ls::all, 2})), {-1.6, -4.3}, 1e-5);

  // As in Keras, a stateful layer begins with them too, and with zeros after reset_state().
  const auto stateful = layers::RNN(keras::make_layer<Halving>(), {.stateful = true});
  expect_near(first_columns(stateful(x)), {1.6, 4.3}, 1e-5);
  expect_near(first_columns(stateful(x)), {1.75, 5.125}, 1e-5);
  stateful.reset_state();
  expect_near(first_columns(stateful(x)), {1.35, 4.05}, 1e-5);
}

class Decoder : public keras::Model {
 public:
  std::vector<std::string> argument_names() const override { return {"x", "hidden", "memory"}; }
  Structure call(const Structure& inputs) override {
    const auto [x, hidden, memory] = inputs.parts<3>();
    return {dense(tf::concat({x, memory}, {.axis = -1})), hidden + 1};
  }
  keras::LayerHandle dense = track("dense", layers::Dense(2, {.kernel_initializer = "ones"}));
};

TEST(LinesOfCells, ModelsTakeSeveralArguments) {
  Decoder decoder;
  const Tensor x = {{1.0, 2.0}}, hidden = {{3.0}}, memory = {{4.0}};
  const auto [y, next] = decoder(x, hidden, memory);
  EXPECT_EQ(floats(y), (std::vector<float>{7, 7}));
  EXPECT_EQ(floats(next), (std::vector<float>{4}));
  const auto [again, state] = decoder(x, next, memory, {.training = true});
  EXPECT_EQ(floats(state), (std::vector<float>{5}));
  const auto [named, last] = decoder(x, {.arguments = {{"hidden", hidden}, {"memory", memory}}});
  EXPECT_EQ(floats(named), (std::vector<float>{7, 7}));
}

class Averages : public keras::callbacks::Callback {
 public:
  void on_batch_end(int batch, const keras::Logs&) override { batches.push_back(batch); }
  void on_epoch_end(int, const keras::Logs&) override {
    if (weights == ls::None) {
      weights = model().get_weights();
      ++first;
    }
  }
  ls::Tensors weights;
  std::vector<int> batches;
  int first = 0;
};

TEST(LinesOfCallbacks, ListsBeginAsNoneAndHandlesTellTheirResults) {
  keras::Sequential model({keras::Input({1}), layers::Dense(1, {.kernel_initializer = "zeros"})});
  model.compile(keras::optimizers::SGD(0.0), "mse");
  Averages averages;
  const auto stop = keras::callbacks::EarlyStopping({.monitor = "loss", .patience = 1});
  model.fit(Tensor{{1.0}, {2.0}}, Tensor{{1.0}, {1.0}},
            {.batch_size = 1, .epochs = 5, .verbose = 0, .callbacks = {averages, stop}});
  EXPECT_EQ(averages.first, 1);
  EXPECT_EQ(averages.batches, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(stop.stopped_epoch(), 1);
  EXPECT_EQ(stop.best_epoch(), 0);
  EXPECT_EQ(stop.best(), 1.0);
  EXPECT_EQ(stop.wait(), 1);
  const std::map<std::string, Tensor> empty;
  EXPECT_TRUE(empty == ls::None);
}

TEST(LinesOfPipelines, TensorsInBracesAreStacked) {
  const Tensor a = 1.0, b = 2.0;
  EXPECT_EQ(tf::constant({a, b}).shape(), (ls::Shape{2}));
  EXPECT_EQ(tf::convert_to_tensor({Tensor{1, 2}}).shape(), (ls::Shape{1, 2}));
  const std::vector<ls::Variable> sums = {ls::Variable(3.0), ls::Variable(4.0)};
  const auto [clipped, norm] = tf::clip_by_global_norm(sums, 1.0);
  EXPECT_FLOAT_EQ(float(norm), 5);
  EXPECT_FLOAT_EQ(float(clipped[1]), 0.8F);
  EXPECT_EQ(float(tf::add_n(sums)), 7);
}

TEST(LinesOfPipelines, GeneratorsThatAreFunctions) {
  auto generator = [i = 0]() mutable -> std::optional<ls::data::Element> {
    if (i == 3) return std::nullopt;
    ++i;
    return Structure{{"x", tf::range(i, {.dtype = tf::float32})}, {"n", tf::constant(i)}};
  };
  const auto ds = tf::data::Dataset::from_generator(
      generator,
      {.output_signature = {{"x", tf::TensorSpec({ls::None}, tf::float32)}, {"n", tf::TensorSpec({}, tf::int32)}}});
  EXPECT_EQ(ds.cardinality().numpy(), tf::data::UNKNOWN_CARDINALITY);
  for (int pass = 0; pass < 2; ++pass) {
    const auto batch =
        next(iter(ds.padded_batch(3, {.padded_shapes = keras::Nested<ls::Shape>{{"x", {4}}, {"n", {}}}})));
    EXPECT_EQ(batch["x"].shape(), (ls::Shape{3, 4}));
    EXPECT_EQ(floats(tf::cast(batch["n"], tf::float32)), (std::vector<float>{1, 2, 3}));
  }
}

TEST(LinesOfPipelines, BucketsAndTables) {
  const tf::lookup::StaticVocabularyTable table(
      tf::lookup::KeyValueTensorInitializer(tf::constant({"a", "b"}), tf::range(2, {.dtype = tf::int64})),
      {.num_oov_buckets = 1});
  const auto ids = table.lookup(tf::ragged::constant({{"a", "z"}, {"b"}}));
  EXPECT_EQ(Tensor(ids.to_tensor({.default_value = 9})).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 2, 1, 9}));
  EXPECT_EQ(int(table[tf::constant({"b"})][0]), 1);

  const auto rows = tf::data::Dataset::range(1, 5).map([](const Tensor& n) {
    return std::pair{tf::range(n), tf::cast(n, tf::float32)};
  });
  const auto buckets = rows.bucket_by_sequence_length(
      {.element_length_func = [](const Tensor& row, const Tensor&) { return tf::size(row); },
       .bucket_boundaries = {3},
       .bucket_batch_sizes = {2, 2},
       .padding_values = {tf::constant(9, tf::int64), 0.0}});
  const auto [row, n] = next(iter(buckets));
  EXPECT_EQ(Tensor(row).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 9, 0, 1}));

  const ls::SparseTensor sparse({.indices = {{0, 1}}, .values = {5}, .dense_shape = {1, 3}});
  EXPECT_EQ(tf::sparse::to_dense(sparse, {.default_value = -1}).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{-1, 5, -1}));
  EXPECT_EQ(tf::sparse::to_dense(sparse).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 5, 0}));
  EXPECT_EQ(next(iter(tf::data::Dataset::from_tensors("x"))).leaf().item<std::string>(), "x");
}

TEST(LinesOfPipelines, AScopeEndsBeforeTheBlock) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  EXPECT_TRUE(ls::distribute::has_strategy());
  scope.exit();
  EXPECT_FALSE(ls::distribute::has_strategy());
}

// An argument named as one of Keras 2's optimizers belongs to the class: the learning rate stays as it is.
class WithDecay : public keras::optimizers::Optimizer {
 public:
  WithDecay(double learning_rate, double decay)
      : Optimizer({.learning_rate = learning_rate, .name = "with_decay"}), decay(decay) {}
  explicit WithDecay(const ls::Json& config) : WithDecay(0.001, config["decay"]) {}
  void update_step(const Tensor& gradient, const ls::Variable& variable, const Tensor& learning_rate) override {
    assign_sub(variable, learning_rate * (gradient + decay * variable));
  }
  ls::Json get_config() const override {
    auto config = Optimizer::get_config();
    config.update({{"decay", decay}});
    return config;
  }
  double decay;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(WithDecay, "CellsAndPipelines")

TEST(OwnOptimizers, KeepAnArgumentNamedDecay) {
  const auto config = keras::optimizers::serialize(WithDecay(0.25, 0.5));
  const auto loaded = keras::optimizers::deserialize(config);
  EXPECT_EQ(keras::optimizers::serialize(loaded)["config"]["learning_rate"], ls::Json(0.25));
  EXPECT_EQ(std::dynamic_pointer_cast<WithDecay>(loaded)->decay, 0.5);
}

}  // namespace lines_of_cells_and_pipelines
