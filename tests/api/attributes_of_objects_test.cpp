// Attributes of layers, models and optimizers, forms of variables and functions: values of TensorFlow 2.21 and Keras
// 3.15.
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/collectives/thread_group_internal.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::layers;
namespace tf = lockstep::tf;
using ls::Tensor;
using ls::Variable;
using testing::HasSubstr;

namespace attributes_of_objects {

using Texts = std::vector<std::string>;

keras::Sequential small_model() {
  keras::Sequential model({keras::Input({3}), layers::Dense(2, {.kernel_initializer = "ones", .name = "d"})});
  model.compile("sgd", "mse", {.metrics = {"mae", "acc"}});
  return model;
}

class Folder : public testing::Test {
 protected:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() override { std::filesystem::remove_all(path_); }
  std::string at(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = testing::TempDir() + "/attributes_of_objects";
};

using Signatures = Folder;

// "serving_default: inputs inputs_1".
Texts inputs_of(const std::string& path) {
  Texts all;
  for (const auto& [name, signature] : ls::saved_model::load(path).signatures()) {
    all.push_back(name + ":");
    for (const std::string& input : signature.input_names()) all.back() += " " + input;
  }
  return all;
}

TEST_F(Signatures, OfSavedModelSaveAndOfExport) {
  const keras::Sequential model = small_model();
  ls::saved_model::save(model, at("saved"));
  EXPECT_EQ(inputs_of(at("saved")), Texts{"serving_default: inputs"});
  model.export_(at("exported"), {.verbose = false});
  EXPECT_EQ(inputs_of(at("exported")), (Texts{"serve: keras_tensor", "serving_default: keras_tensor"}));
  model.export_(at("named"), {.input_signature = {ls::TensorSpec({ls::None, 3}, ls::float32, "features")}});
  EXPECT_EQ(inputs_of(at("named")), (Texts{"serve: features", "serving_default: features"}));
  EXPECT_THAT(error_of([&] { model.export_(at("other"), {.format = "onnx"}); }), HasSubstr("\"tf_saved_model\""));

  const auto a = keras::Input({3}, {.name = "a"}), b = keras::Input({2}, {.name = "b"});
  const keras::Model two({{"q", b}, {"p", a}}, layers::Concatenate()({a, b}));
  ls::saved_model::save(two, at("two"));
  EXPECT_EQ(inputs_of(at("two")), Texts{"serving_default: inputs inputs_1"});
  const auto loaded = ls::saved_model::load(at("two"));
  EXPECT_EQ(numbers(loaded.signatures("serving_default")(
                {{"inputs", tf::ones({1, 3})}, {"inputs_1", tf::zeros({1, 2})}})["output_0"]),
            (Numbers{1, 1, 1, 0, 0}));
}

TEST_F(Signatures, H5WithoutOptimizer) {
  const keras::Sequential model = small_model();
  model.fit(tf::ones({4, 3}), tf::ones({4, 2}), {.verbose = 0});
  model.save(at("with.h5"));
  model.save(at("without.h5"), {.include_optimizer = false});
  EXPECT_TRUE(keras::models::load_model(at("with.h5")).compiled());
  EXPECT_FALSE(keras::models::load_model(at("without.h5")).compiled());
  keras::Sequential other({keras::Input({3}), layers::Dense(2, {.name = "d"}), layers::Dense(1, {.name = "new"})});
  other.load_weights(at("with.h5"), {.by_name = true});
  EXPECT_EQ(numbers(other.layers()[0].kernel()), numbers(model.layers()[0].kernel()));
}

TEST(Results, OfReturnDictAreInAlphabeticalOrder) {
  const keras::Sequential model = small_model();
  const Tensor x = tf::ones({4, 3}), y = tf::ones({4, 2});
  const Texts sorted{"acc", "loss", "mae"};
  EXPECT_EQ(model.evaluate(x, y, {.verbose = 0, .return_dict = true}).keys(), sorted);
  EXPECT_EQ(model.train_on_batch(x, y, {.return_dict = true}).keys(), sorted);
  EXPECT_EQ(model.test_on_batch(x, y, {.return_dict = true}).keys(), sorted);
  EXPECT_EQ(model.evaluate(x, y, {.verbose = 0}).keys(), (Texts{"loss", "mae", "acc"}));
}

TEST(Attributes, OfLayersAndModels) {
  const keras::Sequential model({keras::Input({8, 8, 1}, {.name = "image"}),
                                 layers::Conv2D(4, 3, {.activation = "relu", .strides = 2, .padding = "same"}),
                                 layers::Flatten(), layers::Dropout(0.25), layers::Dense(3, {.name = "out"})});
  const keras::LayerHandle conv = model.layers()[0];
  EXPECT_EQ(conv.filters(), 4);
  EXPECT_EQ(conv.kernel_size(), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(conv.strides(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(conv.padding(), "same");
  EXPECT_TRUE(conv.use_bias());
  EXPECT_EQ(conv.activation().name(), "relu");
  EXPECT_EQ(numbers(conv.activation()(Tensor({-1.0, 2.0}))), (Numbers{0, 2}));
  EXPECT_EQ(model.layers()[2].rate(), 0.25);
  EXPECT_EQ(model.layers()[-1].units(), 3);
  EXPECT_TRUE(model.layers()[-1].supports_masking());
  EXPECT_THAT(error_of([&] { static_cast<void>(model.layers()[1].units()); }), HasSubstr("no argument 'units'"));
  EXPECT_EQ(model.inputs()[0].name(), "image");
  EXPECT_EQ(model.layers()[0].input().name(), "image");
  EXPECT_EQ(model.input_names(), Texts{"image"});
  EXPECT_EQ(model.output_names(), Texts{"out"});
  EXPECT_EQ(model.compute_output_shape({ls::None, 8, 8, 1}), ls::Shape({ls::None, 3}));
  EXPECT_EQ(model.dtype(), "float32");
  EXPECT_EQ(model.compute_dtype(), "float32");
  const keras::Sequential head(model.layers()[{0, -1}] + std::vector<keras::LayerHandle>{layers::Dense(5)});
  EXPECT_EQ(head.layers().size(), 4U);
}

class Encoder : public keras::Model {
 public:
  explicit Encoder(int units) : units(units), hidden(track("hidden", layers::Dense(units))) {}
  keras::Structure call(const keras::Structure& x) override { return hidden(x); }
  int units;
  keras::LayerHandle hidden;
};

TEST(Attributes, OfClassesOfModels) {
  const Encoder encoder(3);
  const keras::Model model = encoder;
  EXPECT_EQ(model.as<Encoder>().units, 3);
  EXPECT_EQ(model.class_name(), "Encoder");
  EXPECT_THAT(error_of([] { static_cast<void>(small_model().as<Encoder>()); }), HasSubstr("is a Sequential"));
  const keras::Sequential old({layers::Dense(4, {.activation = "relu", .input_dim = 12}), layers::Dense(1)});
  EXPECT_EQ(old.count_params(), 57);
}

TEST(Attributes, OfHistories) {
  const auto history = small_model().fit(tf::ones({4, 3}), tf::ones({4, 2}), {.verbose = 0}).history;
  EXPECT_TRUE(history.contains("mae"));
  EXPECT_FALSE(history.contains("val_mae"));
  EXPECT_EQ(history.get("val_mae").size(), 0U);
  EXPECT_EQ(history.get("loss").size(), 1U);
}

TEST(Attributes, OfOptimizersAreAssigned) {
  keras::Sequential model = small_model();
  const auto optimizer = model.optimizer();
  optimizer.learning_rate().assign(0.25);
  EXPECT_EQ(optimizer.learning_rate(), 0.25F);
  EXPECT_EQ(numbers(optimizer.learning_rate().numpy()), Numbers{0.25});
  keras::backend::set_value(optimizer.learning_rate(), optimizer.learning_rate() * 0.5);
  EXPECT_EQ(numbers(keras::backend::get_value(optimizer.learning_rate())), Numbers{0.125});
  EXPECT_EQ(numbers(optimizer.learning_rate() * Tensor({2.0, 4.0})), (Numbers{0.25, 0.5}));
  optimizer.iterations().assign(7);
  EXPECT_EQ(optimizer.iterations(), 7);
  model.fit(tf::ones({4, 3}), tf::ones({4, 2}), {.verbose = 0});
  EXPECT_EQ(int(optimizer.iterations().numpy()), 8);
  keras::Logs logs;
  logs["lr"] = optimizer.learning_rate();
  EXPECT_EQ(double(logs["lr"]), 0.125);
  const auto copy = optimizer.from_config({{"name", "copy"}, {"learning_rate", 0.5}});
  EXPECT_EQ(copy.class_name(), "SGD");
  EXPECT_EQ(copy.learning_rate(), 0.5F);
  const auto scheduled = keras::optimizers::SGD(keras::optimizers::schedules::ExponentialDecay(0.1, 10, 0.5));
  EXPECT_THAT(error_of([&] { scheduled.learning_rate().assign(0.1); }), HasSubstr("learning rate"));
}

class F1 : public keras::metrics::Metric {
 public:
  F1() : Metric("f1") {}
  void update_state(const Tensor& y, const Tensor& p, const Tensor& w) override {
    precision.update_state(y, p, w);
    recall.update_state(y, p, w);
  }
  Tensor result() const override {
    const Tensor a = precision.result(), b = recall.result();
    return 2 * a * b / (a + b);
  }
  keras::metrics::MetricPtr precision = track("precision", keras::metrics::Precision());
  keras::metrics::MetricPtr recall = track("recall", keras::metrics::Recall());
};

TEST(Metrics, OfMetricsHaveTheirVariables) {
  F1 metric;
  EXPECT_EQ(metric.variables().size(), 4U);
  metric.update_state(Tensor({1, 1, 0, 0}), Tensor({0.9, 0.2, 0.8, 0.1}), {});
  EXPECT_EQ(float(metric.result()), 0.5F);
  metric.reset_state();
  EXPECT_EQ(numbers(metric.variables()[0]), Numbers{0});
}

TEST(Variables, AreMadeOfLists) {
  EXPECT_EQ(Variable({{1.0, 2.0, 3.0}}).shape(), ls::Shape({1, 3}));
  EXPECT_EQ(Variable({{{0.5, 0.0, 0.0}}}).shape(), ls::Shape({1, 1, 3}));
  EXPECT_EQ(Variable({{1, 2}, {3, 4}}, {.name = "m"}).dtype(), ls::int32);
  EXPECT_EQ(numbers(Variable([] { return tf::ones({2}); })), (Numbers{1, 1}));
  Numbers rows;
  for (const Tensor& row : Variable({{1.0, 2.0}, {3.0, 4.0}})) rows.push_back(double(tf::reduce_sum(row)));
  EXPECT_EQ(rows, (Numbers{3, 7}));
  const Variable bounded({0.5, 2.0}, {.constraint = [](const Tensor& x) { return tf::clip_by_value(x, 0., 1.); }});
  keras::optimizers::SGD(1.0).apply_gradients(ls::zip({Tensor({0.25, 0.25})}, {bounded}));
  EXPECT_EQ(numbers(bounded), (Numbers{0.25, 1}));
  bounded.assign_sub(Tensor({0.25, 0.0}), {.read_value = false});
  EXPECT_EQ(numbers(bounded), (Numbers{0, 1}));
}

TEST(Logs, TakeVariablesAndGiveTensors) {
  const Variable weight(2.5);
  const keras::Results results = {{"loss", Tensor(1.5)}, {"weight", weight}, {"vector", Tensor({1.0, 2.0})}};
  EXPECT_EQ(double(results["weight"]), 2.5);
  EXPECT_EQ(numbers(Tensor(results["vector"])), (Numbers{1, 2}));
  EXPECT_EQ(Tensor(results["loss"]).shape(), ls::Shape({}));
}

TEST(Functions, WithPythonValues) {
  const ls::Function call = ls::function(
      [](const Tensor& x, bool training = false, double factor = 2.0) { return training ? x * factor : x; });
  const Tensor x({1.0, 2.0});
  EXPECT_EQ(numbers(call(x)), (Numbers{1, 2}));
  EXPECT_EQ(numbers(call(x, true)), (Numbers{2, 4}));
  EXPECT_EQ(numbers(call(x, true, 3.0)), (Numbers{3, 6}));
  EXPECT_THAT(error_of([&] { call(x, true, 3.0, 4.0); }), HasSubstr("found 4 arguments, expected 3"));
  EXPECT_EQ(call.concrete_functions().size(), 3U);
}

class Scaled : public ls::Module {
 public:
  Variable factor = track("factor", Variable(3.0));
  ls::Function call = track(
      "__call__", ls::function([this](const Tensor& x, bool training = false) { return training ? x : x * factor; }));
};

class Slots : public ls::Module {
 public:
  Slots() {
    std::map<std::string, std::vector<Variable>> all;
    for (const char* name : {"w", "b"})
      all[name] = {Variable(1.0, {.name = name}), Variable(2.0, {.trainable = false})};
    track("slots", all);
    track("pairs", std::vector<std::vector<Variable>>{{Variable(5.0)}, {Variable(6.0), Variable(7.0)}});
    track("named", std::map<std::string, Variable>{{"z", Variable(8.0)}, {"y", Variable(9.0)}});
  }
};

// As tf.Module.variables: attributes by name, dicts by key.
TEST(Modules, HaveVariablesOfListsInDicts) {
  const Slots module;
  Numbers values;
  for (const Variable& variable : module.variables()) values.push_back(double(float(variable)));
  EXPECT_EQ(values, (Numbers{9, 8, 5, 6, 7, 1, 2, 1, 2}));
  EXPECT_EQ(module.trainable_variables().size(), 7U);
}

TEST_F(Signatures, OfFunctionsWithPythonValues) {
  const Scaled module;
  module.call(tf::ones({2}), false);
  ls::saved_model::save(module, at("module"));
  EXPECT_EQ(numbers(ls::saved_model::load(at("module"))(Tensor({1.0, 2.0})).leaf()), (Numbers{3, 6}));
}

TEST(Tapes, JacobiansOfSeveralSources) {
  const Variable w({{1.0, 2.0}, {3.0, 4.0}}), b({0.5, 0.25}), other(1.0);
  const Tensor x({{1.0, -1.0}});
  ls::GradientTape tape;
  const Tensor y = tf::matmul(x, w) * b;
  const auto jacobians = tape.jacobian(y, std::vector<Variable>{w, b});
  EXPECT_EQ(jacobians[0].shape(), ls::Shape({1, 2, 2, 2}));
  EXPECT_EQ(numbers(jacobians[0]), (Numbers{0.5, 0, -0.5, 0, 0, 0.25, 0, -0.25}));
  EXPECT_EQ(numbers(jacobians[1]), (Numbers{-2, 0, 0, -2}));
  ls::GradientTape second;
  const Tensor z = tf::matmul(x, w);
  EXPECT_EQ(numbers(second.jacobian(z, other, {.unconnected_gradients = "zero"})), (Numbers{0, 0}));
}

TEST(ControlFlow, Keywords) {
  const Tensor x({3, 1, 2});
  EXPECT_EQ(numbers(ls::cond(x[0] > 2, {.true_fn = [&] { return x; }, .false_fn = [&] { return x * 2; }})),
            (Numbers{3, 1, 2}));
  const std::vector<ls::ops::Branch> branches{[] { return Tensor(10); }, [] { return Tensor(20); }};
  EXPECT_EQ(numbers(ls::switch_case(5, branches, {.default_fn = [] { return Tensor(30); }})), Numbers{30});
  EXPECT_EQ(numbers(ls::switch_case(5, branches)), Numbers{20});
  EXPECT_EQ(numbers(ls::map_fn([](const Tensor& t) { return t + 1; }, x, {.dtype = tf::int32})), (Numbers{4, 2, 3}));
  EXPECT_THAT(
      error_of([&] { ls::map_fn([](const Tensor& t) { return t + 1; }, x, {.fn_output_signature = tf::float32}); }),
      HasSubstr("a tensor of int32, expected float32"));
  EXPECT_EQ(numbers(ls::TensorArray(ls::float32, {.size = 2, .element_shape = {2}}).stack()), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(tf::argmax(tf::ones({2, 3}), 1, {.output_type = ls::int32}).dtype(), ls::int32);
  EXPECT_EQ(numbers(tf::math::top_k(Tensor({1.0, 3.0, 2.0})).values), Numbers{3});
}

// Loops over rows whose number is not known while the model is built, branches and loops whose conditions are not.
class Loops : public keras::Layer {
 public:
  Loops() : w(add_weight({.shape = {2, 2}, .initializer = "ones"})) {}
  keras::Structure call(const keras::Structure& inputs) override {
    const Tensor x = inputs;
    const Tensor y =
        tf::map_fn([this](const Tensor& row) { return tf::matmul(tf::expand_dims(row, 0), w)[0] * 2.0; }, x);
    const auto add = [](const Tensor& sum, const Tensor& row) { return sum + row; };
    const Tensor total = tf::scan(add, x, {.initializer = tf::zeros({2})});
    const Tensor last = tf::foldl(add, x, tf::zeros({2}));
    const Tensor z = tf::cond(
        tf::reduce_sum(x) > 10.0, [&] { return y * 10.0; }, [&] { return y; });
    const auto [i, v] = tf::while_loop([](const Tensor&, const Tensor& v) { return tf::reduce_sum(v) < 100.0; },
                                       [](const Tensor& i, const Tensor& v) {
                                         return std::pair{i + 1, v * 2.0};
                                       },
                                       {Tensor(0), x});
    return z + total + last + Tensor(v) + tf::cast(Tensor(i), tf::float32);
  }
  Variable w;
};

TEST_F(Signatures, OfLoopsAndBranches) {
  const auto inputs = keras::Input({2});
  const keras::Model model(inputs, keras::make_layer<Loops>()(inputs));
  EXPECT_EQ(model.output_shape(), ls::Shape({ls::None, 2}));
  const Tensor x({{1.0, 2.0}, {3.0, 4.0}, {0.5, 0.0}});
  const Numbers three{85.5, 104, 200.5, 220, 31, 26}, one{78, 144};
  EXPECT_EQ(numbers(model(x)), three);
  EXPECT_EQ(numbers(model(x[{0, 1}])), one);
  model.export_(at("loops"));
  const auto served = ls::saved_model::load(at("loops"));
  EXPECT_EQ(numbers(served.call("serve", x).leaf()), three);
  EXPECT_EQ(numbers(served.call("serve", x[{0, 1}]).leaf()), one);
}

TEST(ControlFlow, OfTheFunctionalApiIsCalledInLayers) {
  const auto inputs = keras::Input({2});
  EXPECT_THAT(error_of([&] { tf::map_fn([](const Tensor& row) { return row * 2.0; }, inputs); }),
              HasSubstr("call it in a layer"));
}

TEST(Datasets, RangesOfOtherDtypes) {
  Numbers out;
  for (const Tensor& x : ls::data::Dataset::range(1, 7, 2, {.output_type = ls::int32})) {
    EXPECT_EQ(x.dtype(), ls::int32);
    out.push_back(double(x));
  }
  EXPECT_EQ(out, (Numbers{1, 3, 5}));
  EXPECT_EQ(ls::data::Dataset::range(Tensor(4)).cardinality(), 4);
}

const std::vector<std::vector<Numbers>> kMeetings = {{{0.804303, 1.537469, 0.613627, 0.933488},
                                                      {0.733166, 1.537469, 0.475982, 0.645252},
                                                      {0.478939, 0.843509, 0.774369, 0.863997},
                                                      {0.364570, 0.843509, 0.577313, 0.430468},
                                                      {0.807168}},
                                                     {{0.399402, 0.865810, 0.296185, 0.177741},
                                                      {0.466408, 0.865810, 0.623070, 0.475737},
                                                      {0.569563, 1.100426, 0.426782, 0.960147},
                                                      {0.530863, 1.100426, 0.198337, 0.163810},
                                                      {0.631475}}};

// In a function the operations without a seed of the second replica follow those of the first one; with a seed they are
// equal. Outside of functions each device has its operations.
TEST(ReplicasDraw, NumbersOfTheirOwn) {
  tf::distribute::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  tf::random::set_seed(4);
  const auto draw = ls::function([&] { return strategy.run([] { return tf::random::uniform({2}); }).values(); });
  const auto first = draw(), second = draw();
  expect_near(first[0], {0.804303, 0.994395});
  expect_near(first[1], {0.733166, 0.383881});
  expect_near(second[0], {0.390801, 0.806975});
  expect_near(second[1], {0.613244, 0.417667});
  const auto seeded =
      ls::function([&] { return strategy.run([] { return tf::random::uniform({2}, {.seed = 2}); }).values(); });
  const auto equal = seeded();
  EXPECT_EQ(numbers(equal[0]), numbers(equal[1]));
  // Around a meeting of the replicas, and twice in one function.
  const auto meets = ls::function([&] {
    const auto run = [&] {
      return strategy.run([] {
        const Tensor before = tf::random::uniform({1});
        const Tensor sum = tf::distribute::get_replica_context()->all_reduce("SUM", before);
        return tf::stack({before[0], sum[0], tf::random::uniform({1})[0], tf::random::uniform({1})[0]});
      });
    };
    const auto a = run(), b = run();
    return std::vector<Tensor>{a[0], a[1], b[0], b[1], tf::random::uniform({1})};
  });
  for (int call = 0; call < 2; ++call) {
    const auto results = meets();
    for (std::size_t i = 0; i < results.size(); ++i) expect_near(results[i], kMeetings[call][i]);
  }
  const auto eager = strategy.run([] { return tf::random::uniform({2}, {.seed = 2}); });
  EXPECT_EQ(numbers(eager[0]), numbers(eager[1]));
}

// TensorFlow: the sum over replicas of the gradients of what all of them gathered, each its own rows.
TEST(Replicas, GradientsThroughAllGather) {
  tf::distribute::MirroredStrategy strategy({"cpu:0", "cpu:1"});
  Variable v;
  {
    const auto scope = strategy.scope();
    v = Variable({1.0, 2.0});
  }
  const auto gradient = strategy.run([&] {
    const auto context = tf::distribute::get_replica_context();
    const Tensor k = context->replica_id_in_sync_group() + 1.0;
    ls::GradientTape tape;
    const Tensor x = v * k;
    const Tensor z =
        tf::reduce_sum(tf::pow(context->all_gather(tf::expand_dims(x, 0), 0), 2) * Tensor({{1.0, 2.0}})) * k;
    return tape.gradient(z, v);
  });
  EXPECT_EQ(numbers(gradient[0]), (Numbers{6, 24}));
  EXPECT_EQ(numbers(gradient[1]), (Numbers{24, 96}));
  const auto uneven = strategy.run([&] {
    const auto context = tf::distribute::get_replica_context();
    const int i = context->replica_id_in_sync_group();
    ls::GradientTape tape;
    const Tensor x = v * (i + 1.0);
    const Tensor gathered = context->all_gather(tf::tile(tf::expand_dims(x, 0), {i + 1, 1}), 0);
    const Tensor z = tf::reduce_sum(tf::pow(gathered, 2) * tf::reshape(tf::range(6.0), {3, 2}));
    return tape.gradient(z, v);
  });
  EXPECT_EQ(numbers(uneven[0]), (Numbers{0, 8}));
  EXPECT_EQ(numbers(uneven[1]), (Numbers{96, 256}));
}

TEST_F(Folder, WorkersRestoreTheirSharesOfASum) {
  const auto run = [&](const std::function<void(const Variable&, ls::train::Checkpoint&)>& use) {
    ls::collectives::run_ranks(2, [&](ls::collectives::Communicator& group) {
      tf::distribute::MultiWorkerMirroredStrategy strategy(
          ls::collectives::CommunicatorPtr(ls::collectives::CommunicatorPtr(), &group));
      const auto scope = strategy.scope();
      const Variable total(
          0.0, {.synchronization = tf::VariableSynchronization::ON_READ, .aggregation = tf::VariableAggregation::SUM});
      ls::train::Checkpoint checkpoint({{"total", total}});
      use(total, checkpoint);
    });
  };
  run([&](const Variable& total, ls::train::Checkpoint& checkpoint) {
    total.assign(8.0);
    checkpoint.write(at("ckpt"));
    checkpoint.read(at("ckpt"));
    EXPECT_EQ(float(total), 8.0F);
  });
  run([&](const Variable& total, ls::train::Checkpoint& checkpoint) {
    checkpoint.read(at("ckpt"));
    EXPECT_EQ(float(total), 8.0F);
  });
}

TEST(Replicas, ResultsOfOneReplicaAreTensors) {
  tf::distribute::OneDeviceStrategy one("cpu:0");
  const auto loss = one.run([] { return Tensor(1.5); });
  EXPECT_EQ(float(loss + 1), 2.5F);
  EXPECT_EQ(float(tf::reduce_sum(loss)), 1.5F);
  EXPECT_EQ(numbers(loss.numpy()), Numbers{1.5});
  tf::distribute::MirroredStrategy two({"cpu:0", "cpu:1"});
  const auto losses = two.run([] { return Tensor(1.5); });
  EXPECT_THAT(error_of([&] { static_cast<void>(Tensor(losses)); }), HasSubstr("reduce"));
  Variable v;
  {
    const auto scope = two.scope();
    v = Variable(2.0);
  }
  EXPECT_EQ(two.experimental_local_results(v).size(), 2U);
  EXPECT_EQ(two.experimental_local_results(3.0), std::vector<double>{3.0});
}

class Doubled : public keras::Layer {
 public:
  using Layer::Layer;
  keras::Structure call(const keras::Structure& x) override { return x * 2; }
};

TEST(Layers, InheritTheConstructorWithOptions) {
  const auto layer = keras::make_layer<Doubled>(keras::Layer::Options{.name = "twice", .dtype = "float64"});
  EXPECT_EQ(layer.name(), "twice");
  EXPECT_EQ(layer(Tensor{1.0}).dtype(), ls::float64);
  EXPECT_EQ(keras::make_layer<Doubled>().name(), "doubled");
}

TEST(Optimizers, AttributesOfScalesAndRates) {
  const auto scaled = keras::optimizers::LossScaleOptimizer(keras::optimizers::SGD(0.1), {.initial_scale = 1024.0});
  EXPECT_EQ(scaled.initial_scale(), 1024);
  EXPECT_EQ(scaled.dynamic_growth_steps(), 2000);
  const keras::optimizers::OptimizerPtr sgd = keras::optimizers::SGD(0.1);
  EXPECT_THAT(error_of([&] { sgd.initial_scale(); }), HasSubstr("LossScaleOptimizer"));
  sgd.learning_rate() = 0.25;
  EXPECT_EQ(float(sgd.learning_rate()), 0.25F);
  sgd.iterations() = 3;
  EXPECT_EQ(int(sgd.iterations()), 3);
}

TEST(Scans, BeginWithNumbersOrStates) {
  const Tensor x = {1.0, 2.0};
  const auto add = [](const Tensor& sum, const Tensor& row) { return sum + row; };
  EXPECT_EQ(numbers(tf::scan(add, x, {.initializer = 1.0, .reverse = true})), (Numbers{4, 3}));
  EXPECT_EQ(numbers(tf::scan(add, x, {.initializer = Tensor(1.0)})), (Numbers{2, 4}));
  const auto next = [](const keras::Structure& s, const Tensor& row) { return keras::Structure{s[1], s[0] + row}; };
  const keras::Structure both = tf::scan(next, x, {.initializer = {Tensor(0.0), Tensor(1.0)}});
  EXPECT_EQ(numbers(both[0]), (Numbers{1, 1}));
  EXPECT_EQ(numbers(both[1]), (Numbers{1, 3}));
}

TEST(Clusters, AreDescribed) {
  const ls::train::ClusterSpec spec({{"worker", {"a:1", "b:2"}}});
  EXPECT_EQ(spec.task_address("worker", 1), "b:2");
  const tf::distribute::cluster_resolver::SimpleClusterResolver resolver(spec, {.task_type = "worker", .task_id = 1});
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(resolver.num_members(), 2);
  const auto options = tf::distribute::experimental::CommunicationOptions(
      {.implementation = tf::distribute::experimental::CommunicationImplementation::RING});
  EXPECT_EQ(options.bytes_per_pack, 0);
}

}  // namespace attributes_of_objects
