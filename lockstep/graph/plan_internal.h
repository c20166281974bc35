// A graph made ready to run. Internal to lockstep/graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/graph/executor_internal.h"
#include "lockstep/graph/run_budget_internal.h"
#include "lockstep/ops/op.h"
#include "lockstep/ops/small_loop_internal.h"
#include "lockstep/ops/small_program_internal.h"

namespace lockstep::graph {

class CompiledPlan;
struct Step;
class Plan;

// The context of operations that the executor runs itself.
struct RunContext {
  Resources& resources;
  const FunctionLibrary& library;
  RunBudget& budget;
  bool recording = false;    // into a graph, or to infer shapes
  std::size_t captured = 0;  // feeds at the end that are the same in most runs
};

// An operation that depends on more than its inputs: calls, control flow, resources.
using ExecutorOp = Tensors (*)(const Step& step, const Tensors& inputs, RunContext& context);
// Null for operations of the op table.
ExecutorOp find_executor_op(std::string_view op);
// For folders above: operations that `find` knows. Call it while the program is being loaded (from a static
// initializer).
void contribute_executor_ops(ExecutorOp (*find)(std::string_view op));
// Of those of this folder, the ones that change a variable of TensorFlow 1 through a reference to it.
ExecutorOp find_reference_operation(std::string_view op);
ExecutorOp find_sparse_serialization(std::string_view op);

// The variable of TensorFlow 1 that `reference` refers to. Throws InvalidArgument for another tensor.
VariableResource& referenced_variable(const Tensor& reference);
// The value behind such a reference; other tensors as they are.
Tensor dereferenced(const Tensor& tensor);

// One node.
struct Step {
  const Node* node = nullptr;
  const ops::Op* op = nullptr;  // null for a direct call of a library function
  ops::Attrs attrs;             // with defaults
  ExecutorOp executor_op = nullptr;
  bool takes_references = false;
  std::vector<DType> input_types;  // by the signature; empty for a call of a library function
  std::vector<int> inputs;         // values; behind those of the node the ones that its registered gradient captures
  std::shared_ptr<const RegisteredGradient> registered_gradient;
  bool for_gradients = false;  // needed by a registered gradient only
  int first_output = 0;        // value of output 0
  int num_outputs = 0;
  std::vector<int> last_uses;  // values to drop afterwards
  std::vector<char> takes;     // by input: the step gets the value itself, which nobody else uses

  template <typename T>
  const T& attr(std::string_view name) const;  // throws InvalidArgument when missing
};

// Runs a function of the library on its arguments.
Tensors call_function(const std::string& name, Tensors inputs, RunContext& context);
// The plan of such a function, for those who call it often.
const Plan& plan_of_function(const std::string& name, RunContext& context);

// Runs one step on its inputs and checks the number of its outputs against the signature. Every exception that
// leaves it is an Error that names the node; `what` names the graph.
Tensors run_step(const Step& step, const Tensors& inputs, RunContext& context, const std::string& what);

// Runs a step whose node names its gradient: `run` computes the outputs from the inputs of the node.
using RunStep = Tensors (*)(const Step& step, const Tensors& inputs, RunContext& context);
Tensors run_with_named_gradient(const Step& step, const Tensors& inputs, RunContext& context, RunStep run);

// Steps that follow each other and are one program where their tensors are small.
struct SmallRegion {
  ops::SmallProgram program;
  std::vector<int> inputs, outputs;  // values
  std::vector<std::pair<int, Tensor>> constants;
  std::vector<int> last_uses;  // of values from outside
  std::vector<int> steps;      // nodes
};

class Plan {
 public:
  Plan(const Graph& graph, const FunctionLibrary& library, const std::vector<Output>& feeds,
       const std::vector<Output>& fetches, const std::vector<int>& targets, std::string what);
  ~Plan();

  // As programs of lockstep/inference; nothing where the graph has none.
  std::optional<Tensors> run_compiled(const Tensors& feeds, RunContext& context) const;
  Tensors run(Tensors feeds, RunContext& context) const;

  // The plan as the test or the body of a loop over small tensors: its feeds are the loop's variables. Nothing where
  // the plan is more than one program.
  std::optional<ops::SmallLoopPart> as_loop_part() const;

 private:
  Tensors run_in_order(Tensors feeds, RunContext& context) const;
  Tensors run_as_dataflow(const Tensors& feeds, RunContext& context) const;
  void select(const std::vector<Output>& fetches, const std::vector<int>& targets);
  std::vector<Output> captures_of(const Node& node) const;
  void order();
  void number_values();
  void build_steps();
  void find_last_uses();
  void find_small_regions();
  void run_one(const Step& step, Tensors& values, Tensors& inputs, RunContext& context) const;
  // False where the steps of the region must run one by one.
  bool run_region(const SmallRegion& region, Tensors& values, RunContext& context) const;
  int outputs_of(const Node& node) const;

  friend class Dataflow;
  friend class Lowering;
  friend class LoopConstants;
  friend class CompiledPlan;
  const std::unique_ptr<CompiledPlan> compiled_;
  std::string what_;
  const Graph& original_;  // kept alive by the owner of the plan
  std::vector<char> fed_;  // by node
  const std::optional<Graph> changed_;
  const Graph& graph_;  // the one that is run
  const FunctionLibrary& library_;
  std::vector<Output> feeds_, fetches_;
  std::vector<char> needed_;  // by node
  std::vector<char> for_gradients_;
  std::vector<int> order_;     // nodes; empty for dataflow graphs
  std::vector<int> schedule_;  // the same with regions: a node, or ~number of a region
  std::vector<SmallRegion> regions_;
  std::vector<Step> steps_;       // by node
  std::vector<int> first_value_;  // by node, -1 for unneeded ones
  int num_values_ = 0;
  std::vector<std::pair<int, Tensor>> constants_;         // value, tensor
  std::vector<std::pair<int, Tensor>> copied_constants_;  // those that not only regions use
  bool dataflow_ = false;
};

}  // namespace lockstep::graph
