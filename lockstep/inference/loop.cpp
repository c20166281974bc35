// Loops whose number of iterations is known: a program for the body, states in two places each.
#include <algorithm>
#include <cstring>

#include "lockstep/inference/program_internal.h"

namespace lockstep::inference {
namespace {

std::vector<int> values_of(const std::vector<LoopInput>& inputs) {
  std::vector<int> values;
  for (const LoopInput& input : inputs) values.push_back(input.value);
  return values;
}

class LoopStep : public Step {
 public:
  LoopStep(int result, std::int64_t floats, Loop loop)
      : Step(values_of(loop.inputs), result, {floats}), loop_(std::move(loop)) {}

  void prepare(WeightStore& store) override {
    loop_.body->finish(loop_.body_inputs, loop_.body_outputs, store);
    // Two places for each output: the one that an iteration reads as a state, and the one that it writes.
    at_ = aligned(loop_.body->arena_size());
    for (const std::int64_t size : loop_.sizes) {
      places_.push_back(at_);
      at_ += 2 * aligned(size);
    }
  }
  bool follow(const Chain&, int, int) override { return false; }
  std::int64_t workspace() const override { return at_; }
  bool pays_threads() const override { return loop_.body->pays_threads(); }
  std::int64_t weights_read() const override { return loop_.body->weights_read() * loop_.iterations; }

  void run(const Run& run) const override {
    const Program& body = *loop_.body;
    std::byte* const result = reinterpret_cast<std::byte*>(output(run));
    std::memset(result, 0, static_cast<std::size_t>(product_of(dims_)) * sizeof(float));
    float* const memory = run.workspace;
    Run inner = body.begin(memory, run.alone, *run.before_step);
    for (std::int64_t t = 0; t < loop_.iterations; ++t) {
      for (std::size_t i = 0; i < loop_.inputs.size(); ++i) {
        const LoopInput& from = loop_.inputs[i];
        if (from.output >= 0 && t > 0) {
          body.set_input(inner, i, place(memory, from.output, t - 1));
        } else if (t == 0 || !from.offsets.empty()) {
          body.set_input(inner, i, bytes_of(run, static_cast<int>(i)) + at(from.offsets, t));
        }
      }
      for (std::size_t i = 0; i < places_.size(); ++i) body.set_output(inner, i, place(memory, static_cast<int>(i), t));
      body.run_steps(inner);
      for (const LoopWrite& write : loop_.writes)
        std::memcpy(result + at(write.offsets, t), place(memory, write.output, t),
                    static_cast<std::size_t>(write.bytes));
    }
    for (const LoopInput& state : loop_.inputs) {
      if (state.result_offset < 0) continue;
      std::memcpy(output(run) + state.result_offset, place(memory, state.output, loop_.iterations - 1),
                  static_cast<std::size_t>(state.bytes));
    }
  }

 private:
  static std::int64_t at(const std::vector<std::int64_t>& offsets, std::int64_t t) {
    return offsets.empty() ? 0 : offsets[static_cast<std::size_t>(t)];
  }
  const std::byte* bytes_of(const Run& run, int i) const { return reinterpret_cast<const std::byte*>(input(run, i)); }
  float* place(float* memory, int output, std::int64_t t) const {
    const auto i = static_cast<std::size_t>(output);
    return memory + places_[i] + t % 2 * aligned(loop_.sizes[i]);
  }

  Loop loop_;
  std::vector<std::int64_t> places_;  // of the body's outputs in the workspace
  std::int64_t at_ = 0;
};

}  // namespace

StepPtr loop(int result, std::int64_t floats, Loop loop) {
  return std::make_unique<LoopStep>(result, floats, std::move(loop));
}

}  // namespace lockstep::inference
