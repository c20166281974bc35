// Checkpoints of several ranks, as threads of this process.
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/recorded_log_internal.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/collectives/together.h"
#include "lockstep/distribute/multi_worker_mirrored_strategy.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/train/async_saver_internal.h"
#include "lockstep/train/checkpoint_manager.h"
#include "lockstep/train/shared_save_internal.h"

namespace lockstep::train {
namespace {

using collectives::Communicator;
using collectives::CommunicatorPtr;
using distribute::Variable;
using distribute::VariablePtr;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class SharedSaveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              fmt::format("shared_{}_{}", getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  fs::path folder_;
};

struct State {
  VariablePtr large = Variable::create(Tensor::zeros(Shape{100, 300}), {.name = "large"});
  VariablePtr small = Variable::create(Tensor::zeros(Shape{7}), {.name = "small"});
  Checkpoint checkpoint{{"large", large}, {"small", small}};
  void set(double value) const {
    large->assign(Tensor::full(Shape{100, 300}, value));
    small->assign(Tensor::full(Shape{7}, value + 0.5));
  }
  void expect(double value) const {
    EXPECT_THAT(large->numpy().to_vector<float>(), ::testing::Each(static_cast<float>(value)));
    EXPECT_THAT(small->numpy().to_vector<float>(), ::testing::Each(static_cast<float>(value + 0.5)));
  }
};

CommunicatorPtr borrowed(Communicator& group) { return {CommunicatorPtr(), &group}; }

TEST_F(SharedSaveTest, EachRankWritesItsPartAndAnyNumberReadsIt) {
  collectives::run_ranks(3, [&](Communicator& group) {
    const State state;
    state.set(1);
    CheckpointManager manager(state.checkpoint, folder_.string(), {.max_to_keep = 2, .workers = borrowed(group)});
    for (int i = 1; i <= 3; ++i) {
      state.set(i);
      const Json metadata{{"rank", group.rank()}, {"step", i}};
      EXPECT_EQ(manager.save({}, true, {.metadata = metadata}), path(fmt::format("ckpt-{}", i)));
    }
    EXPECT_EQ(manager.checkpoints(), (std::vector<std::string>{path("ckpt-2"), path("ckpt-3")}));
  });
  EXPECT_EQ(names(),
            (std::vector<std::string>{"checkpoint", "ckpt-2.data-00000-of-00003", "ckpt-2.data-00001-of-00003",
                                      "ckpt-2.data-00002-of-00003", "ckpt-2.index", "ckpt-3.data-00000-of-00003",
                                      "ckpt-3.data-00001-of-00003", "ckpt-3.data-00002-of-00003", "ckpt-3.index"}));
  std::uintmax_t total = 0;
  for (int shard = 0; shard < 3; ++shard) {
    const auto size = fs::file_size(formats::bundle_data_path(path("ckpt-3"), shard, 3));
    EXPECT_LT(size, 45000u);
    total += size;
  }
  EXPECT_LT(total, 122000u);  // one copy: 120028 bytes, the object graph, and the workers' metadata
  const auto metadata = checkpoint_metadata(path("ckpt-3"));
  ASSERT_EQ(metadata.size(), 3u);
  EXPECT_EQ(metadata[2], (Json{{"rank", 2}, {"step", 3}}));
  const State alone;
  alone.checkpoint.restore(path("ckpt-3")).assert_consumed();
  alone.expect(3);
  collectives::run_ranks(5, [&](Communicator& group) {
    const State state;
    CheckpointManager manager(state.checkpoint, folder_.string(), {.max_to_keep = 2, .workers = borrowed(group)});
    EXPECT_EQ(manager.restore_or_initialize(), path("ckpt-3"));
    state.expect(3);
    state.set(4);
    EXPECT_EQ(manager.save(), path("ckpt-4"));
    EXPECT_EQ(manager.checkpoints().front(), path("ckpt-3"));
  });
}

// Values of which each rank has a range: each writes its range, or sends it where it does not see the folder; any
// number of ranks reads them, whole or a range. Nothing is gathered.
TEST_F(SharedSaveTest, RangesAreWrittenAndReadWhereTheyAre) {
  struct Parts {
    VariablePtr large = Variable::create(Tensor::zeros(Shape{300, 100}), {.name = "large"});
    VariablePtr flat = Variable::create(Tensor::zeros(Shape{20001}), {.name = "flat"});
    VariablePtr whole = Variable::create(Tensor::zeros(Shape{50, 50}), {.name = "whole"});
    Checkpoint checkpoint{{"large", large}, {"flat", flat}, {"whole", whole}};
    std::vector<VariablePtr> all() const { return {large, flat, whole}; }
    void keep(const CommunicatorPtr& group) const {
      for (const VariablePtr& each : {large, flat}) optimizers::keep_range(*each, group);
    }
    static Tensor value(const VariablePtr& variable) {
      std::vector<float> values(static_cast<std::size_t>(*variable->shape().num_elements()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8191);
      return ops::reshape(Tensor::from_vector(values), variable->shape());
    }
  };
  for (const std::vector<int>& writers : {std::vector<int>{0, 1, 2}, {0}, {0, 2}}) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    collectives::run_ranks(3, [&](Communicator& group) {
      const Parts parts;
      for (const VariablePtr& each : parts.all()) each->assign(Parts::value(each));
      parts.keep(borrowed(group));
      const LiveValues values = values_of(build_live_graph(parts.checkpoint.root().ptr()));
      ASSERT_EQ(values.ranges.size(), 2u);
      write_together(group, shared_part(group, writers, path("ckpt-1"), values));
      for (const auto& [key, range] : values.ranges) EXPECT_FALSE(range->whole()) << key;
    });
    const Parts alone;
    alone.checkpoint.read(path("ckpt-1")).expect_partial();
    for (const VariablePtr& each : alone.all())
      EXPECT_TRUE(each->numpy().to_vector<float>() == Parts::value(each).to_vector<float>()) << each->name();
    collectives::run_ranks(4, [&](Communicator& group) {
      const Parts parts;
      parts.keep(borrowed(group));
      parts.checkpoint.read(path("ckpt-1"), {.workers = borrowed(group)}).expect_partial();
      for (const VariablePtr& each : {parts.large, parts.flat}) {
        ASSERT_TRUE(optimizers::slot_range(*each));
        EXPECT_FALSE(optimizers::slot_range(*each)->whole());
      }
      for (const VariablePtr& each : parts.all())
        EXPECT_TRUE(each->numpy().to_vector<float>() == Parts::value(each).to_vector<float>()) << each->name();
      // Each to its own folder, as programs without `workers` do.
      const std::string own = path(fmt::format("own-{}/ckpt", group.rank()));
      parts.checkpoint.write(own);
      const Parts again;
      again.checkpoint.read(own).expect_partial();
      for (const VariablePtr& each : again.all())
        EXPECT_TRUE(each->numpy().to_vector<float>() == Parts::value(each).to_vector<float>()) << each->name();
      group.barrier();
    });
  }
}

TEST_F(SharedSaveTest, AFailureOfOneIsThrownByAllAndLeavesNothing) {
  collectives::run_ranks(3, [&](Communicator& group) {
    const State state;
    state.set(1);
    state.checkpoint.write(path("ckpt"), {.workers = borrowed(group)});
    state.set(2);
    const auto before = names();
    group.barrier();
    std::string message;
    try {
      collectives::run_together(group, "saving a test", [&]() -> std::string {
        if (group.rank() == 1) throw_resource_exhausted("the disk is full");
        return {};
      });
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kResourceExhausted);
      message = error.message();
    }
    EXPECT_EQ(message, group.rank() == 1 ? "the disk is full" : "worker 1 (thread): saving a test: the disk is full");
    // Another model on one rank.
    const auto odd = Variable::create(Tensor::zeros(Shape{group.rank() == 2 ? 8 : 7}));
    EXPECT_THROW(Checkpoint({{"odd", odd}}).write(path("ckpt"), {.workers = borrowed(group)}), Error);
    EXPECT_THROW(state.checkpoint.write(path(fmt::format("ckpt{}", group.rank())), {.workers = borrowed(group)}),
                 Error);
    group.barrier();
    EXPECT_EQ(names(), before);
    group.barrier();
    state.checkpoint.write(path("ckpt"), {.workers = borrowed(group)});  // over the old one
    state.set(0);
    state.checkpoint.read(path("ckpt"), {.workers = borrowed(group)});
    state.expect(2);
  });
  EXPECT_EQ(names(), (std::vector<std::string>{"ckpt.data-00000-of-00004", "ckpt.data-00001-of-00004",
                                               "ckpt.data-00002-of-00004", "ckpt.index"}));
}

TEST_F(SharedSaveTest, ALostWorkerLeavesTheLastCheckpoint) {
  EXPECT_THROW(collectives::run_ranks(3,
                                      [&](Communicator& group) {
                                        const State state;
                                        state.set(1);
                                        CheckpointManager manager(state.checkpoint, folder_.string(),
                                                                  {.workers = borrowed(group)});
                                        manager.save();
                                        state.set(2);
                                        if (group.rank() == 1) throw_data_loss("killed");
                                        EXPECT_THROW(manager.save(), Error);
                                        manager.save();
                                      }),
               Error);
  EXPECT_EQ(names(), (std::vector<std::string>{"checkpoint", "ckpt-1.data-00000-of-00003", "ckpt-1.data-00001-of-00003",
                                               "ckpt-1.data-00002-of-00003", "ckpt-1.index"}));
  const State state;
  CheckpointManager manager(state.checkpoint, folder_.string());
  EXPECT_EQ(manager.restore_or_initialize(), path("ckpt-1"));
  state.expect(1);
}

TEST_F(SharedSaveTest, DamageAnywhereIsFoundByAll) {
  collectives::run_ranks(3, [&](Communicator& group) {
    const State state;
    CheckpointManager manager(state.checkpoint, folder_.string(), {.workers = borrowed(group)});
    for (int i = 1; i <= 2; ++i) {
      state.set(i);
      manager.save();
    }
  });
  for (int shard = 0; shard < 3; ++shard) {
    const std::string data = formats::bundle_data_path(path("ckpt-2"), shard, 3);
    const auto flip = [&] {
      std::fstream file(data, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(200);
      const int byte = file.get();
      file.seekp(200);
      file.put(static_cast<char>(byte ^ 1));
    };
    flip();
    const RecordedLog log;
    collectives::run_ranks(3, [&](Communicator& group) {
      const State state;
      CheckpointManager manager(state.checkpoint, folder_.string(), {.workers = borrowed(group)});
      EXPECT_EQ(manager.restore_or_initialize(), path("ckpt-1")) << shard;
      state.expect(1);
    });
    const std::string warned = log.text();
    EXPECT_THAT(warned, HasSubstr(fmt::format("in shard {}: checksum does not match", shard)));
    if (shard > 0) {
      EXPECT_THAT(warned, HasSubstr("tensor (a slice of large/.ATTRIBUTES/VARIABLE_VALUE) in shard"));
    }
    flip();
  }
}

// As in the tutorials: the chief saves to the real path, the others to folders that they remove.
TEST_F(SharedSaveTest, EachWorkerMaySaveAlone) {
  collectives::run_ranks(3, [&](Communicator& group) {
    const State state;
    state.set(7);
    const bool chief = group.rank() == 0;
    const std::string directory = path(chief ? "model" : fmt::format("workertemp_{}", group.rank()));
    CheckpointManager manager(state.checkpoint, directory, {.max_to_keep = 1});
    manager.save();
    if (!chief) fs::remove_all(directory);
    if (chief) state.checkpoint.write(path("by_the_chief_alone"));
  });
  EXPECT_EQ(names(),
            (std::vector<std::string>{"by_the_chief_alone.data-00000-of-00001", "by_the_chief_alone.index", "model"}));
}

// A sum over replicas needs all of them, so the chief cannot save it alone. TensorFlow waits for as long as the others
// live.
TEST_F(SharedSaveTest, WhoIsMissingInASaveByTheChiefAloneIsNamed) {
  for (const bool others_do_something_else : {false, true}) {
    std::string message;
    std::promise<void> over;
    collectives::run_ranks(
        2,
        [&](Communicator& group) {
          distribute::MultiWorkerMirroredStrategy strategy(borrowed(group));
          const auto scope = strategy.scope();
          const auto total =
              Variable::create(Tensor::scalar(1.0F), {.name = "total",
                                                      .synchronization = distribute::VariableSynchronization::kOnRead,
                                                      .aggregation = distribute::VariableAggregation::kSum});
          if (group.rank() == 1) {
            if (others_do_something_else) {
              EXPECT_THROW(group.barrier(), Error);
            }
            return over.get_future().wait();
          }
          try {
            Checkpoint({{"total", total}}).write(path("alone"));
          } catch (const Error& error) {
            message = error.message();
          }
          over.set_value();
        },
        std::chrono::milliseconds(300));
    EXPECT_THAT(message, HasSubstr(others_do_something_else ? "worker 1 (thread) called barrier"
                                                            : "worker 1 (thread) did not arrive"));
    EXPECT_FALSE(fs::exists(path("alone.index")));
  }
}

TEST_F(SharedSaveTest, LeftoversOfKilledSavesAreRemoved) {
  fs::create_directories(folder_);
  const std::vector<std::string> strays{".ckpt-9.data-00001-of-00002.tmp-00000000-12-34-5",
                                        "ckpt-9.data-00000-of-00002", ".checkpoint.tmp-00000000-12-34-6",
                                        ".checkpoint.shared.tmp-00000000-12-34-6"};
  const std::vector<std::string> others{".other-9.index.tmp-00000000-12-34-5", "other-3.data-00000-of-00001",
                                        "ckpt-x.data-00000-of-00001"};
  for (const auto& list : {strays, others}) {
    for (const std::string& name : list) std::ofstream(folder_ / name) << "x";
  }
  collectives::run_ranks(2, [&](Communicator& group) {
    const State state;
    CheckpointManager manager(state.checkpoint, folder_.string(), {.workers = borrowed(group)});
    manager.save();
  });
  std::set<std::string> left;
  for (const std::string& name : names()) {
    if (!name.starts_with("ckpt-1.") && name != "checkpoint") left.insert(name);
  }
  EXPECT_EQ(left, std::set<std::string>(others.begin(), others.end()));
}

TEST_F(SharedSaveTest, AsynchronousSavesKeepTheStateOfTheirMoment) {
  collectives::run_ranks(3, [&](Communicator& group) {
    const State state;
    CheckpointManager manager(state.checkpoint, folder_.string(), {.workers = borrowed(group)});
    for (int i = 1; i <= 4; ++i) {
      state.set(i);
      manager.save({}, true, {.enable_async = true});
      group.barrier();  // training continues with the same group
    }
    state.set(9);
    manager.wait();
    EXPECT_EQ(manager.latest_checkpoint(), path("ckpt-4"));
    group.barrier();
    for (int i = 1; i <= 4; ++i) {
      const State other;
      other.checkpoint.read(path(fmt::format("ckpt-{}", i)));
      other.expect(i);
    }
  });
}

TEST_F(SharedSaveTest, ErrorsOfAsynchronousSavesComeLater) {
  const State state;
  state.checkpoint.write(path("a/b"), {.enable_async = true});
  state.checkpoint.wait();
  state.checkpoint.write(path("a/b.index/c"), {.enable_async = true});  // below a file
  EXPECT_THROW(state.checkpoint.wait(), Error);
  state.checkpoint.wait();
  state.checkpoint.write(path("a/b.index/c"), {.enable_async = true});
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) {
          state.checkpoint.write(path("a/d"), {.enable_async = true});
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      },
      Error);
  state.checkpoint.write(path("a/e"));
  EXPECT_TRUE(fs::exists(path("a/e.index")));
}

TEST(AsyncSaver, RunsInOrderWithinItsBudget) {
  AsyncSaver saver;
  std::mutex mutex;
  std::condition_variable go;
  bool open = false;
  std::vector<int> done;
  const auto job = [&](int number) {
    return [&, number] {
      std::unique_lock lock(mutex);
      go.wait(lock, [&] { return open; });
      done.push_back(number);
    };
  };
  saver.make_room(60, 100);
  saver.submit(60, job(1));
  saver.make_room(40, 100);
  saver.submit(40, job(2));
  std::atomic<bool> has_room{false};
  std::thread third([&] {
    saver.make_room(500, 100);  // more than all: alone
    has_room = true;
    saver.submit(500, job(3));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(has_room);
  {
    const std::lock_guard lock(mutex);
    open = true;
    go.notify_all();
  }
  third.join();
  saver.wait();
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3}));
}

TEST(CopyBuffers, CopyAndUseTheirMemoryAgain) {
  CopyBuffers buffers;
  const std::byte* first = nullptr;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::byte> large(20 << 20, std::byte{7}), small(3, std::byte{9});
    formats::TensorData a{DType::kUInt8, Shape{20 << 20}, large, {}, nullptr},
        b{DType::kUInt8, Shape{3}, small, {}, nullptr};
    buffers.copy({&a, &b});
    std::fill(large.begin(), large.end(), std::byte{0});
    EXPECT_EQ(a.bytes.front(), std::byte{7});
    EXPECT_EQ(a.bytes.back(), std::byte{7});
    EXPECT_EQ(b.bytes.back(), std::byte{9});
    if (round == 1) {
      EXPECT_EQ(a.bytes.data(), first);
    }
    first = a.bytes.data();
  }
}

}  // namespace
}  // namespace lockstep::train
