#include "lockstep/base/entropy_internal.h"

#include <mutex>
#include <optional>
#include <random>

namespace lockstep {
namespace {

struct Source {
  std::mutex mutex;
  std::random_device device;
  std::optional<std::mt19937_64> shared;
  int generation = 0;
};

Source& source() {
  static Source* instance = new Source();
  return *instance;
}

}  // namespace

std::uint32_t draw_entropy() {
  Source& from = source();
  const std::lock_guard lock(from.mutex);
  return from.shared ? static_cast<std::uint32_t>((*from.shared)() >> 32) : from.device();
}

void share_entropy(std::uint64_t seed) {
  Source& from = source();
  const std::lock_guard lock(from.mutex);
  from.shared.emplace(seed);
  ++from.generation;
}

int entropy_generation() {
  Source& from = source();
  const std::lock_guard lock(from.mutex);
  return from.generation;
}

}  // namespace lockstep
