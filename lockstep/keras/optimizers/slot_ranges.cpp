#include "lockstep/keras/optimizers/slot_ranges_internal.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace lockstep::optimizers {
namespace {

constexpr std::int64_t kLine = 64 / sizeof(float);  // elements of a cache line

std::span<std::byte> memory_of(const Tensor& value) {
  const auto bytes = value.to_data().bytes;
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

// Whole pages within the range become zeros that need no memory.
void give_back(std::span<std::byte> range) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(range.data()) + page - 1) / page * page,
             end = reinterpret_cast<std::uintptr_t>(range.data() + range.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

ElementRanges::ElementRanges(std::int64_t elements, int rank, int size) {
  const std::int64_t each = (elements + size * kLine - 1) / (size * kLine) * kLine;
  for (int i = 0; i < size; ++i) {
    const std::int64_t last = std::min(elements, (i + 1) * each);
    if (i == rank) begin = std::min(elements, i * each), end = last;
    ends.push_back(static_cast<std::size_t>(last) * sizeof(float));
  }
}

Tensor SlotRanges::for_update(distribute::VariableImpl& slot) {
  slot.set_arriving(nullptr);
  Tensor& value = slot.shared_value();
  const std::lock_guard lock(mutex_);
  Tensor& known = values_[&slot];
  if (!known.defined()) order_.push_back(&slot);
  if (!known.defined() || !same(value, known)) {
    const ElementRanges ranges(value.num_elements(), workers_->rank(), workers_->size());
    known = Tensor::zeros(value.shape(), value.dtype());
    std::memcpy(memory_of(known).data() + ranges.begin * sizeof(float),
                memory_of(value).data() + ranges.begin * sizeof(float),
                static_cast<std::size_t>(ranges.end - ranges.begin) * sizeof(float));
    value = known;
  }
  return known;
}

void SlotRanges::scatter() {
  const std::lock_guard lock(mutex_);
  if (!whole_.exchange(false)) return;
  for (const auto* slot : order_) {
    const Tensor& value = values_.at(slot);
    const ElementRanges ranges(value.num_elements(), workers_->rank(), workers_->size());
    const std::span<std::byte> memory = memory_of(value);
    give_back(memory.first(static_cast<std::size_t>(ranges.begin) * sizeof(float)));
    give_back(memory.subspan(static_cast<std::size_t>(ranges.end) * sizeof(float)));
  }
}

void SlotRanges::wait() {
  if (whole_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  if (whole_) return;
  for (const auto* slot : order_) {
    const Tensor& value = values_.at(slot);
    const ElementRanges ranges(value.num_elements(), workers_->rank(), workers_->size());
    collectives::gather_ranges(*workers_, memory_of(value), ranges.ends);
  }
  whole_.store(true, std::memory_order_release);
}

}  // namespace lockstep::optimizers
