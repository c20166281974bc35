#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/strategy_spec_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::distribute {
namespace {

using Sync = VariableSynchronization;
using Agg = VariableAggregation;

float value(const Tensor& tensor) { return tensor.item<float>(); }

// Reads and writes of two replicas, starting from 1: replica 0 gives 3, replica 1 gives 5; across replicas 4 is given.
// Expected values: TensorFlow 2.21, tf.distribute.MirroredStrategy on two CPU devices.
struct WriteCase {
  Sync sync;
  Agg aggregation;
  float assign[2], assign_add[2], assign_sub[2], cross_assign[2];
};

const WriteCase kWrites[] = {
    {Sync::kAuto, Agg::kNone, {3, 5}, {4, 6}, {-2, -4}, {4, 4}},
    {Sync::kOnWrite, Agg::kSum, {8, 8}, {9, 9}, {-7, -7}, {4, 4}},
    {Sync::kOnWrite, Agg::kMean, {4, 4}, {5, 5}, {-3, -3}, {4, 4}},
    {Sync::kOnWrite, Agg::kOnlyFirstReplica, {3, 3}, {4, 4}, {-2, -2}, {4, 4}},
    {Sync::kOnRead, Agg::kSum, {3, 5}, {4, 6}, {-2, -4}, {2, 2}},
    {Sync::kOnRead, Agg::kMean, {3, 5}, {4, 6}, {-2, -4}, {4, 4}},
    {Sync::kOnRead, Agg::kOnlyFirstReplica, {3, 5}, {4, 6}, {-2, -4}, {4, 4}},
};

TEST(Variable, WritesAsTensorFlowDoes) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  for (const WriteCase& test : kWrites) {
    const auto make = [&] {
      auto scope = strategy.scope();
      return Variable::create(Tensor::scalar(1.0F), {.synchronization = test.sync, .aggregation = test.aggregation});
    };
    const auto in_replicas = [&](void (VariableImpl::*write)(const Tensor&), const float(&expected)[2]) {
      const VariablePtr variable = make();
      strategy.run([&] {
        ((*variable).*write)(Tensor::scalar(current_local_replica() == 0 ? 3.0F : 5.0F));
        return 0;
      });
      EXPECT_EQ(value(variable->copy(0)), expected[0]) << int(test.sync) << " " << int(test.aggregation);
      EXPECT_EQ(value(variable->copy(1)), expected[1]) << int(test.sync) << " " << int(test.aggregation);
    };
    in_replicas(&VariableImpl::assign, test.assign);
    in_replicas(&VariableImpl::assign_add, test.assign_add);
    in_replicas(&VariableImpl::assign_sub, test.assign_sub);
    const VariablePtr variable = make();
    auto scope = strategy.scope();
    variable->assign(Tensor::scalar(4.0F));
    EXPECT_EQ(value(variable->copy(0)), test.cross_assign[0]);
    EXPECT_EQ(value(variable->copy(1)), test.cross_assign[1]);
  }
}

TEST(Variable, OnReadSumOfIntegersKeepsItsTotal) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  const auto variable =
      Variable::create(Tensor::scalar(std::int32_t{0}), {.synchronization = Sync::kOnRead, .aggregation = Agg::kSum});
  variable->assign(Tensor::scalar(std::int32_t{7}));
  EXPECT_EQ(variable->numpy().item<std::int32_t>(), 7);  // TensorFlow: 6
  EXPECT_EQ(variable->copy(0).item<std::int32_t>(), 4);
  EXPECT_EQ(variable->copy(1).item<std::int32_t>(), 3);
}

// The first write makes copies of the one value that there was.
TEST(Variable, AReplicaReadsWhileAnotherWritesForTheFirstTime) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  constexpr std::size_t kTimes = 2000;
  std::vector<VariablePtr> variables;
  for (std::size_t i = 0; i < kTimes; ++i) {
    variables.push_back(
        Variable::create(Tensor::scalar(1.0F), {.synchronization = Sync::kOnRead, .aggregation = Agg::kSum}));
  }
  std::vector<std::atomic<bool>> reads(kTimes), written(kTimes);
  const auto sums = strategy.run([&] {
    float sum = 0;
    for (std::size_t i = 0; i < kTimes; ++i) {
      if (current_local_replica() == 0) {
        while (!reads[i]) std::this_thread::yield();
        variables[i]->assign(Tensor::scalar(5.0F));
        sum += variables[i]->read().item<float>();
        written[i] = true;
        continue;
      }
      float value = 1;
      while (!written[i]) {
        value = variables[i]->read().item<float>();
        reads[i] = true;
      }
      sum += value;
    }
    return sum;
  });
  EXPECT_EQ(sums.values()[0], 5.0F * kTimes);
  EXPECT_EQ(sums.values()[1], 1.0F * kTimes);
}

TEST(Variable, RefusesMeanOfIntegersAndNoneSynchronization) {
  EXPECT_THROW(Variable::create(Tensor::scalar(std::int32_t{0}), {.aggregation = Agg::kMean}), Error);
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  EXPECT_THROW(Variable::create(Tensor::scalar(0.0F), {.synchronization = Sync::kNone}), Error);
}

TEST(Strategy, SplitsRowsEvenly) {
  const auto sizes = [](std::int64_t rows, int parts) {
    std::vector<std::int64_t> out;
    for (const RowRange& range : split_rows(rows, parts)) out.push_back(range.end - range.begin);
    return out;
  };
  EXPECT_EQ(sizes(10, 3), (std::vector<std::int64_t>{4, 3, 3}));
  EXPECT_EQ(sizes(1, 3), (std::vector<std::int64_t>{1, 0, 0}));
  EXPECT_EQ(sizes(4, 3), (std::vector<std::int64_t>{2, 1, 1}));
}

TEST(Strategy, ReducesOverReplicasAndAxes) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const PerReplica<Tensor> uneven({Tensor::from_vector<float>({1, 2, 3}), Tensor::from_vector<float>({10})});
  EXPECT_EQ(value(strategy.reduce(ReduceOp::kSum, uneven, 0)), 16);
  EXPECT_EQ(value(strategy.reduce(ReduceOp::kMean, uneven, 0)), 4);  // by elements, not the mean of means
  EXPECT_THROW(strategy.reduce(ReduceOp::kSum, uneven, std::nullopt), Error);
  EXPECT_EQ(strategy.gather(uneven, 0).to_vector<float>(), (std::vector<float>{1, 2, 3, 10}));
  const PerReplica<Tensor> integers({Tensor::scalar(std::int32_t{1}), Tensor::scalar(std::int32_t{2})});
  EXPECT_EQ(strategy.reduce(ReduceOp::kMean, integers, std::nullopt).dtype(), DType::kFloat64);
}

TEST(Strategy, AllReduceAddsAllReplicas) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1", "/cpu:2"});
  const auto sums = strategy.run([] {
    return get_replica_context()->all_reduce(ReduceOp::kSum,
                                             Tensor::scalar(static_cast<float>(1 + current_local_replica())));
  });
  for (const Tensor& sum : sums.values()) EXPECT_EQ(value(sum), 6);
}

TEST(Strategy, FailureOfOneReplicaEndsAll) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  try {
    strategy.run([]() -> int {
      if (current_local_replica() == 1) throw_invalid_argument("bad share");
      get_replica_context()->all_reduce(ReduceOp::kSum, Tensor::scalar(1.0F));
      return 0;
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "bad share");  // the cause, not what followed from it
  }
}

TEST(Strategy, UnequalNumbersOfCollectivesAreAnError) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  EXPECT_THROW(strategy.run([]() -> int {
    if (current_local_replica() == 0) get_replica_context()->all_reduce(ReduceOp::kSum, Tensor::scalar(1.0F));
    return 0;
  }),
               Error);
}

TEST(Strategy, MergeCallHasTheArgumentsOfAllReplicas) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1", "/cpu:2"});
  int calls = 0;
  const auto sums = strategy.run([&] {
    ReplicaContext& context = *get_replica_context();
    context.merge_call([&] { ++calls; });
    return context.merge_call(
        [&](const std::vector<std::string>& names) {
          EXPECT_TRUE(in_cross_replica_context());
          ++calls;
          return names[0] + names[1] + names[2];
        },
        std::to_string(context.replica_id_in_sync_group()));
  });
  EXPECT_EQ(sums.values(), (std::vector<std::string>{"012", "012", "012"}));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(get_replica_context()->merge_call([](const std::vector<int>& alone) { return alone[0]; }, 7), 7);
}

TEST(Strategy, DifferentCollectivesAreAnError) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto step = [&] {
    ReplicaContext& context = *get_replica_context();
    if (context.local_replica() == 0) return context.all_reduce(ReduceOp::kSum, Tensor::scalar(1.0f));
    return context.all_gather(Tensor::from_vector<float>({1, 2}), 0);
  };
  EXPECT_THAT([&] { strategy.run(step); }, testing::ThrowsMessage<errors::FailedPreconditionError>(
                                               testing::HasSubstr("the replicas made different collective calls")));
  EXPECT_EQ(strategy.run([] { return get_replica_context()->merge_call([] { return 5; }); }).values(),
            (std::vector<int>{5, 5}));
}

TEST(Strategy, ScopesDoNotMix) {
  MirroredStrategy a({"/cpu:0", "/cpu:1"}), b({"/cpu:0", "/cpu:1", "/cpu:2"});
  auto outer = a.scope();
  auto again = a.scope();
  EXPECT_THROW(b.scope(), Error);
}

// TensorFlow: "Device … is joining a group with size3, but that group has size 2", for the rest of the process.
TEST(Strategy, TwoOfDifferentSizesDoNotDisturbEachOther) {
  MirroredStrategy two({"/cpu:0", "/cpu:1"}), three({"/cpu:0", "/cpu:1", "/cpu:2"});
  const auto sum = [](Strategy& strategy) {
    const auto sums =
        strategy.run([] { return get_replica_context()->all_reduce(ReduceOp::kSum, Tensor::scalar(1.0F)); });
    return value(sums[0]);
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sum(two), 2);
    EXPECT_EQ(sum(three), 3);
  }
}

// TensorFlow: an AssertionError without text for a mirrored one.
TEST(Strategy, ReducesVariables) {
  MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto plain = Variable::create(Tensor::scalar(1.0F));
  auto scope = strategy.scope();
  const auto mirrored = Variable::create(Tensor::scalar(10.0F));
  EXPECT_EQ(value(strategy.reduce(ReduceOp::kSum, mirrored, std::nullopt)), 20);
  EXPECT_EQ(value(strategy.reduce(ReduceOp::kMean, mirrored, std::nullopt)), 10);
  const auto on_read = Variable::create(Tensor::from_vector<float>({10, 20}),
                                        {.synchronization = Sync::kOnRead, .aggregation = Agg::kSum});
  on_read->set_copy(1, Tensor::from_vector<float>({11, 21}));
  EXPECT_EQ(strategy.reduce(ReduceOp::kSum, on_read, std::nullopt).to_vector<float>(), (std::vector<float>{21, 41}));
  EXPECT_EQ(value(strategy.reduce(ReduceOp::kMean, on_read, 0)), 15.5F);
  EXPECT_THROW(strategy.reduce(ReduceOp::kSum, plain, std::nullopt), Error);
}

TEST(Strategy, SpecsOfTheCommandLine) {
  EXPECT_EQ(parse_strategy("mirrored:3")->num_replicas_in_sync(), 3);
  EXPECT_EQ(parse_strategy("one_device:cpu")->num_replicas_in_sync(), 1);
  EXPECT_EQ(parse_strategy("default")->num_replicas_in_sync(), 1);
  for (const char* bad : {"mirrored:0", "mirrored:x", "mirrord:2", "", "default:1", "one_device:gpu", "mirrored:-1"}) {
    EXPECT_THROW(parse_strategy(bad), Error) << bad;
  }
  EXPECT_THROW(MirroredStrategy({"/cpu:0", "/device:CPU:0"}), Error);  // the same device twice
}

TEST(GradientTape, GradientsOfVariablesAndTensors) {
  const auto w = Variable::create(Tensor::scalar(3.0F));
  GradientTape tape;
  const Tensor loss = w->read() * w->read() * 2.0;
  const Tensors gradients = tape.gradient(loss, std::vector<VariablePtr>{w});
  EXPECT_EQ(value(gradients[0]), 12);
  EXPECT_THROW(tape.gradient(loss, std::vector<VariablePtr>{w}), Error);  // not persistent
}

TEST(GradientTape, SecondDerivativeByNestedTapes) {
  const auto x = Variable::create(Tensor::scalar(2.0F));
  GradientTape outer;
  Tensor first;
  {
    GradientTape inner;
    const Tensor y = x->read() * x->read() * x->read();
    first = inner.gradient(y, std::vector<VariablePtr>{x})[0];
  }
  EXPECT_EQ(value(first), 12);
  EXPECT_EQ(value(outer.gradient(first, std::vector<VariablePtr>{x})[0]), 12);
}

TEST(GradientTape, UnconnectedVariableHasNoGradient) {
  const auto a = Variable::create(Tensor::scalar(1.0F)), b = Variable::create(Tensor::scalar(1.0F));
  GradientTape tape;
  const Tensor loss = a->read() * 2.0;
  const Tensors gradients = tape.gradient(loss, std::vector<VariablePtr>{a, b});
  EXPECT_TRUE(gradients[0].defined());
  EXPECT_FALSE(gradients[1].defined());
}

TEST(Variable, ValuesReadEarlierDoNotChange) {
  const auto v = Variable::create(Tensor::from_vector<float>({1, 2}));
  const Tensor before = v->read();
  v->assign_add(Tensor::from_vector<float>({10, 10}));
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(v->read().to_vector<float>(), (std::vector<float>{11, 12}));
}

}  // namespace
}  // namespace lockstep::distribute
