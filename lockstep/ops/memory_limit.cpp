#include "lockstep/ops/memory_limit_internal.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/shared_memory_limit_internal.h"

namespace lockstep::ops {
namespace {

thread_local std::shared_ptr<MemoryLimit::State> t_memory;

[[noreturn]] void memory_exhausted(std::size_t wanted, const MemoryLimit::State& state) {
  throw_resource_exhausted(
      fmt::format("out of memory: {} more bytes exceed the limit of {} bytes, {} are in use; raise max_memory "
                  "(--max-memory) if there "
                  "is more",
                  wanted, state.limit, state.used.load()));
}

// A block of memory that counts.
struct Counted {
  at::DataPtr memory;
  std::shared_ptr<MemoryLimit::State> state;
  std::int64_t bytes;
};

// The counted blocks by address. A block's context is its address, as LibTorch's raw_allocate() wants it.
class Blocks {
 public:
  void add(void* address, Counted counted) {
    const std::lock_guard lock(mutex_);
    blocks_.insert_or_assign(address, std::move(counted));
  }
  // False for memory that does not count.
  bool free(void* address) {
    std::unique_lock lock(mutex_);
    const auto found = blocks_.extract(address);
    lock.unlock();
    if (!found.empty()) found.mapped().state->used -= found.mapped().bytes;
    return !found.empty();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, Counted> blocks_;
};
Blocks& blocks() {
  static auto* const blocks = new Blocks;  // memory is freed until the process has ended
  return *blocks;
}

at::DeleterFnPtr inner_deleter = nullptr;
// Gives its bytes back to the limit.
void free_block(void* address) {
  if (!blocks().free(address) && inner_deleter) inner_deleter(address);
}

class LimitedAllocator final : public c10::Allocator {
 public:
  explicit LimitedAllocator(c10::Allocator* inner) : inner_(inner) {}

  at::DataPtr allocate(std::size_t bytes) override {
    const std::shared_ptr<MemoryLimit::State>& state = t_memory;
    if (!state) return inner_->allocate(bytes);
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (wanted < 0 || wanted > state->limit - state->used.load()) memory_exhausted(bytes, *state);
    at::DataPtr memory = inner_->allocate(bytes);
    void* const data = memory.get();
    const at::Device device = memory.device();
    if (!data) return memory;
    blocks().add(data, {std::move(memory), state, wanted});
    state->used += wanted;
    return {data, data, free_block, device};
  }
  at::DeleterFnPtr raw_deleter() const override { return free_block; }
  void copy_data(void* to, const void* from, std::size_t count) const override { inner_->copy_data(to, from, count); }

 private:
  c10::Allocator* const inner_;
};

void install_limited_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    inner_deleter = c10::GetCPUAllocator()->raw_deleter();
    static LimitedAllocator* const allocator = new LimitedAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(allocator, /*priority=*/100);
  });
}

}  // namespace

MemoryLimit::MemoryLimit(std::int64_t bytes) : state_(std::make_shared<State>()) {
  install_limited_allocator();
  state_->limit = bytes;
  t_memory = state_;
}
MemoryLimit::~MemoryLimit() { t_memory.reset(); }

bool MemoryLimit::active() { return t_memory != nullptr; }

std::shared_ptr<MemoryLimit::State> current_memory_limit() { return t_memory; }

SharedMemoryLimit::SharedMemoryLimit(std::shared_ptr<MemoryLimit::State> limit)
    : previous_(std::exchange(t_memory, std::move(limit))) {}
SharedMemoryLimit::~SharedMemoryLimit() { t_memory = std::move(previous_); }

void MemoryLimit::check(std::int64_t count, std::int64_t size) {
  if (!t_memory) return;
  std::int64_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(count, size, &bytes) && bytes <= t_memory->limit - t_memory->used.load();
  if (!fits) memory_exhausted(static_cast<std::size_t>(bytes), *t_memory);
}

}  // namespace lockstep::ops
