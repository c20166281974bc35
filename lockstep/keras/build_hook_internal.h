// A notification that layers and optimizers have created variables. Checkpoints use it: they may contain values for
// variables that did not exist when the checkpoint was restored.
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

// Called when a layer or an optimizer has been built.
inline void notify_built() {
  if (const BuildHook hook = build_hook()) hook();
}

}  // namespace lockstep::keras
