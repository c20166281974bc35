// Objects of a program's own classes given as values, calls by name, dicts that are changed, and what is refused.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;
using ls::Tensor;

namespace values_and_dicts {

void expect_error(const std::string& text, const std::function<void()>& line) {
  EXPECT_NE(error_of(line).find(text), std::string::npos) << error_of(line);
}

class CountRows : public keras::metrics::Metric {
 public:
  CountRows() : Metric("rows") { total_ = add_variable({.shape = {}, .initializer = "zeros", .name = "total"}); }
  void update_state(const Tensor& y_true, const Tensor&, const Tensor&) override {
    total_.assign_add(static_cast<double>(y_true.dim(0)));
  }
  Tensor result() const override { return total_; }
  void reset_state() override { total_.assign(0.0); }

 private:
  ls::Variable total_;
};
class PlainDescent : public keras::optimizers::Optimizer {
 public:
  explicit PlainDescent(double rate) : Optimizer(ls::optimizers::CommonOptions{.learning_rate = rate}) {}
  void update_step(const Tensor& gradient, const ls::Variable& variable, const Tensor& learning_rate) override {
    assign_sub(variable, learning_rate * gradient);
  }
};
class Halving : public keras::optimizers::schedules::LearningRateSchedule {
 public:
  Tensor operator()(const Tensor& step) const override {
    return 0.5 * kops::power(ls::constant(0.5), kops::cast(step, "float32"));
  }
};
struct NoRate : keras::optimizers::schedules::LearningRateSchedule {};

keras::Sequential ones_model() {
  return keras::Sequential({keras::Input({1}), layers::Dense(1, {.use_bias = false, .kernel_initializer = "ones"})});
}

TEST(ValuesTest, MetricsOptimizersAndSchedulesOfOwnClasses) {
  const Tensor x = {{1.0}, {1.0}, {1.0}}, y = {{0.0}, {0.0}, {0.0}};
  auto model = ones_model();
  model.compile(PlainDescent(0.25), "mse", {.metrics = {CountRows()}});
  const auto history = model.fit(x, y, {.batch_size = 3, .epochs = 2, .verbose = 0});
  EXPECT_EQ(history["rows"][1], 3);
  EXPECT_EQ(numbers(model.get_weights()[0]), (Numbers{0.25}));  // 1 - 0.25 · 2, twice halved

  auto scheduled = ones_model();
  scheduled.compile(keras::optimizers::SGD(Halving()), "mse");
  scheduled.fit(x, y, {.batch_size = 3, .epochs = 1, .verbose = 0});
  EXPECT_EQ(numbers(scheduled.get_weights()[0]), (Numbers{0}));
  EXPECT_EQ(scheduled.optimizer().learning_rate(), 0.25F);
  const keras::optimizers::schedules::SchedulePtr schedule = Halving();
  EXPECT_EQ(numbers(schedule(ls::constant(2))), (Numbers{0.125}));
  const keras::metrics::MetricPtr metric = CountRows();
  metric.update_state(x, y);
  EXPECT_EQ(numbers(metric.result()), (Numbers{3}));
  expect_error("NoRate' requires an override", [&] {
    auto other = ones_model();
    other.compile(keras::optimizers::SGD(NoRate()), "mse");
    other.fit(x, y, {.verbose = 0});
  });
}

class Noisy : public layers::Layer {
 public:
  keras::Structure call(const keras::Structure& x, const keras::CallContext& context) override {
    if (context.training) return keras::random::dropout(x, {.rate = 0.5, .seed = seed_generator});
    return x;
  }
  keras::random::SeedGenerator seed_generator = track("seed_generator", keras::random::SeedGenerator(1337));
};

class FromConfig : public keras::Model {
 public:
  explicit FromConfig(const std::vector<std::int64_t>& units) : units_(units) {
    for (const std::int64_t n : units) layers_.push_back(layers::Dense(n));
    track("layers", layers_);
  }
  static std::shared_ptr<FromConfig> from_config(const ls::Json& config) {
    return std::make_shared<FromConfig>(config["units"].get<std::vector<std::int64_t>>());
  }
  keras::Structure call(const keras::Structure& inputs) override {
    Tensor x = inputs;
    for (const auto& layer : layers_) x = layer(x);
    return x;
  }
  ls::Json get_config() const override {
    auto config = Model::get_config();
    config["units"] = units_;
    return config;
  }

 private:
  std::vector<std::int64_t> units_;
  std::vector<keras::LayerHandle> layers_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(FromConfig, "ValuesAndDicts");

TEST(ValuesTest, LayersAndModels) {
  const Tensor x = ls::ops::ones({2, 3, 4});
  const auto attention = layers::MultiHeadAttention({.num_heads = 2, .key_dim = 3});
  const Tensor by_position = attention(x, x);
  EXPECT_EQ(numbers(attention({.query = x, .value = x})), numbers(by_position));
  EXPECT_EQ(numbers(attention(x, {.value = x})), numbers(by_position));
  EXPECT_EQ(attention.class_name(), "MultiHeadAttention");
  EXPECT_EQ(attention.compute_dtype(), ls::float32);
  const auto relu = keras::activations::get("relu");
  EXPECT_EQ(numbers(relu(ls::constant({-1.0, 2.0}))), (Numbers{0, 2}));

  const auto noisy = keras::make_layer<Noisy>();
  EXPECT_EQ(noisy.variables().size(), 1U);
  EXPECT_TRUE(noisy.weights().empty());
  EXPECT_NE(numbers(noisy(x, {.training = true})), numbers(noisy(x, {.training = true})));

  FromConfig model({3, 2});
  const Tensor before = model(ls::ops::ones({1, 4}));
  const std::string file = ::testing::TempDir() + "/values_and_dicts.keras";
  model.save(file);
  const keras::Model again = keras::load_model(file);
  EXPECT_EQ(numbers(again(ls::ops::ones({1, 4}))), numbers(before));
  EXPECT_EQ(again.get_config()["units"][1].get<int>(), 2);

  std::string printed;
  ones_model().summary({.line_length = 80, .print_fn = [&](const std::string& text) { printed += text; }});
  EXPECT_NE(printed.find("Total params: 1"), std::string::npos);
  EXPECT_EQ(keras::regularizers::L1L2({.l1 = 1.0, .l2 = 2.0})(ls::constant({-3.0})).item<float>(), 21);
  const layers::DropoutOptions options{.noise_shape = {2, 1}};
  EXPECT_EQ(*options.noise_shape, (std::vector<std::int64_t>{2, 1}));
}

TEST(DictsTest, AreChangedAsInPython) {
  keras::Structure features = {{"a", ls::constant({1.0})}, {"b", ls::constant({2.0})}};
  features["c"] = features["a"] + features["b"];
  features["a"] = features["a"] * 10.0;
  EXPECT_EQ(numbers(features["c"]), (Numbers{3}));
  EXPECT_EQ(numbers(features.pop("a")), (Numbers{10}));
  EXPECT_EQ(features.size(), 2U);
  features.update({{"b", ls::constant({7.0})}, {"d", ls::constant({8.0})}});
  EXPECT_EQ(numbers(features["b"]), (Numbers{7}));
  EXPECT_EQ(features.size(), 3U);
  keras::Structure made;
  made["x"] = ls::constant({1.0});
  EXPECT_TRUE(made.is_dict());
  expect_error("the dict has no key 'zz'", [&] { kops::sum(features["zz"]); });
  expect_error("the dict has no key 'zz'", [&] { const keras::Structure copy = features["zz"]; });
  expect_error("the dict has no key 'y'", [&] { layers::add({made["x"], made["y"], made["z"]}); });
  EXPECT_EQ(made.size(), 1U);
  EXPECT_EQ(ls::len(ls::data::Dataset::range(10).batch(3)), 4);
  expect_error("is infinite", [] { ls::len(ls::data::Dataset::range(3).repeat()); });
}

// Before, output q was trained with the targets of p.
TEST(DictsTest, AnOutputWithALossRequiresATarget) {
  const auto input = keras::Input({1});
  keras::Model model(input, {{"p", layers::Dense(1)(input)}, {"q", layers::Dense(1)(input)}});
  model.compile({.optimizer = "sgd", .loss = {{"p", "mse"}, {"q", "mse"}}});
  const Tensor x = {{1.0}, {2.0}};
  expect_error("the loss of output 'q' requires a target", [&] { model.fit(x, {{"p", x}}, {.verbose = 0}); });
}

TEST(DictsTest, AnElementOfADatasetMustBeABatch) {
  auto model = ones_model();
  model.compile("sgd", "mse");
  const auto rows = ls::data::Dataset::from_tensor_slices({ls::ops::ones({3, 2, 1}), ls::ops::ones({3, 1})});
  expect_error("must be batches", [&] { model.fit(rows, {.verbose = 0}); });
}

class NamedModel : public keras::Model {
 public:
  explicit NamedModel(const std::string& name) : Model({.name = name}) {}
  keras::Structure call(const keras::Structure& x) override { return out(x); }
  keras::LayerHandle out = track("out", layers::Dense(3, {.activation = std::nullopt}));
};

class FromOptions : public keras::Model {
 public:
  explicit FromOptions(const keras::LayerOptions& options) : Model(options) {}
  keras::Structure call(const keras::Structure& x) override { return x; }
};

TEST(ValuesAndDicts, ModelsByName) {
  NamedModel named("reader");
  EXPECT_EQ(named.name(), "reader");
  EXPECT_EQ(named(ls::ops::ones({2, 4})).leaf().shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(FromOptions({.name = "of_options"}).name(), "of_options");
  const auto x = layers::Input({4});
  const auto y = layers::Dense(2)(x);
  EXPECT_EQ(keras::Model({.inputs = x, .outputs = y, .name = "both"}).name(), "both");
  EXPECT_EQ(keras::Model({.inputs = {x}, .outputs = {{"y", y}}}).outputs().size(), 1u);
  expect_error("Model requires inputs and outputs", [&] { keras::Model({.inputs = x, .name = "half"}); });
}

TEST(ValuesAndDicts, StructuresOfOneTensor) {
  const keras::Structure numbers = ls::ops::constant({{1.0, 5.0}, {3.0, -1.0}});
  std::vector<float> sums;
  for (const auto& row : numbers) sums.push_back(float(row.sum()));
  EXPECT_EQ(sums, (std::vector<float>{6, 2}));
  EXPECT_EQ(float(numbers.sum()), 8);
  EXPECT_EQ(float(numbers.max()), 5);
  EXPECT_EQ(float(numbers.min()), -1);
  EXPECT_FLOAT_EQ(float(numbers.std()), 2.236068f);
  EXPECT_EQ(numbers.argmin(1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(numbers.astype("int32").dtype(), ls::int32);
  const keras::Structure list{ls::ops::ones({2}), ls::ops::ones({3})};
  std::size_t parts = 0;
  for (const auto& part : list) parts += static_cast<std::size_t>(part.leaf().dim(0));
  EXPECT_EQ(parts, 5u);
  expect_error("", [] {
    const keras::Structure dict{{"a", ls::ops::ones({2})}};
    for (const auto& part : dict) (void)part;
  });
}

TEST(ValuesAndDicts, ElementsAsNumpy) {
  const auto rows = ls::data::Dataset::from_tensor_slices(ls::ops::constant({1.0, 2.0, 3.0}));
  EXPECT_EQ(float(next(rows.as_numpy_iterator()).leaf()), 1);
  auto iterator = rows.as_numpy_iterator();
  next(iterator);
  std::vector<float> left;
  for (const auto& row : iterator) left.push_back(float(row.leaf()));
  EXPECT_EQ(left, (std::vector<float>{2, 3}));
}

TEST(ValuesAndDicts, NamesOfTypesNumbersOfItemsAndExtents) {
  const Tensor x = ls::ops::ones({2, 3, 4});
  EXPECT_TRUE(x.dtype() == "float32");
  EXPECT_TRUE(x.dtype() != "float16");
  EXPECT_FALSE(x.dtype() == "no type");
  const auto [batch, height, width] = x.shape().parts<3>();
  EXPECT_EQ(batch * 100 + height * 10 + width, 234);
  expect_error("has rank 3, expected 4", [&] { x.shape().parts<4>(); });
  const std::vector<std::string> words = {"a", "b", "c"};
  EXPECT_EQ(ls::len(words), 3);
  std::int64_t sum = 0;
  for (const auto& [i, word] : ls::enumerate(words)) sum += i * static_cast<std::int64_t>(word.size());
  for (const auto& [i, row] : ls::enumerate(x, 1)) sum += i * row.num_elements();
  EXPECT_EQ(sum, 0 + 1 + 2 + 12 + 24);
  EXPECT_EQ(ls::optimizers::Adam().class_name(), "Adam");
}

TEST(ValuesAndDicts, PlacesOfEveryIntegerType) {
  const Tensor table = ls::ops::range(0, 300);
  for (const auto dtype : {ls::uint8, ls::int16, ls::int64}) {
    const Tensor places = ls::ops::cast(ls::ops::constant({3, 0, 127}), dtype);
    EXPECT_EQ(table[places].to_vector<std::int32_t>(), (std::vector<std::int32_t>{3, 0, 127})) << dtype;
  }
  EXPECT_EQ(table[ls::ops::constant({-1, 2})].to_vector<std::int32_t>(), (std::vector<std::int32_t>{299, 2}));
}

TEST(ValuesAndDicts, AnActivationIsReplaced) {
  const keras::Sequential model({keras::Input({3}), layers::Dense(4, {.activation = "relu"}),
                                 layers::Dense(2, {.activation = "softmax"}), layers::Activation("tanh")});
  const Tensor x = ls::ops::ones({1, 3});
  const Tensor before = model.predict(x, {.verbose = 0});
  EXPECT_NEAR(float(ls::ops::reduce_sum(ls::ops::math::atanh(before))), 1, 1e-6);
  model.layers().back().set_activation("linear");
  EXPECT_NEAR(float(model.predict(x, {.verbose = 0}).sum()), 1, 1e-6);
  model.layers()[1].set_activation(ls::None);
  const Tensor logits = model.predict(x, {.verbose = 0});
  EXPECT_NEAR(float(ls::ops::reduce_max(ls::ops::abs(ls::ops::softmax(logits) - ls::ops::math::atanh(before)))), 0,
              1e-6);
  EXPECT_TRUE(model.layers()[1].get_config()["activation"] == "linear");
  expect_error("its activation cannot be replaced", [] { layers::Flatten().set_activation("relu"); });
}

TEST(ValuesAndDicts, NoneInSlicesAndKeywordsAlone) {
  const Tensor x = ls::ops::range(0, 6);
  EXPECT_EQ(x.index({ls::all, ls::None}).shape(), (ls::Shape{6, 1}));
  EXPECT_EQ((x[{-2, ls::None}].to_vector<std::int32_t>()), (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ((x.index({{ls::None, 2}}).to_vector<std::int32_t>()), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(ls::image::resize(ls::ops::ones({1, 4, 4, 3}), {.size = {8, 6}}).shape(), (ls::Shape{1, 8, 6, 3}));
  EXPECT_EQ(ls::image::resize(ls::ops::ones({1, 4, 4, 3}), {8, 6}, {.method = "nearest"}).shape(),
            (ls::Shape{1, 8, 6, 3}));
}

TEST(ValuesAndDicts, DistributedElementsByNameAndOperationsByWord) {
  ls::distribute::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto rows = ls::data::Dataset::from_tensor_slices({{"a", ls::ops::range(0, 4)}, {"b", ls::ops::ones({4})}});
  for (const auto& batch : strategy.experimental_distribute_dataset(rows.batch(4))) {
    EXPECT_EQ(strategy.reduce("mean", batch["a"], {.axis = 0}).leaf().item<double>(), 1.5);
    const auto sums = strategy.run(
        [](const keras::Structure& part) {
          return ls::distribute::get_replica_context()->all_reduce("sum", ls::ops::reduce_sum(part["a"]));
        },
        batch);
    EXPECT_EQ(sums[0].item<std::int32_t>(), 6);
    EXPECT_EQ(strategy.reduce("SUM", sums, {.axis = ls::None}).item<std::int32_t>(), 12);
  }
}

}  // namespace values_and_dicts
