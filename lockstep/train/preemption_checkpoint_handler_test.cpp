// Loops that are preempted and started again end as those that were not.
#include <csignal>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/distribute/multi_worker_mirrored_strategy.h"
#include "lockstep/train/checkpoint_utils.h"
#include "lockstep/train/preemption_checkpoint_handler.h"

namespace lockstep::train {
namespace {

using distribute::Variable;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

struct Exit {};  // thrown by exit_fn, in place of std::exit

class PreemptionCheckpointHandlerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        (fs::path(::testing::TempDir()) /
         fmt::format("preempted_{}_{}", getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name()))
            .string();
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder_;
};

// v becomes 2 v + 1 in each of six steps. Returns v, or nothing when the program ended.
std::optional<double> train(distribute::Strategy& strategy, const std::string& folder, TerminationConfig config,
                            const std::function<void(std::int64_t)>& before_step) {
  Variable v(Tensor::scalar(1.0F), {.name = "v"});
  const Checkpoint checkpoint({{"v", v}});
  config.exit_fn = [] { throw Exit(); };
  try {
    PreemptionCheckpointHandler handler(strategy, checkpoint, folder, config);
    while (handler.total_run_calls() < 6) {
      before_step(handler.total_run_calls());
      const double value = handler.run(
          [&](double add) {
            v.assign(v.value() * 2.0F + static_cast<float>(add));
            return v.value().item<double>();
          },
          1.0);
      EXPECT_EQ(value, v.value().item<double>());
    }
  } catch (const Exit&) {
    return std::nullopt;
  }
  return v.value().item<double>();
}

TEST_F(PreemptionCheckpointHandlerTest, SigtermSavesAndTheNextRunContinues) {
  auto& strategy = distribute::get_strategy();
  struct sigaction before {
  }, after{};
  sigaction(SIGTERM, nullptr, &before);
  EXPECT_FALSE(train(strategy, folder_, {}, [](std::int64_t run) {
    if (run == 3) std::raise(SIGTERM);
  }));
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  const auto saved = load_checkpoint(folder_);
  EXPECT_EQ(saved.get_tensor("checkpointed_runs/.ATTRIBUTES/VARIABLE_VALUE").item<std::int64_t>(), 3);
  EXPECT_EQ(saved.get_tensor("v/.ATTRIBUTES/VARIABLE_VALUE").item<float>(), 15);
  std::vector<std::int64_t> runs;
  EXPECT_EQ(train(strategy, folder_, {}, [&](std::int64_t run) { runs.push_back(run); }), 127);
  EXPECT_EQ(runs, (std::vector<std::int64_t>{3, 4, 5}));
}

TEST_F(PreemptionCheckpointHandlerTest, WorkersSaveBeforeTheSameStep) {
  const auto group = collectives::make_thread_group(2);
  std::vector<std::optional<double>> results(2);
  const auto run_workers = [&](bool preempt) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        distribute::MultiWorkerMirroredStrategy strategy(group[static_cast<std::size_t>(rank)]);
        bool notice = false;
        results[static_cast<std::size_t>(rank)] =
            train(strategy, folder_, {.termination_watcher_fn = [&] { return notice; }}, [&](std::int64_t run) {
              EXPECT_TRUE(run < 2 || !preempt);
              notice = preempt && rank == 1;  // noticed a second later at the latest
              if (notice) std::this_thread::sleep_for(std::chrono::milliseconds(600));
            });
      });
    }
    for (auto& thread : threads) thread.join();
  };
  run_workers(true);
  EXPECT_FALSE(results[0] || results[1]);
  run_workers(false);
  EXPECT_EQ(results[0], 127);
  EXPECT_EQ(results[1], 127);
}

TEST_F(PreemptionCheckpointHandlerTest, TrainsOnInTheGracePeriod) {
  int saves = 0;
  std::int64_t last = 0;
  EXPECT_FALSE(train(distribute::get_strategy(), folder_, {.grace_period = 0.2, .save_fn = [&] { ++saves; }},
                     [&](std::int64_t run) {
                       last = run;
                       if (run == 1) std::raise(SIGTERM);
                       if (run == 3) std::this_thread::sleep_for(std::chrono::milliseconds(250));
                     }));
  EXPECT_EQ(saves, 2);
  EXPECT_EQ(last, 3);
}

TEST_F(PreemptionCheckpointHandlerTest, UsesAManagerOfTheProgram) {
  Variable v(Tensor::scalar(5.0F), {.name = "v"});
  const Checkpoint checkpoint({{"v", v}});
  CheckpointManager manager(checkpoint, folder_, 3);
  int exits = 0;
  PreemptionCheckpointHandler handler(distribute::get_strategy(), manager,
                                      {.termination_config = {.exit_fn = [&] { ++exits; }}});
  handler.run([] {});
  handler.save_checkpoint_if_preempted();
  std::raise(SIGTERM);
  handler.run([] {});
  handler.run([] {});
  EXPECT_EQ(exits, 1);
  EXPECT_EQ(handler.total_run_calls(), 4);
  EXPECT_EQ(manager.checkpoints().size(), 1U);
  EXPECT_THROW(handler.run([]() -> int { throw errors::AbortedError("failed"); }), errors::AbortedError);
  EXPECT_EQ(handler.total_run_calls(), 4);
}

TEST_F(PreemptionCheckpointHandlerTest, Errors) {
  auto& strategy = distribute::get_strategy();
  const Checkpoint checkpoint;
  const PreemptionCheckpointHandler handler(strategy, checkpoint, folder_);
  EXPECT_THROW(PreemptionCheckpointHandler(strategy, checkpoint, folder_), errors::FailedPreconditionError);
  EXPECT_NO_THROW(
      PreemptionCheckpointHandler(strategy, checkpoint, folder_, {.termination_watcher_fn = [] { return false; }}));
  EXPECT_THROW(PreemptionCheckpointHandler(strategy, checkpoint, ""), errors::InvalidArgumentError);
}

}  // namespace
}  // namespace lockstep::train
