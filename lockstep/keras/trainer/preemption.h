// A request that fit() end early, in good order.
#pragma once

#include <memory>

namespace lockstep::keras {

// Copies share the request. Every fit that is given a requested token ends after its next step; give each fit a token
// of its own where later ones must run.
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
