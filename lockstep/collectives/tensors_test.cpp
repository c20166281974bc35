// Sums of tensors as they come: over ranks that are threads, and through the memory that ranks of one machine share.
#include "lockstep/collectives/tensors_internal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/collectives/shared_memory_internal.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::collectives {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Tensor floats(std::vector<float> values) { return Tensor::from_vector(values); }

TEST(Sum, AddsTensorsOfSeveralTypesAndLeavesGapsAndGivenTensorsAlone) {
  for (const std::int64_t bytes : {1, 16, 1 << 20}) {
    run_ranks(3, [bytes](Communicator& group) {
      const auto rank = static_cast<float>(group.rank());
      const Tensor kept = floats({rank, 1});
      Tensors values{kept, Tensor(), Tensor::from_vector<std::int64_t>({group.rank()}), Tensor::full(Shape{2, 2}, rank),
                     Tensor::scalar(rank)};
      sum(group, values, {.bytes_per_pack = bytes});
      EXPECT_THAT(values[0].to_vector<float>(), ElementsAre(3, 3));
      EXPECT_THAT(kept.to_vector<float>(), ElementsAre(rank, 1)) << "somebody else holds it";
      EXPECT_FALSE(values[1].defined());
      EXPECT_THAT(values[2].to_vector<std::int64_t>(), ElementsAre(3));
      EXPECT_EQ(values[3].shape(), (Shape{2, 2}));
      EXPECT_THAT(values[3].to_vector<float>(), Each(3));
      EXPECT_EQ(values[4].rank(), 0);
      EXPECT_EQ(values[4].item<float>(), 3);
    });
  }
}

TEST(Sum, ALargeTensorIsSummedInPlace) {
  run_ranks(2, [](Communicator& group) {
    Tensors values{Tensor::full(Shape{1000}, 1 + group.rank())};
    const void* const before = values[0].to_data().bytes.data();
    sum(group, values, {.bytes_per_pack = 1000});
    EXPECT_EQ(static_cast<const void*>(values[0].to_data().bytes.data()), before);
    EXPECT_THAT(values[0].to_vector<float>(), Each(3));
  });
}

TEST(Sum, AnIdleRankAddsZeros) {
  run_ranks(2, [](Communicator& group) {
    Tensors values{floats({5, 7}), Tensor::full(Shape{3}, 2)};
    sum(group, values, {.idle = group.rank() == 1});
    EXPECT_THAT(values[0].to_vector<float>(), ElementsAre(5, 7));
    EXPECT_THAT(values[1].to_vector<float>(), Each(2));
  });
}

RowSlices rows_of_rank(int rank) {
  return {Tensor::from_vector<std::int64_t>({rank, 3}), floats({static_cast<float>(rank), 10})};
}

Tensor gradient_of_rank(int rank) { return tensor_of_rows(rows_of_rank(rank), Shape{4}); }

TEST(Sum, TheSumOfSlicesIsTheSlicesOfAllRanks) {
  run_ranks(2, [](Communicator& group) {
    Tensors values{gradient_of_rank(group.rank()), floats({1})};
    sum(group, values);
    EXPECT_TRUE(has_rows_only(values[0])) << "nothing dense is made";
    const auto& slices = ops::slices_of(values[0]);
    ASSERT_TRUE(slices);
    EXPECT_THAT(slices->indices.to_vector<std::int64_t>(), ElementsAre(0, 3, 1, 3));
    EXPECT_THAT(slices->values.to_vector<float>(), ElementsAre(0, 10, 1, 10));
    EXPECT_THAT(values[0].to_vector<float>(), ElementsAre(0, 1, 0, 20));
    EXPECT_THAT(values[1].to_vector<float>(), ElementsAre(2));
  });
}

TEST(Sum, AnIdleRankHasNoSlices) {
  run_ranks(2, [](Communicator& group) {
    Tensors values{gradient_of_rank(group.rank())};
    sum(group, values, {.idle = group.rank() == 0});
    EXPECT_THAT(ops::slices_of(values[0])->indices.to_vector<std::int64_t>(), ElementsAre(1, 3));
  });
}

TEST(Sum, CompressionRoundsFloatsToItsTypeAndNothingElse) {
  // 1 + 2^-9 is a float16 but no bfloat16; 70000 is beyond float16.
  const float fine = 1 + 1.0F / 512;
  for (const Compression compression : {Compression::kFloat16, Compression::kBFloat16}) {
    run_ranks(2, [&](Communicator& group) {
      Tensors values{floats({fine, 35000}), Tensor::from_vector<double>({fine}),
                     Tensor::from_vector<std::int64_t>({16777217})};
      sum(group, values, {.compression = compression});
      ASSERT_EQ(values[0].dtype(), DType::kFloat32);
      const std::vector<float> sums = values[0].to_vector<float>();
      if (compression == Compression::kFloat16) {
        EXPECT_EQ(sums[0], 2 * fine);
        EXPECT_TRUE(std::isinf(sums[1]));
      } else {
        EXPECT_EQ(sums[0], 2);
        EXPECT_NEAR(sums[1], 70000, 70000.0 / 128);
      }
      EXPECT_EQ(values[1].item<double>(), 2.0 * fine);
      EXPECT_EQ(values[2].item<std::int64_t>(), 33554434);
    });
  }
}

// Gradients that come in another order on each rank, some late, one never, make the same packs.
TEST(Gather, TensorsOfAnyTypeAndShape) {
  run_ranks(3, [](Communicator& group) {
    const std::int64_t rank = group.rank();
    const Tensors texts = gather(
        group,
        rank == 1 ? Tensor() : Tensor::strings({"a\n", std::string(static_cast<std::size_t>(rank), 'b')}, Shape{2, 1}));
    EXPECT_FALSE(texts[1].defined());
    EXPECT_EQ(texts[0].string_values(), (std::vector<std::string>{"a\n", ""}));
    EXPECT_EQ(texts[2].string_values(), (std::vector<std::string>{"a\n", "bb"}));
    EXPECT_EQ(texts[2].shape(), (Shape{2, 1}));
    const Tensors rows = gather(group, Tensor::full(Shape{rank, 2}, static_cast<double>(rank)));
    EXPECT_EQ(rows[0].shape(), (Shape{0, 2}));
    EXPECT_EQ(rows[2].to_vector<float>(), (std::vector<float>{2, 2, 2, 2}));
  });
}

TEST(GradientSum, BucketsDoNotDependOnTheOrderOfGradients) {
  for (const std::int64_t bytes : {1, 24, 1 << 20}) {
    run_ranks(3, [bytes](Communicator& group) {
      const auto rank = static_cast<float>(group.rank());
      Tensors gradients;
      for (int i = 0; i < 6; ++i)
        gradients.push_back(i == 3 ? Tensor() : Tensor::full(Shape{i + 1}, rank + static_cast<float>(i)));
      GradientSum sum(group, gradients.size(), {.bytes_per_pack = bytes});
      if (group.rank() == 0) {
        for (const std::size_t i : {5, 4, 2, 1, 0}) sum.ready(i, gradients[i]);
      } else if (group.rank() == 1) {
        for (const std::size_t i : {0, 4, 5}) sum.ready(i, gradients[i]);
      }
      Tensors exact{floats({rank}), Tensor()};
      sum.finish(gradients, exact);
      for (int i = 0; i < 6; ++i) {
        if (i == 3) continue;
        EXPECT_EQ(gradients[static_cast<std::size_t>(i)].shape(), Shape{i + 1});
        EXPECT_THAT(gradients[static_cast<std::size_t>(i)].to_vector<float>(), Each(3 + 3 * i));
      }
      EXPECT_FALSE(gradients[3].defined());
      EXPECT_THAT(exact[0].to_vector<float>(), ElementsAre(3));
      EXPECT_FALSE(exact[1].defined());
    });
  }
}

TEST(GradientSum, SlicesAmongOtherGradients) {
  run_ranks(2, [](Communicator& group) {
    const auto rank = static_cast<float>(group.rank());
    Tensors gradients{floats({rank, 1}), gradient_of_rank(group.rank()), floats({rank})};
    GradientSum sum(group, 3, {});
    sum.ready(2, gradients[2]);
    sum.ready(0, gradients[0]);
    Tensors exact;
    sum.finish(gradients, exact);
    EXPECT_THAT(gradients[0].to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(gradients[2].to_vector<float>(), ElementsAre(1));
    EXPECT_TRUE(has_rows_only(gradients[1]));
    EXPECT_THAT(gradients[1].to_vector<float>(), ElementsAre(0, 1, 0, 20));
  });
}

TEST(GradientSum, OnlyGradientsAreRoundedAndOnlyTheyAreLeftOutOfAnIdleRank) {
  const float fine = 1 + 1.0F / 512;
  run_ranks(2, [&](Communicator& group) {
    Tensors gradients{floats({fine, fine}), floats({fine})};
    GradientSum sum(group, 2, {.idle = group.rank() == 1, .compression = Compression::kBFloat16});
    sum.ready(1, gradients[1]);
    Tensors exact{floats({fine})};
    sum.finish(gradients, exact);
    EXPECT_THAT(gradients[0].to_vector<float>(), Each(1));
    EXPECT_THAT(gradients[1].to_vector<float>(), Each(1));
    EXPECT_THAT(exact[0].to_vector<float>(), ElementsAre(2 * fine));
  });
}

// fn(rank, its view of one shared memory) on a thread each.
void with_memory(int size, const std::function<void(int, SharedMemory&)>& fn) {
  std::vector<std::unique_ptr<SharedMemory>> views;
  views.push_back(SharedMemory::make(size));
  ASSERT_TRUE(views[0]);
  for (int rank = 1; rank < size; ++rank) {
    views.push_back(SharedMemory::open(views[0]->name(), rank, size));
    ASSERT_TRUE(views.back());
  }
  EXPECT_FALSE(SharedMemory::open("1 " + views[0]->name().substr(views[0]->name().find(' ') + 1), 1, size))
      << "another process";
  EXPECT_FALSE(SharedMemory::open(views[0]->name() + "0", 1, size)) << "another memory";
  views[0]->unname();
  EXPECT_FALSE(SharedMemory::open(views[0]->name(), 1, size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { fn(rank, *views[static_cast<std::size_t>(rank)]); });
  for (std::thread& thread : threads) thread.join();
}

// More bytes than the memory has, sums that cross blocks at odd places, several under way at once.
TEST(SharedMemory, SumsOfAnyLength) {
  for (const int size : {2, 3, 5}) {
    with_memory(size, [size](int rank, SharedMemory& memory) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100003}, std::size_t{3000001}}) {
        std::vector<float> large(count), result(count);
        for (std::size_t i = 0; i < count; ++i) large[i] = static_cast<float>(i % 1000) * static_cast<float>(rank + 1);
        std::vector<std::int64_t> small{rank, 7};
        const auto first = memory.start({{large.data(), nullptr, count / 2 * 4},
                                         {nullptr, nullptr, 4},
                                         {large.data() + count / 2, nullptr, (count - count / 2) * 4}},
                                        DType::kFloat32);
        const auto second = memory.start({{small.data(), small.data(), 16}}, DType::kInt64);
        float zero = 1;
        memory.target(first, 0, result.data());
        memory.target(first, 1, &zero);
        memory.target(first, 2, result.data() + count / 2);
        memory.finish(second, [] {});
        memory.finish(first, [] {});
        EXPECT_EQ(zero, 0);
        EXPECT_THAT(small, ElementsAre(size * (size - 1) / 2, 7 * size));
        const auto all = static_cast<float>(size * (size + 1) / 2);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) wrong += result[i] != static_cast<float>(i % 1000) * all;
        EXPECT_EQ(wrong, 0U);
      }
    });
  }
}

TEST(SharedMemory, AddsInTheOrderOfRanksInPlace) {
  // (2^24 + 1) + 1 in float32 is 2^24 in this order, 2^24 + 2 in the other.
  const std::vector<float> parts{16777216.0F, 1.0F, 1.0F};
  with_memory(3, [&](int rank, SharedMemory& memory) {
    for (int again = 0; again < 200; ++again) {
      std::vector<float> values(1000, parts[static_cast<std::size_t>(rank)]);
      memory.finish(memory.start({{values.data(), values.data(), 4000}}, DType::kFloat32), [] {});
      EXPECT_THAT(values, Each(16777216.0F));
    }
  });
}

// As a backward pass does while another thread reads a variable that waits for its sum.
TEST(SharedMemory, SumsStartWhileAnotherThreadWaits) {
  std::atomic<bool> waits{false}, started{false};
  with_memory(2, [&](int rank, SharedMemory& memory) {
    float first = 1, second = 2;
    if (rank == 1) {
      while (!started) std::this_thread::yield();
      memory.start({{&first, &first, 4}}, DType::kFloat32);
      memory.finish(memory.start({{&second, &second, 4}}, DType::kFloat32), [] {});
    } else {
      const auto sum = memory.start({{&first, &first, 4}}, DType::kFloat32);
      std::thread reader([&] {
        const auto begin = std::chrono::steady_clock::now();
        const auto check = [&] {
          waits = true;
          if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(20)) throw std::runtime_error("blocked");
        };
        EXPECT_NO_THROW(memory.finish(sum, check));
        waits = true;
      });
      while (!waits) std::this_thread::yield();
      const auto next = memory.start({{&second, &second, 4}}, DType::kFloat32);
      started = true;
      reader.join();
      memory.finish(next, [] {});
    }
    EXPECT_EQ(first, 2);
    EXPECT_EQ(second, 4);
  });
}

// Each element is made by one rank, from the sum and what that rank holds, and comes to all; sums of both kinds in
// turns.
TEST(SharedMemory, UpdatesShardsBetweenReduceScatterAndAllGather) {
  for (const int size : {2, 3}) {
    const std::size_t count = 2500007;
    std::vector<std::atomic<int>> makers(count);
    with_memory(size, [&](int rank, SharedMemory& memory) {
      std::vector<float> gradient(count), value(count), other(5);
      for (int step = 1; step <= 3; ++step) {
        for (std::size_t i = 0; i < count; ++i) gradient[i] = static_cast<float>(rank + step);
        std::fill(other.begin(), other.end(), 1.0F);
        const auto first =
            memory.start({{gradient.data(), nullptr, count * 4}, {other.data(), nullptr, 20}}, DType::kFloat32, true);
        const auto plain = memory.start({{other.data(), other.data(), 20}}, DType::kFloat32);
        std::vector<float> summed(5);
        memory.target(first, 1, summed.data());
        memory.set_shard_update(first, 0, value.data(), [&](std::size_t offset, std::size_t bytes, std::byte* piece) {
          auto* const sum = reinterpret_cast<float*>(piece);
          for (std::size_t i = offset / 4; i < (offset + bytes) / 4; ++i) {
            ++makers[i];
            sum[i - offset / 4] = value[i] += sum[i - offset / 4] + static_cast<float>(i % 10);
          }
        });
        memory.finish(first, [] {});
        memory.finish(plain, [] {});
        EXPECT_THAT(summed, Each(size));
        EXPECT_THAT(other, Each(size));
      }
      const int sums = 3 * size * (size - 1) / 2 + 6 * size;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i)
        wrong += value[i] != static_cast<float>(sums) + 3 * static_cast<float>(i % 10);
      EXPECT_EQ(wrong, 0U);
    });
    EXPECT_TRUE(std::all_of(makers.begin(), makers.end(), [](const auto& times) { return times == 3; }));
  }
}

// Once a rank has added its share, the others need nothing of it; what it gives up then does not stop later sums.
TEST(SharedMemory, AShareThatIsAddedNeedsNoFurtherCalls) {
  constexpr std::size_t kCount = 100000;
  std::atomic<bool> gone_on{false};
  with_memory(2, [&](int rank, SharedMemory& memory) {
    std::vector<float> gradient(kCount, 1.0F), value(kCount), later(10, 1.0F);
    const auto sum = memory.start({{gradient.data(), nullptr, kCount * 4}}, DType::kFloat32, true);
    memory.set_shard_update(sum, 0, value.data(), [&](std::size_t offset, std::size_t bytes, std::byte* piece) {
      // Rank 1 makes its share after rank 0 has gone on.
      for (int wait = 0; rank == 1 && !gone_on && wait < 5000; ++wait)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::memcpy(value.data() + offset / 4, piece, bytes);
    });
    memory.reduce(sum, [] {});
    if (rank == 0) {
      EXPECT_FALSE(gone_on.exchange(true));
      EXPECT_EQ(std::count(value.begin(), value.end(), 2.0F), kCount / 2);
      memory.finish(sum, [] {});
      EXPECT_THAT(value, Each(2));
    } else {
      EXPECT_TRUE(gone_on);
      memory.abandon(sum);
    }
    memory.finish(memory.start({{later.data(), later.data(), 40}}, DType::kFloat32, true), [] {});
    EXPECT_THAT(later, Each(2));
  });
}

// The update of a sum may be set after an earlier sum has been awaited.
TEST(SharedMemory, WaitingForASumLeavesLaterOnesAlone) {
  with_memory(2, [](int rank, SharedMemory& memory) {
    std::vector<float> first(1000, 1.0F), second(1000, 2.0F), value(1000);
    const auto earlier = memory.start({{first.data(), first.data(), 4000}}, DType::kFloat32, true);
    const auto later = memory.start({{second.data(), nullptr, 4000}}, DType::kFloat32, true);
    memory.finish(earlier, [] {});
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    memory.set_shard_update(later, 0, value.data(), [&](std::size_t offset, std::size_t bytes, std::byte* piece) {
      for (std::size_t i = 0; i < bytes / 4; ++i) reinterpret_cast<float*>(piece)[i] += 1;
      std::memcpy(value.data() + offset / 4, piece, bytes);
    });
    memory.finish(later, [] {});
    EXPECT_THAT(first, Each(2));
    EXPECT_THAT(value, Each(5));
  });
}

TEST(SharedMemory, WhoWaitsIsAskedForItsPatience) {
  with_memory(2, [](int rank, SharedMemory& memory) {
    if (rank == 1) return;
    float value = 1;
    const auto sum = memory.start({{&value, &value, 4}}, DType::kFloat32);
    EXPECT_THROW(memory.finish(sum, [] { throw std::runtime_error("enough"); }), std::runtime_error);
  });
}

}  // namespace
}  // namespace lockstep::collectives
