#include "lockstep/ops/small_loop_internal.h"

#include <cstring>
#include <memory>

namespace lockstep::ops {
namespace {

constexpr std::size_t kBytes = static_cast<std::size_t>(kSmallElements) * 8;  // of a variable

// The variables that programs read and write.
class State {
 public:
  explicit State(std::size_t count)
      : values_(count), known_(count, 0), memory_(std::make_unique_for_overwrite<std::byte[]>(2 * count * kBytes)) {}

  // False where a program reads a variable that is not small.
  bool read(const SmallLoopPart& part, const Tensors& variables) {
    for (std::size_t i = 0; i < part.variables.size(); ++i) {
      const auto n = static_cast<std::size_t>(part.variables[i]);
      if (!as_small_value(variables[n], part.program->input_type(i), values_[n])) return false;
      known_[n] = 1;
    }
    return true;
  }

  // Whether the variables that others take are known.
  bool knows_sources(const std::vector<int>& results) const {
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i] < 0 && !stays(results, i) && !known_[static_cast<std::size_t>(~results[i])]) return false;
    }
    return true;
  }

  bool compute(const SmallLoopPart& part) {
    inputs_.clear();
    for (const int variable : part.variables) inputs_.push_back(values_[static_cast<std::size_t>(variable)]);
    outputs_.resize(part.program->num_outputs());
    return part.program->compute(inputs_, outputs_);
  }
  const SmallValue& result(int number) const {
    return number >= 0 ? outputs_[static_cast<std::size_t>(number)] : values_[static_cast<std::size_t>(~number)];
  }

  // The results of the body become the variables. Each has two places, so that old values can be read meanwhile.
  bool advance(const std::vector<int>& results) {
    second_ = !second_;
    next_ = values_;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (stays(results, i)) continue;
      next_[i] = result(results[i]);
      if (!next_[i].data) return false;
      std::byte* place = memory_.get() + (2 * i + (second_ ? 1 : 0)) * kBytes;
      std::memcpy(place, next_[i].data, static_cast<std::size_t>(next_[i].count) * dtype_size(next_[i].dtype));
      next_[i].data = place;
    }
    values_.swap(next_);
    return true;
  }

  void write(const std::vector<int>& results, Tensors& variables) const {
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!stays(results, i)) variables[i] = from_small_value(values_[i]);
    }
  }

 private:
  static bool stays(const std::vector<int>& results, std::size_t i) { return results[i] == ~static_cast<int>(i); }

  std::vector<SmallValue> values_, next_, inputs_, outputs_;
  std::vector<char> known_;
  std::unique_ptr<std::byte[]> memory_;
  bool second_ = false;
};

}  // namespace

void run_small_loop(const SmallLoopPart& test, const SmallLoopPart& body, Tensors& variables,
                    const std::function<void()>& next) {
  if (test.results.size() != 1 || test.results[0] < 0 || body.results.size() != variables.size()) return;
  State state(variables.size());
  if (!state.read(test, variables) || !state.read(body, variables)) return;
  if (!state.knows_sources(body.results)) return;
  bool advanced = false;
  for (;;) {
    if (!state.compute(test)) break;
    const SmallValue& answer = state.result(test.results[0]);
    if (answer.dtype != DType::kBool || answer.count != 1 || !answer.data || !*answer.as<bool>()) break;
    next();
    if (!state.compute(body) || !state.advance(body.results)) break;
    advanced = true;
  }
  if (advanced) state.write(body.results, variables);
}

}  // namespace lockstep::ops
