#include "lockstep/ops/parallel_internal.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace lockstep::ops {
namespace {

using Work = std::function<void(std::int64_t, std::int64_t)>;

constexpr int kSpins = 2000;                // some tens of microseconds: from one operation of a step to the next
constexpr std::uint64_t kClosed = 1 << 30;  // as the next piece: none is left
constexpr std::int64_t kPiecesPerThread = 4;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// One loop at a time. `ticket_` holds the loop's number and its next piece; taking a piece is one compare-and-swap,
// which fails when the loop is another one than the one whose fields were read.
class Pool {
 public:
  // False when another thread's loop is being run.
  bool run(std::int64_t begin, std::int64_t end, std::int64_t step, std::int64_t pieces, int threads,
           const Work& work) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    grow(threads - 1);
    const std::uint64_t number = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
    ticket_.store(number << 32 | kClosed, std::memory_order_release);
    begin_.store(begin, std::memory_order_release);
    end_.store(end, std::memory_order_release);
    step_.store(step, std::memory_order_release);
    pieces_.store(static_cast<std::uint64_t>(pieces), std::memory_order_release);
    work_.store(&work, std::memory_order_release);
    left_.store(pieces, std::memory_order_release);
    ticket_.store(number << 32, std::memory_order_release);
    wake_.fetch_add(1, std::memory_order_acq_rel);
    wake_.notify_all();
    while (take_piece()) {
    }
    wait_for_the_others();
    const std::exception_ptr failure = std::move(failure_);
    failure_ = nullptr;
    busy_.store(false, std::memory_order_release);
    if (failure) std::rethrow_exception(failure);
    return true;
  }

 private:
  // With fewer helpers than that where the system starts no more threads.
  void grow(int helpers) {
    try {
      for (; helpers_ < helpers; ++helpers_) std::thread([this] { help(); }).detach();
    } catch (const std::system_error&) {
    }
  }

  void help() {
    for (;;) {
      const std::uint32_t seen = wake_.load(std::memory_order_acquire);
      while (take_piece()) {
      }
      for (int spin = 0; spin < kSpins && wake_.load(std::memory_order_acquire) == seen; ++spin) pause();
      wake_.wait(seen, std::memory_order_acquire);
    }
  }

  bool take_piece() {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t piece = ticket & 0xffffffff;
      if (piece >= pieces_.load(std::memory_order_acquire)) return false;
      const std::int64_t begin = begin_.load(std::memory_order_acquire), end = end_.load(std::memory_order_acquire);
      const std::int64_t step = step_.load(std::memory_order_acquire);
      const Work* const work = work_.load(std::memory_order_acquire);
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      const std::int64_t from = begin + static_cast<std::int64_t>(piece) * step;
      try {
        (*work)(from, std::min(end, from + step));
      } catch (...) {
        const std::lock_guard lock(failing_);
        if (!failure_) failure_ = std::current_exception();
      }
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_all();
      return true;
    }
  }

  void wait_for_the_others() {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (left_.load(std::memory_order_acquire) == 0) return;
      pause();
    }
    for (std::int64_t left; (left = left_.load(std::memory_order_acquire)) != 0;)
      left_.wait(left, std::memory_order_acquire);
  }

  std::atomic<bool> busy_{false};
  std::atomic<std::uint64_t> ticket_{kClosed};
  std::atomic<std::int64_t> begin_{0}, end_{0}, step_{0}, left_{0};
  std::atomic<std::uint64_t> pieces_{0};
  std::atomic<const Work*> work_{nullptr};
  std::atomic<std::uint32_t> wake_{0};
  std::mutex failing_;
  std::exception_ptr failure_;
  int helpers_ = 0;
};

// Lives as long as the process: its threads may sleep in it at exit.
Pool& pool() {
  static Pool* const pool = new Pool;
  return *pool;
}

int default_threads() {
  static const int threads = [] {
    const char* const given = std::getenv("OMP_NUM_THREADS");
    const int wanted = given ? std::atoi(given) : 0;
    return std::clamp(wanted > 0 ? wanted : static_cast<int>(std::thread::hardware_concurrency()), 1, 256);
  }();
  return threads;
}

thread_local int t_threads = 0;
thread_local bool t_within = false;

}  // namespace

int parallel_threads() { return t_threads > 0 ? t_threads : default_threads(); }
void set_parallel_threads(int threads) { t_threads = threads; }

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const Work& work) {
  if (begin >= end) return;
  const std::int64_t count = end - begin, threads = parallel_threads();
  const std::int64_t pieces = std::min(count / std::max<std::int64_t>(grain, 1), threads * kPiecesPerThread);
  if (pieces > 1 && threads > 1 && !t_within) {
    t_within = true;
    struct Leave {
      ~Leave() { t_within = false; }
    } leave;
    const std::int64_t step = (count + pieces - 1) / pieces;
    if (pool().run(begin, end, step, (count + step - 1) / step, static_cast<int>(threads), work)) return;
  }
  work(begin, end);
}

}  // namespace lockstep::ops
