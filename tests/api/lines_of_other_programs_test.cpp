// Lines of programs on structured data, vision blocks and strategies, as literally as C++ permits.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
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

namespace lines_of_other_programs {

TEST(OtherProgramLines, EnumeratorsHaveTensorFlowsNames) {
  distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  ls::Variable total, mean;
  {
    auto scope = strategy.scope();
    total = ls::Variable(
        1.0, {.synchronization = ls::VariableSynchronization::ON_READ, .aggregation = ls::VariableAggregation::SUM});
    mean = ls::Variable({1.0, 2.0}, {.aggregation = ls::VariableAggregation::MEAN});
  }
  const auto sums = strategy.run([&] {
    const auto context = distribute::get_replica_context();
    const auto id = ls::ops::cast(context->replica_id_in_sync_group(), "float32");
    total.assign_add(id + 1.0);
    mean.assign_add(ls::ops::stack({id, 2.0 * id}));
    return context->all_reduce(distribute::ReduceOp::SUM, id + 5.0);
  });
  EXPECT_EQ(float(strategy.reduce(distribute::ReduceOp::MEAN, sums, {.axis = ls::None})), 11);
  EXPECT_EQ(float(total.read_value()), 5);
  EXPECT_EQ(numbers(mean), (Numbers{1.5, 3}));
  const auto values =
      strategy.experimental_distribute_values_from_function([](const distribute::ValueContext& context) {
        return Tensor{1.0 + context.replica_id_in_sync_group, 3.0};
      });
  EXPECT_EQ(numbers(strategy.gather(values, {.axis = 0})), (Numbers{1, 3, 2, 3}));
  EXPECT_EQ(ls::data::AutoShardPolicy::DATA, ls::data::AutoShardPolicy::kData);
  EXPECT_EQ(distribute::InputReplicationMode::PER_WORKER, distribute::InputReplicationMode::kPerWorker);
  EXPECT_EQ(distribute::CommunicationImplementation::RING, distribute::CommunicationImplementation::kRing);
}

TEST(OtherProgramLines, TensorsAreTakenApart) {
  const auto [first, second] = Tensor{{1.0, 2.0}, {3.0, 4.0}};
  EXPECT_EQ(numbers(first), (Numbers{1, 2}));
  EXPECT_EQ(numbers(second), (Numbers{3, 4}));
  const auto [neg, pos] = ls::ops::bincount(Tensor{0, 0, 1, 0});
  EXPECT_EQ(int(neg), 3);
  EXPECT_EQ(int(pos), 1);
  const auto x = ls::ops::ones({2, 3, 4, 5});
  const auto [batch, height, width, channels] = kops::shape(x).parts<4>();
  EXPECT_EQ(kops::reshape(x, {batch, height * width, channels}).shape(), ls::Shape({2, 12, 5}));
  EXPECT_EQ(error_of([&] {
              const auto [a, b] = Tensor{1, 2, 3};
            }),
            "a tensor of shape (3,) has 3 elements on its first axis, 2 were requested");
}

TEST(OtherProgramLines, ValuesArePrintedAsInPython) {
  const auto printed = [](const auto& value) {
    std::ostringstream out;
    out << value;
    return out.str();
  };
  const auto pairs = ls::data::Dataset::from_tensor_slices({ls::ops::ones({4, 3}), ls::ops::range(4)}).batch(2);
  EXPECT_EQ(printed(pairs.element_spec()),
            "(TensorSpec(shape=(None, 3), dtype=tf.float32, name=None), "
            "TensorSpec(shape=(None,), dtype=tf.int32, name=None))");
  EXPECT_EQ(printed(ls::data::Dataset::range(3).element_spec()), "TensorSpec(shape=(), dtype=tf.int64, name=None)");
  EXPECT_EQ(printed(ls::ops::strings::split(Tensor{"Gray wolf", "Quick brown fox"})),
            "<tf.RaggedTensor [[b'Gray', b'wolf'], [b'Quick', b'brown', b'fox']]>");
  EXPECT_EQ(printed(ls::ops::strings::split("a b")), printed(Tensor{"a", "b"}));
}

TEST(OtherProgramLines, FunctionsByPositionAndByName) {
  const auto [columns, rows] = ls::ops::meshgrid(Tensor{1.0, 2.0, 3.0}, Tensor{4.0, 5.0}, {.indexing = "ij"});
  EXPECT_EQ(numbers(columns), (Numbers{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(numbers(rows), (Numbers{4, 5, 4, 5, 4, 5}));
  const auto [first, second] = ls::ops::dynamic_partition(Tensor{10, 20, 30}, Tensor{0, 1, 0}, 2);
  EXPECT_EQ(numbers(first), (Numbers{10, 30}));
  EXPECT_EQ(numbers(second), (Numbers{20}));
  const auto mel = ls::signal::linear_to_mel_weight_matrix(8, 33, 256, 5.0, 120.0);
  EXPECT_EQ(numbers(mel), numbers(ls::signal::linear_to_mel_weight_matrix({.num_mel_bins = 8,
                                                                           .num_spectrogram_bins = 33,
                                                                           .sample_rate = 256,
                                                                           .lower_edge_hertz = 5.0,
                                                                           .upper_edge_hertz = 120.0})));
  EXPECT_EQ(numbers(ls::math::imag(ls::ops::complex({.real = Tensor{1.0, 2.0}, .imag = Tensor{3.0, 4.0}}))),
            (Numbers{3, 4}));
  const auto batches = ls::data::Dataset::range(5).batch(
      2, {.drop_remainder = true, .num_parallel_calls = ls::data::AUTOTUNE, .deterministic = false});
  EXPECT_EQ(batches.cardinality(), 2);
  EXPECT_EQ(numbers(keras::initializers::zeros()({2})), (Numbers{0, 0}));
  EXPECT_EQ(numbers(keras::initializers::constant(2)({2})), (Numbers{2, 2}));
}

TEST(OtherProgramLines, ModelsComputeMetricsByName) {
  keras::Sequential model({keras::Input({2}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile({.optimizer = "sgd", .loss = "mse", .metrics = {"mae"}});
  const Tensor x = {{1.0, 2.0}}, y = {{5.0}};
  const auto by_name = model.compute_metrics({.x = x, .y = y, .y_pred = model(x)});
  EXPECT_EQ(by_name.at("mae"), 2);
}

TEST(OtherProgramLines, InitializersTakeKeywords) {
  const auto ones = keras::initializers::Ones();
  EXPECT_EQ(ones({.shape = {2}, .dtype = "float64"}).dtype(), ls::float64);
  EXPECT_EQ(ones({.shape = {2, 3}}).shape(), ls::Shape({2, 3}));
  EXPECT_EQ(ones({2, 3}).shape(), ls::Shape({2, 3}));
  EXPECT_EQ(ones({2}, ls::int32).dtype(), ls::int32);
}

TEST(OtherProgramLines, DictsOfSingleValues) {
  const keras::Structure sample = {{"age", 60}, {"sex", "female"}, {"fee", 100.5}};
  keras::Structure inputs;
  for (const auto& [name, value] : sample.items()) inputs[name] = ls::ops::expand_dims(value, 0);
  EXPECT_EQ(numbers(inputs["age"]), (Numbers{60}));
  EXPECT_EQ(inputs["age"].dtype(), ls::int32);
  EXPECT_EQ(inputs["sex"].to_vector<std::string>(), (std::vector<std::string>{"female"}));
  EXPECT_EQ(inputs["fee"].dtype(), ls::float32);
  const keras::Structure texts = {{"breed", "dog"}, {"color", "brown"}};
  EXPECT_TRUE(texts.is_dict());
}

TEST(OtherProgramLines, ListsInBraces) {
  const auto cell = layers::LSTMCell(3);
  const Tensor x = ls::ops::ones({2, 4}), h = ls::ops::ones({2, 3}), c = ls::ops::zeros({2, 3});
  const auto once = cell(x, {h, c}), again = cell(x, std::vector<Tensor>{h, c}, {.training = false});
  EXPECT_EQ(numbers(once[0]), numbers(again[0]));
  EXPECT_EQ(cell(x, {h, c}, {.training = true})[1].size(), 2U);
  EXPECT_EQ(layers::GRUCell(3)(x, {h})[0].shape(), ls::Shape({2, 3}));
  const Tensor moods = Tensor{"good", "bad"};
  EXPECT_EQ(numbers(ls::ops::cast(moods == "good", "int32")), (Numbers{1, 0}));
  EXPECT_EQ(numbers(ls::ops::cast(moods != std::string("good"), "int32")), (Numbers{0, 1}));
}

TEST(OtherProgramLines, SpecsOfElements) {
  const auto dataset = ls::data::Dataset::from_tensor_slices({ls::ops::ones({4, 3}), ls::ops::range(4)}).batch(2, true);
  EXPECT_EQ(dataset.element_spec()[0].shape(), ls::Shape({2, 3}));
  EXPECT_EQ(dataset.element_spec()[1].dtype(), ls::int32);
  const auto twice = ls::data::Dataset::range(3).interleave(
      [](const Tensor& x) { return ls::data::Dataset::from_tensors(x).repeat(2); });
  const std::vector<std::string> texts = {"good", "bad"};
  const std::vector<int> labels = {1, 0};
  for (const auto& [text, label] : ls::data::Dataset::from_tensor_slices({texts, labels}).batch(2)) {
    EXPECT_EQ(text.to_vector<std::string>(), texts);
    EXPECT_EQ(numbers(label), (Numbers{1, 0}));
  }
  int sum = 0;
  for (const auto& x : twice) sum += int(x);
  EXPECT_EQ(sum, 6);
}

// The first layer gives the dtype of the input, which Keras calls its compute_dtype: string, string, int64.
TEST(OtherProgramLines, SequentialModelsBeginWithLayersOfTexts) {
  const auto vectorize = layers::TextVectorization({.max_tokens = 10, .output_sequence_length = 3});
  vectorize.adapt(Tensor{"good movie", "bad movie"});
  const keras::Sequential model({vectorize, layers::Embedding(10, 2), layers::GlobalAveragePooling1D()});
  EXPECT_EQ(model.predict(Tensor{"a good movie", "bad"}, {.verbose = 0}).shape(), ls::Shape({2, 2}));
  EXPECT_EQ(model.inputs()[0].dtype(), ls::string);
  const keras::Sequential words({layers::StringLookup({.vocabulary = {"a"}}), layers::Rescaling(1.0)});
  EXPECT_EQ(numbers(words(Tensor{"a", "b"})), (Numbers{1, 0}));
  EXPECT_EQ(words.inputs()[0].dtype(), ls::string);
  const keras::Sequential integers({layers::IntegerLookup({.vocabulary = {7}}), layers::Rescaling(1.0)});
  EXPECT_EQ(numbers(integers(Tensor{7, 8})), (Numbers{1, 0}));
  EXPECT_EQ(integers.inputs()[0].dtype(), ls::int64);
}

TEST(OtherProgramLines, PaddingAndStridesByPosition) {
  const Tensor x = ls::ops::ones({1, 5, 5, 2});
  EXPECT_EQ(layers::MaxPooling2D(3, 2, "same")(x).shape(), ls::Shape({1, 3, 3, 2}));
  EXPECT_EQ(layers::AveragePooling2D({3, 3}, {2, 2}, "valid")(x).shape(), ls::Shape({1, 2, 2, 2}));
  EXPECT_EQ(layers::Conv2D(4, 3, 2, "same")(x).shape(), ls::Shape({1, 3, 3, 4}));
  EXPECT_EQ(layers::Conv2D(4, {3, 3}, {1, 1}, "same", {.activation = "relu"})(x).shape(), ls::Shape({1, 5, 5, 4}));
  EXPECT_EQ(layers::Conv2DTranspose(4, 2, 2, "valid", {.use_bias = false})(x).shape(), ls::Shape({1, 10, 10, 4}));
}

// keras.ops.gelu approximates, keras.activations.gelu does not.
TEST(OtherProgramLines, FunctionsOfSeveralOverloadsAsActivations) {
  const Tensor x = {{0.5, -1.0}};
  const auto same = [&](const Tensor& a, const Tensor& b) { return numbers(a) == numbers(b); };
  EXPECT_NEAR(numbers(layers::Activation(kops::gelu)(x))[1], -0.158808, 1e-6);
  EXPECT_NEAR(numbers(layers::Activation(keras::activations::gelu)(x))[1], -0.158655, 1e-6);
  EXPECT_TRUE(same(layers::Lambda(kops::leaky_relu)(x), kops::leaky_relu(x)));
  EXPECT_TRUE(same(layers::Lambda(ls::nn::gelu)(x), ls::nn::gelu(x)));
  EXPECT_EQ(layers::Dense(2, {.activation = kops::softmax})(x).shape(), ls::Shape({1, 2}));
}

TEST(OtherProgramLines, DrawsOfAShapeMadeInALoop) {
  const Tensor x = ls::ops::ones({2, 3, 4});
  std::vector<ls::Extent> shape = {kops::shape(x)[0]};
  for (int i = 1; i < x.ndim(); ++i) shape.push_back(1);
  EXPECT_EQ(keras::random::uniform(shape, 0, 1, {.seed = 3}).shape(), ls::Shape({2, 1, 1}));
  EXPECT_EQ(numbers(keras::random::normal({2}, 1.0, 0.5, {.seed = 3})),
            numbers(keras::random::normal({2}, {.mean = 1.0, .stddev = 0.5, .seed = 3})));
}

TEST(OtherProgramLines, CheckpointsThatAreMadeLater) {
  ls::train::Checkpoint checkpoint;
  const ls::Variable v(1.0);
  checkpoint = ls::train::Checkpoint({{"v", v}});
  const auto folder = std::filesystem::temp_directory_path() / ("later_" + std::to_string(getpid()));
  const auto path = checkpoint.save((folder / "ckpt").string());
  v.assign(2.0);
  checkpoint.restore(path).assert_consumed();
  EXPECT_EQ(float(v), 1);
  std::filesystem::remove_all(folder);
}

// dtype() of a custom metric, as an argument of keras.ops.
class Positives : public keras::metrics::Metric {
 public:
  Positives() : Metric({.name = "positives"}) { count_ = add_weight({.initializer = "zeros", .name = "count"}); }
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor&) override {
    count_.assign_add(kops::sum(kops::cast(kops::logical_and(kops::cast(y_true, "bool"), y_pred > 0.5), dtype())));
  }
  Tensor result() const override { return count_ * 1; }

 private:
  ls::Variable count_;
};

TEST(OtherProgramLines, MetricsHaveADtype) {
  Positives positives;
  positives.update_state({1.0, 0.0, 1.0}, {0.7, 0.9, 0.2}, {});
  EXPECT_EQ(float(positives.result()), 1);
}

// Arguments of the base classes, each alone.
class EachError : public keras::losses::Loss {
 public:
  EachError() : Loss({.reduction = "none"}) {}
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override { return ls::math::square(y_true - y_pred); }
};
class CountOf64Bits : public keras::metrics::Metric {
 public:
  CountOf64Bits() : Metric({.dtype = "int64"}) {}
  void update_state(const Tensor&, const Tensor&, const Tensor&) override {}
  Tensor result() const override { return 0; }
};

TEST(OtherProgramLines, ArgumentsOfBaseClasses) {
  EXPECT_EQ(numbers(EachError()({1.0, 2.0}, {1.5, 4.0})), (std::vector<double>{0.25, 4}));
  EXPECT_EQ(EachError().name(), "each_error");
  EXPECT_EQ(CountOf64Bits().get_config()["dtype"], ls::Json("int64"));
  EXPECT_EQ(CountOf64Bits().name(), "count_of64_bits");
}

// Extents of tensors: integers, or fractions, as TensorFlow's eager mode takes them.
TEST(OtherProgramLines, ExtentsOfFractions) {
  EXPECT_EQ(ls::ops::tile(Tensor{1.0, 2.0}, {ls::math::ceil(2.5)}).shape(), (ls::Shape{6}));
  EXPECT_EQ(ls::ops::tile(Tensor{1.0, 2.0}, {Tensor(2.5)}).shape(), (ls::Shape{4}));
  EXPECT_THROW(ls::ops::tile(Tensor{1.0, 2.0}, {Tensor(true)}), ls::errors::InvalidArgumentError);
}

// keras.random.gamma, beta and binomial by name, with an extent of a tensor.
TEST(OtherProgramLines, GammaByName) {
  const Tensor batch = ls::ops::shape(ls::ops::zeros({3, 2}))[0];
  EXPECT_EQ(numbers(keras::random::gamma({batch, 2}, {.alpha = 0.7, .seed = 3})),
            numbers(keras::random::gamma({3, 2}, 0.7, {.seed = 3})));
  EXPECT_EQ(numbers(keras::random::beta({.shape = {batch}, .alpha = 0.2, .beta = 0.3, .seed = 3})),
            numbers(keras::random::beta({3}, 0.2, 0.3, {.seed = 3})));
  EXPECT_EQ(numbers(keras::random::binomial({2, 3}, {.counts = 10, .probabilities = 0.3, .seed = 7})),
            (std::vector<double>{4, 2, 3, 3, 7, 3}));
}

// Numbers of TensorFlow 2.21.
TEST(OtherProgramLines, RaggedTensorsOfTheGuide) {
  const auto is = [](const ls::RaggedTensor& ragged, const std::string& rows) {
    EXPECT_EQ(ragged.to_list().dump(), ls::Json::parse(rows).dump());
  };
  const auto digits = ls::ragged::constant({{3, 1, 4, 1}, {}, {5, 9, 2}, {6}, {}});
  const auto words = ls::ragged::constant({{"So", "long"}, {"thanks", "for"}});
  is(digits, "[[3, 1, 4, 1], [], [5, 9, 2], [6], []]");
  is(words, R"([["So", "long"], ["thanks", "for"]])");
  is(ls::ops::map_fn(ls::math::square, digits), "[[9, 1, 16, 1], [], [25, 81, 4], [36], []]");
  is(ls::map_fn([](const Tensor& row) { return row * 2; }, digits), "[[6, 2, 8, 2], [], [10, 18, 4], [12], []]");
  const Tensor sums = ls::ops::map_fn([](const Tensor& row) { return ls::ops::reduce_sum(row); }, digits);
  EXPECT_EQ(numbers(sums), (std::vector<double>{9, 0, 16, 6, 0}));
  const std::string rows = "[[3, 1, 4, 1], [], [5, 9], [2]]";
  is(ls::RaggedTensor::from_row_lengths({3, 1, 4, 1, 5, 9, 2}, {4, 0, 2, 1}), rows);
  is(ls::RaggedTensor::from_row_splits({3, 1, 4, 1, 5, 9, 2}, {0, 4, 4, 6, 7}), rows);
  is(ls::RaggedTensor::from_value_rowids({3, 1, 4, 1, 5, 9, 2}, {0, 0, 0, 0, 2, 2, 3}), rows);
  is(ls::RaggedTensor::from_row_splits(ls::RaggedTensor::from_row_splits({3, 1}, {0, 2}), {0, 1, 1}), "[[[3, 1]], []]");
  const auto y = ls::ragged::constant({{1.0, 2.0}, {3.0}});
  is(ls::ops::where(y > 1.5, y, y * 10), "[[10.0, 2.0], [3.0]]");
  is(ls::ops::where(y > 1.5, y, 0), "[[0.0, 2.0], [3.0]]");
  is(ls::ops::where(y > 1.5, ls::constant(7.0), y), "[[1.0, 7.0], [7.0]]");
  is(ls::ops::where(y > 1.5, 1, 0), "[[0, 1], [1]]");
}

}  // namespace lines_of_other_programs
