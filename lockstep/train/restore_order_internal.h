// The order of the restorations of a process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "lockstep/distribute/variable.h"

namespace lockstep::train {

// The place of one restoration. A variable keeps the value of the latest that has restored it: an earlier one, which
// may find the variable later, leaves it alone. Thread-safe.
class RestoreOrder {
 public:
  RestoreOrder() {
    const std::lock_guard lock(all().mutex);
    number_ = ++all().last;
    if (++all().live == 1) all().restored_by.clear();
  }
  ~RestoreOrder() {
    const std::lock_guard lock(all().mutex);
    --all().live;
  }
  RestoreOrder(const RestoreOrder&) = delete;
  RestoreOrder& operator=(const RestoreOrder&) = delete;

  // False for a variable that a later one has restored; else this one restores it.
  bool restores(const std::shared_ptr<distribute::VariableImpl>& variable) const {
    const std::lock_guard lock(all().mutex);
    if (all().live == 1) return true;
    std::uint64_t& by = all().restored_by[variable];
    if (by > number_) return false;
    by = number_;
    return true;
  }

 private:
  struct All {
    std::mutex mutex;
    std::uint64_t last = 0;
    int live = 0;
    // Weak keys: a variable that takes the memory of another one is another key.
    std::map<std::weak_ptr<distribute::VariableImpl>, std::uint64_t, std::owner_less<>> restored_by;
  };
  static All& all() {
    static All all;
    return all;
  }

  std::uint64_t number_ = 0;
};

}  // namespace lockstep::train
