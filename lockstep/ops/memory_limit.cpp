#include "lockstep/ops/memory_limit_internal.h"

#include <mutex>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"

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

// Gives its bytes back to the limit when it is freed.
struct Counted {
  at::DataPtr memory;
  std::shared_ptr<MemoryLimit::State> state;
  std::int64_t bytes;
};
void free_counted(void* context) {
  const std::unique_ptr<Counted> counted(static_cast<Counted*>(context));
  counted->state->used -= counted->bytes;
}

class LimitedAllocator final : public c10::Allocator {
 public:
  explicit LimitedAllocator(c10::Allocator* inner) : inner_(inner) {}

  at::DataPtr allocate(std::size_t bytes) override {
    const std::shared_ptr<MemoryLimit::State>& state = t_memory;
    if (!state) return inner_->allocate(bytes);
    const auto wanted = static_cast<std::int64_t>(bytes);
    if (wanted < 0 || wanted > state->limit - state->used.load()) memory_exhausted(bytes, *state);
    auto counted = std::make_unique<Counted>(Counted{inner_->allocate(bytes), state, wanted});
    state->used += wanted;
    void* const data = counted->memory.get();
    const at::Device device = counted->memory.device();
    return {data, counted.release(), free_counted, device};
  }
  at::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t count) const override { inner_->copy_data(to, from, count); }

 private:
  c10::Allocator* const inner_;
};

void install_limited_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
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

MemoryLimit::Suspended::Suspended() : state_(std::move(t_memory)) {}
MemoryLimit::Suspended::~Suspended() { t_memory = std::move(state_); }

void MemoryLimit::check(std::int64_t count, std::int64_t size) {
  if (!t_memory) return;
  std::int64_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(count, size, &bytes) && bytes <= t_memory->limit - t_memory->used.load();
  if (!fits) memory_exhausted(static_cast<std::size_t>(bytes), *t_memory);
}

}  // namespace lockstep::ops
