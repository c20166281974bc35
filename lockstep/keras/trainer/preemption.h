// A request that fit() end early, in good order.
#pragma once

#include <atomic>
#include <memory>

namespace lockstep::keras {

// Copies share the request. Every fit that is given a requested token ends after its next step; give each fit a token
// of its own where later ones must run.
class PreemptionToken {
 public:
  // From any thread, and from signal handlers.
  void request() const noexcept { requested_->store(true); }
  bool requested() const noexcept { return requested_->load(); }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers set it");
  std::shared_ptr<std::atomic<bool>> requested_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace lockstep::keras
