// Composites of several operations with their own kernels, forward and back: one node of autograd each. Includes
// LibTorch: for sources of lockstep/ops only.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::ops {

using Values = std::vector<at::Tensor>;  // undefined: absent

// One call of a composite: its arguments other than tensors.
class Composite {
 public:
  virtual ~Composite() = default;

  // Outputs, and the values that backward() needs in addition to inputs and outputs (only with `keep`).
  struct Made {
    Values outputs, kept;
  };
  virtual Made forward(const Values& inputs, bool keep) const = 0;
  struct Recorded {
    Values inputs, outputs, kept;
    std::vector<bool> wanted;  // the inputs whose gradients are requested
  };
  // Gradients of the inputs; undefined where none is wanted. An undefined dy is zero; at least one is defined.
  virtual Values backward(const Recorded& recorded, const Values& dys) const = 0;
  // The outputs by plain operations, whose gradients have gradients.
  virtual Values plain(const Values& inputs) const = 0;
};

// The outputs, recorded for gradients where autograd is on and an input needs it.
Values run(std::shared_ptr<const Composite> composite, const Values& inputs);

// While one exists, composites of this thread run as their plain operations, to compare both.
class ScopedPlain {
 public:
  ScopedPlain();
  ~ScopedPlain();
  ScopedPlain(const ScopedPlain&) = delete;
  ScopedPlain& operator=(const ScopedPlain&) = delete;

 private:
  bool previous_;
};

}  // namespace lockstep::ops
