// Lines of TensorFlow's tutorials, as they read in C++. Expected texts and numbers are those of TensorFlow and Keras.
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

namespace {

namespace ls = lockstep;
namespace keras = ls::keras;
namespace layers = ls::layers;
namespace ops = ls::ops;
using ls::Tensor;
using Texts = std::vector<std::string>;

template <typename T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// ---- classes without their own names ----

class ActorCritic : public keras::Model {
 public:
  explicit ActorCritic(int num_actions) {
    common = track("common", layers::Dense(8, {.activation = "relu"}));
    actor = track("actor", layers::Dense(num_actions));
    critic = track("critic", layers::Dense(1));
  }
  keras::Structure call(const keras::Structure& inputs, const keras::CallContext&) override {
    const auto x = common(inputs);
    return std::pair{actor(x), critic(x)};
  }
  keras::LayerHandle common, actor, critic;
};

class AddOne : public keras::Layer {
 public:
  keras::Structure call(const keras::Structure& inputs, const keras::CallContext&) override {
    return inputs.leaf() + 1.0;
  }
};

TEST(TutorialLines, ClassesTakeTheirNames) {
  ActorCritic model(2), second(3);
  EXPECT_EQ(model.impl()->class_name(), "ActorCritic");
  const std::string name = model.name();
  EXPECT_EQ(name.substr(0, 12), "actor_critic");
  EXPECT_NE(second.name(), name);
  const auto [logits, value] = model(ops::ones({3, 4}));
  EXPECT_EQ(logits.shape(), (ls::Shape{3, 2}));
  EXPECT_EQ(value.shape(), (ls::Shape{3, 1}));
  EXPECT_EQ(model.name(), name);
  EXPECT_EQ(model.weights().size(), 6u);

  const auto layer = keras::make_layer<AddOne>();
  EXPECT_EQ(float(layer(ops::ones({1}))), 2);
  EXPECT_EQ(layer->class_name(), "AddOne");
  EXPECT_EQ(layer.name().substr(0, 7), "add_one");
}

TEST(TutorialLines, ModelsAreAssignedLater) {
  keras::Model model;
  EXPECT_THROW((void)model(ops::ones({1, 3})), ls::errors::FailedPreconditionError);
  {
    ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
    const auto scope = strategy.scope();
    const auto x = keras::Input({3});
    model = keras::Model(x, layers::Dense(2)(x));
  }
  EXPECT_EQ(model(ops::ones({1, 3})).shape(), (ls::Shape{1, 2}));
}

TEST(TutorialLines, InputShapeBuildsASequential) {
  const keras::Sequential model({layers::Flatten({.input_shape = {28, 28}}), layers::Dense(10)});
  EXPECT_TRUE(model.built());
  EXPECT_EQ(model.count_params(), 7850);
  EXPECT_EQ(model.inputs()[0].shape(), (ls::Shape{ls::kUnknownDim, 28, 28}));
  const ls::Json config = model.get_config();
  EXPECT_EQ(config["layers"][0]["class_name"], "InputLayer");
  EXPECT_EQ(config["layers"][1]["class_name"], "Flatten");
  EXPECT_FALSE(config["layers"][1]["config"].contains("input_shape"));
  keras::Sequential added;
  added.add(layers::Conv2D(4, 3, {.activation = "relu", .input_shape = {8, 8, 1}}));
  added.add(layers::Flatten());
  EXPECT_EQ(added.layers().size(), 2u);
}

// ---- losses and metrics of a class's own, as keras.Model's documentation shows them ----

class OwnLoss : public keras::Model {
 public:
  keras::Structure call(const keras::Structure& inputs, const keras::CallContext&) override { return dense(inputs); }
  Tensor compute_loss(const keras::Structure& x, const keras::Structure& y, const keras::Structure& y_pred,
                      const keras::Structure&) const override {
    seen.update_state(ops::reduce_mean(ops::abs(x)));
    return ops::reduce_mean(ops::abs(y.leaf() - y_pred.leaf())) * 2.0;
  }
  keras::Results compute_metrics(const keras::Structure& x, const keras::Structure& y, const keras::Structure& y_pred,
                                 const keras::Structure& sample_weight) const override {
    auto results = Model::compute_metrics(x, y, y_pred, sample_weight);
    results.emplace_back("twice", 2 * double(results.at("mae")));
    return results;
  }
  std::vector<ls::metrics::MetricPtr> metrics() const override {
    auto all = Model::metrics();
    all.push_back(seen);
    return all;
  }
  keras::LayerHandle dense = track("dense", layers::Dense(1, {.kernel_initializer = "ones"}));
  ls::metrics::MetricPtr seen = ls::metrics::Mean({.name = "seen"});
};

TEST(TutorialLines, ClassesOverrideLossAndMetrics) {
  OwnLoss model;
  model.compile({.optimizer = ls::optimizers::SGD(0.1), .metrics = {"mae"}});
  const Tensor x = {{1.0}, {2.0}, {3.0}, {4.0}};
  auto history = model.fit(x, x * 2, {.batch_size = 2, .epochs = 2, .verbose = 0, .shuffle = false}).history;
  EXPECT_NEAR(history["loss"][0], 3.75, 1e-5);
  EXPECT_NEAR(history["loss"][1], 1.25, 1e-5);
  EXPECT_NEAR(history["mae"][1], 0.625, 1e-5);
  EXPECT_NEAR(history["seen"][1], 2.5, 1e-5);
  EXPECT_NEAR(history["twice"][0], 3.75, 1e-5);
  const auto results = model.evaluate(x, x * 2, {.batch_size = 2, .verbose = 0});
  EXPECT_NEAR(double(results.at("loss")), 2.8, 1e-5);
  EXPECT_NEAR(double(results.at("twice")), 2.8, 1e-5);
}

// ---- results of functions as structures ----

TEST(TutorialLines, PairsTuplesAndMapsAreStructures) {
  const Tensor x = {1.0, 2.0}, y = {3, 4};
  const keras::Structure pair = std::pair{x, y}, tuple = std::tuple{x, y, x},
                         map = std::map<std::string, Tensor>{{"b", x}, {"a", y}};
  EXPECT_EQ(pair.size(), 2u);
  EXPECT_EQ(tuple.parts<3>()[1].leaf().dtype(), ls::int32);
  EXPECT_EQ(map["a"].dtype(), ls::int32);
  const keras::Structure nested = {{"content", map}, {"style", std::vector<keras::Structure>{x, y}}};
  EXPECT_EQ(nested["style"][1].dtype(), ls::int32);
  const auto scale = [](const Tensor& image, const Tensor& label) {
    return std::make_pair(ops::cast(image, ls::float32) / 255, label);
  };
  const auto dataset = ls::data::Dataset::from_tensor_slices({ops::cast(ops::ones({4, 2}), ls::uint8), ops::range(4)});
  for (const auto& [image, label] : dataset.map(scale).batch(4)) {
    EXPECT_EQ(image.dtype(), ls::float32);
    EXPECT_EQ(label.shape(), (ls::Shape{4}));
  }
}

TEST(TutorialLines, StructuresArePrinted) {
  const Tensor x = {1, 2};
  const std::string text = "tf.Tensor([1 2], shape=(2,), dtype=int32)";
  EXPECT_EQ(printed(keras::Structure(x)), text);
  EXPECT_EQ(printed(keras::Structure({x, x})), "[" + ls::repr(x) + ", " + ls::repr(x) + "]");
  EXPECT_EQ(printed(keras::Structure({{"a", x}})), "{'a': " + ls::repr(x) + "}");
  EXPECT_EQ(printed(ls::distribute::PerReplica<Tensor>({x, x})),
            "PerReplica:{\n  0: " + text + ",\n  1: " + text + "\n}");
}

// ---- options ----

TEST(TutorialLines, NormalizationTakesOneAxis) {
  const Tensor x = {{1.0, 10.0}, {3.0, 30.0}};
  const auto each = layers::Normalization({.axis = -1}), all = layers::Normalization({.axis = std::nullopt}),
             both = layers::Normalization({.axis = {0, 1}, .input_shape = {2}});
  each.adapt(x);
  all.adapt(x);
  EXPECT_EQ(Tensor(each(x)).to_vector<float>(), (std::vector<float>{-1, -1, 1, 1}));
  EXPECT_EQ(each.weight("mean").value().to_vector<float>(), (std::vector<float>{2, 20}));
  EXPECT_EQ(float(all.weight("mean").value()), 11);
  EXPECT_EQ(both.get_config()["axis"], ls::Json::array({0, 1}));
}

TEST(TutorialLines, FirstArgumentsByName) {
  const auto flip = layers::RandomFlip({.mode = "horizontal", .seed = 3});
  EXPECT_EQ(flip.get_config()["mode"], "horizontal");
  EXPECT_EQ(layers::RandomFlip("vertical", {.seed = 3}).get_config()["mode"], "vertical");
  const std::string path = std::filesystem::path(::testing::TempDir()) / "ckpt_{epoch}.weights.h5";
  const Tensor x = ops::ones({4, 2}), y = ops::zeros({4, 1});
  keras::Sequential model({layers::Dense(1, {.input_shape = {2}})});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  model.fit(x, y,
            {.epochs = 2,
             .verbose = 0,
             .callbacks = {ls::callbacks::ModelCheckpoint({.filepath = path, .save_weights_only = true}),
                           ls::callbacks::ModelCheckpoint(path, {.save_weights_only = true})}});
  const auto last = std::filesystem::path(::testing::TempDir()) / "ckpt_2.weights.h5";
  EXPECT_TRUE(std::filesystem::exists(last));
  model.load_weights(last);
}

TEST(TutorialLines, StatesOfRecurrentLayers) {
  EXPECT_EQ(layers::GRU(4).get_initial_state(2)[0].shape(), (ls::Shape{2, 4}));
  EXPECT_EQ(layers::LSTM(4).get_initial_state(2).size(), 2u);
  EXPECT_THROW((void)layers::Dense(4).get_initial_state(2), ls::errors::InvalidArgumentError);
}

// ---- iterators, values of replicas ----

TEST(TutorialLines, IteratorsByHand) {
  const auto dataset = ls::data::Dataset::range(3);
  auto iterator = iter(dataset);
  EXPECT_EQ(int(next(iterator)), 0);
  EXPECT_EQ(int(next(iterator)), 1);
  EXPECT_EQ(int(next(iterator)), 2);
  EXPECT_THROW((void)next(iterator), ls::errors::OutOfRangeError);

  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto distributed = strategy.experimental_distribute_dataset(ls::data::Dataset::range(8).batch(4));
  auto steps = iter(distributed);
  const auto first = next(steps);
  EXPECT_EQ(Tensor(first[1]).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3}));
  const auto second = steps.get_next_as_optional();
  ASSERT_TRUE(second.has_value());
  const auto sums = strategy.run([](const Tensor& x) { return ops::reduce_sum(x); }, second.get_value());
  EXPECT_EQ(int(strategy.reduce(ls::distribute::ReduceOp::kSum, sums)), 22);
  EXPECT_FALSE(steps.get_next_as_optional().has_value());
  EXPECT_THROW((void)next(steps), ls::errors::OutOfRangeError);
}

TEST(TutorialLines, ValuesOfReplicas) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto values =
      strategy.experimental_distribute_values_from_function([](const ls::distribute::ValueContext& context) {
        return ls::constant(10.0 * context.replica_id_in_sync_group + context.num_replicas_in_sync);
      });
  const auto doubled = strategy.run([](const Tensor& x) { return x * 2; }, values);
  EXPECT_EQ(float(doubled[0]), 4);
  EXPECT_EQ(float(doubled[1]), 24);
}

// ---- strings, descriptions ----

TEST(TutorialLines, TextsInCharacters) {
  const Tensor chars = ls::strings::unicode_split("h\xc3\xa9\xe6\xbc\xa2");
  EXPECT_EQ(chars.string_values(), (Texts{"h", "\xc3\xa9", "\xe6\xbc\xa2"}));
  EXPECT_EQ(ls::strings::reduce_join(chars).string_values()[0], "h\xc3\xa9\xe6\xbc\xa2");
  EXPECT_EQ(ls::strings::reduce_join({{"a", "b"}, {"c", "d"}}, -1, false, "-").string_values(), (Texts{"a-b", "c-d"}));
  EXPECT_EQ(ls::strings::unicode_split({"ab", ""}), (std::vector<Texts>{{"a", "b"}, {}}));
  EXPECT_EQ(ls::strings::bytes_split({"\xc3\xa9"}), (std::vector<Texts>{{"\xc3", "\xa9"}}));
  EXPECT_EQ(ls::strings::substr({"hello", "world"}, 1, 3).string_values(), (Texts{"ell", "orl"}));
  EXPECT_EQ(int(ls::strings::length(ls::constant("h\xc3\xa9"), "UTF8_CHAR")), 2);
  EXPECT_EQ(ls::strings::to_hash_bucket_fast({"Hello", "TensorFlow", "2.x"}, 3).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 2, 2}));
  EXPECT_EQ(ls::constant(Texts{"F", "G"}).shape(), (ls::Shape{2}));
}

TEST(TutorialLines, DescriptionsOfTensors) {
  const ls::TensorSpec spec({ls::kUnknownDim, 2}, ls::int32, "x");
  EXPECT_EQ(spec.dtype, ls::int32);
  EXPECT_EQ(ls::TensorSpec(ls::Shape{}).dtype, ls::float32);
  const auto dataset = ls::data::Dataset::from_tensor_slices(ops::ones({4, 2}));
  EXPECT_EQ(dataset.element_spec().leaf(), ls::TensorSpec(ls::Shape{2}));
}

}  // namespace
