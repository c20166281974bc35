// Stateful random operations in functions, custom gradients, and lines of TensorFlow's and Keras's guides. The numbers
// are those of TensorFlow 2.20 and Keras 3.15, unless they follow from the lines.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/bases.h"
#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;

namespace {

namespace keras = ls::keras;
namespace layers = ls::layers;
namespace tf = ls::tf;
namespace ops = ls::ops;
namespace tf_random = ls::ops::random;
using ls::Tensor;
using ls::Variable;
using ls::data::Dataset;

Tensor all(const Dataset& dataset) {
  ls::Tensors elements;
  for (const auto& element : dataset) elements.push_back(element);
  return ops::stack(elements);
}
template <typename T>
std::string text_of(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

Tensor seeded() { return tf_random::uniform({}, {.seed = 9}); }

TEST(FunctionDraws, EachIteratorBeginsAtTheSeeds) {
  ls::random::set_seed(5);
  const auto dataset = Dataset::range(3).map([](const Tensor&) { return seeded(); });
  for (int epoch = 0; epoch < 2; ++epoch) expect_near(all(dataset), {0.8590066, 0.0586569, 0.5389643});
  // Two operations with one seed are two nodes.
  const auto both = Dataset::range(2).map([](const Tensor&) { return ops::stack({seeded(), seeded()}); });
  expect_near(all(both), {0.8590066, 0.8590066, 0.0586569, 0.0586569});
  expect_near(all(dataset.skip(1)), {0.0586569, 0.5389643});
  // Eager operations do not count those of functions.
  expect_near(seeded(), {0.8590066});
  expect_near(tf_random::uniform({}), {0.6263931});
}

TEST(FunctionDraws, WithoutASeedTheNumberInTheFunctionIsOne) {
  ls::random::set_seed(5);
  expect_near(all(Dataset::range(3).map([](const Tensor&) { return tf_random::uniform({}); })),
              {0.1828648, 0.6730766, 0.9363872});
  expect_near(all(Dataset::range(3).map([](const Tensor&) { return tf_random::normal({2})[0]; })),
              {-1.7138785, -0.2950869, 0.2259746});
  const auto function = ls::function([](const Tensor& x) { return x + tf_random::uniform({}); });
  expect_near(function(0.), {0.1828648});
  expect_near(function(0.), {0.6730766});
}

TEST(FunctionDraws, AnIteratorContinuesWhereItWas) {
  ls::random::set_seed(5);
  const auto dataset = Dataset::range(6).map([](const Tensor&) { return seeded(); }).shuffle(3, {.seed = 1});
  auto iterator = dataset.make_iterator();
  iterator.next();
  iterator.next();
  const ls::Json state = iterator.save_state();
  Numbers expected;
  while (const auto element = iterator.next()) expected.push_back(element->leaf().item<float>());
  auto other = dataset.make_iterator();
  other.restore_state(state);
  Numbers found;
  while (const auto element = other.next()) found.push_back(element->leaf().item<float>());
  EXPECT_EQ(found, expected);
}

class Noise : public keras::Layer {
 public:
  keras::Structure call(const keras::Structure& x) override {
    return x.leaf() + tf_random::normal(ops::shape(x.leaf())) * 0.1;
  }
};

TEST(FunctionDraws, LayersDrawInFit) {
  keras::utils::set_random_seed(11);
  const Tensor x = ops::reshape(ops::linspace(0., 1., 40), {10, 4}), y = ops::reduce_sum(x, 1, true);
  const keras::Sequential model({layers::Input({4}), layers::Dense(3), keras::make_layer<Noise>(), layers::Dense(1)});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  const auto history =
      model.fit(x, y, {.batch_size = 4, .epochs = 2, .verbose = 0, .validation_data = {x, y}, .shuffle = false});
  expect_near(Tensor(history["loss"]), {8.532959, 4.9012527}, 1e-5);
  expect_near(Tensor(history["val_loss"]), {5.0428162, 3.1372175}, 1e-5);
  EXPECT_NEAR(model.evaluate(x, y, {.verbose = 0})[0], 2.9956832, 1e-5);
  expect_near(model.predict(x, {.verbose = 0})[{0, 2}], {0.8008225, 0.66823095});
  expect_near(tf_random::uniform({}), {0.2506170});
}

// Numbers of TensorFlow 2.21, whose map_fn may compute its rows in any order.
TEST(FunctionDraws, ContinueInEachIterationOfALoop) {
  tf::random::set_seed(42);
  const auto map = tf::function([] {
    return tf::map_fn([](const Tensor&) { return tf::random::uniform({}, {.seed = 5}); }, tf::range(3)).leaf();
  });
  expect_near(Tensor(tf::sort(map())), {0.0262107, 0.2017497, 0.816749});
  expect_near(Tensor(tf::sort(map())), {0.049502, 0.220098, 0.3168156});
  const auto loop = tf::function([] {
    return tf::while_loop([](const Tensor& i, const Tensor&) { return i < 3; },
                          [](const Tensor& i, const Tensor& s) {
                            return std::pair{i + 1, s + tf::random::uniform({}, {.seed = 5})};
                          },
                          {0, 0.0})[1]
        .leaf();
  });
  expect_near(Tensor(loop()), {1.0447093});
  expect_near(Tensor(loop()), {0.5864156});
}

TEST(FunctionDraws, ContinueInEachIterationOverRows) {
  tf::random::set_seed(42);
  const auto seeded = tf::function([] {
    ls::List<Tensor> all;
    for (const Tensor& i : tf::range(3))
      all.append(tf::random::uniform({}, {.seed = 5}) + 0 * tf::cast(i, tf::float32));
    return tf::stack(all);
  });
  expect_near(seeded(), {0.02621067, 0.816749, 0.20174968});
  expect_near(seeded(), {0.22009802, 0.04950202, 0.3168156});
  tf::random::set_seed(42);
  const auto around = tf::function([] {
    ls::List<Tensor> all;
    all.append(tf::random::uniform({}));
    for (const Tensor& i : tf::range(3)) {
      all.append(tf::random::uniform({}) + tf::random::uniform({}));
      if (int(i) > 5) break;
    }
    all.append(tf::random::uniform({}));
    return tf::stack(all);
  });
  expect_near(around(), {0.83545911, 0.9855876, 0.57501686, 1.3192838, 0.15012848});
  expect_near(around(), {0.46399975, 0.849059, 0.97512996, 1.109396, 0.11101711});
  tf::random::set_seed(42);
  const auto nested = tf::function([] {
    Tensor s = 0.0F;
    for (const Tensor& i : tf::range(2)) {
      for (const Tensor& j : tf::range(2)) s = s * 10 + tf::random::uniform({}) + 0 * tf::cast(i + j, tf::float32);
    }
    return s;
  });
  expect_near(nested(), {891.7524}, 1e-6);
  expect_near(nested(), {157.44142}, 1e-6);
}

TEST(CustomGradients, SecondDerivativesAndSeveralArguments) {
  const auto log1pexp = ls::custom_gradient([](const Tensor& x) {
    const Tensor e = ops::exp(x);
    return std::pair(ops::log(1 + e), [e](const Tensor& dy) { return dy * (1 - 1 / (1 + e)); });
  });
  const Variable x(0.7);
  ls::GradientTape outer, inner;
  const Tensor y = log1pexp(x);
  const Tensor first = inner.gradient(y, x);
  expect_near(first, {0.6681878});
  expect_near(outer.gradient(first, x), {0.2217129});
  const auto pair = ls::custom_gradient([](const Tensor& a, const Tensor& b) {
    return std::pair(std::pair(a * b, a + b),
                     [=](const Tensor& da, const Tensor& db) { return std::pair(da * b * 2.0 + db, da * a + db); });
  });
  const Variable a(2.0), b(5.0);
  ls::GradientTape tape;
  const auto [product, sum] = pair(a, b);
  const auto [da, db] = tape.gradient(product, {a, b});
  expect_near(ops::stack({Tensor(product), Tensor(sum), da, db}), {10, 7, 10, 2});
}

class Clipped : public ls::Module {
 public:
  Variable v = track("v", Variable(3.0));
  ls::Function f = track(
      "f", ls::function(
               [this](const Tensor& x, const Tensor& y) {
                 const auto product = ls::custom_gradient([this](const Tensor& x, const Tensor& y) {
                   const Tensor e = ops::exp(x);
                   return std::pair(x * y, [this, e](const Tensor& dy) { return std::pair(dy * e * v, dy * 2.0); });
                 });
                 return product(x, y);
               },
               {.input_signature = {ls::TensorSpec({}, ls::float32, "x"), ls::TensorSpec({}, ls::float32, "y")}}));
};

TEST(CustomGradients, SavedModelsKeepThem) {
  const std::string folder = testing::TempDir() + "custom_gradient";
  for (const bool kept : {true, false}) {
    ls::saved_model::save(Clipped(), folder, {.options = {.experimental_custom_gradients = kept}});
    const auto loaded = ls::saved_model::load(folder);
    const Variable x(1.0), y(5.0);
    ls::GradientTape tape;
    const Tensor z = loaded.call("f", {x.value(), y.value()});
    if (kept) {
      const auto [dx, dy] = tape.gradient(z, {x, y});
      expect_near(ops::stack({z, dx, dy}), {5, 8.1548455, 2}, 1e-5);
    } else {
      EXPECT_THROW(tape.gradient(z, x), ls::errors::FailedPreconditionError);
    }
    std::filesystem::remove_all(folder);
  }
}

TEST(CustomGradients, FrozenAndWatchedVariablesHaveGradients) {
  const Variable frozen(2.0, {.trainable = false});
  ls::GradientTape tape;
  tape.watch(frozen);
  expect_near(tape.gradient(frozen * 3.0, frozen), {3});
  const auto dense = layers::Dense(1, {.kernel_initializer = "ones"});
  dense(ops::ones({1, 2}));
  dense.set_trainable(false);
  ls::GradientTape other;
  const Tensor loss = ops::reduce_sum(dense(Tensor{{3., 4.}}));
  expect_near(other.gradient(loss, dense.kernel()), {3, 4});
  const Variable x(3.0);
  ls::GradientTape third;
  EXPECT_FALSE(third.gradient(ops::square(x).numpy() * 1.0, x).defined());
}

TEST(GuideLines, PartsOfOneTextAreItsWords) {
  const auto parts = ls::strings::split(ls::constant("photos/roses/1.jpg"), "/");
  const Tensor class_names{"daisy", "roses"};
  EXPECT_EQ(parts.size(), 3U);
  EXPECT_EQ(numbers(ops::argmax(parts[-2] == class_names)), (Numbers{1}));
  const auto texts = ls::strings::split(Tensor{"a b", "c"});
  EXPECT_EQ(std::string(texts[0][1]), "b");
  EXPECT_EQ(text_of(ls::strings::ngrams(texts, 2)), "<tf.RaggedTensor [[b'a b'], []]>");
  EXPECT_EQ(text_of(ls::strings::reduce_join(texts, {.axis = -1, .separator = "-"})),
            "tf.Tensor([b'a-b' b'c'], shape=(2,), dtype=string)");
  const auto lengths = ls::strings::length(texts);
  EXPECT_EQ(numbers(ops::reduce_sum(lengths)), (Numbers{3}));
  EXPECT_EQ(numbers(ops::reduce_sum(lengths, {.axis = 1})), (Numbers{2, 1}));
  EXPECT_EQ(numbers(ops::size(lengths)), (Numbers{3}));
}

TEST(GuideLines, PrintedAsInPython) {
  EXPECT_EQ(text_of(ls::constant({2.2, 3.3, 100.0}, ls::float16)),
            "tf.Tensor([  2.2   3.3 100. ], shape=(3,), dtype=float16)");
  EXPECT_EQ(text_of(ls::constant({2.2, 1000.5, 1e-3}, "bfloat16")),
            "tf.Tensor([2.20312 1000 0.000999451], shape=(3,), dtype=bfloat16)");
  EXPECT_EQ(text_of(ls::ragged::constant({{1.0 / 3, 2.}, {1e-7}}, ls::float64)),
            "<tf.RaggedTensor [[0.3333333333333333, 2.0], [1e-07]]>");
  const keras::Sequential model({layers::Input({3}), layers::Dense(2, {.name = "d"})}, {.name = "s"});
  EXPECT_EQ(text_of(model.input_shape()), "(None, 3)");
  EXPECT_EQ(text_of(model), "<Sequential name=s, built=True>");
  EXPECT_EQ(text_of(model.layers()[0]), "<Dense name=d, built=True>");
  EXPECT_EQ(text_of(keras::DTypePolicy("mixed_float16")), "<DTypePolicy \"mixed_float16\">");
}

TEST(GuideLines, ShapesOfDatasetsBuildASequential) {
  const auto rows = Dataset::from_generator(
      [] {
        return std::vector<ls::data::Element>{std::pair(Tensor{1, 2, 3}, Tensor(1.0f)),
                                              std::pair(Tensor{1, 2}, Tensor(0.0f))};
      },
      {.output_signature = {ls::TensorSpec({ls::None}, ls::int32), ls::TensorSpec({}, ls::float32)}});
  const keras::Sequential model({layers::Embedding(10, 4), layers::GlobalAveragePooling1D(), layers::Dense(1)});
  model.compile({.optimizer = "adam", .loss = "mse"});
  model.fit(rows.padded_batch(2).map([](const Tensor& x, const Tensor& y) { return std::pair(x, y * 2.0); }),
            {.verbose = 0});
  EXPECT_EQ(text_of(model.input_shape()), "(None, None)");
}

class Doubled : public keras::Model {
 public:
  keras::Structure call(const keras::Structure& x) override { return dense(x).leaf() * 2.0; }
  keras::LayerHandle dense = track("dense", layers::Dense(1, {.kernel_initializer = "ones"}));
};

keras::Model model_around_own_class() {
  const auto inputs = keras::Input({2});
  return keras::Model(inputs, keras::make_model<Doubled>()(inputs));
}

TEST(GuideLines, PartsOfOwnModelClassesLiveAsLongAsTheModel) {
  expect_near(model_around_own_class()(Tensor{{1., 2.}}), {6});
}

TEST(GuideLines, RebindingAndKeywords) {
  const keras::Sequential model({layers::Input({3}), layers::Dense(2)});
  auto predictions = model.predict(ops::ones({2, 3}), {.verbose = 0});
  predictions = ops::argmax(predictions, -1);
  EXPECT_EQ(predictions.shape(), ls::Shape({2}));
  Tensor a, b;
  std::tie(a, b) = ops::split(ops::range(4), 2);
  EXPECT_EQ(numbers(b), (Numbers{2, 3}));
  std::tie(a, b) = keras::Structure{ops::range(3), ops::range(1)};
  EXPECT_EQ(numbers(a), (Numbers{0, 1, 2}));
  Tensor text = ls::constant("Fizz");
  text += "Buzz";
  EXPECT_EQ(std::string(text + "!"), "FizzBuzz!");
  keras::Sequential later;
  later = keras::Sequential({layers::Dense(1)});
  keras::backend::clear_session();
  keras::Sequential first;
  first = keras::Sequential({layers::Dense(1)});
  EXPECT_EQ(first.name(), "sequential");
  const auto twice = ls::function([](const Tensor& x) { return x + x; });
  const auto of_texts = twice.get_concrete_function(ls::TensorSpec({}, ls::string));
  EXPECT_EQ(std::string(of_texts(ls::constant("a")).leaf()), "aa");
  expect_near(ops::gather(Tensor{{1., 2., 3.}, {4., 5., 6.}}, Tensor{{2}, {0}}, {.batch_dims = 1}), {3, 4});
  expect_near(ls::math::l2_normalize(Tensor{{1e-7, 3e-7}}, 1), {0.1, 0.3});
  const auto precision = keras::metrics::Precision({.thresholds = 0.4});
  precision->update_state(Tensor{1., 0.}, Tensor{0.5, 0.45});
  expect_near(precision->result(), {0.5});
  EXPECT_EQ(ls::list(Dataset::range(3).as_numpy_iterator()).size(), 3U);
  expect_near(ls::io::parse_tensor(ls::io::serialize_tensor(Tensor{1.5, 2.5}), ls::float32), {1.5, 2.5});
  const auto strategy = ls::distribute::OneDeviceStrategy("/cpu:0");
  expect_near(ls::distribute::get_strategy().reduce("SUM", Tensor{1., 2.}, 0), {3});
}

TEST(GuideLines, CheckpointsHaveTheirVariablesByName) {
  const ls::train::Checkpoint checkpoint({{"step", Variable(1)}, {"net", layers::Dense(1)}});
  checkpoint["step"].assign_add(1);
  EXPECT_EQ(int(checkpoint["step"]), 2);
  EXPECT_THROW(checkpoint["stop"], ls::errors::NotFoundError);
  EXPECT_THROW(checkpoint["net"], ls::errors::InvalidArgumentError);
  const auto [mean, variance] = ls::nn::moments(Tensor{{1., 3.}, {5., 7.}}, {.axes = {0}});
  expect_near(mean, {3, 5});
  expect_near(ls::math::cumprod(Tensor{2., 3.}), {2, 6});
  EXPECT_EQ((ls::nn::moments(Tensor{{1., 3.}}, {0, 1}).mean.shape()), ls::Shape());
  const keras::Sequential model({layers::Input({1}), layers::Dense(1)});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  const auto schedule = [](int epoch, double rate) { return epoch == 0 ? rate : rate / 2; };
  model.fit(
      ops::ones({2, 1}), ops::ones({2, 1}),
      {.epochs = 2, .verbose = 0, .callbacks = {keras::callbacks::LearningRateScheduler(schedule, {.verbose = 0})}});
  EXPECT_NEAR(model.optimizer().learning_rate(), 0.005, 1e-8);
}

TEST(GuideLines, SequenceExamples) {
  namespace train = ls::train;
  namespace io = ls::io;
  const auto floats = [](std::initializer_list<double> values) {
    return train::Feature({.float_list = train::FloatList({.value = values})});
  };
  const auto ints = [](std::initializer_list<std::int64_t> values) {
    return train::Feature({.int64_list = train::Int64List({.value = values})});
  };
  const train::SequenceExample example{
      .context = {.feature = {{"id", ints({7})},
                              {"tags", train::Feature({.bytes_list = train::BytesList({.value = {"a", "b"}})})}}},
      .feature_lists = {.feature_list = {{"x", {.feature = {floats({1, 2}), floats({3, 4})}}},
                                         {"w", {.feature = {ints({1}), ints({2, 3})}}}}}};
  const std::string bytes = example.SerializeToString();
  EXPECT_EQ(
      std::string(ls::io::encode_base64(ls::constant(bytes))),
      "Ch8KCwoCaWQSBRoDCgEHChAKBHRhZ3MSCAoGCgFhCgFiEjkKFAoBdxIPCgUaAwoBAQoGGgQKAgIDCiEKAXgSHAoMEgoKCAAAgD8AAABACgwS"
      "CgoIAABAQAAAgEA");
  train::SequenceExample filled;  // value by value, as with extend()
  filled.context.feature["id"].int64_list.value.push_back(7);
  filled.context.feature["tags"].bytes_list.value = {"a", "b"};
  filled.feature_lists.feature_list["x"].feature = {floats({1, 2}), floats({3, 4})};
  filled.feature_lists.feature_list["w"].feature = {ints({1}), ints({2, 3})};
  EXPECT_EQ(filled.context.feature["id"].WhichOneof(), "int64_list");
  EXPECT_EQ(filled.SerializeToString(), bytes);
  const io::FeatureDescription context = {{"id", io::FixedLenFeature({}, ls::int64)},
                                          {"tags", io::VarLenFeature(ls::string)}};
  const auto [found, steps] = io::parse_single_sequence_example(
      ls::constant(bytes), {.context_features = context,
                            .sequence_features = {{"x", io::FixedLenSequenceFeature({2}, ls::float32)},
                                                  {"w", io::VarLenFeature(ls::int64)}}});
  EXPECT_EQ(found["id"].item<int>(), 7);
  EXPECT_EQ(numbers(steps["x"]), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(numbers(steps["w"]["indices"]), (Numbers{0, 0, 1, 0, 1, 1}));
  const auto batch = io::parse_sequence_example(
      Tensor{bytes, bytes}, {.context_features = context,
                             .sequence_features = {{"x", io::FixedLenSequenceFeature({2}, ls::float32)},
                                                   {"w", io::RaggedFeature(ls::int64)}}});
  EXPECT_EQ(batch[1]["x"].shape(), ls::Shape({2, 2, 2}));
  EXPECT_EQ(ls::RaggedTensor(batch[1]["w"]).to_string(), "[[[1], [2, 3]], [[1], [2, 3]]]");
  EXPECT_EQ(numbers(batch[2]["x"]), (Numbers{2, 2}));

  const auto text = [](const train::Features& features) {
    return train::Example{.features = features}.SerializeToString();
  };
  const std::string both = text({.feature = {{"a", floats({1, 2, 3})}, {"r", ints({4, 5})}}}),
                    one = text({.feature = {{"a", floats({9})}}});
  const auto parsed = io::parse_example(
      Tensor{both, one},
      {{"a", io::FixedLenSequenceFeature({}, ls::float32, {.allow_missing = true, .default_value = -1.})},
       {"r", io::RaggedFeature(ls::int64)}});
  EXPECT_EQ(numbers(parsed["a"]), (Numbers{1, 2, 3, 9, -1, -1}));
  EXPECT_EQ(ls::RaggedTensor(parsed["r"]).to_string(), "[[4, 5], []]");
}

TEST(GuideLines, FunctionsOfMath) {
  const Tensor x{0.5, 1.5};
  expect_near(ls::math::log_sigmoid(x), {-0.4740770, -0.2014133});
  expect_near(ls::math::lbeta(x), {0.4515827}, 1e-5);
  expect_near(ls::math::erfcinv(x), {0.4769363, -0.4769363});
  expect_near(ls::math::cumulative_logsumexp(x), {0.5, 1.8132617});
  expect_near(ls::math::reciprocal_no_nan(Tensor{0., 4.}), {0, 0.25});
  EXPECT_EQ(numbers(ls::math::logical_xor(Tensor{true, true}, Tensor{true, false})), (Numbers{0, 1}));
  EXPECT_TRUE(bool(ls::math::is_non_decreasing(Tensor{1, 1, 2})));
  EXPECT_FALSE(bool(ls::math::is_strictly_increasing(Tensor{1, 1, 2})));
  EXPECT_EQ(numbers(ls::bitwise::bitwise_xor(Tensor{6, 5}, Tensor{3, 1})), (Numbers{5, 4}));
  EXPECT_EQ(numbers(ls::bitwise::left_shift(Tensor{1, 3}, Tensor{2, 1})), (Numbers{4, 6}));
}

}  // namespace
