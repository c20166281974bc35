// tf.GradientTape: gradients of what was computed while the tape lived.
#pragma once

#include <unordered_map>

#include "lockstep/distribute/variable.h"

namespace lockstep {

// Records on the thread it was made on, from construction until stop_recording() or destruction.
// Trainable variables that are read are watched by themselves.
class GradientTape {
 public:
  struct Options {
    bool persistent = false;  // gradient() may be called more than once
    bool watch_accessed_variables = true;
  };
  GradientTape();
  explicit GradientTape(Options options);
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  // Makes gradients with respect to a tensor possible; use the returned tensor from here on.
  Tensor watch(const Tensor& tensor);
  void watch(const distribute::VariablePtr& variable);

  // d target / d source for each source; an undefined tensor where there is no connection. A target
  // that is not a scalar counts with weights of one, or with `output_gradients`. Calling it on an
  // innermost tape that is still recording gives gradients an outer tape can differentiate again.
  // Throws FailedPrecondition on a second call unless persistent. `ready` may be told of a source's gradient before all
  // are there.
  using Ready = std::function<void(std::size_t source, const Tensor& gradient)>;
  Tensors gradient(const Tensor& target, const std::vector<distribute::VariablePtr>& sources,
                   const Tensor& output_gradients = {}, const Ready& ready = {});
  Tensors gradient(const Tensor& target, const Tensors& sources, const Tensor& output_gradients = {});

  void stop_recording();

  // The leaf that stands for a variable on this thread's tapes; undefined when no tape watches it.
  static Tensor leaf_of(distribute::Variable& variable, const Tensor& value);

 private:
  Tensors compute(const Tensor& target, const Tensors& leaves, const Tensor& output_gradients, const Ready& ready = {});

  Options options_;
  bool recording_ = true;
  bool used_ = false;
  GradientTape* outer_ = nullptr;
  bool previous_grad_mode_ = false;
  std::unordered_map<distribute::Variable*, std::pair<distribute::VariablePtr, Tensor>> leaves_;
};

}  // namespace lockstep
