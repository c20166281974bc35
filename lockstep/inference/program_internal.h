// A network for inputs of fixed shapes, ready to run: constants folded into weights, elementwise operations joined with
// the steps before them, memory planned. Values are float32, or bytes that steps know how to read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/inference/step_internal.h"

namespace lockstep::inference {

class Program {
 public:
  // While it is built: a value that takes the memory of so many floats, and the steps in an order in which they can
  // run.
  int add_value(std::int64_t floats);
  // One whose memory is the constant's.
  int add_constant(Constant constant);
  void add(StepPtr step) { steps_.push_back(std::move(step)); }
  // `outputs` are distinct and results of steps. Steps whose results nobody reads are left out.
  void finish(std::vector<int> inputs, std::vector<int> outputs, WeightStore& weights);

  std::int64_t num_steps() const { return static_cast<std::int64_t>(steps_.size()); }
  // Floats of memory for the values of one run, inputs and outputs not included.
  std::int64_t arena_size() const { return arena_size_; }
  // Floats of weights that one run reads; those of a loop's body count in each iteration.
  std::int64_t weights_read() const;
  // Thread-safe. Throws InvalidInput, and the exceptions of `before_step`.
  void run(const std::vector<const void*>& inputs, const std::vector<float*>& outputs, bool alone,
           const std::function<void()>& before_step) const;

  // The same in parts, for those who run it many times: a run in memory of arena_size() floats, the places of its
  // inputs and outputs, and its steps.
  Run begin(float* arena, bool alone, const std::function<void()>& before_step) const;
  void set_input(Run& run, std::size_t i, const void* memory) const;
  void set_output(Run& run, std::size_t i, float* memory) const;
  void run_steps(Run& run) const;
  // Whether a step is worth several threads.
  bool pays_threads() const;

 private:
  void drop_unread();
  void join_elementwise();
  bool fold(std::size_t at, const std::vector<int>& producer, const std::vector<int>& uses);
  bool join(std::size_t at, const std::vector<int>& producer, std::vector<int>& uses);
  void move_step(std::size_t from, std::size_t to);
  void plan_memory();
  Floats take_arena() const;

  std::vector<std::int64_t> sizes_;  // by value, in floats
  std::vector<std::pair<int, Constant>> constants_;
  std::vector<StepPtr> steps_;
  std::vector<int> inputs_, outputs_;
  std::vector<std::int64_t> offsets_;     // by value; -1: not in the arena
  std::vector<std::int64_t> workspaces_;  // by step
  std::vector<char> alone_;               // by step: not worth several threads
  std::int64_t arena_size_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<Floats> free_;
};

}  // namespace lockstep::inference
