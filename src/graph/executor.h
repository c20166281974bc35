// Running graphs and functions through the op table.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/graph/graph.h"
#include "lockstep/graph/trace.h"

namespace lockstep::graph {

// What a running graph owns: variables and tables by name, prepared functions. Shared by all runs.
class Resources {
 public:
  Resources();
  ~Resources();
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;

  // What VarHandleOp, VariableV2, HashTableV2, … find under container and shared_name.
  std::shared_ptr<Resource> find(const std::string& kind, const std::string& name) const;
  void put(const std::string& kind, const std::string& name, std::shared_ptr<Resource> resource);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Plan;

// A graph prepared once for running some of its outputs: pruned, ordered, constants ready, buffers
// freed after their last use. Thread-safe; differentiable through the active GradientTape.
//
// Control flow is understood in both styles: If, While, Case, PartitionedCall, direct calls, and
// Switch, Merge, Enter, Exit, NextIteration, LoopCond.
class Executable {
 public:
  // The library and the resources are shared and outlive the executable.
  // Throws Unimplemented naming every operation without a kernel that would run.
  static std::shared_ptr<Executable> prepare(const Graph& graph, std::shared_ptr<const FunctionLibrary> library,
                                             std::shared_ptr<Resources> resources, const std::vector<Output>& feeds,
                                             const std::vector<Output>& fetches, const std::vector<int>& targets);
  static std::shared_ptr<Executable> prepare(const Function& function, std::shared_ptr<const FunctionLibrary> library,
                                             std::shared_ptr<Resources> resources);
  ~Executable();

  // feeds in the order given to prepare (a function: its arguments). With symbolic feeds the operations are
  // recorded one by one where the symbols come from, so a loaded function can be traced into another graph.
  Tensors run(const Tensors& feeds) const;

 private:
  explicit Executable(std::unique_ptr<Plan> plan);
  std::unique_ptr<Plan> plan_;
};

// Runs a traced function on values.
Tensors call(const TracedFunction& function, const Tensors& inputs);

}  // namespace lockstep::graph
