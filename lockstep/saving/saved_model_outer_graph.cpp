// The outer graph of a SavedModel: variables, signature calls, restore and save nodes. TensorFlow Serving and
// the TensorFlow 1 loader use this and nothing of the object graph.
#include <cctype>

#include <fmt/format.h>

#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/saving/saved_model_export_internal.h"

namespace lockstep::saved_model {
namespace {

using graph::Node;
using graph::Output;

constexpr char kPredict[] = "tensorflow/serving/predict";
constexpr char kInitOpKey[] = "__saved_model_init_op";

// Names of nodes: [A-Za-z0-9.][A-Za-z0-9_.\\/-]*.
std::string node_name(std::string_view text) {
  std::string name;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool fine = std::isalnum(byte) || c == '.' || (!name.empty() && (c == '_' || c == '/' || c == '-'));
    name.push_back(fine ? c : name.empty() ? 'v' : '_');
  }
  return name.empty() ? "v" : name;
}

class OuterGraph {
 public:
  OuterGraph(const Export& exported, tensorflow::MetaGraphDef* meta) : exported_(exported), meta_(meta) {}

  void write() {
    for (const ObjectNode* object : exported_.variables()) add_variable(*object);
    for (std::size_t i = 0; i < exported_.tables().size(); ++i) add_table(*exported_.tables()[i], i);
    for (const SignatureExport& signature : exported_.signatures()) add_signature(signature);
    add_init_op();
    add_saver();
    graph::graph_to_proto(graph_, meta_->mutable_graph_def());
    for (const auto& [name, function] : exported_.library().functions()) {
      graph::function_to_proto(*function, exported_.library(),
                               meta_->mutable_graph_def()->mutable_library()->add_function());
    }
    for (const auto& [name, gradient] : exported_.gradients()) {
      auto* registered = meta_->mutable_graph_def()->mutable_library()->add_registered_gradients();
      registered->set_gradient_func(gradient->function);
      registered->set_registered_op_type(name);
    }
  }

 private:
  int add(const std::string& name, const std::string& op, std::vector<Output> inputs, ops::Attrs attrs) {
    Node node;
    node.name = graph_.unique_name(name);
    node.op = op;
    node.inputs = std::move(inputs);
    node.attrs = std::move(attrs);
    return graph_.add(std::move(node));
  }

  int add_strings(const std::string& name, std::vector<std::string> values, bool scalar = false) {
    const Shape shape = scalar ? Shape{} : Shape{static_cast<std::int64_t>(values.size())};
    return add_constant(name, Tensor::strings(std::move(values), shape));
  }

  void add_variable(const ObjectNode& object) {
    const DType dtype = object.variable->dtype();
    const std::string name = graph_.unique_name(node_name(object.variable->path()));
    const int handle =
        add(name, "VarHandleOp", {}, {{"dtype", dtype}, {"shape", object.variable->shape()}, {"shared_name", name}});
    handles_.emplace(object.id, handle);
    reads_.push_back(add(name + "/Read/ReadVariableOp", "ReadVariableOp", {{handle, 0}}, {{"dtype", dtype}}));
  }

  int add_constant(const std::string& name, const Tensor& value) {
    return add(name, "Const", {}, {{"dtype", value.dtype()}, {"value", value}});
  }

  // The init op gives the table its entries.
  void add_table(const ObjectNode& object, std::size_t number) {
    const std::string name = graph_.unique_name(table_name(number));
    const DType key = object.table->key_dtype(), value = object.table->value_dtype();
    const int handle =
        add(name, "HashTableV2", {}, {{"key_dtype", key}, {"value_dtype", value}, {"shared_name", table_name(number)}});
    handles_.emplace(object.id, handle);
    const Tensors entries = object.table->export_all();
    const int keys = add_constant(name + "/keys", entries[0]), values = add_constant(name + "/values", entries[1]);
    initializers_.push_back(add(name + "/initialize", "InitializeTableV2", {{handle, 0}, {keys, 0}, {values, 0}},
                                {{"Tkey", key}, {"Tval", value}}));
  }

  static void describe(const std::string& tensor, const TensorSpec& spec, tensorflow::TensorInfo* info) {
    info->set_name(tensor);
    info->set_dtype(static_cast<tensorflow::DataType>(spec.dtype));
    graph::shape_to_proto(spec.shape, info->mutable_tensor_shape());
  }

  void add_signature(const SignatureExport& signature) {
    auto& def = (*meta_->mutable_signature_def())[signature.key];
    def.set_method_name(kPredict);
    std::vector<Output> inputs;
    std::vector<DType> in_types, out_types;
    for (const TensorSpec& input : signature.inputs) {
      const int placeholder = add(node_name(signature.key + "_" + input.name), "Placeholder", {},
                                  {{"dtype", input.dtype}, {"shape", input.shape}});
      inputs.push_back({placeholder, 0});
      in_types.push_back(input.dtype);
      describe(graph_.node(placeholder).name + ":0", input, &(*def.mutable_inputs())[input.name]);
    }
    const auto& function = *signature.wrapper.traced.function;
    for (const Tensor& capture : signature.wrapper.traced.captures) {
      inputs.push_back({handles_.at(exported_.object_of(capture, function.name).id), 0});
      in_types.push_back(DType::kResource);
    }
    for (const TensorSpec& output : signature.outputs) out_types.push_back(output.dtype);
    const std::string op = function.stateful ? "StatefulPartitionedCall" : "PartitionedCall";
    const int call = add(op, op, std::move(inputs),
                         {{"Tin", in_types}, {"Tout", out_types}, {"f", ops::FunctionName{function.name, nullptr}}});
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
      describe(fmt::format("{}:{}", graph_.node(call).name, i), signature.outputs[i],
               &(*def.mutable_outputs())[signature.outputs[i].name]);
    }
  }

  void add_init_op() {
    const int node = add("NoOp", "NoOp", {}, {});
    graph_.node(node).control_inputs = initializers_;
    const std::string& name = graph_.node(node).name;
    auto& info = (*(*meta_->mutable_signature_def())[kInitOpKey].mutable_outputs())[kInitOpKey];
    info.set_name(name);
    info.mutable_tensor_shape()->set_unknown_rank(true);
    (*meta_->mutable_collection_def())["saved_model_main_op"].mutable_node_list()->add_value(name);
  }

  void add_saver() {
    const int model = add_strings("save/filename/input", {"model"}, true);
    const ops::Attrs scalar{{"dtype", DType::kString}, {"shape", Shape{}}};
    const int filename = add("save/filename", "PlaceholderWithDefault", {{model, 0}}, scalar);
    const int prefix = add("save/Const", "PlaceholderWithDefault", {{filename, 0}}, scalar);
    int save = prefix;
    const int restore = add_restore(prefix);
    if (!reads_.empty()) save = add_save(prefix);
    auto* saver = meta_->mutable_saver_def();
    saver->set_filename_tensor_name(graph_.node(prefix).name + ":0");
    saver->set_save_tensor_name(graph_.node(save).name + ":0");
    saver->set_restore_op_name(graph_.node(restore).name);
    saver->set_max_to_keep(5);
    saver->set_keep_checkpoint_every_n_hours(10000);
    saver->set_version(tensorflow::SaverDef::V2);
  }

  std::vector<DType> variable_types() const {
    std::vector<DType> types;
    for (const ObjectNode* object : exported_.variables()) types.push_back(object->variable->dtype());
    return types;
  }

  std::vector<Output> named_tensors(const std::string& scope, int prefix) {
    const int names = add_strings(scope + "/tensor_names", exported_.keys());
    const int slices = add_strings(scope + "/shape_and_slices", std::vector<std::string>(exported_.keys().size()));
    return {{prefix, 0}, {names, 0}, {slices, 0}};
  }

  int add_save(int prefix) {
    std::vector<Output> inputs = named_tensors("save/SaveV2", prefix);
    for (int read : reads_) inputs.push_back({read, 0});
    const int save = add("save/SaveV2", "SaveV2", std::move(inputs), {{"dtypes", variable_types()}});
    const int done = add("save/control_dependency", "Identity", {{prefix, 0}}, {{"T", DType::kString}});
    graph_.node(done).control_inputs.push_back(save);
    return done;
  }

  int add_restore(int prefix) {
    std::vector<int> assigns;
    if (!exported_.variables().empty()) {
      std::vector<Output> inputs = named_tensors("save/RestoreV2", prefix);
      const int restore = add("save/RestoreV2", "RestoreV2", std::move(inputs), {{"dtypes", variable_types()}});
      int next = 0;
      for (const ObjectNode* object : exported_.variables()) {
        const DType dtype = object->variable->dtype();
        const int value = add("save/Identity", "Identity", {{restore, next++}}, {{"T", dtype}});
        assigns.push_back(add("save/AssignVariableOp", "AssignVariableOp", {{handles_.at(object->id), 0}, {value, 0}},
                              {{"dtype", dtype}}));
      }
    }
    const int all = add("save/restore_all", "NoOp", {}, {});
    graph_.node(all).control_inputs = assigns;
    return all;
  }

  const Export& exported_;
  tensorflow::MetaGraphDef* meta_;
  graph::Graph graph_;
  std::map<int, int> handles_;  // object number -> VarHandleOp or HashTableV2
  std::vector<int> initializers_;
  std::vector<int> reads_;
};

}  // namespace

void write_outer_graph(const Export& exported, tensorflow::MetaGraphDef* meta) { OuterGraph(exported, meta).write(); }

}  // namespace lockstep::saved_model
