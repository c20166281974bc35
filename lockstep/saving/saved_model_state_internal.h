// The contents of a loaded SavedModel. Internal.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/graph/executor_internal.h"
#include "lockstep/saving/saved_model.h"

namespace lockstep::saved_model {

// A function of the library with its captures in place.
struct BoundFunction {
  std::shared_ptr<const graph::Function> function;
  Tensors captures;
  const tensorflow::StructuredValue* input_signature = nullptr;
  const tensorflow::StructuredValue* output_signature = nullptr;
};

// A callable attribute of an object: several traces of one Python function.
struct RestoredFunction {
  struct Parameter {
    std::string name;
    const tensorflow::StructuredValue* default_value = nullptr;  // null: the caller must give a value
  };
  std::vector<BoundFunction> traces;
  std::vector<Parameter> parameters;  // positional ones, without self
  std::vector<Parameter> keyword_only;
  bool any_keywords = false;  // **kwargs
  bool described = false;     // the file has the parameters
  std::optional<bool> default_training;
};

// The objects of a loaded model, by their numbers in the object graph. Thread-safe.
class LoadedObjects {
 public:
  virtual ~LoadedObjects() = default;
  // Names and numbers of the children that are not functions, in the order of the file.
  virtual std::vector<std::pair<std::string, int>> children(int id) const = 0;
  // Null for an object that is not a variable.
  virtual VariablePtr variable_at(int id) = 0;
  // The functions among the children, made when first asked for.
  virtual const std::map<std::string, RestoredFunction>& functions_of(int id) = 0;
};

struct ModelState {
  std::string path;
  std::string checkpoint;  // the prefix of the variables' values
  std::shared_ptr<const tensorflow::SavedModel> proto;
  const tensorflow::MetaGraphDef* meta = nullptr;
  std::shared_ptr<const graph::FunctionLibrary> library;
  std::shared_ptr<graph::Resources> resources;
  std::vector<std::string> signature_names;
  std::vector<Signature> signatures;
  std::vector<VariablePtr> variables, trainable_variables;
  std::vector<VariablePtr> all_variables;             // keeps the variables of captured handles alive
  std::map<std::string, RestoredFunction> functions;  // of the root
  std::vector<BoundFunction> regularization_losses;
  std::string tensorflow_version;
  std::shared_ptr<LoadedObjects> objects;  // null without an object graph

  // The functions of an object.
  const std::map<std::string, RestoredFunction>& functions_of(int id) const;

  Tensors run(const BoundFunction& function, const Tensors& arguments) const;
  // `run` and `changes_state` must own everything that they use except the state.
  void add_signature(const std::string& name, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                     std::function<Tensors(const Tensors&)> run, std::function<bool()> changes_state);
};

// The value of a tensor in the bundle, in separate memory.
Tensor read_variable(const formats::BundleReader& bundle, const std::string& key);
// "DIR/assets/NAME"; throws InvalidArgument for a name that leaves the folder.
std::string asset_path(const ModelState& state, int asset_index);
// One tensor of a SignatureDef: its specification and its name in the graph.
struct SignatureEntry {
  TensorSpec spec;
  std::string tensor;
};
// Inputs or outputs of a SignatureDef, sorted by name. A sparse one is three entries, another composite one as many as
// it has components, under the names of component_names().
std::vector<SignatureEntry> signature_entries(
    const google::protobuf::Map<std::string, tensorflow::TensorInfo>& entries);

// A model with an object graph (TensorFlow 2).
void load_objects(ModelState& state, const LoadOptions& options);
// A model without one: the graph itself, as a TensorFlow 1 session would use it.
std::shared_ptr<graph::Graph> load_graph(ModelState& state, const LoadOptions& options);

// Accepts "", "/job:localhost" and names of local devices; throws InvalidArgument, NotFound for others.
void check_io_device(const std::string& device);

}  // namespace lockstep::saved_model
