// Ranks are threads here. The tables' results of TensorFlow were seen with tf.data and MultiWorkerMirroredStrategy
// of 2.21; where lockstep divides better, a comment in the test explains it.
#include "lockstep/data/distributed_dataset.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/recorded_log_internal.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/data/auto_shard_internal.h"
#include "lockstep/data/files.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::distribute {
namespace {

using data::AutoShardPolicy;
using data::Dataset;
using data::Element;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Ints = std::vector<std::int64_t>;
using Steps = std::vector<Ints>;     // of one replica
using Workers = std::vector<Steps>;  // worker by worker, and their replicas

Dataset with_policy(const Dataset& dataset, AutoShardPolicy policy) {
  data::Options options;
  options.experimental_distribute.auto_shard_policy = policy;
  return dataset.with_options(options);
}

Ints numbers(const Element& element) {
  const Tensor& leaf = element.leaf();
  if (leaf.dtype() != DType::kString) return leaf.to_vector<std::int64_t>();
  Ints out;
  for (const std::string& text : leaf.string_values()) out.push_back(std::stoll(text));
  return out;
}

// The steps that each replica sees of what each worker distributes.
template <typename Distribute>
Workers seen(int workers, int replicas_each, Distribute distribute) {
  Workers out(static_cast<std::size_t>(workers * replicas_each));
  collectives::run_ranks(workers, [&](collectives::Communicator& group) {
    const int first = group.rank() * replicas_each;
    const InputShare share{workers > 1 ? &group : nullptr, workers * replicas_each, first, replicas_each};
    for (const auto& step : distribute(share)) {
      EXPECT_EQ(step.size(), replicas_each);
      for (int i = 0; i < replicas_each; ++i) out[static_cast<std::size_t>(first + i)].push_back(numbers(step[i]));
    }
  });
  return out;
}

Workers seen(int workers, const std::function<Dataset()>& make, AutoShardPolicy policy = AutoShardPolicy::kAuto,
             int replicas_each = 1) {
  return seen(workers, replicas_each,
              [&](const InputShare& share) { return distribute_dataset(with_policy(make(), policy), share); });
}

std::string fault(int workers, const std::function<Dataset()>& make, AutoShardPolicy policy) {
  try {
    seen(workers, make, policy);
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

class DistributedDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    random::set_global_seed(42);
    folder_ = testing::TempDir() + "distributed_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // Files of `lines` numbers each, counted through.
  std::vector<std::string> files(int count, int lines) {
    std::vector<std::string> paths;
    for (int i = 0; i < count; ++i) {
      paths.push_back(folder_ + "/part-" + std::to_string(i));
      std::ofstream out(paths.back());
      for (int line = 0; line < lines; ++line) out << i * lines + line << "\n";
    }
    return paths;
  }
  std::string folder_;
};

TEST_F(DistributedDatasetTest, DataCutsEachBatchAmongWorkers) {
  const auto twelve = [] { return Dataset::range(12).batch(4); };
  EXPECT_EQ(seen(2, twelve), (Workers{{{0, 1}, {4, 5}, {8, 9}}, {{2, 3}, {6, 7}, {10, 11}}}));
  // TensorFlow: the third worker idles for the whole run.
  EXPECT_EQ(seen(3, twelve), (Workers{{{0, 1}, {4, 5}, {8, 9}}, {{2}, {6}, {10}}, {{3}, {7}, {11}}}));
  EXPECT_EQ(seen(2, [] { return Dataset::range(10).batch(4); }),
            (Workers{{{0, 1}, {4, 5}, {8}}, {{2, 3}, {6, 7}, {9}}}));
  EXPECT_EQ(seen(2, [] { return Dataset::range(9).batch(3); }), (Workers{{{0, 1}, {3, 4}, {6, 7}}, {{2}, {5}, {8}}}));
  EXPECT_EQ(seen(2, [] { return Dataset::range(7).batch(6, true); }), (Workers{{{0, 1, 2}}, {{3, 4, 5}}}));
  EXPECT_EQ(seen(2, [] { return Dataset::range(6).repeat(2).batch(4); }),
            (Workers{{{0, 1}, {4, 5}, {2, 3}}, {{2, 3}, {0, 1}, {4, 5}}}));
  EXPECT_EQ(seen(2, [] { return Dataset::range(6).batch(4).repeat(2); }),
            (Workers{{{0, 1}, {4}, {0, 1}, {4}}, {{2, 3}, {5}, {2, 3}, {5}}}));
  EXPECT_EQ(seen(3, [] { return Dataset::range(4).batch(3); }), (Workers{{{0}, {3}}, {{1}, {}}, {{2}, {}}}));
}

TEST_F(DistributedDatasetTest, WorkersTogetherSeeWhatOneReplicaOfAllSees) {
  const auto make = [] { return Dataset::range(23).shuffle(23, 3).batch(5); };
  const Workers mirrored = seen(1, make, AutoShardPolicy::kAuto, 6);
  EXPECT_EQ(seen(3, make, AutoShardPolicy::kAuto, 2), mirrored);
  EXPECT_EQ(seen(6, make, AutoShardPolicy::kAuto, 1), mirrored);
  EXPECT_EQ(seen(2, make, AutoShardPolicy::kAuto, 3), mirrored);
}

TEST_F(DistributedDatasetTest, ShufflesWithoutASeedTakeTheChiefs) {
  // Elsewhere each worker is a separate process; here its seeds are made to differ. TensorFlow: elements seen twice
  // or never.
  std::atomic<std::int64_t> seed{100};
  for (const AutoShardPolicy policy : {AutoShardPolicy::kData, AutoShardPolicy::kOff}) {
    const Workers workers = seen(
        2, [&] { return Dataset::range(8).shuffle(8, seed++).batch(4); }, policy);
    Ints all;
    for (std::size_t step = 0; step < 2; ++step) {
      for (const Steps& worker : workers) all.insert(all.end(), worker[step].begin(), worker[step].end());
    }
    std::sort(all.begin(), all.end());
    if (policy == AutoShardPolicy::kData) {
      EXPECT_EQ(all, (Ints{0, 1, 2, 3, 4, 5, 6, 7}));
    } else {
      EXPECT_EQ(workers[0], workers[1]);  // the same order on both
    }
  }
}

TEST_F(DistributedDatasetTest, ANewPassHasANewOrderOnAllWorkers) {
  std::atomic<std::int64_t> seed{7};
  std::vector<Ints> passes(4);
  collectives::run_ranks(2, [&](collectives::Communicator& group) {
    const InputShare share{&group, 2, group.rank(), 1};
    const DistributedDataset distributed = distribute_dataset(Dataset::range(16).shuffle(16, seed++).batch(4), share);
    for (std::size_t pass = 0; pass < 2; ++pass) {
      for (const auto& step : distributed) {
        const Ints rows = numbers(step[0]);
        Ints& out = passes[pass * 2 + static_cast<std::size_t>(group.rank())];
        out.insert(out.end(), rows.begin(), rows.end());
      }
    }
  });
  EXPECT_NE(passes[0], passes[2]);
  for (const std::size_t pass : {0u, 2u}) {
    Ints all = passes[pass];
    all.insert(all.end(), passes[pass + 1].begin(), passes[pass + 1].end());
    std::sort(all.begin(), all.end());
    for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
  }
}

TEST_F(DistributedDatasetTest, OffGivesEachWorkerEverythingInPartsOfABatch) {
  const auto off = AutoShardPolicy::kOff;
  const Steps twos = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}};
  EXPECT_EQ(seen(
                2, [] { return Dataset::range(12).batch(4); }, off),
            (Workers{twos, twos}));
  // Sizes rotate, so that a step has four rows in all.
  const Workers three = seen(
      3, [] { return Dataset::range(12).batch(4); }, off);
  EXPECT_EQ(three[0], (Steps{{0, 1}, {2}, {3}, {4, 5}, {6}, {7}, {8, 9}, {10}, {11}}));
  EXPECT_EQ(three[1], (Steps{{0}, {1}, {2, 3}, {4}, {5}, {6, 7}, {8}, {9}, {10, 11}}));
  EXPECT_EQ(three[2], (Steps{{0}, {1, 2}, {3}, {4}, {5, 6}, {7}, {8}, {9, 10}, {11}}));
  const Workers odd = seen(
      2, [] { return Dataset::range(9).batch(3); }, off);
  EXPECT_EQ(odd[0], (Steps{{0, 1}, {2}, {3, 4}, {5}, {6, 7}, {8}}));
  EXPECT_EQ(odd[1], (Steps{{0}, {1, 2}, {3}, {4, 5}, {6}, {7, 8}}));
  EXPECT_EQ(seen(
                2, [] { return Dataset::range(12).batch(4); }, AutoShardPolicy::kHint),
            (Workers{twos, twos}));
}

// TensorFlow does not warn.
TEST_F(DistributedDatasetTest, OffWithoutAShardIsWarnedOfOnce) {
  const auto off = [](const std::function<Dataset()>& make) {
    const RecordedLog log;
    seen(3, make, AutoShardPolicy::kOff);
    return log.text();
  };
  const std::string warned = off([] { return Dataset::range(12).batch(4); });
  EXPECT_THAT(warned, HasSubstr("all 3 workers see every element"));
  EXPECT_EQ(warned.find("warning"), warned.rfind("warning"));
  EXPECT_EQ(off([] { return Dataset::range(12).shard(3, 0).batch(4); }), "");
}

TEST_F(DistributedDatasetTest, TheUsersOwnShards) {
  const Workers workers = seen(2, 1, [](const InputShare& share) {
    return distribute_dataset(with_policy(Dataset::range(12).shard(2, share.worker()).batch(4), AutoShardPolicy::kOff),
                              share);
  });
  EXPECT_EQ(workers, (Workers{{{0, 2}, {4, 6}, {8, 10}}, {{1, 3}, {5, 7}, {9, 11}}}));
}

TEST_F(DistributedDatasetTest, FilesAreDividedAmongWorkers) {
  const auto paths = files(4, 3);
  const auto lines = [&] { return data::TextLineDataset(paths).batch(4); };
  for (const AutoShardPolicy policy : {AutoShardPolicy::kFile, AutoShardPolicy::kAuto}) {
    EXPECT_EQ(seen(2, lines, policy), (Workers{{{0, 1}, {2, 6}, {7, 8}}, {{3, 4}, {5, 9}, {10, 11}}}));
  }
  const Workers three = seen(3, lines, AutoShardPolicy::kFile);
  EXPECT_EQ(three[0], (Steps{{0, 1}, {2}, {9}, {10, 11}}));
  EXPECT_EQ(three[1], (Steps{{3}, {4}, {5}, {}}));
  EXPECT_EQ(three[2], (Steps{{6}, {7, 8}, {}, {}}));
  EXPECT_EQ(seen(2, lines, AutoShardPolicy::kData), (Workers{{{0, 1}, {4, 5}, {8, 9}}, {{2, 3}, {6, 7}, {10, 11}}}));
}

TEST_F(DistributedDatasetTest, ReadersMadeByAFunctionAreDividedByTheirFiles) {
  files(4, 2);
  const auto make = [&] {
    return data::list_files(folder_ + "/part-*", false)
        .interleave([](const Element& name) { return Dataset(data::TextLineDataset(Dataset::from_tensors(name))); }, 2)
        .map([](const Element& line) { return line; })
        .batch(2)
        .prefetch(1);
  };
  EXPECT_EQ(seen(2, make), (Workers{{{0}, {4}, {1}, {5}}, {{2}, {6}, {3}, {7}}}));
}

TEST_F(DistributedDatasetTest, AutoTakesDataWhereFilesAreTooFewOrCounted) {
  const auto paths = files(2, 3);
  const auto lines = [&] { return data::TextLineDataset(paths).batch(3); };
  EXPECT_EQ(data::resolve_policy(lines(), 2), AutoShardPolicy::kFile);
  EXPECT_EQ(data::resolve_policy(lines(), 3), AutoShardPolicy::kData);
  EXPECT_EQ(data::resolve_policy(lines().take(1), 2), AutoShardPolicy::kData);
  EXPECT_EQ(data::resolve_policy(Dataset::zip(lines(), Dataset::range(2)), 2), AutoShardPolicy::kData);
  EXPECT_EQ(data::resolve_policy(Dataset::range(9).batch(3), 2), AutoShardPolicy::kData);
  EXPECT_EQ(seen(3, lines), (Workers{{{0}, {3}}, {{1}, {4}}, {{2}, {5}}}));
}

// TensorFlow: an error on one worker, empty batches on the others, and later collectives that pair wrongly.
TEST_F(DistributedDatasetTest, FileWithoutFilesEnoughIsRefusedOnAllWorkers) {
  const auto paths = files(1, 3);
  const auto lines = [&] { return with_policy(data::TextLineDataset(paths).batch(2), AutoShardPolicy::kFile); };
  std::vector<std::string> messages(2);
  collectives::run_ranks(2, [&](collectives::Communicator& group) {
    try {
      distribute_dataset(lines(), {&group, 2, group.rank(), 1});
    } catch (const Error& e) {
      messages[static_cast<std::size_t>(group.rank())] = e.message();
    }
    group.barrier();  // the group is as good as before
  });
  for (const std::string& message : messages) EXPECT_THAT(message, HasSubstr("1 file for 2 workers"));
  EXPECT_THAT(fault(
                  2, [] { return Dataset::range(4).batch(2); }, AutoShardPolicy::kFile),
              HasSubstr("FILE requires a dataset that reads files"));
}

TEST_F(DistributedDatasetTest, AWorkerWithoutDataGetsEmptyBatchesOfTheOthersKind) {
  std::vector<std::vector<std::string>> shapes(2);
  collectives::run_ranks(2, [&](collectives::Communicator& group) {
    const DistributedDataset distributed = distribute_from_function(
        [&](const InputContext& context) {
          const Dataset rows = Dataset::from_tensor_slices(
              Element{Tensor::zeros(Shape({3, 2}), DType::kFloat32), Tensor::strings({"a", "b", "c"}, Shape({3}))});
          return rows.take(context.input_pipeline_id == 0 ? 3 : 0).batch(2);
        },
        {&group, 2, group.rank(), 1});
    for (const auto& step : distributed) {
      std::string text;
      step[0].visit(
          [&](const Tensor& leaf) { text += leaf.shape().to_string() + std::string(dtype_name(leaf.dtype())) + " "; });
      shapes[static_cast<std::size_t>(group.rank())].push_back(text);
    }
  });
  ASSERT_EQ(shapes[0].size(), 2u);
  ASSERT_EQ(shapes[1].size(), 2u);
  EXPECT_EQ(shapes[0][0], "(2, 2)float32 (2,)string ");
  EXPECT_EQ(shapes[1][0], "(0, 2)float32 (0,)string ");
  EXPECT_EQ(shapes[1][1], shapes[1][0]);
}

TEST_F(DistributedDatasetTest, FunctionsBuildTheirWorkersPipeline) {
  std::vector<std::string> contexts(2);
  const Workers workers = seen(2, 2, [&](const InputShare& share) {
    return distribute_from_function(
        [&](const InputContext& context) {
          contexts[static_cast<std::size_t>(share.worker())] = std::to_string(context.num_input_pipelines) + " " +
                                                               std::to_string(context.input_pipeline_id) + " " +
                                                               std::to_string(context.num_replicas_in_sync) + " " +
                                                               std::to_string(context.get_per_replica_batch_size(8));
          return Dataset::range(12).shard(2, context.input_pipeline_id).batch(2);
        },
        share);
  });
  EXPECT_THAT(contexts, ElementsAre("2 0 4 2", "2 1 4 2"));
  EXPECT_EQ(workers, (Workers{{{0, 2}, {8, 10}}, {{4, 6}, {}}, {{1, 3}, {9, 11}}, {{5, 7}, {}}}));
}

TEST_F(DistributedDatasetTest, ReplicasMayEachHaveACopy) {
  const Workers workers = seen(1, 2, [](const InputShare& share) {
    return distribute_from_function([](const InputContext&) { return Dataset::range(4).batch(2); }, share,
                                    {.experimental_replication_mode = InputReplicationMode::kPerReplica});
  });
  EXPECT_EQ(workers, (Workers{{{0, 1}, {2, 3}}, {{0, 1}, {2, 3}}}));
}

// TensorFlow does not inform the others, which hang or pair wrongly.
TEST_F(DistributedDatasetTest, APipelineThatThrowsIsReportedToTheOthers) {
  std::vector<std::string> messages(2);
  collectives::run_ranks(2, [&](collectives::Communicator& group) {
    const DistributedDataset distributed = distribute_from_function(
        [](const InputContext& context) {
          return Dataset::range(6)
              .map([id = context.input_pipeline_id](const Element& element) -> Element {
                if (id == 1 && element.leaf().item<std::int64_t>() == 3) throw_data_loss("row 3 is damaged");
                return element;
              })
              .batch(2);
        },
        {&group, 2, group.rank(), 1});
    try {
      for (const auto& step : distributed) EXPECT_EQ(step.size(), 1);
    } catch (const Error& e) {
      messages[static_cast<std::size_t>(group.rank())] = e.message();
    }
  });
  EXPECT_EQ(messages[1], "row 3 is damaged");
  EXPECT_THAT(messages[0], AllOf(HasSubstr("input pipeline failed"), HasSubstr("row 3 is damaged")));
}

TEST_F(DistributedDatasetTest, AnotherPipelineThanTheChiefsIsRefused) {
  EXPECT_THAT(fault(
                  2,
                  [n = std::make_shared<std::atomic<int>>(0)] {
                    return (*n)++ == 0 ? Dataset::range(4).batch(2) : Dataset::range(4).shuffle(2, 1).batch(2);
                  },
                  AutoShardPolicy::kData),
              HasSubstr("does not fit this dataset"));
}

}  // namespace
}  // namespace lockstep::distribute
