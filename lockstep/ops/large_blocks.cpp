#include "lockstep/ops/large_blocks_internal.h"

#include <sys/mman.h>

#include <deque>
#include <mutex>
#include <unordered_map>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace lockstep::ops {
namespace {

constexpr std::size_t kLarge = std::size_t{32} << 20;  // bytes
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Mappings of the system, by address; of each size, those that nobody uses.
class LargeBlocks {
 public:
  // Null where the system refuses.
  void* take(std::size_t bytes) {
    const std::size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    const std::lock_guard lock(mutex_);
    void* memory = nullptr;
    for (auto block = unused_.rbegin(); block != unused_.rend() && !memory; ++block) {
      if (block->size != size) continue;
      memory = block->memory;
      unused_.erase(std::next(block).base());
      unused_bytes_ -= size;
    }
    while (!memory && !unused_.empty() && used_bytes_ + unused_bytes_ + size > most_used_) release_oldest();
    if (!memory) memory = map(size);
    if (!memory) return nullptr;
    used_.emplace(memory, size);
    used_bytes_ += size;
    most_used_ = std::max(most_used_, used_bytes_);
    return memory;
  }
  // Whether the block is one of these.
  bool give_back(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(memory);
    if (found == used_.end()) return false;
    unused_.push_back({memory, found->second});
    used_bytes_ -= found->second, unused_bytes_ += found->second;
    used_.erase(found);
    return true;
  }

 private:
  struct Block {
    void* memory;
    std::size_t size;
  };
  // Aligned, so that it can be on huge pages.
  static void* map(std::size_t size) {
    void* const all = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(all);
    const std::size_t skipped = (kHugePage - reinterpret_cast<std::uintptr_t>(all) % kHugePage) % kHugePage;
    if (skipped > 0) munmap(begin, skipped);
    if (skipped < kHugePage) munmap(begin + skipped + size, kHugePage - skipped);
    madvise(begin + skipped, size, MADV_HUGEPAGE);  // a hint: without it there are more page faults
    return begin + skipped;
  }
  void release_oldest() {
    munmap(unused_.front().memory, unused_.front().size);
    unused_bytes_ -= unused_.front().size;
    unused_.pop_front();
  }

  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> used_;
  std::deque<Block> unused_;  // the one that was given back first comes first
  std::size_t used_bytes_ = 0, unused_bytes_ = 0, most_used_ = 0;
};

LargeBlocks& large_blocks() {
  static LargeBlocks* const blocks = new LargeBlocks;  // outlives all tensors
  return *blocks;
}

c10::Allocator& small_blocks() { return *c10::GetDefaultCPUAllocator(); }

void free_block(void* memory) {
  if (!large_blocks().give_back(memory)) small_blocks().raw_deleter()(memory);
}

class TensorMemory : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < kLarge) return small_blocks().allocate(bytes);
    void* const memory = large_blocks().take(bytes);
    if (!memory) return small_blocks().allocate(bytes);  // reports it
    return {memory, memory, &free_block, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }
};

}  // namespace

void keep_large_blocks() {
  static TensorMemory* const memory = new TensorMemory;
  constexpr std::uint8_t kBeforeTheDefault = 1;
  c10::SetCPUAllocator(memory, kBeforeTheDefault);
}

}  // namespace lockstep::ops
