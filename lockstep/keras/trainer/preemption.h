// A request that fit() saves its state and returns early.
#pragma once

#include <memory>

namespace lockstep::keras {

// Copies share the request. A fit with a requested token ends after its next step, so use a new token for a later fit
// that must run.
class PreemptionToken {
 public:
  PreemptionToken();
  // From any thread, and from signal handlers.
  void request() const noexcept;
  bool requested() const noexcept;

 private:
  struct Flag;
  std::shared_ptr<Flag> flag_;
};

}  // namespace lockstep::keras
