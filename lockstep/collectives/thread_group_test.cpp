#include "lockstep/collectives/thread_group_internal.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Code code_of(const std::function<void()>& fn, std::string* message = nullptr) {
  try {
    fn();
  } catch (const Error& error) {
    if (message) *message = error.message();
    return error.code();
  }
  return Code{};
}

TEST(ThreadGroup, EveryRankGetsTheSumInRankOrder) {
  // (2^24 + 1) + 1 in float32 is 2^24 in this order, 2^24 + 2 in the other.
  const std::vector<float> parts{16777216.0F, 1.0F, 1.0F};
  run_ranks(3, [&](Communicator& group) {
    const Tensor value = Tensor::scalar(parts[static_cast<std::size_t>(group.rank())]);
    group.all_reduce(value);
    EXPECT_EQ(value.item<float>(), 16777216.0F);
    const Tensor counts = Tensor::from_vector<std::int64_t>({group.rank(), 1});
    group.all_reduce(counts);
    EXPECT_THAT(counts.to_vector<std::int64_t>(), ElementsAre(3, 3));
  });
}

TEST(ThreadGroup, CollectivesUnderWayFinishInAnyOrder) {
  run_ranks(4, [](Communicator& group) {
    std::vector<Tensor> values;
    std::vector<std::unique_ptr<Pending>> pending;
    for (int i = 0; i < 10; ++i) {
      values.push_back(Tensor::full(Shape{100}, i + group.rank()));
      pending.push_back(Transport::all_reduce_async(group, values.back()));
    }
    for (int i = 9; i >= 0; --i) pending[static_cast<std::size_t>(i)]->wait();
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)].to_vector<float>()[99], 4.0F * static_cast<float>(i) + 6.0F);
  });
}

TEST(ThreadGroup, GathersAndBroadcasts) {
  run_ranks(3, [](Communicator& group) {
    EXPECT_THAT(group.all_gather(std::string(static_cast<std::size_t>(group.rank()), 'x')), ElementsAre("", "x", "xx"));
    EXPECT_EQ(group.broadcast(std::to_string(group.rank()), 2), "2");
    const Tensor value = Tensor::full(Shape{2}, group.rank());
    group.broadcast(value, 1);
    EXPECT_THAT(value.to_vector<float>(), ElementsAre(1.0F, 1.0F));
    EXPECT_EQ(group.member_name(1), "worker 1 (thread)");
  });
}

TEST(ThreadGroup, ABarrierWaitsForAllRanks) {
  std::atomic<int> arrived{0};
  run_ranks(8, [&](Communicator& group) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      group.barrier();
      EXPECT_GE(arrived.load(), 8 * round);
      group.barrier();
    }
  });
}

TEST(ThreadGroup, ALateRankIsNamedAndTheGroupStaysBroken) {
  std::mutex mutex;
  std::vector<std::string> messages;
  const auto ranks = make_thread_group(3, milliseconds(100));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, group = ranks[static_cast<std::size_t>(rank)]] {
      for (int again = 0; again < 2; ++again) {
        std::string message;
        EXPECT_EQ(code_of([&] { group->barrier(); }, &message), Code::kDeadlineExceeded);
        const std::lock_guard lock(mutex);
        messages.push_back(message);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(messages, ::testing::Each(HasSubstr("worker 2 (thread) did not arrive at barrier within 0.1 s")));
  EXPECT_EQ(code_of([&] { ranks[2]->barrier(); }), Code::kDeadlineExceeded);
}

TEST(ThreadGroup, TheErrorOfARankIsRethrownOnAllRanks) {
  std::atomic<int> recorded{0};
  std::string message;
  EXPECT_EQ(code_of(
                [&] {
                  run_ranks(3, [&](Communicator& group) {
                    if (group.rank() == 1) throw_data_loss("the disk of rank 1 is damaged");
                    std::string mine;
                    EXPECT_EQ(code_of([&] { group.barrier(); }, &mine), Code::kUnavailable);
                    EXPECT_THAT(mine, HasSubstr("worker 1 (thread) failed: the disk of rank 1 is damaged"));
                    ++recorded;
                    group.barrier();
                  });
                },
                &message),
            Code::kDataLoss);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(message, "the disk of rank 1 is damaged");
}

TEST(ThreadGroup, ARankThatLeavesEarlyIsMissed) {
  std::string message;
  EXPECT_EQ(code_of(
                [&] {
                  run_ranks(2, [](Communicator& group) {
                    group.all_gather("both");
                    if (group.rank() == 0) group.barrier();
                  });
                },
                &message),
            Code::kUnavailable);
  EXPECT_THAT(message, HasSubstr("worker 1 (thread) left the group before barrier"));
}

TEST(ThreadGroup, DifferentCallsAreNamedOnEveryRank) {
  std::atomic<int> named{0};
  run_ranks(2, [&](Communicator& group) {
    std::string message;
    const Tensor value = Tensor::zeros(Shape{2 + group.rank()});
    EXPECT_EQ(code_of([&] { group.all_reduce(value); }, &message), Code::kInvalidArgument);
    EXPECT_THAT(message, HasSubstr("worker 1 (thread) called all_reduce of float32(3,)"));
    ++named;
    group.barrier();  // the group is whole: all ranks know of the mistake
  });
  EXPECT_EQ(named, 2);
}

TEST(ThreadGroup, DuplicatesAreUsedFromOtherThreads) {
  run_ranks(3, [](Communicator& group) {
    const auto other = group.duplicate("saving");
    std::thread background([&] {
      for (int i = 0; i < 20; ++i) EXPECT_THAT(other->all_gather("b"), ElementsAre("b", "b", "b"));
    });
    for (int i = 0; i < 20; ++i) EXPECT_THAT(group.all_gather("f"), ElementsAre("f", "f", "f"));
    background.join();
  });
}

TEST(ThreadGroup, AFailureReachesDuplicates) {
  const auto ranks = make_thread_group(2);
  std::vector<CommunicatorPtr> copies(2);
  std::thread other([&] { copies[1] = ranks[1]->duplicate("saving"); });
  copies[0] = ranks[0]->duplicate("saving");
  other.join();
  ranks[1]->fail("out of memory");
  EXPECT_EQ(code_of([&] { copies[0]->barrier(); }), Code::kUnavailable);
}

TEST(RequireEqual, NamesTheFactTheWorkerAndBothValues) {
  run_ranks(3, [](Communicator& group) {
    require_equal(group, {{"version", "1"}, {"seed", "7"}});
    std::string message;
    EXPECT_EQ(code_of(
                  [&] {
                    require_equal(group, {{"version", "1"}, {"seed", group.rank() == 2 ? "8:1" : "7"}});
                  },
                  &message),
              Code::kInvalidArgument);
    EXPECT_THAT(message, HasSubstr("worker 2 (thread) has seed 8:1, but worker 0 (thread) has 7"));
    EXPECT_EQ(code_of(
                  [&] {
                    require_equal(group, group.rank() == 0 ? std::map<std::string, std::string>{{"data", "a"}}
                                                           : std::map<std::string, std::string>{});
                  },
                  &message),
              Code::kInvalidArgument);
    EXPECT_THAT(message, HasSubstr("worker 1 (thread) has data (absent)"));
  });
}

}  // namespace
}  // namespace lockstep::collectives
