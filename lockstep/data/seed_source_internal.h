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

// The words of Philox(seeds) from word `first` on.
inline ops::PhiloxStream words_from(Seeds seeds, std::uint64_t first) {
  ops::PhiloxStream words(ops::philox_from_seeds(seeds.first, seeds.second).skipped(first / 4));
  for (std::uint64_t i = 0; i < first % 4; ++i) words.next();
  return words;
}

// Gives each iterator two words of Philox(seeds) as its own seeds.
class SeedSource {
 public:
  SeedSource(Seeds seeds, bool reshuffle) : seeds_(seeds), reshuffle_(reshuffle), words_(words_from(seeds, 0)) {}

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
    const std::int64_t taken = state_count(state, "iterators");
    const std::lock_guard lock(mutex_);
    seeds_ = seeds;
    taken_ = taken;
    words_ = words_from(seeds, static_cast<std::uint64_t>(taken) * 2);
  }

 private:
  mutable std::mutex mutex_;
  Seeds seeds_;
  bool reshuffle_;
  ops::PhiloxStream words_;
  std::int64_t taken_ = 0;
};

}  // namespace lockstep::data
