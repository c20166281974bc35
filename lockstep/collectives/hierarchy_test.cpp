// Jobs on several machines: sums within a machine in shared memory, between machines over TCP. Ranks are threads, which
// are given names of machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/collectives/machines_internal.h"
#include "lockstep/collectives/peer_links_internal.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/collectives/threaded_job_internal.h"
#include "lockstep/collectives/workers_internal.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::collectives {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// fn(group) on each of `size` ranks of a job.
void run_on(int size, const std::function<std::string(int)>& machine, const std::function<void(Communicator&)>& fn) {
  const auto addresses = threaded_job::free_addresses(size);
  const auto messages = threaded_job::run(size, [&](int rank) {
    JobOptions options = threaded_job::job(rank, addresses);
    options.machine = machine(rank);
    const CommunicatorPtr group = join_job(options);
    fn(*group);
    group->barrier();
  });
  EXPECT_THAT(messages, Each(""));
}

// The letters of `machines` name the ranks' machines.
void run_on(const std::string& machines, const std::function<void(Communicator&)>& fn) {
  const auto letter = [&](int rank) { return machines.substr(static_cast<std::size_t>(rank), 1); };
  run_on(static_cast<int>(machines.size()), letter, fn);
}

// Numbers whose sum depends on the order of addition.
Tensor uneven(int rank, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i % 9973) * 0.37f + static_cast<float>(rank)) * (rank % 2 ? 1e4f : 1.0f);
  return Tensor::from_vector(values);
}

std::string bytes_of(const Tensor& value) {
  const auto data = value.to_data();
  return {reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()};
}

TEST(Hierarchy, CollectivesOfAnyLayout) {
  for (const std::string machines : {"aaab", "abab", "abc", "aabbbcd"}) {
    run_on(machines, [&](Communicator& group) {
      const int size = group.size(), rank = group.rank();
      const double all = size * (size + 1) / 2.0;
      std::vector<std::unique_ptr<Pending>> pending;
      Tensors sums;
      for (const std::int64_t count : {1, 1000, 70001, 1200003}) {
        sums.push_back(Tensor::full(Shape{count}, rank + 1));
        pending.push_back(Transport::all_reduce_async(group, sums.back()));
      }
      for (const DType dtype :
           {DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32, DType::kInt64, DType::kUInt8}) {
        sums.push_back(Tensor::full(Shape{33}, rank + 1, dtype));
        pending.push_back(Transport::all_reduce_async(group, sums.back()));
      }
      for (const auto& each : pending) each->wait();
      for (const Tensor& sum : sums) {
        EXPECT_EQ(bytes_of(sum), bytes_of(Tensor::full(sum.shape(), all, sum.dtype())))
            << machines << " " << dtype_name(sum.dtype());
      }
      const std::string own(static_cast<std::size_t>(rank % 3) * 100001, static_cast<char>('a' + rank));
      const auto texts = group.all_gather(own), short_texts = group.all_gather(std::to_string(rank));
      for (int i = 0; i < size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(texts[at], std::string(static_cast<std::size_t>(i % 3) * 100001, static_cast<char>('a' + i)));
        EXPECT_EQ(short_texts[at], std::to_string(i));
        EXPECT_EQ(group.broadcast("from " + std::to_string(rank), i), "from " + std::to_string(i));
        const Tensor weights = Tensor::full(Shape{70001}, rank);
        group.broadcast(weights, i);
        EXPECT_EQ(bytes_of(weights), bytes_of(Tensor::full(Shape{70001}, i)));
      }
    });
  }
}

TEST(Hierarchy, SumsAreEqualOnAllRanksAndInAllRuns) {
  for (const std::string machines : {"aabbb", "abc"}) {
    std::set<std::string> results;
    std::mutex mutex;
    for (int run = 0; run < 2; ++run) {
      run_on(machines, [&](Communicator& group) {
        std::string result;
        for (const std::int64_t count : {3, 40000, 1100007}) {
          const Tensor value = uneven(group.rank(), count);
          group.all_reduce(value);
          result += bytes_of(value);
        }
        const std::lock_guard lock(mutex);
        results.insert(result);
      });
    }
    EXPECT_EQ(results.size(), 1u) << machines;
  }
}

TEST(Hierarchy, RowsOfGradientsAreGathered) {
  run_on("aab", [](Communicator& group) {
    const auto rank = static_cast<float>(group.rank());
    const std::int64_t rows = group.rank() + 1;
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < rows; ++i) indices.push_back(group.rank() * 10 + i);
    Tensors values{tensor_of_rows({Tensor::from_vector(indices), Tensor::full(Shape{rows, 3}, rank)}, Shape{30, 3})};
    sum(group, values);
    const auto& slices = ops::slices_of(values[0]);
    EXPECT_THAT(slices->indices.to_vector<std::int64_t>(), ElementsAre(0, 10, 11, 20, 21, 22));
    EXPECT_THAT(slices->values.to_vector<float>(), ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2));
  });
}

// A step's gradients, and what else workers exchange, in a job of 256 ranks: on four machines, and each on its own.
TEST(Hierarchy, JobsOf256Ranks) {
  for (const int each : {64, 1}) {
    const auto machine = [each](int rank) { return "machine " + std::to_string(rank / each); };
    run_on(256, machine, [](Communicator& group) {
      Tensors gradients{Tensor::full(Shape{100, 10}, group.rank()), Tensor::full(Shape{10}, 1)},
          exact{Tensor::scalar(1.0)};
      GradientSum sum(group, gradients.size(), {});
      sum.finish(gradients, exact);
      EXPECT_THAT(gradients[0].to_vector<float>(), Each(255 * 128));
      EXPECT_THAT(gradients[1].to_vector<float>(), Each(256));
      const auto texts = group.all_gather(std::to_string(group.rank()));
      for (int i = 0; i < 256; ++i) EXPECT_EQ(texts[static_cast<std::size_t>(i)], std::to_string(i));
      EXPECT_EQ(group.broadcast(std::to_string(group.rank()), 200), "200");
    });
  }
}

TEST(Hierarchy, AWorkerOfAnotherMachineThatEndsIsNamed) {
  const auto addresses = threaded_job::free_addresses(4);
  const auto messages = threaded_job::run(4, [&](int rank) {
    JobOptions options = threaded_job::job(rank, addresses);
    options.machine = rank < 2 ? "a" : "b";
    const CommunicatorPtr group = join_job(options);
    group->barrier();
    if (rank != 3) group->barrier();
  });
  for (const int rank : {0, 1, 2})
    EXPECT_THAT(messages[static_cast<std::size_t>(rank)], ::testing::HasSubstr("worker 3 (" + addresses[3] + ")"));
}

TEST(Machines, RanksOfOneMachineNeedNotBeConsecutive) {
  const Machines machines = Machines::of({7, 3, 7, 3, 7}, 3);
  EXPECT_THAT(machines.ranks, ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3)));
  EXPECT_EQ(machines.machine, 1);
  EXPECT_EQ(machines.place, 1);
  EXPECT_FALSE(machines.leads());
}

TEST(PeerLinks, ConnectionsGrowWithTheLogarithm) {
  for (const int size : {2, 3, 4, 7, 64, 1000, 4096}) {
    for (const int rank : {0, 1, size / 2, size - 1}) {
      const auto members = linked_members(rank, size);
      EXPECT_LE(static_cast<double>(members.size()), 2 * std::ceil(std::log2(size)));
      for (const int member : members) {
        const auto back = linked_members(member, size);
        EXPECT_THAT(back, ::testing::Contains(rank)) << size;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::collectives
