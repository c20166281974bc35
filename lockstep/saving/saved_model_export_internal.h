// A model on its way into a SavedModel: objects with numbers, functions traced. Internal.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/ops/table_resource_internal.h"
#include "lockstep/saving/saved_model.h"

namespace lockstep::saved_model {

// A traced function as the object graph lists it.
struct Concrete {
  graph::TracedFunction traced;
  tensorflow::StructuredValue input_signature;
  tensorflow::StructuredValue output_signature;
  Specs outputs;  // of an ExportFunction
};

struct SignatureExport {
  std::string key;
  std::vector<TensorSpec> inputs;   // sorted by name
  std::vector<TensorSpec> outputs;  // sorted by name
  Concrete wrapper;
};

struct ObjectNode {
  enum class Kind {
    kObject,
    kList,
    kDict,
    kTuple,
    kVariable,
    kTable,
    kTableFunction,
    kFunction,
    kLoss,
    kSignatureMap,
    kSignature
  };
  Kind kind = Kind::kObject;
  std::vector<std::pair<std::string, ObjectNode*>> children;
  VariablePtr variable;
  std::shared_ptr<ops::TableResource> table;
  std::size_t index = 0;               // of the loss, signature or function of a table
  std::vector<std::size_t> functions;  // of kFunction: ExportFunctions
  int id = -1;
};

class Export {
 public:
  Export(const Exportable& model, const SaveOptions& options);

  // Numbered breadth first from the root; variables in the order of their numbers.
  const std::vector<ObjectNode*>& objects() const { return objects_; }
  const std::vector<ObjectNode*>& variables() const { return variables_; }
  const std::vector<ObjectNode*>& tables() const { return tables_; }
  const std::vector<SignatureExport>& signatures() const { return signatures_; }
  const graph::FunctionLibrary& library() const { return library_; }
  // By the name that nodes have for them; none where SaveOptions leaves them out.
  using Gradients = std::map<std::string, std::shared_ptr<const graph::RegisteredGradient>, std::less<>>;
  const Gradients& gradients() const { return gradients_; }
  const SaveOptions& options() const { return options_; }
  // Where a variable's value stands in the checkpoint; parallel to variables().
  const std::vector<std::string>& keys() const { return keys_; }
  const std::string& checkpoint_graph() const { return checkpoint_graph_; }

  void write_objects(tensorflow::SavedObjectGraph* graph) const;
  // The variable or table behind a captured handle.
  const ObjectNode& object_of(const Tensor& capture, const std::string& function) const;

 private:
  void trace_functions();
  void trace_losses();
  void wrap_default_signature();
  void wrap_signature(const std::string& key, std::size_t function);
  void build_objects();
  void number_objects();
  void build_checkpoint_graph();
  ObjectNode* add_object(ObjectNode::Kind kind, std::size_t index = 0);
  void add_table(const std::shared_ptr<ops::TableResource>& table);
  void add_captures(const Concrete& concrete);
  ObjectNode* table_function(const std::string& base, const std::function<Tensor()>& fn);
  // Adds a child for each name.
  void add_functions(const std::vector<std::pair<std::string, std::size_t>>& functions, ObjectNode* owner);
  ObjectNode* variable_object(const VariablePtr& variable);
  ObjectNode* tracked_object(const TrackedNode& node);
  ObjectNode* variable_list(const std::function<bool(const VariablePtr&)>& wanted);
  std::string function_name(const std::string& base);
  void add_concrete(const Concrete& concrete, tensorflow::SavedObjectGraph* graph) const;
  void add_gradient(const graph::RegisteredGradient& gradient, tensorflow::SavedObjectGraph* graph) const;
  void write_object(const ObjectNode& node, tensorflow::SavedObject* object) const;

  const Exportable& model_;
  const SaveOptions& options_;
  std::vector<std::vector<Concrete>> functions_;  // by ExportFunction; two where `training` is taken
  std::vector<Concrete> losses_, table_functions_;
  std::vector<SignatureExport> signatures_;
  graph::FunctionLibrary library_;
  Gradients gradients_;
  int next_function_ = 10;
  std::vector<std::unique_ptr<ObjectNode>> owned_;
  std::unordered_map<const Resource*, ObjectNode*> variable_objects_, table_objects_;
  std::map<const TrackedNode*, ObjectNode*> tracked_objects_;
  ObjectNode* root_ = nullptr;
  std::vector<ObjectNode*> objects_, variables_, tables_, generators_;
  std::vector<std::string> keys_;
  std::string checkpoint_graph_;
};

// The name by which a graph shares a table.
std::string table_name(std::size_t number);

// The MetaGraphDef without the object graph: outer graph, library, signatures, saver.
void write_outer_graph(const Export& exported, tensorflow::MetaGraphDef* meta);

// Writes the folder, which appears complete or not at all. `write_variables` gets the prefix of the checkpoint; it may
// be empty. Throws FailedPrecondition where TensorFlow `min_tensorflow` ("" for any) could not run the graph.
void write_folder(const tensorflow::SavedModel& description, const std::string& path, const std::string& min_tensorflow,
                  const std::function<void(const std::string& prefix)>& write_variables);

}  // namespace lockstep::saved_model
