// Parameter servers with the optimizers of Keras, as threads of one process.
#include "lockstep/distribute/parameter_servers_internal.h"

#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/cluster_coordinator.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/parameter_server_strategy_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/optimizers/server.h"
#include "lockstep/keras/optimizers/server_rules_internal.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"
#include "lockstep/keras/optimizers/test_cluster_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::distribute {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// Servers, and the chief's view of them.
struct Servers {
  explicit Servers(int count, Partitioner partitioner = {}) : ports(count) {
    for (int i = 0; i < count; ++i) {
      servers.push_back(
          std::make_unique<ParameterServer>(fmt::format("ps {}", i), ports[i], optimizers::server_rules()));
      threads.emplace_back([server = servers.back().get()] { server->join(); });
      options.servers.push_back({fmt::format("ps {}", i), ports.address(i)});
    }
    options.partitioner = std::move(partitioner);
    options.own_name = "chief";
    options.chief = true;
    chief = std::make_unique<ParameterServers>(options);
  }
  ~Servers() {
    chief->stop();
    for (std::thread& thread : threads) thread.join();
  }
  ParameterServers worker() const {
    ParameterServers::Options other = options;
    other.own_name = "worker";
    other.chief = false;
    return ParameterServers(other);
  }

  Ports ports;
  std::vector<std::unique_ptr<ParameterServer>> servers;
  std::vector<std::thread> threads;
  ParameterServers::Options options;
  std::unique_ptr<ParameterServers> chief;
};

std::vector<Variable> make_variables() {
  std::vector<float> numbers(5 * 3);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) / 7.0F;
  return {Variable(Tensor::from_vector(numbers, Shape{5, 3}), {.name = "a"}),
          Variable(Tensor::from_vector<float>({1, -2}), {.name = "b"}), Variable(2.0, {.name = "c"})};
}

Tensors gradients_at(int step) {
  std::vector<float> a(5 * 3);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>((static_cast<int>(i) * 7 + step * 5) % 11 - 5);
  return {Tensor::from_vector(a, Shape{5, 3}), Tensor::from_vector<float>({0.5F * static_cast<float>(step), -1}),
          Tensor::scalar(static_cast<float>(step) - 1.5F)};
}

void expect_equal(const std::vector<Variable>& found, const std::vector<Variable>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].numpy().to_vector<float>(), expected[i].numpy().to_vector<float>())
        << what << ": " << expected[i].path();
  }
}

// One worker computes what an optimizer of this process does, slots included, in shards as well.
TEST(ParameterServers, ApplyOptimizers) {
  const std::vector<std::pair<const char*, std::function<optimizers::OptimizerPtr()>>> kOptimizers = {
      {"SGD", [] { return optimizers::SGD({.learning_rate = 0.1, .momentum = 0.9, .name = "o"}); }},
      {"Adam", [] { return optimizers::Adam({.learning_rate = 0.05, .name = "o"}); }},
      {"AdamW", [] { return optimizers::AdamW({.learning_rate = 0.05, .global_clipnorm = 1.0, .name = "o"}); }},
      {"Nadam", [] { return optimizers::Nadam({.learning_rate = 0.05, .name = "o"}); }},
      {"EMA", [] { return optimizers::RMSprop({.learning_rate = 0.05, .use_ema = true, .name = "o"}); }},
  };
  for (const auto& [name, make] : kOptimizers) {
    Servers servers(2, FixedShardsPartitioner(3));
    const std::vector<Variable> expected = make_variables(), variables = make_variables(), copies = make_variables();
    const auto alone = make(), own = make(), remote = make();
    own.build(variables);
    servers.chief->place(variables);
    servers.chief->upload({optimizers::StepAccess::remote(*own)});
    ParameterServers worker = servers.worker();
    worker.place(copies);
    worker.pull();
    for (int step = 0; step < 4; ++step) {
      alone.apply(gradients_at(step), expected);
      const ParameterServers::Closure closure(worker, std::to_string(step));
      remote.apply(gradients_at(step), copies);
      expect_equal(copies, expected, name);
      EXPECT_EQ(remote.iterations(), step + 1);
    }
    servers.chief->download({optimizers::StepAccess::remote(*own)});
    expect_equal(variables, expected, name);
    const auto slots = own.variables(), expected_slots = alone.variables();
    for (std::size_t i = 1; i < slots.size(); ++i) {
      EXPECT_EQ(slots[i].numpy().to_vector<float>(), expected_slots[i].numpy().to_vector<float>())
          << name << ": " << slots[i].path();
    }
    EXPECT_EQ(own.iterations(), 4);
    // Uploaded again, training continues from there.
    servers.chief->upload({optimizers::StepAccess::remote(*own)});
    worker.pull();
    alone.apply(gradients_at(9), expected);
    const ParameterServers::Closure closure(worker, "again");
    remote.apply(gradients_at(9), copies);
    expect_equal(copies, expected, name);
  }
}

TEST(ParameterServers, OnlyRowsOfEmbeddingsTravel) {
  Servers servers(2, FixedShardsPartitioner(2));
  const auto make = [] { return Variable(Tensor::full(Shape{6, 2}, 1.0), {.name = "embeddings"}); };
  const auto make_optimizer = [] { return optimizers::Adagrad({.learning_rate = 0.5}); };
  const Tensor ids = Tensor::from_vector<std::int64_t>({4, 1, 4});
  const auto step = [&](const Variable& table, const optimizers::OptimizerPtr& optimizer) {
    GradientTape tape;
    const Tensor rows = ops::gather(table, ids);
    const Tensor loss = ops::reduce_sum(rows * rows);
    optimizer.apply(tape.gradient(loss, std::vector<Variable>{table}), {table});
  };
  const Variable expected = make(), own = make(), copy = make(), other = make();
  const auto alone = make_optimizer(), remote = make_optimizer();
  servers.chief->place({own});
  servers.chief->upload({});
  ParameterServers worker = servers.worker(), second = servers.worker();
  worker.place({copy});
  second.place({other});
  second.pull();
  for (int i = 0; i < 3; ++i) {
    step(expected, alone);
    const ParameterServers::Closure closure(worker, std::to_string(i));
    worker.pull();
    worker.pull_rows(copy, ids);
    step(copy, remote);
  }
  servers.chief->download({});
  EXPECT_EQ(own.numpy().to_vector<float>(), expected.numpy().to_vector<float>());
  // Another worker sees the rows it asks for.
  second.pull_rows(other, Tensor::from_vector<std::int32_t>({4}));
  const auto seen = other.numpy().to_vector<float>();
  EXPECT_EQ(seen[8], expected.numpy().to_vector<float>()[8]);
  EXPECT_EQ(seen[2], 1.0F);
}

TEST(ParameterServers, ATokenIsDoneOnce) {
  Servers servers(1);
  const Variable own(1.0, {.name = "v"}), copy(1.0, {.name = "v"});
  const auto remote = optimizers::SGD({.learning_rate = 1.0});
  servers.chief->place({own});
  servers.chief->upload({});
  ParameterServers worker = servers.worker();
  worker.place({copy});
  worker.pull();
  for (int i = 0; i < 3; ++i) {
    const ParameterServers::Closure closure(worker, "closure 7");
    remote.apply({Tensor::scalar(0.25F)}, {copy});
    EXPECT_EQ(copy.numpy().item<float>(), 0.75F);
  }
}

TEST(ParameterServers, WritesOfWorkersAreAddedUp) {
  Servers servers(2);
  const auto make = [] { return std::vector<Variable>{Variable(1.0, {.name = "v"}), Variable(10, {.name = "n"})}; };
  const auto own = make(), first = make(), second = make();
  servers.chief->place(own);
  servers.chief->upload({});
  ParameterServers one = servers.worker(), two = servers.worker();
  one.place(first);
  two.place(second);
  one.pull();
  two.pull();
  first[0].assign_add(2);
  second[0].assign_add(4);
  second[1].assign(12);
  {
    const ParameterServers::Closure closure(one, "one");
    one.push_changes();
  }
  {
    const ParameterServers::Closure closure(two, "two");
    two.push_changes();
  }
  EXPECT_EQ(second[0].numpy().item<float>(), 7);
  own[0].assign(5);
  servers.chief->push_assignments();
  servers.chief->download({});
  EXPECT_EQ(own[0].numpy().item<float>(), 5);
  EXPECT_EQ(own[1].numpy().item<int>(), 12);
}

TEST(ParameterServers, MalformedMessagesAreErrors) {
  Servers servers(1);
  const Variable own(1.0, {.name = "v"});
  servers.chief->place({own});
  servers.chief->upload({});
  const auto send = [&](const std::function<void(collectives::Message&)>& change) {
    collectives::Message step("step");
    step.head["generation"] = 1;
    step.head["token"] = "t";
    step.head["optimizer"] = "sgd";
    step.head["updates"] = Json::array();
    step.head["wanted"] = Json::array();
    change(step);
    const auto channel =
        collectives::MessageChannel::connect("ps 0", servers.options.servers[0].address, std::chrono::seconds(5));
    channel->send(std::move(step), std::chrono::seconds(5));
    const collectives::Message reply = channel->receive(std::chrono::seconds(5));
    return reply.kind() == "error" ? reply.text("message") : reply.kind();
  };
  using M = collectives::Message;
  EXPECT_EQ(send([](M&) {}), "values");
  EXPECT_THAT(send([](M& m) { m.head["generation"] = 7; }), HasSubstr("other variables"));
  EXPECT_THAT(send([](M& m) { m.head["token"] = 3; }), HasSubstr("'token'"));
  EXPECT_THAT(send([](M& m) { m.head["wanted"].push_back("all"); }), HasSubstr("no variable and shard"));
  EXPECT_THAT(send([](M& m) {
                m.head["updates"].push_back(Json::array({9, 0, "add"}));
                m.head["token"] = "nine";
              }),
              HasSubstr("no shard 0"));
  EXPECT_THAT(send([](M& m) { m.head["kind"] = "begin"; }), HasSubstr("another task than the chief"));
  EXPECT_THAT(send([](M& m) { m.head["kind"] = "dance"; }), HasSubstr("another task than the chief"));
  const auto update = [](M& m, const char* how, Tensors values) {
    m.head["token"] = std::string(how) + std::to_string(values.size());
    m.head["updates"].push_back(Json::array({0, 0, how}));
    for (const Tensor& value : values) m.tensors.push_back(value.to_data());
  };
  EXPECT_THAT(send([&](M& m) { update(m, "gradient", {}); }), HasSubstr("without values"));
  EXPECT_THAT(send([&](M& m) { update(m, "gradient", {Tensor::zeros(Shape{3})}); }), HasSubstr("expected float32()"));
  EXPECT_THAT(send([&](M& m) {
                update(m, "rows", {Tensor::zeros(Shape{3}), Tensor::zeros(Shape{3})});
              }),
              HasSubstr("no vector of rows"));
}

TEST(ClusterCoordinator, RunsClosuresOnWorkers) {
  run_cluster(2, 2, [](ParameterServerStrategy& strategy) {
    const Variable counter(0.0, {.name = "counter"});
    ClusterCoordinator coordinator(strategy);
    std::vector<RemoteValue> values;
    for (int i = 0; i < 20; ++i) {
      values.push_back(coordinator.schedule([&counter, i] {
        counter.assign_add(1);
        return static_cast<float>(i);
      }));
    }
    if (strategy.is_chief()) {
      EXPECT_EQ(coordinator.fetch(values[7]).item<float>(), 7);
    }
    coordinator.join();
    if (strategy.is_chief()) {
      EXPECT_EQ(counter.numpy().item<float>(), 20);
      EXPECT_TRUE(coordinator.done());
      EXPECT_EQ(values[19].fetch().item<float>(), 19);
      counter.assign(100);
    }
    // A variable that is new, and what the chief has assigned.
    const Variable other(1.0, {.name = "other"});
    coordinator.schedule([&] { other.assign_add(counter); });
    coordinator.join();
    EXPECT_EQ(other.numpy().item<float>(), 101);
  });
}

TEST(ClusterCoordinator, TrainsWithAnOptimizer) {
  run_cluster(2, 2, [](ParameterServerStrategy& strategy) {
    const Variable w(Tensor::zeros(Shape{3}), {.name = "w"});
    const auto optimizer = optimizers::SGD({.learning_rate = 0.1, .name = "o"});
    ClusterCoordinator coordinator(strategy);
    const Tensor target = Tensor::from_vector<float>({1, -2, 3});
    for (int i = 0; i < 60; ++i) {
      coordinator.schedule([&] {
        return strategy.run([&] {
          GradientTape tape;
          const Tensor difference = w - target;
          const Tensor loss = ops::reduce_sum(difference * difference);
          optimizer.apply_gradients(zip(tape.gradient(loss, {w}), {w}));
          return loss;
        });
      });
    }
    while (strategy.is_chief() && !coordinator.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    coordinator.join();
    EXPECT_THAT(w.numpy().to_vector<float>(), Pointwise(FloatNear(1e-3F), target.to_vector<float>()));
  });
}

// Learning rates that the program sets count, and the chief has the optimizer's state after join(): it can be saved,
// and what is restored on the chief goes to the servers, also before the first step.
TEST(ClusterCoordinator, OptimizersHaveTheirStateOnTheChief) {
  const auto make = [] { return optimizers::Adam({.learning_rate = 0.1, .weight_decay = 0.01, .name = "o"}); };
  const auto step = [](const optimizers::OptimizerPtr& optimizer, const std::vector<Variable>& variables, int i) {
    optimizer.apply(gradients_at(i), variables);
  };
  const auto expect_state = [](const optimizers::OptimizerPtr& found, const optimizers::OptimizerPtr& expected) {
    ASSERT_EQ(found.variables().size(), expected.variables().size());
    for (std::size_t i = 0; i < found.variables().size(); ++i) {
      EXPECT_EQ(ops::cast(found.variables()[i]->numpy(), DType::kFloat32).to_vector<float>(),
                ops::cast(expected.variables()[i]->numpy(), DType::kFloat32).to_vector<float>())
          << found.variables()[i]->path();
    }
  };
  const std::vector<Variable> expected = make_variables();
  const auto alone = make();
  alone.exclude_from_weight_decay({expected[1]});
  run_cluster(1, 2, [&](ParameterServerStrategy& strategy) {
    const bool chief = strategy.is_chief();
    const std::vector<Variable> variables = make_variables();
    const auto optimizer = make();
    optimizer.exclude_from_weight_decay({variables[1]});
    ClusterCoordinator coordinator(strategy);
    for (int i = 0; i < 6; ++i) {
      if (i == 2) optimizer.set_learning_rate(0.5);           // of each process
      if (i == 4 && chief) optimizer.set_learning_rate(0.2);  // decided by the chief
      coordinator.schedule([&, i] {
        if (i == 5) optimizer.set_learning_rate(0.3);
        step(optimizer, variables, i);
      });
      coordinator.join();
      if (!chief) continue;
      alone.set_learning_rate(std::vector<double>{0.1, 0.1, 0.5, 0.5, 0.2, 0.3}[static_cast<std::size_t>(i)]);
      step(alone, expected, i);
      expect_equal(variables, expected, "after step " + std::to_string(i));
      optimizer.set_learning_rate(alone.learning_rate());  // step 5 has set it on the worker alone
      expect_state(optimizer, alone);
    }
    // As a checkpoint does.
    if (chief) {
      for (std::size_t i = 2; i < optimizer.variables().size(); ++i) {
        for (const auto& slot : {optimizer.variables()[i], alone.variables()[i]})
          slot->assign(Tensor::full(slot->shape(), 0.125 * static_cast<double>(i), slot->dtype()));
      }
    }
    coordinator.schedule([&] { step(optimizer, variables, 6); });
    coordinator.join();
    if (!chief) return;
    step(alone, expected, 6);
    expect_equal(variables, expected, "restored");
    expect_state(optimizer, alone);
  });
}

TEST(ClusterCoordinator, OptimizersOutsideTheScopeAreRefused) {
  run_cluster(1, 1, [](ParameterServerStrategy& strategy) {
    const Variable w(0.0, {.name = "w"});
    ClusterCoordinator coordinator(strategy);
    coordinator.schedule([&] { optimizers::SGD({.name = "inner"}).apply({Tensor::scalar(1.0F)}, {w}); });
    try {
      coordinator.join();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("optimizer 'inner' requires the scope of the ParameterServerStrategy"));
    }
  });
}

TEST(ClusterCoordinator, ProcessesWithOtherCallsAreTold) {
  run_cluster(1, 1, [](ParameterServerStrategy& strategy) {
    ClusterCoordinator coordinator(strategy);
    const auto call = [&] {
      coordinator.schedule([] {});
      if (strategy.is_chief()) return coordinator.join();
      strategy.impl().client->serve("fit()", [](std::int64_t, const std::string&, TaskResult&) {});
    };
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("has called fit(), but the chief ClusterCoordinator::join(): chief and "
                                             "workers must make the same calls"));
    }
  });
  run_cluster(1, 1, [](ParameterServerStrategy& strategy) {
    ClusterCoordinator coordinator(strategy);
    coordinator.schedule([] {});
    if (strategy.is_chief()) return coordinator.join();
    coordinator.schedule([] {});
    try {
      coordinator.join();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("has scheduled 2 closures since the last ClusterCoordinator::join(), but "
                                             "the chief 1: chief and workers must make the same calls"));
    }
  });
}

TEST(ClusterCoordinator, AnErrorOfAClosureIsThrownOnce) {
  run_cluster(2, 1, [](ParameterServerStrategy& strategy) {
    const Variable counter(0.0, {.name = "counter"});
    ClusterCoordinator coordinator(strategy);
    coordinator.schedule([] { throw_out_of_range("no such row"); });
    EXPECT_THROW(coordinator.join(), errors::OutOfRangeError);
    coordinator.schedule([&] { counter.assign_add(1); });
    coordinator.join();
    EXPECT_EQ(counter.numpy().item<float>(), 1);
  });
}

// Takes a task as worker 1, and calls `end` instead of doing it: another worker does it, so each is done once.
void lose_a_worker(const std::function<void(collectives::MessageChannel&)>& end) {
  using collectives::Message;
  std::unique_ptr<collectives::MessageChannel> channel;
  run_cluster(
      2, 1,
      [](ParameterServerStrategy& strategy) {
        const Variable counter(0.0, {.name = "counter"});
        ClusterCoordinator coordinator(strategy);
        for (int i = 0; i < 10; ++i) coordinator.schedule([&] { counter.assign_add(1); });
        coordinator.join();
        EXPECT_EQ(counter.numpy().item<float>(), 10);
      },
      [&](const std::string& chief, const std::string& cluster) {
        constexpr std::chrono::seconds kPatience{20};
        channel = collectives::MessageChannel::connect("chief", chief, kPatience);
        Message hello("hello");
        hello.head["worker"] = 1;
        hello.head["cluster"] = "lockstep tasks 2: " + cluster;
        channel->send(std::move(hello), kPatience);
        EXPECT_EQ(channel->receive(kPatience).kind(), "welcome");
        std::string got = "idle";
        while (got == "idle") {
          Message next("next");
          next.head["section"] = 0;
          channel->send(std::move(next), kPatience);
          got = channel->receive(kPatience).kind();
        }
        EXPECT_EQ(got, "task");
        end(*channel);
      });
}

TEST(ClusterCoordinator, ALostWorkerCostsNothing) {
  lose_a_worker([](collectives::MessageChannel& channel) { channel.close(); });
}

// The time-out, after which it would count as lost, is 30 s.
TEST(ClusterCoordinator, AHangingWorkerDelaysNobody) {
  const auto begin = std::chrono::steady_clock::now();
  lose_a_worker([](collectives::MessageChannel&) {});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25));
}

TEST(ParameterServerStrategy, RequiresAClusterOfItsKind) {
  const ClusterSpec workers({{"worker", {{0, "127.0.0.1:2222"}}}});
  const auto message = [](ClusterResolver cluster) {
    try {
      ParameterServerStrategy strategy({.cluster_resolver = std::move(cluster)});
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_THAT(message(ClusterResolver(workers, "worker", 0)), HasSubstr("found no chief"));
  const ClusterSpec all(
      {{"worker", {{0, "127.0.0.1:2222"}}}, {"chief", {{0, "127.0.0.1:2223"}}}, {"ps", {{0, "127.0.0.1:2224"}}}});
  EXPECT_THAT(message(ClusterResolver(all, "ps", 0)), HasSubstr("Server::join()"));
  EXPECT_THROW(Server({.cluster_resolver = ClusterResolver(all, "worker", 0)}), errors::InvalidArgumentError);
}

TEST(Partitioners, AreTensorFlows) {
  // Numbers of tf.distribute.experimental.partitioners, TensorFlow 2.21.
  const auto shards = [](const Partitioner& partitioner, std::vector<std::int64_t> dims) {
    Shape shape;
    for (const std::int64_t dim : dims) shape.push_back(dim);
    return partitioner(shape, DType::kFloat32);
  };
  EXPECT_EQ(shards(FixedShardsPartitioner(3), {10, 4}), 3);
  EXPECT_EQ(shards(FixedShardsPartitioner(3), {2, 4}), 2);
  EXPECT_EQ(shards(FixedShardsPartitioner(3), {3}), 3);
  const Partitioner least = MinSizePartitioner(100, 4);
  EXPECT_EQ(shards(least, {24}), 1);
  EXPECT_EQ(shards(least, {25}), 1);
  EXPECT_EQ(shards(least, {50}), 2);
  EXPECT_EQ(shards(least, {51}), 3);
  EXPECT_EQ(shards(least, {10, 10}), 4);
  EXPECT_EQ(shards(least, {3, 100}), 3);
  const Partitioner standard = MinSizePartitioner(256 << 10, 2);
  EXPECT_EQ(shards(standard, {65536}), 1);
  EXPECT_EQ(shards(standard, {131072}), 2);
  EXPECT_EQ(shards(standard, {1000, 1000}), 2);
  const Partitioner most = MaxSizePartitioner(100);
  EXPECT_EQ(shards(most, {10, 10}), 5);
  EXPECT_EQ(shards(most, {25}), 1);
  EXPECT_EQ(shards(most, {26}), 2);
  EXPECT_EQ(shards(most, {3, 100}), 3);
  EXPECT_EQ(shards(MaxSizePartitioner(100, 2), {10, 10}), 2);
  EXPECT_EQ(shards(most, {}), 1);
  EXPECT_THROW(FixedShardsPartitioner(0), errors::InvalidArgumentError);
}

}  // namespace
}  // namespace lockstep::distribute
