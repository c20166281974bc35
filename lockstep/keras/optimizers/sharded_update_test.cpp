// Updates that workers of one machine share, by ranks that are threads of this process with memory of their own.
#include <chrono>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/collectives/threaded_job_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"

namespace lockstep::optimizers {
namespace {

using Values = std::vector<float>;

// One block in part, several blocks, and a few elements.
const std::vector<std::int64_t> kSizes = {1000, 300001, 3};

// fn(rank, the group) on a thread each.
void with_workers(int size, const std::function<void(int, const collectives::CommunicatorPtr&)>& fn) {
  const auto addresses = collectives::threaded_job::free_addresses(size);
  const auto messages = collectives::threaded_job::run(
      size, [&](int rank) { fn(rank, collectives::join_job(collectives::threaded_job::job(rank, addresses))); });
  EXPECT_THAT(messages, ::testing::Each(""));
}

Values random_values(std::int64_t size, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Values values(static_cast<std::size_t>(size));
  for (float& value : values) value = normal(generator);
  return values;
}

struct Model {
  explicit Model(OptimizerPtr made) : optimizer(std::move(made)) {
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      variables.push_back(distribute::Variable::create(
          Tensor::from_vector(random_values(kSizes[i], static_cast<unsigned>(i))), {.name = "kernel"}));
      variables.back()->set_path("layer_" + std::to_string(i) + "/kernel");
    }
    optimizer->build(variables);
  }

  // The gradients of a single worker: the sums of the ranks' gradients, added in their order.
  Tensors gradients(int step, int rank) const {
    Tensors out;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      out.push_back(Tensor::from_vector(
          random_values(kSizes[i], static_cast<unsigned>(1000 * step + 10 * rank) + static_cast<unsigned>(i))));
    }
    return out;
  }
  void step_alone(int step, int ranks) {
    Tensors sums = gradients(step, 0);
    for (int rank = 1; rank < ranks; ++rank) {
      const Tensors more = gradients(step, rank);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        Values sum = sums[i].to_vector<float>();
        const Values addend = more[i].to_vector<float>();
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += addend[k];
        sums[i] = Tensor::from_vector(sum);
      }
    }
    optimizer->apply_aggregated(std::move(sums), variables);
  }
  void step_together(int step, const collectives::CommunicatorPtr& group) {
    Tensors mine = gradients(step, group->rank());
    collectives::GradientSum sum(*group, mine.size(), {});
    sum.ready(2, mine[2]);
    sum.ready(1, mine[1]);
    auto sharded = StepAccess::shard(*optimizer, group, sum, mine, variables);
    ASSERT_TRUE(sharded.has_value());
    Tensors exact{Tensor::from_vector(Values{1})};
    const auto others = sum.finish(mine, exact, sharded->updates);
    sharded->commit(mine, others);
    EXPECT_EQ(exact[0].item<float>(), static_cast<float>(group->size()));
  }

  std::vector<Values> state() const {
    std::vector<Values> out;
    for (const VariablePtr& each : variables) out.push_back(each->numpy().to_vector<float>());
    for (const VariablePtr& each : optimizer->variables()) {
      if (each->dtype() == DType::kFloat32) out.push_back(each->numpy().to_vector<float>());
    }
    return out;
  }

  OptimizerPtr optimizer;
  Variables variables;
};

std::vector<std::function<OptimizerPtr()>> rules() {
  return {[] { return SGD(); },
          [] { return SGD({.momentum = 0.9, .nesterov = true, .weight_decay = 0.01}); },
          [] { return Adam(); },
          [] { return Adam({.amsgrad = true, .use_ema = true, .ema_momentum = 0.5, .ema_overwrite_frequency = 2}); },
          [] { return AdamW({.weight_decay = 0.02}); },
          [] { return RMSprop({.momentum = 0.5, .centered = true}); },
          [] { return Adamax({.weight_decay = 0.01}); },
          [] { return Adadelta(); },
          [] { return Lion(); }};
}

TEST(ShardedUpdate, IsBitIdenticalToAFullUpdate) {
  for (const int size : {2, 3}) {
    with_workers(size, [size](int, const collectives::CommunicatorPtr& group) {
      for (const auto& rule : rules()) {
        Model shared(rule()), alone(rule());
        for (int step = 0; step < 3; ++step) {
          shared.step_together(step, group);
          alone.step_alone(step, size);
          EXPECT_TRUE(shared.state() == alone.state()) << dump_json(alone.optimizer->get_config()) << " step " << step;
        }
        EXPECT_EQ(shared.optimizer->iterations(), 3);
        group->barrier();
      }
    });
  }
}

// A job over loopback whose ranks are on machines of these names, and a step in which each keeps a part of the state.
void on_machines(const std::string& machines, const std::function<void(int, const collectives::CommunicatorPtr&)>& fn) {
  const int size = static_cast<int>(machines.size());
  const auto addresses = collectives::threaded_job::free_addresses(size);
  const auto messages = collectives::threaded_job::run(size, [&](int rank) {
    auto options = collectives::threaded_job::job(rank, addresses);
    options.machine = machines[static_cast<std::size_t>(rank)];
    const collectives::CommunicatorPtr group = collectives::join_job(options);
    fn(rank, group);
    group->barrier();
  });
  EXPECT_THAT(messages, ::testing::Each(""));
}

void step_in_parts(Model& sharded, Model& alone, int step, const collectives::CommunicatorPtr& group) {
  Tensors mine = sharded.gradients(step, group->rank());
  collectives::GradientSum sum(*group, mine.size(), {.shard_state = true});
  auto made = StepAccess::shard(*sharded.optimizer, group, sum, mine, sharded.variables);
  ASSERT_TRUE(made.has_value());
  Tensors exact;
  sum.finish(mine, exact);
  alone.optimizer->apply_aggregated(mine, alone.variables);
  made->commit(mine, nullptr);
}

// Workers on several machines, which keep parts of the state: what they compute from the same sums is what each would
// compute alone, whether the state is read after each step or only at the end, and after it was assigned.
TEST(ShardedState, IsBitIdenticalToAFullUpdate) {
  for (const std::string machines : {"ab", "aab"}) {
    on_machines(machines, [&](int, const collectives::CommunicatorPtr& group) {
      for (const auto& rule : rules()) {
        for (const bool reads : {false, true}) {
          Model sharded(rule()), alone(rule());
          for (int step = 0; step < 4; ++step) {
            step_in_parts(sharded, alone, step, group);
            if (reads) {
              EXPECT_TRUE(sharded.state() == alone.state()) << machines << " step " << step;
            }
            if (step == 1) {
              for (Model* each : {&sharded, &alone}) {
                for (const VariablePtr& slot : each->optimizer->variables()) {
                  if (slot->dtype() == DType::kFloat32) slot->assign(slot->numpy() * 0.5);
                }
              }
            }
          }
          EXPECT_TRUE(sharded.state() == alone.state()) << machines << " " << dump_json(alone.optimizer->get_config());
        }
      }
    });
  }
}

TEST(ShardedState, ValuesThatAreHeldStayAsTheyWere) {
  on_machines("ab", [](int, const collectives::CommunicatorPtr& group) {
    Model sharded(Adam()), alone(Adam());
    step_in_parts(sharded, alone, 0, group);
    Tensors held;
    std::vector<Values> before;
    for (const VariablePtr& each : sharded.optimizer->variables()) held.push_back(each->numpy());
    for (const Tensor& each : held) {
      if (each.dtype() == DType::kFloat32) before.push_back(each.to_vector<float>());
    }
    step_in_parts(sharded, alone, 1, group);
    std::vector<Values> after;
    for (const Tensor& each : held) {
      if (each.dtype() == DType::kFloat32) after.push_back(each.to_vector<float>());
    }
    EXPECT_TRUE(before == after);
    EXPECT_TRUE(sharded.state() == alone.state());
  });
}

// Slots that the chief alone reads, in its order and twice; a step follows, and all read together again.
TEST(ShardedState, TheChiefReadsAlone) {
  for (const std::string machines : {"ab", "abc", "aab"}) {
    on_machines(machines, [](int rank, const collectives::CommunicatorPtr& group) {
      Model sharded(Adam({.amsgrad = true})), alone(Adam({.amsgrad = true}));
      for (int step = 0; step < 2; ++step) {
        step_in_parts(sharded, alone, step, group);
        std::size_t ranges = 0;
        for (const VariablePtr& each : sharded.optimizer->variables()) ranges += slot_range(*each) != nullptr;
        EXPECT_EQ(ranges, 3u) << "the slots of the large variable";
        std::vector<std::vector<Values>> seen;
        run_on_chief(group.get(), "reading", sharded.optimizer->variables(), [&] {
          for (int pass = 0; pass < 2; ++pass) seen.push_back(sharded.state());
        });
        EXPECT_EQ(seen.size(), rank == 0 ? 2u : 0u);
        for (const auto& state : seen) EXPECT_TRUE(state == alone.state());
        std::string message;
        try {
          run_on_chief(group.get(), "reading", sharded.optimizer->variables(),
                       [] { throw_resource_exhausted("the disk is full"); });
        } catch (const Error& error) {
          message = error.message();
        }
        EXPECT_THAT(message, ::testing::HasSubstr("the disk is full"));
        if (step == 1) {
          EXPECT_TRUE(sharded.state() == alone.state());
        }
      }
    });
  }
}

// A step with slices of a gradient needs whole slots, on all ranks, for good.
TEST(ShardedState, SlicesMakeSlotsWhole) {
  on_machines("ab", [](int, const collectives::CommunicatorPtr& group) {
    Model sharded(Adam()), alone(Adam());
    step_in_parts(sharded, alone, 0, group);
    for (Model* const each : {&sharded, &alone}) each->step_alone(1, 2);
    for (const VariablePtr& each : sharded.optimizer->variables()) EXPECT_EQ(slot_range(*each), nullptr);
    EXPECT_TRUE(sharded.state() == alone.state());
    step_in_parts(sharded, alone, 2, group);
    EXPECT_TRUE(sharded.state() == alone.state());
  });
}

// Nobody looks at anything between steps, so that each begins while others still make parts of the last one; then
// several threads look at once.
TEST(ShardedUpdate, StepsFollowEachOther) {
  with_workers(2, [](int rank, const collectives::CommunicatorPtr& group) {
    Model shared(Adam()), alone(Adam()), another(SGD({.momentum = 0.9})), another_alone(SGD({.momentum = 0.9}));
    for (int step = 0; step < 6; ++step) {
      if (rank == step % 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      shared.step_together(step, group), another.step_together(step + 10, group);
      alone.step_alone(step, 2), another_alone.step_alone(step + 10, 2);
    }
    std::vector<std::vector<Values>> seen(3);
    std::vector<std::thread> threads;
    for (auto& state : seen) threads.emplace_back([&] { state = shared.state(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& state : seen) EXPECT_TRUE(state == alone.state());
    EXPECT_TRUE(another.state() == another_alone.state());
    group->barrier();
  });
}

// A model that is gone before its last step has arrived leaves nothing behind.
TEST(ShardedUpdate, VariablesNeedNoReadBetweenSteps) {
  with_workers(2, [](int, const collectives::CommunicatorPtr& group) {
    for (int round = 0; round < 3; ++round) {
      Model unseen(Adam());
      for (int step = 0; step < 2; ++step) unseen.step_together(step, group);
    }
    Model shared(SGD()), alone(SGD());
    shared.step_together(0, group), alone.step_alone(0, 2);
    EXPECT_TRUE(shared.state() == alone.state());
    group->barrier();
  });
}

// A value that somebody holds stays as it was, a slot can be written to between steps, and a step may go the other way.
TEST(ShardedUpdate, SlotsAreVariablesLikeOthers) {
  with_workers(2, [](int, const collectives::CommunicatorPtr& group) {
    Model shared(Adam()), alone(Adam());
    const auto velocity_of_the_large_one = [](const Model& model) {
      return model.optimizer->variables()[model.optimizer->variables().size() - 3];
    };
    const VariablePtr velocity = velocity_of_the_large_one(shared);
    for (int step = 0; step < 2; ++step) shared.step_together(step, group), alone.step_alone(step, 2);
    const Tensor held = velocity->numpy();
    const Values before = held.to_vector<float>();
    shared.step_together(2, group), alone.step_alone(2, 2);
    EXPECT_EQ(held.to_vector<float>(), before);
    EXPECT_NE(velocity->numpy().to_vector<float>(), before);

    shared.step_alone(3, 2), alone.step_alone(3, 2);
    EXPECT_TRUE(shared.state() == alone.state()) << "after a step that each made alone";
    shared.step_together(4, group), alone.step_alone(4, 2);
    EXPECT_TRUE(shared.state() == alone.state()) << "after one made together again";

    for (Model* model : {&shared, &alone}) velocity_of_the_large_one(*model)->assign(held);
    shared.step_together(5, group), alone.step_alone(5, 2);
    EXPECT_TRUE(shared.state() == alone.state()) << "after a slot was written to";
    group->barrier();
  });
}

TEST(ShardedUpdate, RulesThatNeedWholeGradientsAreNotSharded) {
  with_workers(2, [](int rank, const collectives::CommunicatorPtr& group) {
    for (const OptimizerPtr& optimizer :
         {SGD({.clipnorm = 1.0}), SGD({.global_clipnorm = 1.0}), SGD({.clipvalue = 1.0}),
          Adam({.loss_scale_factor = 2}), Adam({.gradient_accumulation_steps = 2}), Lamb(),
          LossScaleOptimizer(Adam())}) {
      Model model(optimizer);
      const Tensors gradients = model.gradients(0, rank);
      EXPECT_FALSE(StepAccess::shard(*model.optimizer, group, collectives::GradientSum(*group, gradients.size(), {}),
                                     gradients, model.variables))
          << dump_json(optimizer->get_config());
    }
    group->barrier();
  });
}

}  // namespace
}  // namespace lockstep::optimizers
