// Threads that the system does not start: an error or a slower way, never the end of the process.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/data/dataset.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/ops/parallel_internal.h"

namespace {

// Threads that may still be started; below 0: any number.
std::atomic<int> threads_left{-1};

}  // namespace

// In front of the C library's, for all libraries of this program.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left >= 0 && threads_left-- == 0) {
    threads_left = 0;
    return EAGAIN;
  }
  return create(thread, attributes, run, argument);
}

namespace lockstep {
namespace {

struct OnlyThreads {
  explicit OnlyThreads(int count) { threads_left = count; }
  ~OnlyThreads() { threads_left = -1; }
};

TEST(ThreadFailures, RanksOfOneProcess) {
  for (int started = 0; started < 3; ++started) {
    const OnlyThreads limit(started);
    // The ranks that were started wait for the others.
    EXPECT_THROW(collectives::run_ranks(
                     3, [](collectives::Communicator& group) { group.barrier(); }, std::chrono::minutes(1)),
                 errors::ResourceExhaustedError)
        << started;
  }
}

TEST(ThreadFailures, Replicas) {
  for (int started = 0; started < 3; ++started) {
    distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1", "/cpu:2", "/cpu:3"});
    {
      const OnlyThreads limit(started);
      EXPECT_THROW(strategy.run([] { return 0; }), errors::ResourceExhaustedError) << started;
    }
    EXPECT_EQ(strategy.run([] { return 1; }).values().size(), 4U) << started;
  }
}

TEST(ThreadFailures, LoopsRunOnTheThreadsThatThereAre) {
  const int before = ops::parallel_threads();
  ops::set_parallel_threads(200);
  std::vector<int> seen(1000);
  {
    const OnlyThreads limit(0);
    ops::parallel_for(0, 1000, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) ++seen[static_cast<std::size_t>(i)];
    });
  }
  ops::set_parallel_threads(before);
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
}

TEST(ThreadFailures, Prefetch) {
  const auto dataset = data::Dataset::range(3).prefetch(2);
  {
    const OnlyThreads limit(0);
    EXPECT_THROW(next(iter(dataset)), errors::ResourceExhaustedError);
  }
  int elements = 0;
  for ([[maybe_unused]] const auto& element : dataset) ++elements;
  EXPECT_EQ(elements, 3);
}

}  // namespace
}  // namespace lockstep
