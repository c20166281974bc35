// Numbers as tensors, rows of variables (IndexedSlices), reductions of ragged tensors, arguments of datasets by name,
// and optimizers in attributes. Expected values are those of TensorFlow 2.21 and Keras 3.15.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/formats/keras_weights.h"
#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = ls::keras;
namespace layers = ls::keras::layers;
namespace ops = ls::ops;
using ls::Tensor;
using ls::data::Dataset;

namespace {

Tensor scaled(const Tensor& x, const Tensor& factor) { return x * factor; }

template <typename T>
std::string text_of(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::vector<Numbers> batches(const Dataset& dataset) {
  std::vector<Numbers> all;
  for (const auto& element : dataset) all.push_back(numbers(element));
  return all;
}

// A member that the constructor replaces; in Python there is only the second generator.
class OwnsAGenerator : public keras::Layer {
 public:
  explicit OwnsAGenerator(std::optional<std::int64_t> seed) {
    generator_ = track("generator", seed ? keras::random::SeedGenerator(seed) : keras::random::SeedGenerator());
  }
  keras::Structure call(const keras::Structure& x) override { return x; }

 private:
  keras::random::SeedGenerator generator_;
};

// Two parts with an optimizer each, as the GANs of keras.io.
class OwnsOptimizers : public keras::Model {
 public:
  keras::Structure call(const keras::Structure& x) override { return g(d(x)); }
  void build_optimizers() {
    d_optimizer.build(d.trainable_variables());
    g_optimizer.build(g.trainable_variables());
  }
  void drop_g_optimizer() { track("g_optimizer", keras::optimizers::OptimizerPtr()); }
  keras::LayerHandle d = track("d", ls::layers::Dense(2)), g = track("g", ls::layers::Dense(3));
  keras::optimizers::OptimizerPtr d_optimizer = track("d_optimizer", keras::optimizers::Adam(0.1));
  keras::optimizers::OptimizerPtr g_optimizer =
      track("g_optimizer", keras::optimizers::SGD({.learning_rate = 0.1, .momentum = 0.9}));
};

TEST(Numbers, AreTensorsWhereTheseAreExpected) {
  Tensor loss = 0.0;
  EXPECT_EQ(loss.dtype(), ls::float32);
  for (int i = 0; i < 3; ++i) loss += 1.5;
  loss = loss + scaled(2.0, 3.0);
  EXPECT_EQ(float(loss), 10.5);
  EXPECT_EQ(Tensor(3).dtype(), ls::int32);
  EXPECT_EQ(Tensor(std::int64_t{3}).dtype(), ls::int64);
  EXPECT_EQ(Tensor(true).dtype(), ls::bool_);
  EXPECT_EQ(numbers(ops::stack({loss, 1.0})), (Numbers{10.5, 1}));
  // Numbers next to tensors still have the tensor's dtype.
  const Tensor bytes = ops::cast({200, 100}, ls::uint8), halves = ops::cast({1.0, 2.0}, "float16");
  EXPECT_EQ((halves * 2.0).dtype(), ls::float16);
  EXPECT_EQ((bytes / 255.0).dtype(), ls::float32);
  EXPECT_EQ(ops::maximum(1.5, halves).dtype(), ls::float16);
  EXPECT_EQ(ops::where(halves > 1, halves, 0.0).dtype(), ls::float16);
  ls::Variable v(ops::zeros({2}, ls::float64));
  v.assign(1).assign_add(0.5);
  EXPECT_EQ((v * 2 + 1).dtype(), ls::float64);
  EXPECT_EQ(numbers(ops::range(2.0, 3)), (Numbers{2}));
}

TEST(Numbers, FillAndHistogramByName) {
  EXPECT_EQ(numbers(ops::fill({.dims = {2, 2}, .value = 9})), (Numbers{9, 9, 9, 9}));
  EXPECT_EQ(ops::fill({.dims = {2}, .value = 1.5}).dtype(), ls::float32);
  const Tensor values = {-1.0, 0.0, 1.5, 2.0, 5.0, 15.0};
  EXPECT_EQ(numbers(ops::histogram_fixed_width(values, {.value_range = {0.0, 5.0}, .nbins = 5})),
            (Numbers{2, 1, 1, 0, 2}));
  EXPECT_EQ(ops::histogram_fixed_width({.values = values, .value_range = {0.0, 5.0}, .dtype = "int64"}).dtype(),
            ls::int64);
}

TEST(IndexedSlices, UpdateRowsOfVariables) {
  ls::Variable v(Tensor{1.0, 2.0, 3.0, 4.0});
  EXPECT_EQ(numbers(v.scatter_update(ls::IndexedSlices({9.0, 8.0}, {0, 2}))), (Numbers{9, 2, 8, 4}));
  EXPECT_EQ(numbers(v.scatter_add(ls::IndexedSlices({9.0, 8.0}, {0, 0}))), (Numbers{26, 2, 8, 4}));
  EXPECT_EQ(numbers(v.scatter_sub(ls::IndexedSlices({.values = {9.0, 8.0}, .indices = {1, 3}}))),
            (Numbers{26, -7, 8, -4}));
  EXPECT_EQ(numbers(v.scatter_max(ls::IndexedSlices({0.5, 0.25}, {1, 3}))), (Numbers{26, 0.5, 8, 0.25}));
  EXPECT_EQ(numbers(v.scatter_min(ls::IndexedSlices({0.125, 8.0}, {1, 3}))), (Numbers{26, 0.125, 8, 0.25}));
  EXPECT_EQ(numbers(v.scatter_mul(ls::IndexedSlices({2.0, 3.0}, {1, 1}))), (Numbers{26, 0.75, 8, 0.25}));
  EXPECT_EQ(numbers(v.scatter_div(ls::IndexedSlices({2.0, 4.0}, {0, 2}))), (Numbers{13, 0.75, 2, 0.25}));
  const ls::IndexedSlices rows({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}, {2, 0, 2}, {4, 2});
  EXPECT_EQ(numbers(ls::convert_to_tensor(rows)), (Numbers{3, 4, 0, 0, 6, 8, 0, 0}));
  EXPECT_EQ(error_of([] { Tensor dense = ls::IndexedSlices({1.0}, {0}); }),
            "IndexedSlices without a dense_shape cannot become a tensor");
}

TEST(RaggedReductions, AlongEachAxis) {
  const auto x = ls::ragged::constant({{{1.0, 2.0}, {3.0}}, {}, {{4.0, 5.0, 6.0}}});
  EXPECT_EQ(text_of(ops::reduce_sum(x, 0)), "<tf.RaggedTensor [[5.0, 7.0, 6.0], [3.0]]>");
  EXPECT_EQ(text_of(ops::reduce_mean(x, {.axis = 0})), "<tf.RaggedTensor [[2.5, 3.5, 6.0], [3.0]]>");
  EXPECT_EQ(text_of(ops::reduce_min(x, 1)), "<tf.RaggedTensor [[1.0, 2.0], [], [4.0, 5.0, 6.0]]>");
  EXPECT_EQ(text_of(ops::reduce_mean(x, 1)), "<tf.RaggedTensor [[2.0, 2.0], [], [4.0, 5.0, 6.0]]>");
  EXPECT_EQ(text_of(ops::reduce_max(x, -1)), "<tf.RaggedTensor [[2.0, 3.0], [], [6.0]]>");
  EXPECT_EQ(text_of(ops::reduce_prod(x, 2)), "<tf.RaggedTensor [[2.0, 3.0], [], [120.0]]>");
  EXPECT_EQ(numbers(ops::reduce_sum(x, {.axis = {1, 2}})), (Numbers{6, 0, 15}));
  const auto rows = ls::RaggedTensor::from_row_splits(Tensor{{1.0, 2.0}, {3.0, 5.0}, {4.0, 8.0}}, Tensor{0, 2, 2, 3});
  EXPECT_EQ(numbers(ops::reduce_sum(rows, 1)), (Numbers{4, 7, 0, 0, 4, 8}));
  EXPECT_EQ(text_of(ops::reduce_mean(rows, 2)), "<tf.RaggedTensor [[1.5, 4.0], [], [6.0]]>");
  const auto integers = ls::ragged::constant({{3, 1}, {}, {5}});
  const Tensor mean = ops::reduce_mean(integers, 0);
  EXPECT_EQ(numbers(mean), (Numbers{4, 1}));
  EXPECT_EQ(mean.dtype(), ls::float64);
  EXPECT_EQ(ops::reduce_mean(integers).dtype(), ls::float64);
  const auto truths = ls::ragged::constant({{true, false}, {}, {false}});
  EXPECT_EQ(numbers(ops::reduce_any(truths, 1)), (Numbers{1, 0, 0}));
  EXPECT_EQ(numbers(ops::reduce_all(truths, 1)), (Numbers{0, 1, 0}));
}

TEST(Datasets, ArgumentsByName) {
  const auto grouped = Dataset::range(11).group_by_window(
      {.key_func = [](const Tensor& x) { return x % 3; },
       .reduce_func = [](const Tensor&, const Dataset& group) { return group.batch(2); },
       .window_size = 2});
  EXPECT_EQ(batches(grouped), (std::vector<Numbers>{{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}, {8}}));
  const std::vector<std::vector<std::int64_t>> rows = {{0}, {1, 2, 3, 4}, {5, 6, 7}, {7, 8, 9, 10, 11}, {21, 22}};
  const auto generated = Dataset::from_generator(
      [&] { return rows; }, {.output_signature = ls::TensorSpec({.shape = {ls::None}, .dtype = ls::int64})});
  const auto buckets =
      generated.bucket_by_sequence_length({.element_length_func = [](const Tensor& x) { return ops::shape(x)[0]; },
                                           .bucket_boundaries = {3, 5},
                                           .bucket_batch_sizes = {2, 2, 2}});
  EXPECT_EQ(batches(buckets), (std::vector<Numbers>{{1, 2, 3, 4, 5, 6, 7, 0}, {0, 0, 21, 22}, {7, 8, 9, 10, 11}}));
  EXPECT_EQ(batches(generated.padded_batch(2, {.padded_shapes = {ls::None}}).take(1)),
            (std::vector<Numbers>{{0, 0, 0, 0, 1, 2, 3, 4}}));
  const auto sums =
      Dataset::range(4).scan({.initial_state = std::int64_t{0}, .scan_func = [](const Tensor& state, const Tensor& x) {
                                return std::pair{state + x, state + x};
                              }});
  EXPECT_EQ(batches(sums.batch(4)), (std::vector<Numbers>{{0, 1, 3, 6}}));
  EXPECT_EQ(batches(Dataset::counter({.start = 5, .step = -1}).take(3).batch(3)), (std::vector<Numbers>{{5, 4, 3}}));
  EXPECT_EQ(batches(Dataset::range(6).shard({.num_shards = 3, .index = 1}).batch(2)), (std::vector<Numbers>{{1, 4}}));
  EXPECT_EQ(batches(Dataset::from_tensors(7)), (std::vector<Numbers>{{7}}));
  const Tensor total =
      Dataset::range(5).reduce(std::int64_t{0}, [](const Tensor& x, const Tensor& y) { return x + y; });
  EXPECT_EQ(total.dtype(), ls::int64);
}

TEST(Datasets, ElementsInVectors) {
  std::vector<Tensor> all;
  for (const auto& element : Dataset::range(3)) all.push_back(element);
  for (auto element : Dataset::range(2)) all.push_back(element);
  EXPECT_EQ(numbers(ops::stack(all)), (Numbers{0, 1, 2, 0, 1}));
  auto iterator = iter(Dataset::range(1));
  EXPECT_EQ(int(iterator.get_next_as_optional().get_value()), 0);
  EXPECT_FALSE(iterator.get_next_as_optional().has_value());
}

TEST(Datasets, ColumnsOfCsv) {
  const auto columns = ls::io::decode_csv(Tensor{"1.5,x,2", ",y,3"}, {0.0, 0}, {.select_cols = {0, 2}});
  EXPECT_EQ(numbers(columns[0]), (Numbers{1.5, 0}));
  EXPECT_EQ(numbers(columns[1]), (Numbers{2, 3}));
  EXPECT_EQ(numbers(ops::not_equal(Tensor{"#", "a"}, "#")), (Numbers{0, 1}));
}

TEST(Models, SequentialByNameAndOptimizersAsAttributes) {
  keras::Sequential stack({.name = "stack"});
  stack.add(keras::Input({2}));
  EXPECT_EQ(stack.name(), "stack");
  EXPECT_EQ(float(OwnsOptimizers().d_optimizer.learning_rate()), 0.1f);
}

TEST(Optimizers, OfAttributesAreSavedWithTheWeights) {
  const auto folder = std::filesystem::temp_directory_path() / ("own_optimizers_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string weights = folder / "gan.weights.h5", checkpoint = folder / "gan";
  const auto made = [] {
    OwnsOptimizers model;
    model(ops::ones({1, 4}));
    model.build_optimizers();
    return model;
  };
  const auto state = [](const OwnsOptimizers& model) {
    std::vector<Numbers> all;
    for (const auto& optimizer : {model.d_optimizer, model.g_optimizer})
      for (const auto& variable : optimizer->variables()) all.push_back(numbers(variable.value()));
    return all;
  };
  const OwnsOptimizers model = made();
  std::vector<Tensor> gradients;
  for (const auto& variable : model.d.trainable_variables()) gradients.push_back(ops::ones(variable.shape()) * 0.5);
  model.d_optimizer.apply(gradients);
  model.save_weights(weights);
  const auto file = ls::formats::KerasWeights::open(weights);
  EXPECT_EQ(file.variables("d_optimizer").size(), 6u);
  EXPECT_EQ(file.variables("d_optimizer")[3].shape, (ls::Shape{4, 2}));
  EXPECT_EQ(file.variables("g_optimizer").size(), 4u);

  // As Python's None in the attribute.
  OwnsOptimizers without = made();
  without.drop_g_optimizer();
  without.save_weights(weights);
  EXPECT_FALSE(ls::formats::KerasWeights::open(weights).has_object("g_optimizer"));
  model.save_weights(weights);

  const OwnsOptimizers loaded = made();
  EXPECT_NE(state(loaded), state(model));
  loaded.load_weights(weights);
  EXPECT_EQ(state(loaded), state(model));

  ls::train::Checkpoint({{"model", model}}).write(checkpoint);
  std::map<std::string, ls::Shape> names;
  for (const auto& [name, shape] : ls::train::list_variables(checkpoint)) names[name] = shape;
  EXPECT_EQ(names.at("model/d_optimizer/_variables/2/.ATTRIBUTES/VARIABLE_VALUE"), (ls::Shape{4, 2}));
  EXPECT_EQ(names.at("model/g_optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE"), ls::Shape{});
  const OwnsOptimizers restored = made();
  ls::train::Checkpoint({{"model", restored}}).read(checkpoint).assert_consumed();
  EXPECT_EQ(state(restored), state(model));
  std::filesystem::remove_all(folder);
}

TEST(SeedGenerators, MembersThatAreReplacedDrawNothing) {
  const auto next_numbers = [](std::optional<std::int64_t> seed) {
    keras::utils::set_random_seed(3);
    keras::make_layer<OwnsAGenerator>(seed);
    return numbers(Tensor(keras::initializers::RandomNormal()({2})))[0];
  };
  EXPECT_NEAR(next_numbers(1337), 0.00589898, 1e-8);
  EXPECT_NEAR(next_numbers(std::nullopt), 0.0443767, 1e-7);
}

TEST(Numbers, InBracesAreRowsOfATensor) {
  const Tensor x = ops::ones({2, 1}), wide = {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}};
  EXPECT_EQ(numbers(keras::ops::add(x, {{1.0}, {2.0}})), (Numbers{2, 3}));
  EXPECT_EQ(numbers(keras::ops::take_along_axis(wide, {{0}, {2}}, 1)), (Numbers{1, 6}));
  EXPECT_EQ(numbers(keras::ops::take_along_axis(wide, {.indices = {{0}, {2}}, .axis = 1})), (Numbers{1, 6}));
}

// Tensors made of numbers, as parameters of functions are, take the dtype of the tensor next to them.
TEST(Numbers, AsParametersTakeTheOthersDtype) {
  const auto power = [](const Tensor& a, const Tensor& b) { return ops::pow(a, b); };
  EXPECT_EQ(numbers(power(ls::constant({2.0, 3.0}), 2)), (Numbers{4, 9}));
  EXPECT_EQ(power(ls::constant({2, 3}), 2).dtype(), ls::int32);
  const auto larger = [](const Tensor& a, const Tensor& b) { return ops::maximum(a, b); };
  EXPECT_EQ(numbers(larger(0, ls::constant({-1.0, 3.0}))), (Numbers{0, 3}));
  EXPECT_THROW(larger(0.5, ls::constant({1, 3})), ls::errors::InvalidArgumentError);
}

TEST(Lists, HavePythonsIndices) {
  const auto model = keras::Sequential({keras::Input({3}), layers::Dense(2), layers::Dense(4)});
  EXPECT_EQ(model.layers()[-1].output().shape(), (ls::Shape{ls::kUnknownDim, 4}));
  EXPECT_EQ(model.weights()[-1].shape(), (ls::Shape{4}));
  EXPECT_EQ(model.layers()[-2].weights()[0].shape(), (ls::Shape{3, 2}));
  EXPECT_THROW(model.layers()[2], ls::errors::OutOfRangeError);
}

}  // namespace
