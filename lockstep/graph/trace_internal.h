// Tracing: running C++ code on symbols, and keeping the operations it calls as a function.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/graph/graph_internal.h"
#include "lockstep/graph/scratch_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/control_flow_recorder_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::graph {

class Tracer;

// An output of a node of a graph being traced.
class Edge : public Symbol {
 public:
  Edge(std::shared_ptr<Tracer> tracer, Output output, DType dtype, Shape shape)
      : Symbol(dtype, std::move(shape)), tracer_(std::move(tracer)), output_(output) {}

  ops::Recorder& recorder() const override;
  std::optional<Shape> value_as_shape() const override { return as_shape; }

  const std::shared_ptr<Tracer>& tracer() const { return tracer_; }
  Output output() const { return output_; }

  std::optional<Shape> as_shape;
  std::shared_ptr<Resource> resource;  // of a captured handle

 private:
  std::shared_ptr<Tracer> tracer_;
  Output output_;
};

// Records operations as nodes of a function's body.
//   - Values become Const nodes; variables and tables become captures (inputs after the declared ones).
//   - Tensors of an enclosing tracer become captures.
//   - Reads and writes of the same resource, and other stateful operations, keep their order by control inputs.
class Tracer : public ops::Recorder, public ops::ControlFlowRecorder, public std::enable_shared_from_this<Tracer> {
 public:
  static std::shared_ptr<Tracer> create(std::string name);

  Tensor input(const TensorSpec& spec);
  Tensors record(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs) override;
  // As tf.custom_gradient: an IdentityN of results and arguments whose gradient is a function of the library.
  Tensors record_gradient(const Tensors& results, const Tensors& arguments, const Gradient& gradient) override;
  Tensors record_while(const std::function<Tensor(const Tensors&)>& cond,
                       const std::function<Tensors(const Tensors&)>& body, const Tensors& initial) override;
  Tensors record_cond(const Tensor& predicate, const std::function<Tensors()>& true_fn,
                      const std::function<Tensors()>& false_fn) override;
  std::vector<ops::OutputType> infer(const std::function<Tensors(const Tensors&)>& fn,
                                     const std::vector<ops::OutputType>& inputs) override;
  // The edge that stands for `tensor` in this graph.
  Tensor import(const Tensor& tensor);
  // Makes a function callable from this graph, with all that it calls itself.
  void add_function(const std::shared_ptr<const Function>& function, const FunctionLibrary& library);

  struct Finished {
    std::shared_ptr<const Function> function;  // declared inputs, then captures
    Tensors captures;                          // resources, or tensors of the enclosing tracer
    FunctionLibrary library;                   // functions it calls
  };
  // A name for an inner function, different at each call and the same for the same trace.
  std::string inner_name(std::string_view kind);
  // Ends the trace: drops nodes that nothing needs. `names` of results may be empty.
  Finished finish(const Tensors& results, const std::vector<std::string>& names = {});

 private:
  friend class TraceScope;
  explicit Tracer(std::string name) { function_->name = std::move(name); }
  Output import_output(const Tensor& tensor);
  int capture(const Tensor& tensor, const void* identity, std::shared_ptr<Resource> resource, std::string name);
  Output constant(const Tensor& value);
  void order_effects(Node& node, int id, const ops::Op& op, std::span<const Tensor> inputs);
  bool encloses(const Tracer* inner) const;
  // The outputs that gradient functions capture, of nodes that are among `needed`.
  std::vector<Output> captured_by_gradients(const std::vector<char>& needed);
  void register_gradients(const std::vector<char>& needed, const std::vector<int>& place);

  std::shared_ptr<Function> function_ = std::make_shared<Function>();
  FunctionLibrary library_;
  Tensors captures_;
  std::vector<int> declared_;                         // _Arg nodes of declared inputs
  std::vector<int> captured_;                         // _Arg nodes of captures
  std::unordered_map<const void*, int> capture_of_;   // by Resource or Edge
  std::unordered_map<const void*, int> constant_of_;  // by the tensor's identity
  Tensors kept_;                                      // keeps identities alive
  struct CustomGradient {
    int node = 0;
    std::size_t results = 0, arguments = 0;
    std::shared_ptr<const Function> function;
    Tensors captures;
  };
  std::vector<CustomGradient> custom_gradients_;
  std::unordered_map<const Resource*, int> last_write_;
  std::unordered_map<const Resource*, std::vector<int>> reads_since_;
  std::unordered_map<int, std::shared_ptr<Resource>> resource_of_;  // by _Arg node
  int last_effect_ = -1;
  int inner_functions_ = 0;
  Tracer* parent_ = nullptr;
  bool finished_ = false;
};

// Makes `tracer` this thread's recorder while it lives.
class TraceScope {
 public:
  explicit TraceScope(const std::shared_ptr<Tracer>& tracer);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  // The innermost tracer of this thread, or null.
  static Tracer* current();

 private:
  std::shared_ptr<Tracer> tracer_;
  Tracer* previous_;
  ops::ScopedRecorder recorder_;
};

// True for a symbol outside of traces: a model is made, and only shapes and dtypes are inferred.
inline bool stands_for_shape(const Tensor& x) { return x.is_symbolic() && !TraceScope::current(); }

// Prefixes the names of nodes recorded on this thread: NameScope("dense") gives "dense/MatMul".
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  static const std::string& current();  // "" or "outer/inner/"

 private:
  std::size_t previous_;
};

// A function with its dependencies: the values of its captures and the functions it calls.
struct TracedFunction {
  std::shared_ptr<const Function> function;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  Tensors captures;
  FunctionLibrary library;
};

// Calls fn once with symbols of `inputs` and keeps the recorded operations. Argument names come from the specs' names.
TracedFunction trace(const std::string& name, const std::function<Tensors(const Tensors&)>& fn,
                     const std::vector<TensorSpec>& inputs, const std::vector<std::string>& output_names = {});

// A legal argument name near `text`: "Dense 1/Kernel" gives "dense_1_kernel".
std::string argument_name(std::string_view text);

// Records a call of `function` (whose captures are filled in) where the symbols in `inputs` come from, as a
// PartitionedCall or StatefulPartitionedCall node.
Tensors record_call(const TracedFunction& function, const Tensors& inputs);

// Records an operation that only graphs run, such as those of lookup tables, in the innermost trace of this thread.
Tensors record_operation(std::string_view name, const Tensors& inputs, ops::Attrs attrs = {});

// Control flow that works on values (a plain C++ loop), while inferring shapes, and while tracing (a
// While or If node). Variables and outer tensors may be used freely inside. `shapes`, when given, are
// the loop variables' static shapes where they change from one iteration to the next.
Tensors while_loop(const std::function<Tensor(const Tensors&)>& cond,
                   const std::function<Tensors(const Tensors&)>& body, const Tensors& initial,
                   const std::vector<Shape>& shapes = {});
Tensors cond(const Tensor& predicate, const std::function<Tensors()>& true_fn,
             const std::function<Tensors()>& false_fn);

}  // namespace lockstep::graph
