// What a thread remembers while layers call layers.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

class Layer;

// Passes `training` from a layer to those it calls.
class CallScope {
 public:
  explicit CallScope(std::optional<bool> training);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  static std::optional<bool> training();

 private:
  std::optional<bool> previous_;
};

// Loss terms that layers added on this thread since they were cleared.
std::vector<std::pair<const Layer*, Tensor>>& pending_losses();

// Drops what is added while one lives, e.g. while only shapes are inferred.
class PausedLosses {
 public:
  PausedLosses();
  ~PausedLosses();
  PausedLosses(const PausedLosses&) = delete;
  PausedLosses& operator=(const PausedLosses&) = delete;

 private:
  std::vector<std::pair<const Layer*, Tensor>> saved_;
};

}  // namespace lockstep::keras
