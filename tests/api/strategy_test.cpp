// tf.distribute's names and rules as user code writes them. Expected numbers: TensorFlow 2.21 and Keras 3.15 with
// tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).
#include <gtest/gtest.h>

#include <atomic>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
using ls::Tensor;
using ls::distribute::PerReplica;
using ls::distribute::ReduceOp;

namespace {

int replica() { return ls::distribute::get_replica_context()->replica_id_in_sync_group(); }

float number(const Tensor& tensor) { return tensor.item<float>(); }

TEST(StrategyRun, TakesAnyNumberOfArguments) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const PerReplica<Tensor> x({Tensor::scalar(1.0F), Tensor::scalar(2.0F)});
  const Tensor weight = Tensor::scalar(10.0F);
  const auto sums = strategy.run([](const Tensor& a, const Tensor& b, int c) { return a * b + c; }, x, weight, 3);
  EXPECT_EQ(number(sums[0]), 13);
  EXPECT_EQ(number(sums[1]), 23);
  EXPECT_EQ(number(strategy.reduce(ReduceOp::kSum, sums)), 36);
}

TEST(StrategyRun, TakesFunctionsThatReturnNothing) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  std::atomic<int> calls = 0;
  strategy.run([&] { ++calls; });
  strategy.run([&](int n) { calls += n; }, 10);
  EXPECT_EQ(calls, 22);
}

TEST(StrategyRun, ReturnsBooleansAndStructures) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const bool second = strategy.run([] { return replica() == 1; })[1];
  EXPECT_TRUE(second);

  const auto both = strategy.run([] {
    const Tensor id = Tensor::scalar(static_cast<float>(replica()));
    return ls::keras::Structure::dict({{"id", id}, {"pair", {id + 1, id * 5}}});
  });
  const auto total = strategy.reduce(ReduceOp::kMean, both);
  EXPECT_EQ(number(total.at("id")), 0.5F);
  EXPECT_EQ(number(total.at("pair")[0]), 1.5F);
  EXPECT_EQ(number(total.at("pair")[1]), 2.5F);
  EXPECT_THROW((void)both[2], ls::errors::OutOfRangeError);
}

TEST(StrategyRun, KnowsTheCurrentStrategy) {
  EXPECT_FALSE(ls::distribute::has_strategy());
  EXPECT_EQ(ls::distribute::get_strategy().num_replicas_in_sync(), 1);
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  EXPECT_EQ(&ls::distribute::get_strategy(), &strategy);
  const auto seen = strategy.run([] { return ls::distribute::get_strategy().num_replicas_in_sync(); });
  EXPECT_EQ(seen[1], 2);
}

// A mean is divided by the number of replicas (Keras 3's scale_loss_for_distribution), so that the sum over replicas
// is the loss of the global batch.
TEST(StrategyLoss, IsDividedByTheReplicas) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const Tensor y_true = Tensor::from_vector<float>({1, 2, 3, 5, 0, 1}, {3, 2});
  const Tensor y_pred = Tensor::from_vector<float>({.5F, 1, 2, 2, 4, 0}, {3, 2});
  const Tensor weights = Tensor::from_vector<float>({1, 2, .5F});
  const struct {
    const char* reduction;
    float plain, weighted;
  } cases[] = {{"sum_over_batch_size", 2.3541667461395264F, 2.4791667461395264F},
               {"mean", 2.3541667461395264F, 2.4791667461395264F},
               {"mean_with_sample_weight", 2.3541667461395264F, 2.125F},
               {"sum", 14.125F, 14.875F}};
  for (const auto& test : cases) {
    const auto loss = ls::losses::MeanSquaredError({.reduction = test.reduction});
    const auto values = strategy.run([&] { return ls::Tensors{loss(y_true, y_pred), loss(y_true, y_pred, weights)}; });
    EXPECT_FLOAT_EQ(number(values[1][0]), test.plain) << test.reduction;
    EXPECT_FLOAT_EQ(number(values[1][1]), test.weighted) << test.reduction;
  }
  const auto loss = ls::losses::MeanSquaredError();
  EXPECT_FLOAT_EQ(number(loss(y_true, y_pred)), 4.708333492279053F);  // outside of any strategy
  const auto none = ls::losses::MeanSquaredError({.reduction = "none"});
  const auto rows = strategy.run([&] { return none(y_true, y_pred).to_vector<float>(); });
  EXPECT_EQ(rows[0], (std::vector<float>{.625F, 5, 8.5F}));
  auto scope = strategy.scope();
  EXPECT_FLOAT_EQ(number(loss(y_true, y_pred)), 2.3541667461395264F);  // across replicas too
}

// The model has no Input: both replicas' first call finds it without variables.
TEST(StrategyModel, IsBuiltOnceInsideRun) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const Tensor x = Tensor::from_vector<float>({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}) * 0.125;
  const Tensor y = ls::ops::reduce_sum(x, ls::ops::Ints{1}, true);
  const PerReplica<Tensor> xs(ls::ops::split(x, 2, 0)), ys(ls::ops::split(y, 2, 0));
  auto scope = strategy.scope();
  ls::keras::Sequential model({
      ls::layers::Dense(3, {.activation = "relu", .kernel_initializer = "ones"}),
      ls::layers::Dense(1, {.kernel_initializer = "ones"}),
  });
  const auto optimizer = ls::optimizers::SGD({.learning_rate = 0.05});
  const auto loss_fn = ls::losses::MeanSquaredError();
  const auto train_step = [&](const Tensor& inputs, const Tensor& labels) {
    ls::GradientTape tape;
    const Tensor loss = loss_fn(labels, model(inputs, {.training = true}));
    optimizer.apply(tape.gradient(loss, model.trainable_weights()), model.trainable_weights());
    return loss;
  };
  std::vector<float> losses;
  for (int step = 0; step < 5; ++step)
    losses.push_back(number(strategy.reduce(ReduceOp::kSum, strategy.run(train_step, xs, ys))));
  const float expected[] = {4.3125F, 0.487397700548172F, 0.20979827642440796F, 0.13383831083774567F,
                            0.10610274970531464F};
  for (int step = 0; step < 5; ++step) EXPECT_NEAR(losses[step], expected[step], 1e-5) << step;
  ASSERT_EQ(model.weights().size(), 4);
  EXPECT_NEAR(model.get_weights()[3].to_vector<float>()[0], -0.2338147908449173F, 1e-5);
}

class Doubled : public ls::keras::Model {
 public:
  Doubled() : Model("Doubled"), dense_(track("dense", ls::layers::Dense(4))) {}
  ls::keras::Structure call(const ls::keras::Structure& x, const ls::keras::CallContext&) override {
    return dense_(x).leaf() * 2.0;
  }

 private:
  ls::keras::LayerHandle dense_;
};

TEST(StrategyModel, SubclassedIsBuiltOnceInsideRun) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1", "/cpu:2"});
  auto scope = strategy.scope();
  for (int round = 0; round < 20; ++round) {
    Doubled model;
    const auto results = strategy.run([&] { return model(Tensor::full({2, 3}, 1.0)).leaf().to_vector<float>(); });
    ASSERT_EQ(model.weights().size(), 2);
    EXPECT_EQ(results[0], results[2]);
    EXPECT_EQ(model.weights()[0]->num_copies(), 3);
  }
}

class NotBuildable : public ls::keras::Layer {
 public:
  NotBuildable() : Layer("NotBuildable") {}
  void build(const ls::keras::Nested<ls::Shape>&) override { throw ls::errors::InvalidArgumentError("no such width"); }
  ls::keras::Structure call(const ls::keras::Structure& x, const ls::keras::CallContext&) override { return x; }
};

// A failing build is the same error in every replica.
TEST(StrategyModel, ReportsAFailingBuild) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  const auto layer = ls::keras::make_layer<NotBuildable>();
  std::atomic<int> failures = 0;
  strategy.run([&] {
    EXPECT_THROW(layer(Tensor::full({1, 3}, 1.0)), ls::errors::InvalidArgumentError);
    ++failures;
  });
  EXPECT_EQ(failures, 2);
}

// Each replica's first write of its copy happens while the others read theirs.
TEST(StrategyVariable, FirstWritesAndReadsOfReplicasDoNotMeet) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1", "/cpu:2", "/cpu:3"});
  auto scope = strategy.scope();
  for (int round = 0; round < 200; ++round) {
    const auto variable = ls::distribute::Variable::create(
        Tensor::scalar(1.0F), {.synchronization = ls::distribute::VariableSynchronization::kOnRead,
                               .aggregation = ls::distribute::VariableAggregation::kSum});
    strategy.run([&] {
      const Tensor before = variable->read();
      variable->assign_add(Tensor::scalar(static_cast<float>(replica())));
      EXPECT_EQ(number(variable->read()), number(before) + static_cast<float>(replica()));
    });
    ASSERT_EQ(number(variable->read()), 10);  // 1 + 2 + 3 + 4
  }
}

// tf.nn.compute_average_loss and scale_regularization_loss.
TEST(StrategyLoss, AveragesOverTheGlobalBatch) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const Tensor losses = {1.0, 2.0, 6.0};
  EXPECT_EQ(number(ls::nn::compute_average_loss(losses)), 3);
  const auto means = strategy.run([&] {
    return ls::Tensors{
        ls::nn::compute_average_loss(losses), ls::nn::compute_average_loss(losses, {.sample_weight = {1.0, 0.0, 2.0}}),
        ls::nn::compute_average_loss(losses, {.global_batch_size = 9}), ls::nn::scale_regularization_loss(losses)};
  });
  EXPECT_EQ(number(means[1][0]), 1.5F);
  EXPECT_FLOAT_EQ(number(means[1][1]), 13.0F / 6);
  EXPECT_EQ(number(means[1][2]), 1);
  EXPECT_EQ(number(means[1][3]), 4.5F);
  EXPECT_THROW((void)ls::nn::compute_average_loss(Tensor::scalar(1.0F)), ls::errors::InvalidArgumentError);
  auto scope = strategy.scope();
  EXPECT_THROW((void)ls::nn::compute_average_loss(losses), ls::errors::FailedPreconditionError);
}

TEST(CentralStorage, ComputesAsMirroredReplicas) {
  ls::distribute::experimental::CentralStorageStrategy strategy(
      {.compute_devices = {{"/cpu:0", "/cpu:1"}}, .parameter_device = "/cpu:0"});
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
  EXPECT_EQ(number(strategy.reduce("SUM", strategy.run([] { return Tensor::scalar(1.0F + replica()); }))), 3);
}

}  // namespace
