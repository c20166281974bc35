// Running graphs and functions through the op table.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/graph/graph_internal.h"
#include "lockstep/graph/run_limits.h"
#include "lockstep/graph/trace_internal.h"

namespace lockstep::graph {

class Plan;

// State shared by running graphs: variables and tables by name, prepared functions. Thread-safe.
class Resources : public std::enable_shared_from_this<Resources> {
 public:
  Resources();
  ~Resources();
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;

  // The resource that VarHandleOp and VariableV2 (kind "variable"), HashTableV2 … (kind "table") find under
  // container/shared_name. put() replaces. Null when there is none.
  std::shared_ptr<Resource> find(const std::string& kind, const std::string& name) const;
  void put(const std::string& kind, const std::string& name, std::shared_ptr<Resource> resource);
  std::shared_ptr<Resource> find_or_put(const std::string& kind, const std::string& name,
                                        const std::function<std::shared_ptr<Resource>()>& make);

  // Of each run. The loaders of files set others.
  RunLimits limits = RunLimits::none();
  // The size of the files that hold the graph, its variables and its tables.
  std::int64_t file_bytes = 0;

  // From here on each stateful random operation has its own state, as after loading in TensorFlow. Before,
  // operations share the state of their seeds.
  void separate_random_states();
  // The name under which these states are kept; "" for none.
  const std::string& random_scope() const { return random_scope_; }

  // The only folder whose files a graph may read (vocabularies); "" for none.
  std::string asset_directory;

  // The only checkpoint a graph may restore from, and how one tensor of it is read; `slice` is TensorFlow's
  // "full shape, then start,length for each dimension", or "" for the whole. Unset: RestoreV2 is refused.
  std::string checkpoint_prefix;
  std::function<Tensor(const std::string& name, const std::string& slice)> read_checkpoint;
  // All resources of a kind by name.
  std::vector<std::pair<std::string, std::shared_ptr<Resource>>> all(const std::string& kind) const;

  // The prepared body of a function, made when first asked for.
  const Plan& plan_of(const std::shared_ptr<const Function>& function, const FunctionLibrary& library);

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string random_scope_;
};

// A graph prepared once for running some of its outputs: pruned, ordered, constants ready, buffers
// freed after their last use. Thread-safe; differentiable through the active GradientTape.
//
// Control flow is understood in both styles: If, While, Case, PartitionedCall, direct calls, and
// Switch, Merge, Enter, Exit, NextIteration, LoopCond.
class Executable {
 public:
  // Throws Unimplemented naming every operation without a kernel that would run. Functions that the graph
  // calls are prepared when they are first called.
  static std::shared_ptr<Executable> prepare(const Graph& graph, std::shared_ptr<const FunctionLibrary> library,
                                             std::shared_ptr<Resources> resources, const std::vector<Output>& feeds,
                                             const std::vector<Output>& fetches, const std::vector<int>& targets = {});
  static std::shared_ptr<Executable> prepare(std::shared_ptr<const Function> function,
                                             std::shared_ptr<const FunctionLibrary> library,
                                             std::shared_ptr<Resources> resources);
  ~Executable();

  // Feeds in the order given to prepare (a function: its arguments). With symbolic feeds, or while a trace is active,
  // the operations are recorded one by one, so a loaded function can be traced into another graph. `captures` are the
  // last arguments of a function. They are the same tensors in most runs, so programs treat them as constants. Throws
  // ResourceExhausted or DeadlineExceeded beyond the limits of the resources.
  Tensors run(const Tensors& given, const Tensors& captures = {}) const;
  // As a program of lockstep/inference; nothing where run() would run the operations one by one.
  std::optional<Tensors> run_compiled(const Tensors& feeds) const;

 private:
  Executable();
  std::shared_ptr<const Function> function_;  // or null
  std::unique_ptr<Plan> own_plan_;            // or null for a function
  const Plan* plan_ = nullptr;
  std::shared_ptr<const FunctionLibrary> library_;
  std::shared_ptr<Resources> resources_;
};

// Runs a traced function on values.
Tensors call(const TracedFunction& function, const Tensors& inputs);

}  // namespace lockstep::graph
