// A plan as programs of lockstep/inference, one for each combination of input shapes. Internal to lockstep/graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/graph/lowering_internal.h"
#include "lockstep/inference/program_internal.h"

namespace lockstep::graph {

// Whether graphs may run as programs: LOCKSTEP_COMPILED_GRAPHS is not 0.
bool compiles_graphs();

class CompiledPlan {
 public:
  // Empty where the plain operations have to run: the plan has no program for such inputs, a tape records,
  // the memory limit is too low, or variables change between all runs. A batch is divided among the threads where each
  // row of the results follows from that row of the inputs alone. Thread-safe.
  std::optional<Tensors> run(const Plan& plan, const Tensors& feeds, RunContext& context);

 private:
  struct Made {
    inference::Program program;
    std::vector<VariableRead> variables;
    Tensors captured;              // feeds that the program took as constants
    std::vector<Lowered> outputs;  // constants, or values
    Preprocessing preprocessing;
    Effects effects;
  };
  using MadePtr = std::shared_ptr<const Made>;
  // For `rows` of a batch, or for the inputs as they are (0). Null where there is none.
  MadePtr find_or_make(const Plan& plan, const Tensors& feeds, std::int64_t rows, RunContext& context);
  static MadePtr make(const Plan& plan, const Tensors& feeds, std::int64_t rows, RunContext& context,
                      inference::WeightStore& weights, VariableSet& set, bool integers_before);
  static std::optional<std::vector<formats::TensorData>> inputs_for(const Made& made, const Tensors& feeds,
                                                                    std::int64_t batch, RunContext& context);
  static std::function<void()> before_step(const Plan& plan, RunContext& context);
  std::optional<Tensors> run_by_rows(const Plan& plan, const Tensors& feeds, std::int64_t batch, RunContext& context);

  std::mutex mutex_;
  std::map<std::string, MadePtr> made_;  // null: tried in vain
  // Programs are compiled again when variables have changed; where that happens at nearly every run, they do not pay.
  int runs_since_change_ = 0, changes_in_a_row_ = 0;
  inference::WeightStore weights_;
};

}  // namespace lockstep::graph
