// Who wants to know when layers and optimizers have made their variables: checkpoints do, which hold
// values for variables that did not exist when they were restored.
#pragma once

#include <atomic>

namespace lockstep::keras {

using BuildHook = void (*)();

inline std::atomic<BuildHook>& build_hook() {
  static std::atomic<BuildHook> hook{nullptr};
  return hook;
}

// Null for none.
inline void set_build_hook(BuildHook hook) { build_hook() = hook; }

// To be called when a layer or an optimizer has been built.
inline void notify_built() {
  if (const BuildHook hook = build_hook()) hook();
}

}  // namespace lockstep::keras
