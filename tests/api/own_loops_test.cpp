// Tools of training loops of your own: Jacobian-vector products, progress bars, lists of callbacks. The numbers and
// texts are those of TensorFlow 2.21 and Keras 3.15.
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

namespace ls = lockstep;

namespace own_loops {

using namespace lockstep;

void expect_near(const Tensor& found, const std::vector<float>& expected) {
  const auto values = found.to_vector<float>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << i;
}

TEST(ForwardAccumulator, GivesProductsOfTensors) {
  Tensor x = {1.0, 2.0, 3.0};
  Tensor t = {1.0, 0.0, -1.0};
  autodiff::ForwardAccumulator acc(x, t);
  Tensor y = ops::sin(x) * x;
  Tensor z = ops::reduce_sum(y * y);
  expect_near(acc.jvp(y), {1.3817732334136963f, 0.0f, 2.828857421875f});
  expect_near(acc.jvp(z), {4.720694f});
  expect_near(acc.jvp(x), {1.0f, 0.0f, -1.0f});
  const Tensor other = {1.0, 2.0};
  EXPECT_FALSE(acc.jvp(other).defined());
  expect_near(acc.jvp(other, {.unconnected_gradients = UnconnectedGradients::ZERO}), {0.0f, 0.0f});
}

TEST(ForwardAccumulator, GivesProductsOfVariables) {
  Variable w({{1.0, 2.0}, {3.0, 4.0}});
  Variable b({0.5, -0.5});
  const Tensor eye = {{1.0, 0.0}, {0.0, 1.0}};
  const Tensor direction = {1.0, 2.0};
  autodiff::ForwardAccumulator acc({.primals = {w, b}, .tangents = {eye, direction}});
  Tensor x = {{1.0, -1.0}};
  Tensor y = nn::sigmoid(ops::matmul(x, w) + b);
  expect_near(acc.jvp(y), {0.2982929050922394f, 0.0701037123799324f});
}

TEST(ForwardAccumulator, GivesProductsWithTheHessian) {
  Tensor x = {1.0, 2.0, 3.0};
  autodiff::ForwardAccumulator acc(x, Tensor({1.0, 0.0, -1.0}));
  Tensor gradient;
  {
    GradientTape tape;
    tape.watch(x);
    Tensor y = ops::reduce_sum(ops::pow(x, 3.0) * ops::reverse(x, {0}));
    gradient = tape.gradient(y, x);
  }
  expect_near(acc.jvp(gradient), {-12.0f, 0.0f, 12.0f});
}

TEST(ForwardAccumulator, RejectsTangentsOfOtherShapes) {
  Tensor x = {1.0, 2.0, 3.0};
  EXPECT_THROW(autodiff::ForwardAccumulator(x, Tensor({1.0, 0.0})), errors::InvalidArgumentError);
}

std::string without_times(std::string line) {
  const auto dash = line.find(" - ");
  const auto bar = line.find(" 0s");
  return line.substr(0, bar == std::string::npos ? dash : bar) + line.substr(dash);
}

TEST(Progbar, ShowsValuesAsKerasDoes) {
  std::ostringstream out;
  utils::Progbar bar(3, {.width = 10, .stateful_metrics = {{"acc"}}, .unit_name = "sample"}, &out);
  bar.update(1, {{"loss", 1.0}, {"acc", 0.5}});
  bar.update(3, {{"loss", 2.0}, {"acc", 0.75}});
  EXPECT_EQ(without_times(out.str()), "3/3 ━━━━━━━━━━ - loss: 2.0000 - acc: 0.7500\n");
  EXPECT_NE(out.str().find("s/sample"), std::string::npos);
}

TEST(Progbar, ShowsMeansOfUnknownTargets) {
  std::ostringstream out;
  utils::Progbar bar(4, {.verbose = 2}, &out);
  bar.update(1, {{"loss", 1.0}, {"mae", 3.0}});
  bar.update(3, {{"loss", 2.0}, {"mae", 6.0}});
  bar.add(1, {{"loss", 3.0}});
  EXPECT_EQ(out.str().substr(out.str().find(" - loss")), " - loss: 3.0000 - mae: 5.0000\n");
}

class Recorder : public keras::Callback {
 public:
  explicit Recorder(std::string& seen) : seen_(seen) {}
  void on_epoch_end(int epoch, const keras::Logs& logs) override {
    seen_ += std::to_string(epoch) + " " + std::to_string(double(logs.at("loss"))).substr(0, 3) + " of " +
             std::to_string(params()["epochs"]) + "\n";
  }

 private:
  std::string& seen_;
};

TEST(CallbackList, RunsCallbacksInLoopsOfYourOwn) {
  auto model = keras::Sequential({keras::Input({2}), keras::layers::Dense(1)});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  std::string seen;
  keras::callbacks::CallbackList callbacks(
      {Recorder(seen), keras::callbacks::EarlyStopping({.monitor = "loss", .patience = 1})},
      {.add_history = true, .model = model, .epochs = 3, .steps = 2});
  callbacks.on_train_begin();
  for (int epoch = 0; epoch < 3; ++epoch) {
    callbacks.on_epoch_begin(epoch);
    for (int step = 0; step < 2; ++step) {
      callbacks.on_train_batch_begin(step);
      callbacks.on_train_batch_end(step, {{"loss", epoch + 1.0}});
    }
    callbacks.on_epoch_end(epoch, {{"loss", epoch + 1.0}});
    if (model.stop_training) break;
  }
  callbacks.on_train_end();
  EXPECT_EQ(seen, "0 1.0 of 3\n1 2.0 of 3\n");
  EXPECT_EQ(callbacks.history()["loss"], (std::vector<double>{1.0, 2.0}));
}

class OfPairs : public keras::Model {
 public:
  keras::LayerHandle dense = track("dense", keras::layers::Dense(3, {.kernel_initializer = "zeros"}));
  keras::Results train_step(const keras::Structure& data) override {
    const auto [first, second] = data;
    const auto [x, y] = first;
    keras::Results results;
    for (const auto& metric : metrics()) {
      if (metric.name() == "loss")
        metric.update_state(1.0);
      else
        metric.update_state(y, dense(x));
      results[metric.name()] = metric.result();
    }
    return results;
  }
};

// A model without call(), whose step takes ((x, y), (x, y)): the metrics of compile() are in metrics() from the first
// step on, as in Keras.
TEST(OwnSteps, HaveTheMetricsOfCompileWithoutTargets) {
  OfPairs model;
  model.compile("sgd", "mse", {.metrics = {keras::metrics::SparseCategoricalAccuracy(), "accuracy", "acc"}});
  const auto x = tf::ones({4, 2});
  const auto y = tf::constant({0, 1, 2, 0});
  const std::vector<keras::Structure> pair = {x, y};
  const auto dataset = tf::data::Dataset::from_tensor_slices(keras::Structure{pair, pair}).batch(2);
  const auto history = model.fit(dataset, {.epochs = 2, .verbose = 0});
  EXPECT_EQ(history["sparse_categorical_accuracy"], (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(history["accuracy"], (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(history["acc"], (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(history["loss"], (std::vector<double>{1.0, 1.0}));
}

}  // namespace own_loops
