#include "lockstep/train/async_saver_internal.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/base/threads_internal.h"
#include "lockstep/io/bytes_internal.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kTwoThreads = std::size_t{8} << 20;
constexpr std::size_t kLargePage = std::size_t{2} << 20;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct Buffer {
  std::unique_ptr<std::byte, Free> memory;
  std::size_t size = 0;
};

// Large pages make the first use of new memory cost little more than the copy.
Buffer new_buffer(std::size_t size) {
  const std::size_t alignment = size >= kLargePage ? kLargePage : kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, io::align_up(size, alignment)));
  if (memory == nullptr)
    throw_resource_exhausted("not enough memory for the copy of the state that an asynchronous save writes");
  if (alignment == kLargePage) ::madvise(memory, io::align_up(size, alignment), MADV_HUGEPAGE);
  return {std::unique_ptr<std::byte, Free>(memory), size};
}

}  // namespace

struct CopyBuffers::Pool {
  std::mutex mutex;
  std::vector<Buffer> free;

  // The smallest that is large enough; else a new one in place of the smallest.
  Buffer take(std::size_t size) {
    {
      const std::lock_guard lock(mutex);
      const auto fits = std::find_if(free.begin(), free.end(), [&](const Buffer& each) { return each.size >= size; });
      if (fits != free.end()) {
        Buffer found = std::move(*fits);
        free.erase(fits);
        return found;
      }
      if (!free.empty()) free.erase(free.begin());
    }
    return new_buffer(size);
  }

  void give_back(Buffer buffer) {
    const std::lock_guard lock(mutex);
    free.insert(std::upper_bound(free.begin(), free.end(), buffer.size,
                                 [](std::size_t size, const Buffer& each) { return size < each.size; }),
                std::move(buffer));
  }
};

void CopyBuffers::copy(std::vector<formats::TensorData*> tensors) {
  if (!pool_) pool_ = std::make_shared<Pool>();
  std::erase_if(tensors, [](const auto* each) { return each->bytes.empty(); });
  std::size_t size = 0;
  for (const auto* each : tensors) size += io::align_up(each->bytes.size(), kAlignment);
  if (size == 0) return;
  const std::shared_ptr<Buffer> buffer(new Buffer(pool_->take(size)), [pool = pool_](Buffer* each) {
    pool->give_back(std::move(*each));
    delete each;
  });
  std::byte* const base = buffer->memory.get();
  struct Piece {
    std::byte* to;
    std::span<const std::byte> from;
  };
  std::vector<Piece> pieces;
  std::size_t at = 0;
  for (auto* each : tensors) {
    pieces.push_back({base + at, each->bytes});
    each->bytes = {base + at, each->bytes.size()};
    at += io::align_up(each->bytes.size(), kAlignment);
  }
  // Bytes begin … end-1 of the buffer.
  const auto copy_range = [&](std::size_t begin, std::size_t end) {
    for (const Piece& piece : pieces) {
      const auto start = static_cast<std::size_t>(piece.to - base), stop = start + piece.from.size();
      const std::size_t first = std::max(begin, start), last = std::min(end, stop);
      if (first < last) std::memcpy(base + first, piece.from.data() + (first - start), last - first);
    }
  };
  if (size >= kTwoThreads && std::thread::hardware_concurrency() > 1) {
    std::thread other;
    try {
      other = start_thread([&] { copy_range(size / 2, size); });
    } catch (const Error&) {  // one thread copies all
    }
    copy_range(0, other.joinable() ? size / 2 : size);
    if (other.joinable()) other.join();
  } else {
    copy_range(0, size);
  }
  for (auto* each : tensors) each->owner = buffer;
}

AsyncSaver::~AsyncSaver() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (!error_) return;
  try {
    std::rethrow_exception(error_);
  } catch (const std::exception& error) {
    log_warning("an asynchronous save failed: {}", error.what());
  }
}

void AsyncSaver::rethrow(std::unique_lock<std::mutex>& lock) {
  if (!error_) return;
  const auto error = std::exchange(error_, nullptr);
  lock.unlock();
  std::rethrow_exception(error);
}

void AsyncSaver::make_room(std::uint64_t bytes, std::uint64_t budget) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return held_ == 0 || (held_ < budget && bytes <= budget - held_); });
}

void AsyncSaver::submit(std::uint64_t bytes, std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
  // At least one byte, so that a job without data counts as running.
  const std::uint64_t held = std::max<std::uint64_t>(bytes, 1);
  held_ += held;
  queue_.push_back({held, std::move(job)});
  changed_.notify_all();
}

bool AsyncSaver::failed() {
  const std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

void AsyncSaver::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return held_ == 0; });
  rethrow(lock);
}

void AsyncSaver::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Job job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      job.run();
    } catch (...) {
      error = std::current_exception();
    }
    job.run = nullptr;  // the copy goes back to its pool before the room is counted as free
    lock.lock();
    if (error && !error_) error_ = error;
    held_ -= job.bytes;
    changed_.notify_all();
  }
}

}  // namespace lockstep::train
