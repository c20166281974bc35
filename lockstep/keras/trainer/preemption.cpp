#include "lockstep/keras/trainer/preemption.h"

#include <atomic>

namespace lockstep::keras {

struct PreemptionToken::Flag {
  std::atomic<bool> requested = false;
  static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers set it");
};

PreemptionToken::PreemptionToken() : flag_(std::make_shared<Flag>()) {}
void PreemptionToken::request() const noexcept { flag_->requested.store(true); }
bool PreemptionToken::requested() const noexcept { return flag_->requested.load(); }

}  // namespace lockstep::keras
