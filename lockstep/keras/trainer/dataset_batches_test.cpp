#include "lockstep/keras/trainer/dataset_batches_internal.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/data/files.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::keras {
namespace {

using data::AutoShardPolicy;
using data::Dataset;
using data::Element;
using Steps = std::vector<std::vector<std::int64_t>>;

Dataset with_policy(const Dataset& dataset, AutoShardPolicy policy) {
  data::Options options;
  options.experimental_distribute.auto_shard_policy = policy;
  return dataset.with_options(options);
}

// The result of two passes over each worker's batches: x, and y = 10 x.
std::vector<Steps> seen(int workers, const std::function<Dataset(int)>& make) {
  std::vector<Steps> out(static_cast<std::size_t>(workers));
  collectives::run_ranks(workers, [&](collectives::Communicator& group) {
    const Dataset pairs = make(group.rank()).map([](const Element& x) { return Element{x.leaf(), x.leaf() * 10.0}; });
    const auto source = dataset_batches(pairs, &group);
    for (int pass = 0; pass < 2; ++pass) {
      source->reset();
      while (const auto batch = source->next()) {
        const auto x = batch->x.leaf().to_vector<std::int64_t>();
        EXPECT_EQ((batch->x.leaf() * 10.0).to_vector<std::int64_t>(), batch->y.leaf().to_vector<std::int64_t>());
        out[static_cast<std::size_t>(group.rank())].push_back(x);
      }
      EXPECT_FALSE(source->next());
    }
  });
  return out;
}

TEST(DatasetBatches, AreTheSameOnAllWorkers) {
  const Steps expected = {{0, 1, 2, 3}, {4, 5, 6}, {0, 1, 2, 3}, {4, 5, 6}};
  for (const Steps& steps : seen(3, [](int) { return Dataset::range(7).batch(4); })) EXPECT_EQ(steps, expected);
}

TEST(DatasetBatches, ShufflesTakeTheChiefsSeeds) {
  random::set_global_seed(42);
  const auto workers = seen(2, [](int rank) { return Dataset::range(32).shuffle(32, 5 + rank).batch(8); });
  EXPECT_EQ(workers[0], workers[1]);
  EXPECT_EQ(workers[0].size(), 8u);
  EXPECT_NE(Steps(workers[0].begin(), workers[0].begin() + 4), Steps(workers[0].begin() + 4, workers[0].end()));
}

TEST(DatasetBatches, PartsOfTheUsersOwnAreGathered) {
  const auto workers =
      seen(2, [](int rank) { return with_policy(Dataset::range(10).shard(2, rank).batch(4), AutoShardPolicy::kOff); });
  const Steps pass = {{0, 2, 1, 3}, {4, 6, 5, 7}, {8, 9}};
  Steps expected = pass;
  expected.insert(expected.end(), pass.begin(), pass.end());
  EXPECT_EQ(workers[0], expected);
  EXPECT_EQ(workers[1], expected);
}

TEST(DatasetBatches, ResumeFromASavedState) {
  for (const AutoShardPolicy policy : {AutoShardPolicy::kData, AutoShardPolicy::kOff}) {
    collectives::run_ranks(2, [&](collectives::Communicator& group) {
      const auto make = [&] {
        return dataset_batches(with_policy(Dataset::range(20).shuffle(20, 3).batch(4), policy), &group);
      };
      const auto rest = [](BatchSource& source) {
        Steps steps;
        while (const auto batch = source.next()) steps.push_back(batch->x.leaf().to_vector<std::int64_t>());
        return steps;
      };
      const auto source = make();
      source->reset();
      rest(*source);
      source->reset();
      source->next();
      source->next();
      const Json within = Json::parse(source->save_state().dump());
      const Steps expected = rest(*source);
      EXPECT_GE(expected.size(), 3u);
      const Json over = Json::parse(source->save_state().dump());
      source->reset();
      const Steps next_pass = rest(*source);
      const auto again = make();
      again->restore_state(within);
      EXPECT_EQ(rest(*again), expected);
      again->reset();
      EXPECT_EQ(rest(*again), next_pass);
      const auto later = make();
      later->restore_state(over);
      EXPECT_FALSE(later->next());
      later->reset();
      EXPECT_EQ(rest(*later), next_pass);
    });
  }
}

// Workers that read data of their own: another number of them resumes between epochs, and is rejected within one.
TEST(DatasetBatches, AnotherNumberOfWorkersResumesBetweenEpochs) {
  const auto make = [](collectives::Communicator* group) {
    const int size = group ? group->size() : 1, rank = group ? group->rank() : 0;
    return dataset_batches(with_policy(Dataset::range(21).shard(size, rank).batch(2), AutoShardPolicy::kOff), group);
  };
  const auto pass = [](BatchSource& source) {
    std::multiset<std::int64_t> seen;
    while (const auto batch = source.next()) {
      for (const std::int64_t each : batch->x.leaf().to_vector<std::int64_t>()) seen.insert(each);
    }
    return seen;
  };
  std::multiset<std::int64_t> all;
  for (std::int64_t i = 0; i < 21; ++i) all.insert(i);
  const auto run = [](int workers, const std::function<void(collectives::Communicator*)>& fn) {
    if (workers == 1) return fn(nullptr);
    collectives::run_ranks(workers, [&](collectives::Communicator& group) { fn(&group); });
  };
  for (const int before : {1, 2, 3}) {
    std::string between, within, fresh;
    run(before, [&](collectives::Communicator* group) {
      const auto source = make(group);
      const std::string unbegun = source->save_state().dump();
      source->reset();
      EXPECT_EQ(pass(*source), all);
      const std::string over = source->save_state().dump();
      source->reset();
      source->next();
      const std::string begun = source->save_state().dump();
      if (group && group->rank() != 0) return;
      fresh = unbegun;
      between = over;
      within = begun;
    });
    for (const int after : {1, 2, 4}) {
      run(after, [&](collectives::Communicator* group) {
        for (const std::string& state : {fresh, between}) {
          const auto source = make(group);
          source->restore_state(Json::parse(state));
          if (state == between) {
            EXPECT_FALSE(source->next());
          }
          source->reset();
          EXPECT_EQ(pass(*source), all) << before << " -> " << after;
        }
        if (after == before) return;
        try {
          make(group)->restore_state(Json::parse(within));
          ADD_FAILURE() << before << " -> " << after;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::kFailedPrecondition);
          EXPECT_THAT(error.message(), ::testing::HasSubstr("at the end of an epoch"));
        }
      });
    }
  }
}

// Workers that read their own files resume within an epoch in any number, with the remaining batches.
class FileBatches : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "file_batches_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    for (int file = 0; file < 5; ++file) {
      paths_.push_back(folder_ + "/part-" + std::to_string(file));
      std::ofstream out(paths_.back());
      for (int line = 0; line < 4 + file; ++line) out << rows_++ << "\n";
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<BatchSource> make(collectives::Communicator* group) const {
    const auto number = [](const Element& line) {
      return Element{Tensor::scalar(std::int64_t{std::stoll(line.leaf().string_values()[0])})};
    };
    return dataset_batches(
        with_policy(data::TextLineDataset(paths_).map(number).shuffle(6, 5).batch(4), AutoShardPolicy::kFile), group);
  }
  static void run(int workers, const std::function<void(collectives::Communicator*)>& fn) {
    if (workers == 1) return fn(nullptr);
    collectives::run_ranks(workers, [&](collectives::Communicator& group) { fn(&group); });
  }
  static Steps rest(BatchSource& source) {
    Steps steps;
    while (const auto batch = source.next()) steps.push_back(batch->x.leaf().to_vector<std::int64_t>());
    return steps;
  }
  static std::multiset<std::int64_t> all_of(const Steps& steps) {
    std::multiset<std::int64_t> all;
    for (const auto& step : steps) all.insert(step.begin(), step.end());
    return all;
  }

  std::string folder_;
  std::vector<std::string> paths_;
  int rows_ = 0;
};

TEST_F(FileBatches, ResumeInAnyNumberWithinAnEpoch) {
  std::multiset<std::int64_t> every;
  for (std::int64_t i = 0; i < rows_; ++i) every.insert(i);
  for (const int before : {1, 2, 4, 3}) {
    for (const int taken : {1, 4}) {
      for (const int middle : {1, 2, 3, 5}) {
        std::string first, second;
        Steps expected;
        run(before, [&](collectives::Communicator* group) {
          const auto source = make(group);
          source->reset();
          const Steps whole = rest(*source);
          EXPECT_EQ(all_of(whole), every);
          source->reset();
          for (int i = 0; i < taken; ++i) source->next();
          const std::string state = source->save_state().dump();
          const Steps left = rest(*source);
          if (group && group->rank() != 0) return;
          first = state;
          expected = left;
        });
        // Saved again by those who took over, and gone on with by the number that began.
        run(middle, [&](collectives::Communicator* group) {
          const auto source = make(group);
          source->restore_state(Json::parse(first));
          source->next();
          const std::string state = source->save_state().dump();
          const Steps left = rest(*source);
          EXPECT_EQ(left, Steps(expected.begin() + 1, expected.end())) << before << " -> " << middle;
          EXPECT_FALSE(source->next());
          source->reset();
          EXPECT_EQ(all_of(rest(*source)), every);
          if (!group || group->rank() == 0) second = state;
        });
        for (const int after : {before, 2}) {
          run(after, [&](collectives::Communicator* group) {
            const auto source = make(group);
            source->restore_state(Json::parse(second));
            EXPECT_EQ(rest(*source), Steps(expected.begin() + 1, expected.end()))
                << before << " -> " << middle << " -> " << after;
            source->reset();
            EXPECT_EQ(all_of(rest(*source)), every);
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::keras
