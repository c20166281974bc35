// The seeds of the iterators of a dataset that draws random numbers.
#pragma once

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/ops/philox_internal.h"

namespace lockstep::data {

using Seeds = std::pair<std::int64_t, std::int64_t>;

// Gives each iterator two words of Philox(seeds) as its own seeds.
class SeedSource {
 public:
  SeedSource(Seeds seeds, bool reshuffle) : seeds_(seeds), reshuffle_(reshuffle), words_(stream(seeds)) {}

  Seeds next() {
    const std::lock_guard lock(mutex_);
    ++taken_;
    if (!reshuffle_) return seeds_;
    const std::int64_t a = words_.next();
    return {a, words_.next()};
  }
  bool reshuffles() const { return reshuffle_; }
  Json save() const {
    const std::lock_guard lock(mutex_);
    return {{"seeds", {seeds_.first, seeds_.second}}, {"iterators", taken_}};
  }
  void restore(const Json& state) {
    const Seeds seeds = state_pair(state, "seeds");
    const std::int64_t taken = state_int(state, "iterators");
    if (taken < 0) throw_invalid_argument(fmt::format("invalid state of a dataset's seeds: found {} iterators", taken));
    const std::lock_guard lock(mutex_);
    seeds_ = seeds;
    taken_ = taken;
    const auto words = static_cast<std::uint64_t>(taken) * 2;
    words_ = ops::PhiloxStream(ops::philox_from_seeds(seeds.first, seeds.second).skipped(words / 4));
    for (std::uint64_t i = 0; i < words % 4; ++i) words_.next();
  }

 private:
  static ops::PhiloxStream stream(Seeds seeds) {
    return ops::PhiloxStream(ops::philox_from_seeds(seeds.first, seeds.second));
  }
  mutable std::mutex mutex_;
  Seeds seeds_;
  bool reshuffle_;
  ops::PhiloxStream words_;
  std::int64_t taken_ = 0;
};

}  // namespace lockstep::data
