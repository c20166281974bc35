// Models whose class has custom steps and metrics, functional and subclassed, in fit, evaluate and predict.
// Expected numbers: Keras 3.15 with TensorFlow 2.21 on one replica and on two (MirroredStrategy), which agree:
// Dense(1), kernel 0.5, bias 0, SGD(0.01), x = 1 … 6, y = 2, 3, 5, 4, 6, 8, batches of two in order, two epochs.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/multi_worker_mirrored_strategy.h"
#include "lockstep/keras/initializers/initializers.h"
#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/losses/losses.h"
#include "lockstep/keras/metrics/metrics.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/optimizers/test_cluster_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/random.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::keras {
namespace {

using ::testing::HasSubstr;

Tensor column(const std::vector<float>& values) {
  return Tensor::from_vector(values, Shape{static_cast<std::int64_t>(values.size()), 1});
}
Tensor own_x() { return column({1, 2, 3, 4, 5, 6}); }
Tensor own_y() { return column({2, 3, 5, 4, 6, 8}); }

LayerHandle dense() { return layers::Dense(1, {.kernel_initializer = initializers::Constant(0.5), .name = "dense"}); }

// The second example of the guide "Customizing what happens in fit": a custom loop and custom metrics.
class OwnLoop : public Model {
 public:
  using Model::Model;

  Results train_step(const Batch& batch) override {
    GradientTape tape;
    const Tensor prediction = (*this)(batch.x, {.training = true}).leaf();
    const Tensor loss = squared_errors(batch, prediction);
    const std::vector<Tensor> gradients = tape.gradient(loss, trainable_weights());
    optimizer()->apply(gradients, trainable_weights());
    return update(loss, batch, prediction);
  }
  Results test_step(const Batch& batch) override {
    const Tensor prediction = (*this)(batch.x, {.training = false}).leaf();
    return update(squared_errors(batch, prediction), batch, prediction);
  }
  Structure predict_step(const Batch& batch) override { return (*this)(batch.x, {.training = false}).leaf() * 10.0; }
  std::vector<metrics::MetricPtr> metrics() const override { return {loss_, mae_}; }

 private:
  static Tensor squared_errors(const Batch& batch, const Tensor& prediction) {
    return ops::reduce_mean(ops::square(batch.y.leaf() - prediction), {{-1}});
  }
  Results update(const Tensor& loss, const Batch& batch, const Tensor& prediction) {
    loss_->update_state(loss);
    mae_->update_state(batch.y.leaf(), prediction);
    return {{"loss", loss_->result().item<float>()}, {"mae", mae_->result().item<float>()}};
  }
  metrics::MetricPtr loss_ = metrics::Mean({.name = "loss"});
  metrics::MetricPtr mae_ = metrics::MeanAbsoluteError({.name = "mae"});
};

class Subclassed : public OwnLoop {
 public:
  Subclassed() : OwnLoop("Subclassed"), dense_(track("dense", dense())) {}
  Structure call(const Structure& x, const CallContext&) override { return dense_(x); }

 private:
  LayerHandle dense_;
};

// Its first example: compiled losses and metrics.
class CompiledLoss : public Model {
 public:
  using Model::Model;

  Results train_step(const Batch& batch) override {
    GradientTape tape;
    const Tensor prediction = (*this)(batch.x, {.training = true}).leaf();
    const Tensor loss = compute_loss(batch.x, batch.y, prediction);
    optimizer()->apply(tape.gradient(loss, trainable_weights()), trainable_weights());
    Results results;
    for (const auto& metric : metrics()) {
      if (metric->name() == "loss") {
        metric->update_state(loss);
      } else {
        metric->update_state(batch.y.leaf(), prediction);
      }
      results.emplace_back(metric->name(), metric->result().item<float>());
    }
    return results;
  }
};

template <typename Class>
std::unique_ptr<Model> functional() {
  const Tensor input = layers::Input({1});
  return std::make_unique<Class>(input, dense()(input));
}

// One replica, two, two workers of one and of two replicas (where the second worker of a batch of two has no rows).
void under_each(const std::function<void(int replicas)>& fn) {
  fn(1);
  {
    distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
    const auto scope = strategy.scope();
    SCOPED_TRACE("two replicas");
    fn(2);
  }
  for (const std::vector<std::string>& devices : {std::vector<std::string>{"/cpu:0"}, {"/cpu:0", "/cpu:1"}}) {
    collectives::run_ranks(2, [&](collectives::Communicator& group) {
      distribute::MultiWorkerMirroredStrategy strategy(
          collectives::CommunicatorPtr(collectives::CommunicatorPtr(), &group), devices);
      const auto scope = strategy.scope();
      SCOPED_TRACE(::testing::Message() << "two workers of " << devices.size());
      fn(2);
    });
  }
}

// A chief, one worker or two, a server. Names of optimizers must be equal; threads of one process share the counters.
void under_servers(const std::function<void(bool chief)>& fn) {
  for (const int workers : {1, 2})
    distribute::run_cluster(workers, 1, [&](distribute::ParameterServerStrategy& job) { fn(job.is_chief()); });
}

using Curve = std::vector<double>;

void expect_near(const Curve& actual, const Curve& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 2e-5) << what << " " << i;
}

Curve curve(const Tensor& values) {
  const std::vector<float> numbers = values.to_vector<float>();
  return {numbers.begin(), numbers.end()};
}

TEST(OwnStep, TrainsEvaluatesAndPredictsAsInKeras) {
  for (const bool subclassed : {false, true}) {
    under_each([subclassed](int) {
      const std::unique_ptr<Model> model = subclassed ? std::make_unique<Subclassed>() : functional<OwnLoop>();
      model->compile({.optimizer = optimizers::SGD(0.01)});
      Curve losses, errors;
      const auto record = LambdaCallback({.on_train_batch_end = [&](std::int64_t, const Logs& logs) {
        losses.push_back(logs.find("loss")->second);
        errors.push_back(logs.find("mae")->second);
      }});
      const auto history = model->fit(
          own_x(), own_y(), {.batch_size = 2, .epochs = 2, .verbose = 0, .callbacks = {record}, .shuffle = false});
      expect_near(losses, {3.125, 4.520025, 4.196943, 0.1052925, 0.8249552, 0.601587}, "loss of batches");
      expect_near(errors, {1.75, 2.0225, 1.949867, 0.281426, 0.7248917, 0.6075904}, "error of batches");
      expect_near(history["loss"], {4.196943, 0.601587}, "loss");
      expect_near(history["mae"], {1.949867, 0.6075904}, "error");
      expect_near(curve(model->get_weights()[0]), {1.233891}, "kernel");
      expect_near(curve(model->get_weights()[1]), {0.2232744}, "bias");
      for (int again = 0; again < 2; ++again) {
        const Results results = model->evaluate(own_x(), own_y(), {.batch_size = 2, .verbose = 0});
        expect_near({results[0], results[1]}, {0.5304013, 0.6419631}, "evaluate");
      }
      expect_near(curve(model->predict(own_x(), {.batch_size = 2, .verbose = 0}).leaf()),
                  {14.57165, 26.91056, 39.24947, 51.58837, 63.92727, 76.26618}, "predict");
    });
  }
}

class Measured : public Layer {
 public:
  Structure call(const Structure& x) override {
    mean_.update_state(x.leaf());
    return x;
  }

 private:
  metrics::MetricPtr mean_ = track("mean", metrics::Mean({.name = "mean"}));
};

class StepOfModel : public Model {
 public:
  using Model::Model;
  Results train_step(const Batch& batch) override { return Model::train_step(batch); }
  Results test_step(const Batch& batch) override { return Model::test_step(batch); }
};

// Metrics in attributes of layers are reset and reported with those of the model; a worker without rows adds nothing.
// Expected numbers: the mean of the rows.
TEST(OwnStep, MetricsOfLayersAreReported) {
  const auto check = [](const Model& model) {
    model.compile({.optimizer = optimizers::SGD(0.01), .loss = "mse", .metrics = {"mae"}});
    const auto history = model.fit(
        own_x(), own_y(),
        {.batch_size = 2, .epochs = 2, .verbose = 0, .validation_data = {own_x() * 2.0, own_y()}, .shuffle = false});
    expect_near(history["mean"], {3.5, 3.5}, "mean");
    expect_near(history["val_mean"], {7, 7}, "mean of validation");
    const Results results = model.evaluate(own_x(), own_y(), {.batch_size = 4, .verbose = 0});
    ASSERT_EQ(results.size(), 3);
    EXPECT_EQ(results.at("mean"), 3.5);
    EXPECT_EQ(model.metrics_names(), (std::vector<std::string>{"loss", "compile_metrics", "mean"}));
  };
  under_each([&](int) {
    const Tensor input = layers::Input({1});
    const Structure output = dense()(make_layer<Measured>()(input));
    check(Model(input, output));
    check(StepOfModel(input, output));
  });
  under_servers([&](bool) {
    const Tensor input = layers::Input({1});
    const Structure output = dense()(make_layer<Measured>()(input));
    check(Model(input, output));
    check(StepOfModel(input, output));
  });
}

// One worker trains what one process trains; the metrics of the model's class are the chief's.
TEST(OwnStep, TrainsOnServersAsInKeras) {
  distribute::run_cluster(1, 2, [](distribute::ParameterServerStrategy& job) {
    const auto model = std::make_unique<Subclassed>();
    model->compile({.optimizer = optimizers::SGD(0.01)});
    const auto history = model->fit(own_x(), own_y(), {.batch_size = 2, .epochs = 2, .verbose = 0, .shuffle = false});
    expect_near(history["loss"], {4.196943, 0.601587}, "loss");
    expect_near(history["mae"], {1.949867, 0.6075904}, "error");
    expect_near(curve(model->get_weights()[0]), {1.233891}, "kernel");
    if (!job.is_chief()) return;
    const auto metrics = model->metrics();
    expect_near({metrics[0]->result().item<double>(), metrics[1]->result().item<double>()}, {0.601587, 0.6075904},
                "chief");
  });
}

// Another learning rate in a second fit counts.
TEST(OwnStep, ALearningRateThatIsSetBetweenFitsGoesToServers) {
  under_servers([](bool chief) {
    const Tensor input = layers::Input({1});
    const Model model(input, dense()(input));
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.01, .name = "o"}), .loss = "mse"});
    const FitOptions once{.batch_size = 6, .verbose = 0, .shuffle = false};
    model.fit(own_x(), own_y(), once);
    const Curve before = curve(model.get_weights()[0]);
    if (chief) model.optimizer()->set_learning_rate(0);
    model.fit(own_x(), own_y(), once);
    expect_near(curve(model.get_weights()[0]), before, "kernel");
  });
}

// In two replicas compute_loss gives each its share, so that the sum is the batch's loss: so does Keras.
TEST(OwnStep, CompiledLossesAndMetricsAreShared) {
  under_each([](int replicas) {
    const auto model = functional<CompiledLoss>();
    model->compile({.optimizer = optimizers::SGD(0.01), .loss = "mse", .metrics = {"mae"}});
    const auto history = model->fit(own_x(), own_y(), {.batch_size = 2, .epochs = 2, .verbose = 0, .shuffle = false});
    expect_near(history["loss"], {6.368662 / replicas, 0.9231626 / replicas}, "loss");
    expect_near(history["mae"], {2.40205, 0.8538941}, "error");
    expect_near(curve(model->get_weights()[0]), {1.19242}, "kernel");
    expect_near(curve(model->get_weights()[1]), {0.1860904}, "bias");
  });
}

TEST(OwnStep, AnOverrideMayCallTheStepOfModel) {
  struct Doubling : Model {
    using Model::Model;
    Results train_step(const Batch& batch) override {
      Results results = Model::train_step(batch);
      results.emplace_back("twice", 2 * results[0]);
      return results;
    }
  };
  const Tensor input = layers::Input({1});
  const Doubling model(input, dense()(input));
  model.compile({.optimizer = optimizers::SGD(0.01), .loss = "mse"});
  const Results results = model.train_on_batch(own_x(), own_y());
  EXPECT_EQ(results.at("twice"), 2 * results.at("loss"));
  distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto scope = strategy.scope();
  const Doubling mirrored(input, dense()(input));
  mirrored.compile({.optimizer = optimizers::SGD(0.01), .loss = "mse"});
  const Results of_replicas = mirrored.train_on_batch(own_x(), own_y());
  EXPECT_NEAR(of_replicas.at("loss"), results.at("loss"), 1e-5);
  EXPECT_NEAR(of_replicas.at("twice"), results.at("twice"), 1e-5);
  expect_near(curve(mirrored.get_weights()[0]), curve(model.get_weights()[0]), "kernel");
}

// What Model's steps compute in each replica is what they compute for the whole batch.
TEST(OwnStep, AnOverrideMayCallTheStepsOfModelInEachReplica) {
  struct Counting : Model {
    using Model::Model;
    Results train_step(const Batch& batch) override {
      ++calls;
      return Model::train_step(batch);
    }
    Results test_step(const Batch& batch) override {
      ++calls;
      return Model::test_step(batch);
    }
    std::atomic<int> calls = 0;
  };
  std::vector<Curve> curves;
  under_each([&](int) {
    const Tensor input = layers::Input({1});
    const Counting model(input, dense()(input));
    model.compile({.optimizer = optimizers::SGD(0.01), .loss = "mse", .metrics = {"mae"}});
    const auto history = model.fit(own_x(), own_y(), {.batch_size = 2, .epochs = 2, .verbose = 0, .shuffle = false});
    const Results results = model.evaluate(own_x(), own_y(), {.batch_size = 2, .verbose = 0});
    Curve seen = history["loss"];
    for (const double error : history["mae"]) seen.push_back(error);
    for (const double weight : curve(model.get_weights()[0])) seen.push_back(weight);
    seen.push_back(results.at("loss"));
    seen.push_back(results.at("mae"));
    expect_near(seen, {6.368662, 0.9231626, 2.40205, 0.8538941, 1.19242, results.at("loss"), results.at("mae")},
                "those of compute_loss");
    EXPECT_GT(model.calls, 0);
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    curves.push_back(seen);
  });
  for (const Curve& each : curves) expect_near(each, curves[0], "one replica");
}

// Keras 3.15: the generator has been drawn from twice after two batches, with and without a strategy.
TEST(SubclassedModel, BuildingItDrawsNoRandomNumbers) {
  struct Noisy : Model {
    Noisy() : Model("Noisy"), layer(track("dense", dense())) {}
    Structure call(const Structure& x, const CallContext&) override {
      return layer(x).leaf() + random::normal({1, 1}, 0.0, 1.0, DType::kFloat32, generator);
    }
    LayerHandle layer;
    random::SeedGeneratorPtr generator = std::make_shared<random::SeedGenerator>(7);
  } model;
  model.compile({.optimizer = optimizers::SGD(0.01), .loss = "mse"});
  model.fit(column({1, 1, 1, 1}), column({1, 1, 1, 1}), {.batch_size = 2, .verbose = 0});
  EXPECT_EQ(model.generator->state()->numpy().to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 2}));
}

// A class that scales what its layer gives; copies share the layer.
struct Scaled : Model {
  explicit Scaled(double factor) : Model("Scaled"), layer(track("dense", dense())), factor(factor) {}
  Structure call(const Structure& x, const CallContext&) override { return layer(x).leaf() * factor; }
  LayerHandle layer;
  double factor;
};

TEST(ModelCopies, ComputeWithTheirOwnMembers) {
  const Tensor one = column({1});
  auto first = std::make_unique<Scaled>(1.0);
  Scaled second = *first;
  second.factor = 2.0;
  const auto of = [&](const Model& model) { return model(one).leaf().item<float>(); };
  EXPECT_FLOAT_EQ(of(*first), 0.5F);
  EXPECT_FLOAT_EQ(of(second), 1.0F);
  EXPECT_FLOAT_EQ(of(*first), 0.5F);
  const Model plain = second;  // has no call() of its own: the copy that was used last computes
  EXPECT_FLOAT_EQ(of(plain), 0.5F);
  first.reset();
  EXPECT_FLOAT_EQ(of(plain), 1.0F);
}

// Labeled and other samples in batches of different sizes, as in semi-supervised training.
class TwoSources : public Model {
 public:
  TwoSources() : Model("TwoSources"), dense_(track("dense", dense())) {}
  Structure call(const Structure& inputs) override { return dense_(inputs); }
  Results train_step(const Batch& batch) override {
    GradientTape tape;
    const Tensor labeled = (*this)(batch.x).leaf(), other = (*this)(batch.y).leaf();
    const Tensor loss = ops::reduce_mean(ops::square(labeled - 1.0)) + ops::reduce_mean(ops::square(other));
    optimizer()->apply(tape.gradient(loss, trainable_weights()), trainable_weights());
    return {{"loss", loss.item<float>()}};
  }

 private:
  LayerHandle dense_;
};

// Keras 3.15: kernel and bias after two epochs with SGD(0.01).
TEST(OwnSteps, PartsOfABatchMayHaveDifferentLengths) {
  TwoSources model;
  model.compile({.optimizer = optimizers::SGD(0.01)});
  const auto labeled = data::Dataset::from_tensor_slices(column({1, 2, 3, 4, 5, 6, 7, 8})).batch(4);
  const auto other = data::Dataset::from_tensor_slices(column({5, 6, 7, 8})).batch(2);
  model.fit(data::Dataset::zip(labeled, other), {.epochs = 2, .verbose = 0});
  const auto weights = model.get_weights();
  EXPECT_NEAR(weights[0].item<float>(), 0.0881984F, 1e-6);
  EXPECT_NEAR(weights[1].item<float>(), -0.05201472F, 1e-6);
}

TEST(ModelCopies, APlainCopyAloneIsRefused) {
  const auto make = []() -> Model {
    const Scaled local(1.0);
    return local;
  };
  const Model sliced = make();
  try {
    sliced(column({1}));
    ADD_FAILURE() << "expected an error";
  } catch (const errors::FailedPreconditionError& error) {
    EXPECT_THAT(error.message(), HasSubstr("Scaled object"));
  }
}

}  // namespace
}  // namespace lockstep::keras
