// Graphs of operations and libraries of functions, as TensorFlow's GraphDef holds them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/graph/scratch_internal.h"
#include "lockstep/ops/op.h"

namespace lockstep::graph {

// Output `output` (counted over all output arguments) of node number `node`.
struct Output {
  int node = 0;
  int output = 0;

  friend bool operator==(const Output&, const Output&) = default;
};

struct Node {
  std::string name;
  std::string op;  // TensorFlow's name, or a function of the library called directly
  std::vector<Output> inputs;
  std::vector<int> control_inputs;  // nodes that must have run before
  ops::Attrs attrs;                 // as written; defaults may be absent
  std::string device;
  std::string gradient;  // the name of the gradient that replaces the operation's own (_gradient_op_type), or ""
};

// Nodes in order of insertion, which need not be an order of execution.
class Graph {
 public:
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  Node& node(int id) { return nodes_[static_cast<std::size_t>(id)]; }
  int size() const { return static_cast<int>(nodes_.size()); }

  // Throws InvalidArgument for a name that is taken. Inputs may name nodes that are added later.
  int add(Node node);
  // -1 when there is none.
  int find(std::string_view name) const;
  // `base`, or `base_1`, `base_2`, … whichever is free first.
  std::string unique_name(const std::string& base) const;

  // "name" or "name:2" or "name:0"; throws NotFound naming the nearest node.
  Output parse_output(std::string_view text) const;

  // Throws InvalidArgument unless every input names an existing node and output.
  // A cycle is legal only through NextIteration.
  void check(std::string_view what) const;

 private:
  std::vector<Node> nodes_;
  std::unordered_map<std::string, int> index_;
  mutable std::unordered_map<std::string, int> next_suffix_;
};

// An input of a function. For DType::kResource, `handle` has dtype and shape of the variable, if known.
struct Argument {
  std::string name;  // [a-z][a-z0-9_]*
  DType dtype = DType::kInvalid;
  std::optional<Shape> shape;
  std::optional<TensorSpec> handle;
  std::string user_name;  // as the caller spelled it
};

struct Result {
  std::string name;
  DType dtype = DType::kInvalid;
  Output value;
};

// A function of a library. Its body's first nodes are one "_Arg" for each argument, in order.
struct Function {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::vector<int> effects;  // nodes that run although no result needs them
  Graph body;
  bool stateful = false;
};

// A gradient that a SavedModel registers: a function of the library. Its arguments are the gradients of the node's
// outputs, then the captures.
struct RegisteredGradient {
  // A value, or a tensor of the function whose body has the node.
  struct Capture {
    Tensor value;
    std::string function;
    Output output;
  };
  // Where the gradient of an input is among the function's results; rows of IndexedSlices are two of them.
  struct Part {
    int values = -1;  // -1: none
    int indices = -1;
  };
  std::string function;
  std::vector<Capture> captures;
  std::vector<Part> parts;  // by input of the node
};

// Functions by name. Shared by graphs, which never change one once it is in.
class FunctionLibrary : public std::enable_shared_from_this<FunctionLibrary> {
 public:
  // Throws AlreadyExists where another function has the name.
  void add(std::shared_ptr<const Function> function);
  // All of `other`; equal names must be the same function.
  void merge(const FunctionLibrary& other);
  // Null when there is none.
  std::shared_ptr<const Function> find(std::string_view name) const;
  void register_gradient(const std::string& name, RegisteredGradient gradient);
  std::shared_ptr<const RegisteredGradient> find_gradient(std::string_view name) const;
  const std::map<std::string, std::shared_ptr<const Function>, std::less<>>& functions() const { return functions_; }
  const std::map<std::string, std::shared_ptr<const RegisteredGradient>, std::less<>>& gradients() const {
    return gradients_;
  }

 private:
  std::map<std::string, std::shared_ptr<const Function>, std::less<>> functions_;
  std::map<std::string, std::shared_ptr<const RegisteredGradient>, std::less<>> gradients_;
};

// The names of functions that attributes of `node` refer to, and of its op if that is one.
std::vector<std::string> called_functions(const Node& node);

// A GraphDef in bytes or text (a frozen model's .pb or .pbtxt): graph and library.
// Throws DataLoss for bytes that are not a GraphDef, InvalidArgument for a graph that breaks the rules.
struct GraphAndLibrary {
  Graph graph;
  FunctionLibrary library;
};
GraphAndLibrary parse_graph_def(std::string_view bytes, std::string_view what);

}  // namespace lockstep::graph
