// Per-thread state of nested layer calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

class Layer;

// The call of a layer, with its `training`. As in Keras 3.15, layers that are called without one inherit that of the
// layer called last, and not only that of the layer that calls them: after dropout(x, training = True) all the
// following layers of the outermost call train, and none of them after base(x, training = False).
class CallScope {
 public:
  explicit CallScope(std::optional<bool> training);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  // Of the call that this thread is in.
  static std::optional<bool> training();
  // What a layer inherits that is called now.
  static std::optional<bool> inherited();
  // Whether a layer is being called on this thread.
  static bool active();

 private:
  std::optional<bool> previous_;
};

// Calls to one layer that its own policy does not apply to, as those of TimeDistributed, which calls call() in Keras 3.
// Variables are read in the dtype `autocast`, or without it as they are; what is computed from values of different
// dtypes is of the wider one. Layers within that layer compute in their own dtypes.
class DirectCalls {
 public:
  DirectCalls(const Layer& layer, std::optional<DType> autocast, DType inputs);
  ~DirectCalls();
  DirectCalls(const DirectCalls&) = delete;
  DirectCalls& operator=(const DirectCalls&) = delete;
  // Of the innermost object on this thread, if it is for this layer; else null.
  static const DirectCalls* of(const Layer& layer);
  std::optional<DType> autocast() const { return autocast_; }
  // What the layer computes in.
  DType dtype() const { return dtype_; }

 private:
  const Layer& layer_;
  std::optional<DType> autocast_;
  DType dtype_;
  const DirectCalls* previous_;
};

// Calls whose `training` the calls after them do not inherit, such as those that only build layers.
class ScopedInheritance {
 public:
  ScopedInheritance() : ScopedInheritance(CallScope::inherited()) {}
  explicit ScopedInheritance(std::optional<bool> inherited);
  ~ScopedInheritance();
  ScopedInheritance(const ScopedInheritance&) = delete;
  ScopedInheritance& operator=(const ScopedInheritance&) = delete;

 private:
  std::optional<bool> previous_;
};

// Limits how many layers a model has, and how many calls of layers it makes, while it is built from its config: models
// whose layers are models that are called twice, and so on, make 2^n calls, and compressed text can name millions of
// layers. Only the outermost one of a thread counts.
class ScopedCallLimit {
 public:
  ScopedCallLimit();
  ~ScopedCallLimit();
  ScopedCallLimit(const ScopedCallLimit&) = delete;
  ScopedCallLimit& operator=(const ScopedCallLimit&) = delete;
  // Throws ResourceExhausted for a layer too many; nothing where no model is built.
  static void count_layer();

 private:
  bool outermost_;
};

// A loss term and the layer that added it; terms of destroyed layers are dropped.
struct PendingLoss {
  std::weak_ptr<const void> owner;
  const Layer* layer;
  Tensor value;
};
// Loss terms that layers added on this thread since they were cleared.
std::vector<PendingLoss>& pending_losses();

// How often layers of this process that had been built have changed what they compute: LoRA, quantization. Traces made
// before such a change are not valid any longer.
std::uint64_t changed_layers();
void note_changed_layer();

// Ignores losses and metrics that are added while an object of it exists, e.g. while only shapes are inferred.
class PausedLosses {
 public:
  PausedLosses();
  ~PausedLosses();
  PausedLosses(const PausedLosses&) = delete;
  PausedLosses& operator=(const PausedLosses&) = delete;

 private:
  std::vector<PendingLoss> saved_;
};

}  // namespace lockstep::keras
