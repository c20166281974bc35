// tf.GradientTape: gradients of what was computed while the tape lived.
#pragma once

#include <functional>
#include <initializer_list>
#include <unordered_map>
#include <vector>

#include "lockstep/distribute/variable.h"

namespace lockstep {

// Records on the thread it was made on, from construction until end_recording() or destruction.
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

  // Makes gradients with respect to a tensor possible, from here on. Of a constant handle the returned tensor must be
  // used in its place.
  Tensor watch(Tensor& tensor);
  [[nodiscard("use the tensor that watch() returns")]] Tensor watch(const Tensor& tensor);
  void watch(const distribute::Variable& variable);

  // d target / d source for each source; an undefined tensor where there is no connection. A target
  // that is not a scalar counts with weights of one, or with `output_gradients`. Calling it on an
  // innermost tape that is still recording gives gradients an outer tape can differentiate again.
  // Tapes of one thread are independent: each gives its own gradients of what they all recorded.
  // Throws FailedPrecondition on a second call unless persistent, and for a variable that was read across the replicas
  // of a strategy, which a tape cannot record: call the step with strategy.run(). `ready` may be told of a source's
  // gradient before all are there.
  using Ready = std::function<void(std::size_t source, const Tensor& gradient)>;
  using Variables = std::vector<distribute::Variable>;
  Tensors gradient(const Tensor& target, const Variables& sources, const Tensor& output_gradients = {},
                   const Ready& ready = {});
  Tensors gradient(const Tensor& target, const Tensors& sources, const Tensor& output_gradients = {});
  Tensors gradient(const Tensor& target, std::initializer_list<distribute::Variable> sources,
                   const Tensor& output_gradients = {}) {
    return gradient(target, Variables(sources), output_gradients);
  }
  Tensors gradient(const Tensor& target, std::initializer_list<Tensor> sources, const Tensor& output_gradients = {}) {
    return gradient(target, Tensors(sources), output_gradients);
  }
  // Of one source: its gradient.
  Tensor gradient(const Tensor& target, const distribute::Variable& source, const Tensor& output_gradients = {}) {
    return gradient(target, Variables{source}, output_gradients)[0];
  }
  Tensor gradient(const Tensor& target, const Tensor& source, const Tensor& output_gradients = {}) {
    return gradient(target, Tensors{source}, output_gradients)[0];
  }

  // The derivative of each element of the target with respect to each of the source, shape target + source; undefined
  // where there is no connection.
  Tensor jacobian(const Tensor& target, const Tensor& source);
  Tensor jacobian(const Tensor& target, const distribute::Variable& source);

  // The tape records nothing while the returned guard lives: auto paused = tape.stop_recording(); Afterwards it goes
  // on. Throws FailedPrecondition where the tape does not record, or an inner tape records.
  class Pause {
   public:
    explicit Pause(GradientTape& tape);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    GradientTape& tape_;
  };
  [[nodiscard("recording continues when the guard ends: auto paused = tape.stop_recording();")]] Pause
  stop_recording() {
    return Pause(*this);
  }
  // Ends the recording before the tape does.
  void end_recording();

  // The leaf that stands for a variable on this thread's tapes; undefined when no tape watches it.
  static Tensor leaf_of(distribute::VariableImpl& variable, const Tensor& value);

 private:
  Tensors compute(const Tensor& target, const Tensors& leaves, const Tensor& output_gradients, const Ready& ready = {});

  Tensors leaves_of(const Variables& sources, std::vector<std::size_t>& places) const;
  bool others_may_differentiate() const;
  Tensor jacobian_of(const Tensor& target, const Tensor& leaf);

  Options options_;
  bool recording_ = true;
  bool used_ = false;
  GradientTape* outer_ = nullptr;
  GradientTape* older_ = nullptr;  // the next of this thread's tapes that live
  bool previous_grad_mode_ = false;
  // A variable, and what the tape has read of it: each value beside the leaf that stands for it.
  struct Watched {
    distribute::Variable variable;
    std::vector<std::pair<Tensor, Tensor>> leaves;
  };
  std::unordered_map<distribute::VariableImpl*, Watched> leaves_;
};

}  // namespace lockstep
