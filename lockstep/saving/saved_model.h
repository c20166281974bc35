// TensorFlow's SavedModel: writing models as graphs of operations, and running such graphs.
//
// SavedModels that are written here can be loaded by TensorFlow Serving, tf.saved_model.load, the TensorFlow 1 loader,
// TFSMLayer and hub.KerasLayer (also with trainable=True) read; what these were written for, load() reads.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/list.h"
#include "lockstep/base/tensor_spec.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/keras/nested.h"
#include "lockstep/tensor/tensor_dict.h"
#include "lockstep/train/sharding_policies.h"
#include "lockstep/train/trackable.h"

namespace lockstep::saved_model {

using distribute::VariablePtr;
using keras::Nested;
using keras::Structure;
using Specs = Nested<TensorSpec>;

// ---- writing -----------------------------------------------------------------------------------------

// A function that is traced and written. Those of one name are one function of the loaded object, which is called with
// the first whose arguments fit.
struct ExportFunction {
  struct Argument {
    std::string name;  // the parameter's name, e.g. "inputs"
    Specs specs;       // leaf names become the signature's input names, unique over all arguments
  };
  std::vector<std::string> names;  // attributes of the loaded object: "serve", "__call__"; none: see TrackedNode
  std::vector<Argument> arguments;
  // Called with symbols; calls operations and reads variables freely.
  std::function<Structure(const std::vector<Structure>& arguments, bool training)> call;
  bool takes_training = false;  // adds the parameter `training` (default False) and traces both ways
};

// An object of the tracked tree, which gives checkpoint keys their names.
struct TrackedNode {
  enum class Kind { kObject, kList, kDict, kTuple };
  Kind kind = Kind::kObject;
  VariablePtr variable;  // a leaf
  std::vector<std::pair<std::string, std::shared_ptr<TrackedNode>>> children;
  std::vector<std::pair<std::string, std::size_t>> functions = {};  // of an object: Exportable's, by their numbers
};

struct Exportable {
  std::vector<ExportFunction> functions;
  // Signature key ("serving_default") and which function it calls. Inputs are named by the leaves of the
  // function's arguments, outputs output_0, output_1, … or by the keys of the dict it returns.
  std::vector<std::pair<std::string, std::size_t>> signatures;
  // Without signatures: the only one of these functions that has outputs which a signature can have is
  // "serving_default".
  std::vector<std::size_t> default_signatures = {};
  // Written as the root's lists variables, trainable_variables and non_trainable_variables.
  std::vector<VariablePtr> variables;
  std::vector<std::pair<std::string, std::shared_ptr<TrackedNode>>> tracked;  // more children of the root
  std::vector<std::function<Tensor()>> regularization_losses;                 // scalars
};

// tf.saved_model.SaveOptions; options that do not affect the written files are accepted and ignored.
struct SaveOptions {
  std::vector<std::string> namespace_whitelist;
  bool save_debug_info = false;
  std::map<std::string, std::string> function_aliases;
  std::string experimental_io_device;         // "/job:localhost" or a local device
  bool experimental_custom_gradients = true;  // those of ls::custom_gradient are written with the functions
  train::experimental::ShardingCallback experimental_sharding_callback;  // as in train::CheckpointOptions
  std::vector<std::string> extra_tags;
  // "2.4": FailedPrecondition, naming the operations, where TensorFlow of this version could not run the graph.
  // Versions before 1.4 count as 1.4, others as the nearest older one of 1.12, 1.15, 2.2, 2.4, 2.6, 2.8, 2.11, 2.14
  // and 2.18.
  std::string min_tensorflow;
  collectives::CommunicatorPtr workers = nullptr;  // all make this call, the chief writes; see saving::SaveModelOptions
};

// Writes the folder `path`, replacing an older SavedModel there as a whole or not at all. The bytes
// depend on the model's state alone. Throws FailedPrecondition for a variable that a function uses but
// that is not among the variables or the tracked tree, InvalidArgument for names that clash.
void save(const Exportable& model, const std::string& path, const SaveOptions& options = {});

// ---- reading -----------------------------------------------------------------------------------------

// tf.saved_model.LoadOptions and the argument `tags`.
struct LoadOptions {
  std::vector<std::string> tags;              // empty: the only MetaGraph, or the one for serving
  bool allow_partial_checkpoint = false;      // variables without a value are zeros
  std::string experimental_io_device;         // "/job:localhost" or a local device
  bool experimental_skip_checkpoint = false;  // variables are zeros
};

struct ModelState;

// One signature: named tensors in, named tensors out. Copies share the model.
class Signature {
 public:
  const std::string& name() const { return name_; }
  // Names, dtypes and shapes, sorted by name; unknown dimensions are the batch's. A sparse tensor x is three:
  // x_indices, x_values and x_dense_shape. Other composite ones are x, x_1, …: a ragged one its values and its row
  // splits.
  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  // The values of inputs that a call may leave out.
  const std::map<std::string, Tensor>& defaults() const { return defaults_; }

  // inputs() and outputs() by name: infer.structured_outputs().at("output_0").
  std::map<std::string, TensorSpec> structured_input_signature() const { return by_name(inputs_); }
  std::map<std::string, TensorSpec> structured_outputs() const { return by_name(outputs_); }
  std::vector<std::string> input_names() const {
    std::vector<std::string> names;
    for (const TensorSpec& spec : inputs_) names.push_back(spec.name);
    return names;
  }

  // Whether a call can change variables, tables or a generator of random numbers. The changes stay in the loaded model,
  // so the next call sees them.
  bool changes_state() const { return changes_state_(); }

  // Throws InvalidArgument for missing or unknown names and for other dtypes. Like TensorFlow, a graph runs with inputs
  // of other shapes than it was traced with; where it cannot, the error names the inputs whose shapes differ.
  TensorDict operator()(const std::map<std::string, Tensor>& inputs) const;
  // Of a signature with one input: infer(x). Throws InvalidArgument, naming the inputs, where there are more.
  template <std::convertible_to<Tensor> T>
  TensorDict operator()(const T& input) const {
    return call_with_one(input);
  }

 private:
  friend struct ModelState;
  static std::map<std::string, TensorSpec> by_name(const std::vector<TensorSpec>& specs) {
    std::map<std::string, TensorSpec> out;
    for (const TensorSpec& spec : specs) out.emplace(spec.name, spec);
    return out;
  }
  TensorDict call_with_one(const Tensor& input) const;
  std::string name_;
  std::vector<TensorSpec> inputs_, outputs_;
  std::map<std::string, Tensor> defaults_;
  std::function<Tensors(const Tensors&)> run_;  // inputs and outputs in the order above
  std::function<bool()> changes_state_;
};

// The signatures of a model by name.
class SignatureMap : public std::map<std::string, Signature> {
 public:
  using map::map;
  List<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& [name, signature] : *this) names.push_back(name);
    return names;
  }
};

// A loaded SavedModel, or an object below its root. Under a strategy's scope its variables are that strategy's.
// It can be a part of a train::Checkpoint, under the names that it has in TensorFlow: Checkpoint({{"model", loaded}}).
class LoadedModel {
 public:
  explicit LoadedModel(std::shared_ptr<ModelState> state, int node = 0) : state_(std::move(state)), node_(node) {}

  std::vector<std::string> signature_names() const;
  // All by name: loaded.signatures().at("serving_default").
  SignatureMap signatures() const;
  // Throws NotFound naming the nearest signature.
  Signature signatures(const std::string& name) const;

  // The object's list of that name where there is one, else all variables below it.
  std::vector<VariablePtr> variables() const;
  // The object's list of that name where there is one, else those of variables() that are marked so.
  std::vector<VariablePtr> trainable_variables() const;

  // The objects that belong to this one, functions excepted: attributes, items of lists ("0"), keys of dicts. Empty for
  // models of TensorFlow 1.
  std::vector<std::string> child_names() const;
  bool has_child(const std::string& path) const;
  // The object that names separated by slashes lead to, "encoder/layers/0". Throws NotFound, naming the nearest.
  LoadedModel child(const std::string& path) const;
  // The variable that this object is: loaded.child("dense/kernel").variable(). Null for other objects.
  VariablePtr variable() const;
  operator train::Tracked() const;

  // Functions that are attributes of the object: "__call__", "serve", …
  std::vector<std::string> function_names() const;
  bool has_function(const std::string& name) const;
  // Calls one; the traced version that fits the arguments and `training` runs. `arguments` are those by position,
  // `training` excepted; parameters without an argument have their defaults. A scalar stands for an argument that was a
  // number, a boolean or a string when the function was traced, an undefined tensor for None. Works on values, inside a
  // GradientTape, and on symbols while a model is built or traced. Throws NotFound, InvalidArgument.
  Structure call(const std::string& name, const std::vector<Structure>& arguments,
                 std::optional<bool> training = std::nullopt,
                 const std::map<std::string, Structure>& keywords = {}) const;
  // Of one argument: loaded.call("serve", x).
  template <typename X>
  requires(std::is_convertible_v<const X&, Structure> &&
           !std::is_convertible_v<const X&, std::vector<Structure>>) Structure
      call(const std::string& name, const X& argument)
  const { return call(name, std::vector<Structure>{argument}); }
  // Of none: loaded.call("state").
  Structure call(const std::string& name) const { return call(name, std::vector<Structure>()); }
  // The endpoint of Keras's model.export(): artifact.serve(x).
  template <typename... X>
  Structure serve(const X&... arguments) const {
    return call("serve", std::vector<Structure>{Structure(arguments)...});
  }
  // __call__.
  Structure operator()(const Structure& inputs, std::optional<bool> training = std::nullopt) const {
    return call("__call__", {inputs}, training);
  }
  Structure operator()() const { return call("__call__"); }
  // Of the root. Scalars; empty where the model has none.
  Tensors regularization_losses() const;

  std::string tensorflow_version() const;

 private:
  std::shared_ptr<ModelState> state_;
  int node_ = 0;  // of the object graph
};

// Reads a SavedModel of TensorFlow 1 or 2. Only files inside the folder are opened.
// Throws NotFound for missing files and tags, DataLoss for damaged ones, InvalidArgument for graphs that
// break the rules. Operations that lockstep lacks matter only when they would run.
LoadedModel load(const std::string& path, const LoadOptions& options = {});

// A graph in a file: a frozen one (GraphDef, .pb or .pbtxt), with constants instead of variables, or a MetaGraphDef
// (.meta), whose variables are restored from the checkpoint with the same prefix in the same folder.
class FrozenGraph {
 public:
  static FrozenGraph load(const std::string& path);

  // The placeholders, by node name.
  const std::vector<TensorSpec>& placeholders() const;
  // Nodes whose outputs nothing uses.
  std::vector<std::string> outputs() const;
  // `outputs` are "node" or "node:number"; inputs by node name. Throws NotFound for unknown names, InvalidArgument for
  // values that differ from their placeholder in dtype or shape.
  Tensors run(const std::map<std::string, Tensor>& inputs, const std::vector<std::string>& outputs) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Writes the graph in a file (as FrozenGraph::load reads it) as a SavedModel with the tag "serve" and one signature,
// serving_default, from the placeholders that `outputs` depend on to `outputs` ("node" or "node:number"; default: the
// nodes whose outputs nothing uses). The variables of a .meta get their values from its checkpoint, and what its
// tables and local variables begin with becomes the init op. Throws InvalidArgument for a .meta without `outputs`,
// NotFound for unknown names and for variables without a checkpoint.
void save_graph(const std::string& graph, const std::string& path, const std::vector<std::string>& outputs = {},
                const SaveOptions& options = {});

}  // namespace lockstep::saved_model
