// Loading by the object graph, as tf.saved_model.load does.
#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/graph/effects_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/table_resource_internal.h"
#include "lockstep/saving/saved_model_state_internal.h"
#include "lockstep/saving/saved_model_structure_internal.h"

namespace lockstep::saved_model {
namespace {

using tensorflow::SavedObject;
using tensorflow::StructuredValue;

class ObjectLoader final : public LoadedObjects {
 public:
  ObjectLoader(ModelState& state, const LoadOptions& options)
      : state_(state),
        options_(options),
        graph_(state.meta->object_graph_def()),
        values_(static_cast<std::size_t>(graph_.nodes_size())),
        variables_(values_.size()),
        entered_(values_.size(), 0) {}

  void load() {
    check_edges();
    open_checkpoint();
    register_gradients();
    load_lists();
    load_functions(0, &state_.functions);
    load_losses();
    load_signatures();
    if (state_.variables.empty() && child(0, "variables") < 0) list_all_variables();
    initialize_tables();
  }

  std::vector<std::pair<std::string, int>> children(int id) const override {
    std::vector<std::pair<std::string, int>> objects;
    for (const auto& edge : node(id).children()) {
      if (!is_function(edge.node_id())) objects.emplace_back(edge.local_name(), edge.node_id());
    }
    return objects;
  }

  VariablePtr variable_at(int id) override {
    const std::lock_guard lock(mutex_);
    return node(id).kind_case() == SavedObject::kVariable ? variable(id) : nullptr;
  }

  const std::map<std::string, RestoredFunction>& functions_of(int id) override {
    const std::lock_guard lock(mutex_);
    const auto [made, fresh] = functions_.try_emplace(id);
    if (fresh) {
      load_functions(id, &made->second);
      initialize_tables();
    }
    return made->second;
  }

 private:
  bool is_function(int id) const {
    const auto kind = node(id).kind_case();
    return kind == SavedObject::kFunction || kind == SavedObject::kBareConcreteFunction;
  }

  const SavedObject& node(int id) const { return graph_.nodes(id); }

  void check_edges() const {
    for (const SavedObject& object : graph_.nodes()) {
      for (const auto& edge : object.children()) check_id(edge.node_id());
      for (const auto& slot : object.slot_variables()) {
        check_id(slot.original_variable_node_id());
        check_id(slot.slot_variable_node_id());
      }
    }
    for (const auto& [name, function] : graph_.concrete_functions()) {
      for (int id : function.bound_inputs()) check_id(id);
    }
  }

  void check_id(int id) const {
    if (id < 0 || id >= graph_.nodes_size()) {
      throw_data_loss(
          fmt::format("{}: the object graph refers to node {} of {}", state_.path, id, graph_.nodes_size()));
    }
  }

  int child(int id, std::string_view name) const {
    for (const auto& edge : node(id).children()) {
      if (edge.local_name() == name) return edge.node_id();
    }
    return -1;
  }

  // Finds for each object the one of the checkpoint that the same edges lead to.
  void open_checkpoint() {
    checkpoint_nodes_.assign(values_.size(), -1);
    if (options_.experimental_skip_checkpoint) return;
    const std::string prefix = io::join_path(io::join_path(state_.path, "variables"), "variables");
    bundle_ = std::make_unique<formats::BundleReader>(prefix);
    const std::string key(formats::kObjectGraphKey);
    if (!bundle_->contains(key)) throw_data_loss(fmt::format("{}: the checkpoint has no object graph", prefix));
    const formats::TensorData text = bundle_->read(key);
    if (text.dtype != DType::kString || text.strings.size() != 1) {
      throw_data_loss(fmt::format("{}: the checkpoint's object graph is not a string", prefix));
    }
    checkpoint_ = formats::CheckpointGraph::parse(text.strings[0], prefix);
    std::deque<std::pair<int, int>> queue{{0, 0}};
    checkpoint_nodes_[0] = 0;
    while (!queue.empty()) {
      const auto [object, stored] = queue.front();
      queue.pop_front();
      for (const auto& edge : node(object).children()) {
        const auto next = checkpoint_.nodes[static_cast<std::size_t>(stored)].child(edge.local_name());
        if (!next || checkpoint_nodes_[static_cast<std::size_t>(edge.node_id())] >= 0) continue;
        checkpoint_nodes_[static_cast<std::size_t>(edge.node_id())] = *next;
        queue.emplace_back(edge.node_id(), *next);
      }
    }
    for (int id = 0; id < static_cast<int>(values_.size()); ++id) find_slots(id);
  }

  // No edge leads to the slots of an optimizer: each belongs to it and to a variable.
  void find_slots(int optimizer) {
    const int stored = checkpoint_nodes_[static_cast<std::size_t>(optimizer)];
    if (stored < 0) return;
    for (const auto& slot : node(optimizer).slot_variables()) {
      const int variable = checkpoint_nodes_[static_cast<std::size_t>(slot.original_variable_node_id())];
      for (const formats::CheckpointSlot& found : checkpoint_.nodes[static_cast<std::size_t>(stored)].slots) {
        if (variable >= 0 && found.variable == variable && found.name == slot.slot_name())
          checkpoint_nodes_[static_cast<std::size_t>(slot.slot_variable_node_id())] = found.slot;
      }
    }
  }

  const formats::CheckpointAttribute* stored_attribute(int id, std::string_view name) const {
    const int stored = checkpoint_nodes_[static_cast<std::size_t>(id)];
    return stored < 0 ? nullptr : checkpoint_.nodes[static_cast<std::size_t>(stored)].attribute(name);
  }

  Tensor initial_value(int id, const tensorflow::SavedVariable& saved) const {
    const DType dtype = graph::dtype_from_proto(saved.dtype());
    const Shape shape = graph::shape_from_proto(saved.shape());
    const auto* attribute = stored_attribute(id, formats::kVariableValue);
    if (attribute && bundle_->contains(attribute->key)) {
      Tensor value = read_variable(*bundle_, attribute->key);
      if (value.dtype() != dtype || !shape.compatible_with(value.shape())) {
        throw_invalid_argument(fmt::format("{}: variable '{}' is {}{}, its value in the checkpoint is {}{}",
                                           state_.path, saved.name(), dtype_name(dtype), shape.to_string(),
                                           dtype_name(value.dtype()), value.shape().to_string()));
      }
      return value;
    }
    if (!options_.allow_partial_checkpoint && !options_.experimental_skip_checkpoint) {
      throw_data_loss(fmt::format("{}: variable '{}' has no value in the checkpoint", state_.path, saved.name()));
    }
    Shape known = shape;
    for (int axis = 0; axis < known.rank(); ++axis) known[axis] = std::max<std::int64_t>(known[axis], 0);
    const auto count = known.num_elements();
    if (!count || *count > (std::int64_t{1} << 32))
      throw_resource_exhausted(
          fmt::format("{}: variable '{}' of shape {}", state_.path, saved.name(), shape.to_string()));
    return dtype == DType::kString ? Tensor::strings(std::vector<std::string>(static_cast<std::size_t>(*count)), known)
                                   : Tensor::zeros(known, dtype);
  }

  VariablePtr variable(int id) {
    VariablePtr& made = variables_[static_cast<std::size_t>(id)];
    if (made) return made;
    const tensorflow::SavedVariable& saved = node(id).variable();
    distribute::VariableOptions options;
    options.name = saved.name().empty() ? "Variable" : saved.name();
    options.trainable = saved.trainable();
    if (saved.synchronization() == tensorflow::VARIABLE_SYNCHRONIZATION_ON_READ) {
      options.synchronization = distribute::VariableSynchronization::kOnRead;
    }
    const int aggregation = saved.aggregation();
    if (aggregation >= 0 && aggregation <= 3) {
      options.aggregation = static_cast<distribute::VariableAggregation>(aggregation);
    }
    if (Shape shape = graph::shape_from_proto(saved.shape()); !shape.fully_known()) options.shape = std::move(shape);
    made = distribute::Variable::create(initial_value(id, saved), options);
    state_.all_variables.push_back(made);
    return made;
  }

  // A captured input of a function: a handle, a path, a constant.
  Tensor value(int id) {
    Tensor& made = values_[static_cast<std::size_t>(id)];
    if (made.defined()) return made;
    char& entered = entered_[static_cast<std::size_t>(id)];
    if (std::exchange(entered, 1))
      throw_data_loss(fmt::format("{}: object {} needs itself to be made", state_.path, id));
    try {
      made = make_value(id);
    } catch (...) {
      entered = 0;  // the next function that captures it fails for the same reason
      throw;
    }
    return made;
  }

  Tensor make_value(int id) {
    const SavedObject& object = node(id);
    switch (object.kind_case()) {
      case SavedObject::kVariable: return variable(id)->handle();
      case SavedObject::kAsset:
        return Tensor::strings({asset_path(state_, object.asset().asset_file_def_index())}, Shape{});
      case SavedObject::kConstant: return constant(object.constant().operation());
      case SavedObject::kResource: return resource(id);
      default:
        throw_unimplemented(
            fmt::format("{}: a function captures object {}, which is neither variable, asset, constant nor table",
                        state_.path, id));
    }
  }

  Tensor constant(const std::string& operation) const {
    for (const auto& node : state_.meta->graph_def().node()) {
      if (node.name() != operation) continue;
      const auto value = node.attr().find("value");
      if (value == node.attr().end()) break;
      return graph::tensor_from_proto(value->second.tensor(), fmt::format("{}, node '{}'", state_.path, operation),
                                      state_.proto);
    }
    throw_data_loss(fmt::format("{}: the constant '{}' is not in the graph", state_.path, operation));
  }

  Tensor resource(int id) {
    const int creator = child(id, "_create_resource");
    const auto traces = creator < 0 ? std::vector<BoundFunction>() : traces_of(creator);
    if (traces.empty())
      throw_unimplemented(fmt::format("{}: resource {} has no function that makes it", state_.path, id));
    tables_.push_back(id);
    return state_.run(traces[0], {}).at(0);
  }

  BoundFunction bind(const std::string& name) {
    const auto function = state_.library->find(name);
    const auto saved = graph_.concrete_functions().find(name);
    if (!function || saved == graph_.concrete_functions().end()) {
      throw_data_loss(fmt::format("{}: function '{}' is not in the library", state_.path, name));
    }
    BoundFunction bound;
    bound.function = function;
    for (int id : saved->second.bound_inputs()) bound.captures.push_back(value(id));
    if (bound.captures.size() > function->arguments.size()) {
      throw_data_loss(fmt::format("{}: function '{}' has more captures than inputs", state_.path, name));
    }
    if (saved->second.has_canonicalized_input_signature())
      bound.input_signature = &saved->second.canonicalized_input_signature();
    if (saved->second.has_output_signature()) bound.output_signature = &saved->second.output_signature();
    return bound;
  }

  // Where a gradient function returns the gradients of the inputs of the operation.
  static std::vector<graph::RegisteredGradient::Part> parts_of(const StructuredValue& outputs) {
    std::vector<graph::RegisteredGradient::Part> parts;
    int next = 0;
    for (const StructuredValue& item : items_of(outputs)) {
      std::vector<TensorSpec> specs;
      collect_specs(item, &specs);
      auto& part = parts.emplace_back();
      if (!specs.empty()) part.values = next;
      if (specs.size() > 1) part.indices = next + 1;  // IndexedSlices: values, indices and perhaps the dense shape
      next += static_cast<int>(specs.size());
    }
    return parts;
  }

  // Custom gradients: functions that capture tensors of the function whose results they differentiate.
  void register_gradients() {
    const auto& definitions = state_.meta->graph_def().library().registered_gradients();
    if (definitions.empty()) return;
    const auto library = std::make_shared<graph::FunctionLibrary>(*state_.library);
    for (const auto& definition : definitions) {
      const auto function = library->find(definition.gradient_func());
      const auto saved = graph_.concrete_functions().find(definition.gradient_func());
      if (!function || saved == graph_.concrete_functions().end()) continue;
      graph::RegisteredGradient gradient;
      gradient.function = definition.gradient_func();
      gradient.parts = parts_of(saved->second.output_signature());
      for (const int id : saved->second.bound_inputs()) {
        auto& capture = gradient.captures.emplace_back();
        if (node(id).kind_case() != SavedObject::kCapturedTensor) {
          capture.value = value(id);
          continue;
        }
        const auto& captured = node(id).captured_tensor();
        const auto owner = library->find(captured.concrete_function());
        if (!owner) {
          throw_data_loss(fmt::format("{}: the gradient '{}' captures a tensor of the unknown function '{}'",
                                      state_.path, definition.registered_op_type(), captured.concrete_function()));
        }
        capture.function = captured.concrete_function();
        capture.output = owner->body.parse_output(captured.name());
      }
      library->register_gradient(definition.registered_op_type(), std::move(gradient));
    }
    state_.library = library;
  }

  std::vector<BoundFunction> traces_of(int id) {
    std::vector<BoundFunction> traces;
    const SavedObject& object = node(id);
    if (object.kind_case() == SavedObject::kFunction) {
      for (const std::string& name : object.function().concrete_functions()) traces.push_back(bind(name));
    } else if (object.kind_case() == SavedObject::kBareConcreteFunction) {
      traces.push_back(bind(object.bare_concrete_function().concrete_function_name()));
    }
    return traces;
  }

  void load_lists() {
    const auto list = [&](const char* name, std::vector<VariablePtr>* target) {
      const int id = child(0, name);
      if (id < 0) return false;
      for (const auto& edge : node(id).children()) {
        if (node(edge.node_id()).kind_case() == SavedObject::kVariable) target->push_back(variable(edge.node_id()));
      }
      return true;
    };
    list("variables", &state_.variables);
    has_trainable_list_ = list("trainable_variables", &state_.trainable_variables);
    if (!has_trainable_list_) mark_trainable();
  }

  void mark_trainable() {
    for (const VariablePtr& variable : state_.variables) {
      if (variable->trainable()) state_.trainable_variables.push_back(variable);
    }
  }

  void list_all_variables() {
    for (int id = 0; id < graph_.nodes_size(); ++id) {
      if (node(id).kind_case() == SavedObject::kVariable) state_.variables.push_back(variable(id));
    }
    if (!has_trainable_list_) mark_trainable();
  }

  void read_parameters(const tensorflow::FunctionSpec& spec, RestoredFunction* function) const {
    const auto& fields = spec.fullargspec().named_tuple_value().values();
    function->described = !fields.empty();
    const auto field = [&](std::string_view name) -> const StructuredValue& {
      for (const auto& pair : fields) {
        if (pair.key() == name) return pair.value();
      }
      return StructuredValue::default_instance();
    };
    const auto names_in = [](const StructuredValue& value) {
      std::vector<RestoredFunction::Parameter> parameters;
      for (const auto& item : items_of(value)) parameters.push_back({item.string_value(), nullptr});
      return parameters;
    };
    auto& parameters = function->parameters = names_in(field("args"));
    const bool method = spec.is_method() || (!parameters.empty() && parameters[0].name == "self");
    if (method && !parameters.empty()) parameters.erase(parameters.begin());
    const auto& defaults = items_of(field("defaults"));
    for (int i = 0; i < defaults.size(); ++i) {
      const int at = static_cast<int>(parameters.size()) - defaults.size() + i;
      if (at >= 0) parameters[static_cast<std::size_t>(at)].default_value = &defaults[i];
    }
    function->keyword_only = names_in(field("kwonlyargs"));
    const auto& keyword_defaults = field("kwonlydefaults").dict_value().fields();
    for (auto& parameter : function->keyword_only) {
      const auto found = keyword_defaults.find(parameter.name);
      if (found != keyword_defaults.end()) parameter.default_value = &found->second;
    }
    function->any_keywords = field("varkw").kind_case() == StructuredValue::kStringValue;
    for (const auto* list : {&parameters, &function->keyword_only}) {
      for (const auto& parameter : *list) {
        if (parameter.name == "training" && parameter.default_value &&
            parameter.default_value->kind_case() == StructuredValue::kBoolValue)
          function->default_training = parameter.default_value->bool_value();
      }
    }
  }

  void load_functions(int id, std::map<std::string, RestoredFunction>* functions) {
    for (const auto& edge : node(id).children()) {
      const SavedObject& object = node(edge.node_id());
      const bool bare = object.kind_case() == SavedObject::kBareConcreteFunction;
      if (!is_function(edge.node_id())) continue;
      try {
        RestoredFunction function;
        function.traces = traces_of(edge.node_id());
        const auto& spec = bare ? object.bare_concrete_function().function_spec() : object.function().function_spec();
        read_parameters(spec, &function);
        functions->emplace(edge.local_name(), std::move(function));
      } catch (const Error& error) {
        if (error.code() != Code::kUnimplemented) throw;  // an attribute that cannot be called is left out
      }
    }
  }

  void load_losses() {
    const int losses = child(0, "regularization_losses");
    if (losses < 0) return;
    for (const auto& edge : node(losses).children()) {
      const auto traces = traces_of(edge.node_id());
      if (!traces.empty()) state_.regularization_losses.push_back(traces[0]);
    }
  }

  void load_signatures() {
    const int map = child(0, "signatures");
    if (map < 0) return;
    for (const auto& edge : node(map).children()) {
      const SavedObject& object = node(edge.node_id());
      if (object.kind_case() != SavedObject::kBareConcreteFunction) continue;
      add_signature(edge.local_name(), object.bare_concrete_function());
    }
  }

  void add_signature(const std::string& name, const tensorflow::SavedBareConcreteFunction& bare) {
    const BoundFunction function = bind(bare.concrete_function_name());
    std::vector<TensorSpec> inputs, outputs;
    if (function.input_signature) collect_specs(*function.input_signature, &inputs);
    if (function.output_signature) collect_specs(*function.output_signature, &outputs);
    for (int i = 0; i < bare.argument_keywords_size() && i < static_cast<int>(inputs.size()); ++i) {
      inputs[static_cast<std::size_t>(i)].name = bare.argument_keywords(i);
    }
    if (function.output_signature && function.output_signature->kind_case() == StructuredValue::kDictValue) {
      std::map<std::string, const StructuredValue*> sorted;
      for (const auto& [key, value] : function.output_signature->dict_value().fields()) sorted.emplace(key, &value);
      std::size_t i = 0;
      for (const auto& [key, value] : sorted) {
        for (const std::string& part : entry_names(key, *value)) {
          if (i < outputs.size()) outputs[i++].name = part;
        }
      }
    }
    if (inputs.size() + function.captures.size() != function.function->arguments.size() ||
        outputs.size() != function.function->results.size()) {
      throw_data_loss(fmt::format("{}: signature '{}' does not fit its function", state_.path, name));
    }
    refine(name, &inputs, &outputs);
    state_.add_signature(
        name, std::move(inputs), std::move(outputs),
        [function, library = state_.library, resources = state_.resources,
         variables = state_.all_variables](const Tensors& arguments) {
          return graph::Executable::prepare(function.function, library, resources)->run(arguments, function.captures);
        },
        [function = function.function, library = state_.library] { return graph::changes_state(*function, *library); });
  }

  // The SignatureDef knows static shapes that old files leave out of the function's signature.
  void refine(const std::string& name, std::vector<TensorSpec>* inputs, std::vector<TensorSpec>* outputs) const {
    const auto def = state_.meta->signature_def().find(name);
    if (def == state_.meta->signature_def().end()) return;
    const auto apply = [](const std::vector<SignatureEntry>& known, std::vector<TensorSpec>* specs) {
      for (TensorSpec& spec : *specs) {
        for (const auto& [other, tensor] : known) {
          if (other.name != spec.name) continue;
          if (spec.dtype == DType::kInvalid) spec.dtype = other.dtype;
          if (other.dtype == spec.dtype && !spec.shape.known_rank()) spec.shape = other.shape;
        }
      }
    };
    apply(signature_entries(def->second.inputs()), inputs);
    apply(signature_entries(def->second.outputs()), outputs);
  }

  // Values of mutable tables come from the checkpoint, those of constant ones from their initializers.
  void initialize_tables() {
    for (; initialized_tables_ < tables_.size(); ++initialized_tables_) {
      const int id = tables_[initialized_tables_];
      const auto* attribute = stored_attribute(id, "table");
      if (attribute && bundle_->contains(attribute->key + "-keys")) {
        auto* table = dynamic_cast<ops::TableResource*>(values_[static_cast<std::size_t>(id)].resource_value().get());
        if (table) {
          table->restore(Tensor::from_data(bundle_->read(attribute->key + "-keys")),
                         Tensor::from_data(bundle_->read(attribute->key + "-values")));
        }
      }
      const int initializer = child(id, "_initialize");
      if (initializer < 0) continue;
      const auto traces = traces_of(initializer);
      if (!traces.empty()) state_.run(traces[0], {});
    }
  }

  ModelState& state_;
  const LoadOptions options_;
  const tensorflow::SavedObjectGraph& graph_;
  std::unique_ptr<formats::BundleReader> bundle_;
  formats::CheckpointGraph checkpoint_;
  std::vector<int> checkpoint_nodes_;  // by object; -1: none
  Tensors values_;
  std::vector<VariablePtr> variables_;
  std::vector<char> entered_;
  std::vector<int> tables_;
  std::size_t initialized_tables_ = 0;
  bool has_trainable_list_ = false;
  std::mutex mutex_;                                                  // after loading
  std::map<int, std::map<std::string, RestoredFunction>> functions_;  // of objects below the root
};

}  // namespace

void load_objects(ModelState& state, const LoadOptions& options) {
  const auto loader = std::make_shared<ObjectLoader>(state, options);
  loader->load();
  state.objects = loader;
}

}  // namespace lockstep::saved_model
