#include "lockstep/saving/saved_model_export_internal.h"

#include <algorithm>
#include <deque>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/ops/function.h"
#include "lockstep/saving/saved_model_structure_internal.h"

namespace lockstep::saved_model {
namespace {

// The flattened arguments and, under their names, where each stands.
std::vector<TensorSpec> flat_arguments(const ExportFunction& function) {
  std::vector<TensorSpec> flat;
  for (const auto& argument : function.arguments) {
    for (TensorSpec& spec : argument.specs.flatten()) flat.push_back(std::move(spec));
  }
  return flat;
}

std::vector<Structure> pack_arguments(const ExportFunction& function, const Tensors& flat) {
  std::vector<Structure> arguments;
  std::size_t next = 0;
  for (const auto& argument : function.arguments) {
    const std::size_t count = argument.specs.num_leaves();
    const Tensors part(flat.begin() + static_cast<std::ptrdiff_t>(next),
                       flat.begin() + static_cast<std::ptrdiff_t>(next + count));
    arguments.push_back(argument.specs.pack(part));
    next += count;
  }
  return arguments;
}

// Why these cannot be the outputs of a signature; empty if they can.
std::string nested_output(const Specs& outputs) {
  const auto is_nested = [](const Specs& item) { return !item.is_leaf(); };
  if (outputs.is_list() && std::ranges::any_of(outputs.parts(), is_nested))
    return "the outputs are nested; return a list or a dict of tensors";
  if (!outputs.is_dict()) return "";
  for (const auto& [key, item] : outputs.entries()) {
    if (is_nested(item)) return fmt::format("output '{}' is not a tensor", key);
  }
  return "";
}

// output_0, output_1, … or the keys of a dict.
std::vector<std::string> output_names(const Specs& outputs, const std::string& function) {
  if (const std::string reason = nested_output(outputs); !reason.empty())
    throw_invalid_argument(fmt::format("signature of '{}': {}", function, reason));
  std::vector<std::string> names;
  if (outputs.is_dict()) {
    for (const auto& [key, item] : outputs.entries()) names.push_back(key);
    std::sort(names.begin(), names.end());
    return names;
  }
  for (std::size_t i = 0; i < outputs.num_leaves(); ++i) names.push_back(fmt::format("output_{}", i));
  return names;
}

template <typename T>
std::vector<std::size_t> sorted_order(const std::vector<T>& names) {
  std::vector<std::size_t> order(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
  return order;
}

}  // namespace

Export::Export(const Exportable& model, const SaveOptions& options) : model_(model), options_(options) {
  trace_functions();
  trace_losses();
  for (const auto& [key, function] : model_.signatures) wrap_signature(key, function);
  if (model_.signatures.empty()) wrap_default_signature();
  if (options_.experimental_custom_gradients) gradients_ = library_.gradients();
  build_objects();
  number_objects();
  build_checkpoint_graph();
}

std::string Export::function_name(const std::string& base) {
  return fmt::format("__inference_{}_{}", base, next_function_++);
}

void Export::trace_functions() {
  for (const ExportFunction& function : model_.functions) {
    std::vector<Concrete>& traces = functions_.emplace_back();
    std::vector<bool> modes{false};
    if (function.takes_training) modes.push_back(true);
    for (const bool training : modes) {
      Concrete concrete;
      concrete.traced = graph::trace(
          function_name(function.names.empty() ? "function" : function.names[0]),
          [&](const Tensors& symbols) {
            const Structure results = function.call(pack_arguments(function, symbols), training);
            concrete.outputs = specs_of(results);
            return results.flatten();
          },
          flat_arguments(function));
      write_input_signature(function.arguments, function.takes_training ? std::optional(training) : std::nullopt,
                            &concrete.input_signature);
      write_specs(concrete.outputs, &concrete.output_signature);
      library_.merge(concrete.traced.library);
      library_.add(concrete.traced.function);
      traces.push_back(std::move(concrete));
    }
  }
}

void Export::trace_losses() {
  for (const auto& loss : model_.regularization_losses) {
    Concrete concrete;
    concrete.traced = graph::trace(function_name("loss"), [&](const Tensors&) { return Tensors{loss()}; }, {});
    write_input_signature({}, std::nullopt, &concrete.input_signature);
    write_spec({Shape{}, concrete.traced.outputs[0].dtype}, &concrete.output_signature);
    library_.merge(concrete.traced.library);
    library_.add(concrete.traced.function);
    losses_.push_back(std::move(concrete));
  }
}

void Export::wrap_default_signature() {
  std::vector<std::size_t> possible;
  for (const std::size_t function : model_.default_signatures) {
    const Specs& outputs = functions_[function][0].outputs;
    if (outputs.num_leaves() > 0 && nested_output(outputs).empty()) possible.push_back(function);
  }
  if (possible.size() == 1) wrap_signature("serving_default", possible[0]);
}

void Export::wrap_signature(const std::string& key, std::size_t function) {
  if (function >= model_.functions.size()) throw_invalid_argument(fmt::format("signature '{}' names no function", key));
  const Concrete& inner = functions_[function][0];
  SignatureExport signature;
  signature.key = key;
  const std::vector<TensorSpec> inputs = flat_arguments(model_.functions[function]);
  std::vector<std::string> input_names;
  for (const TensorSpec& input : inputs) input_names.push_back(input.name);
  if (std::set<std::string>(input_names.begin(), input_names.end()).size() != inputs.size()) {
    throw_invalid_argument(
        fmt::format("signature '{}': two inputs have the same name; name the inputs differently", key));
  }
  const auto input_order = sorted_order(input_names);
  for (std::size_t i : input_order) signature.inputs.push_back(inputs[i]);
  const std::vector<std::string> names = output_names(inner.outputs, key);
  const auto output_order = sorted_order(names);
  const auto call = [&](const Tensors& symbols) {
    Tensors arguments(inputs.size());
    for (std::size_t i = 0; i < symbols.size(); ++i) arguments[input_order[i]] = symbols[i];
    const Tensors results = graph::record_call(inner.traced, arguments);
    Tensors sorted;
    for (std::size_t i : output_order) sorted.push_back(results[i]);
    return sorted;
  };
  signature.wrapper.traced = graph::trace(function_name("signature_wrapper_" + key), call, signature.inputs);
  library_.add(signature.wrapper.traced.function);
  for (std::size_t i : output_order) {
    signature.outputs.push_back({inner.traced.outputs[i].shape, inner.traced.outputs[i].dtype, names[i]});
  }
  auto* both = signature.wrapper.input_signature.mutable_tuple_value();
  both->add_values()->mutable_tuple_value();
  auto& fields = *both->add_values()->mutable_dict_value()->mutable_fields();
  for (const TensorSpec& input : signature.inputs) write_spec(input, &fields[input.name]);
  auto& results = *signature.wrapper.output_signature.mutable_dict_value()->mutable_fields();
  for (const TensorSpec& output : signature.outputs) write_spec(output, &results[output.name]);
  signatures_.push_back(std::move(signature));
}

ObjectNode* Export::add_object(ObjectNode::Kind kind, std::size_t index) {
  owned_.push_back(std::make_unique<ObjectNode>());
  owned_.back()->kind = kind;
  owned_.back()->index = index;
  return owned_.back().get();
}

ObjectNode* Export::variable_object(const VariablePtr& variable) {
  ObjectNode*& node = variable_objects_[variable.get()];
  if (!node) {
    node = add_object(ObjectNode::Kind::kVariable);
    node->variable = variable;
  }
  return node;
}

ObjectNode* Export::tracked_object(const TrackedNode& tracked) {
  if (tracked.variable) return variable_object(tracked.variable);
  if (const auto known = tracked_objects_.find(&tracked); known != tracked_objects_.end()) return known->second;
  static constexpr ObjectNode::Kind kKinds[] = {ObjectNode::Kind::kObject, ObjectNode::Kind::kList,
                                                ObjectNode::Kind::kDict, ObjectNode::Kind::kTuple};
  ObjectNode* node = add_object(kKinds[static_cast<int>(tracked.kind)]);
  tracked_objects_.emplace(&tracked, node);
  for (const auto& [name, child] : tracked.children) node->children.emplace_back(name, tracked_object(*child));
  add_functions(tracked.functions, node);
  return node;
}

void Export::add_functions(const std::vector<std::pair<std::string, std::size_t>>& functions, ObjectNode* owner) {
  std::map<std::string, ObjectNode*> made;
  for (const auto& [name, index] : functions) {
    ObjectNode*& node = made[name];
    if (!node) node = add_object(ObjectNode::Kind::kFunction);
    node->functions.push_back(index);
  }
  owner->children.insert(owner->children.end(), made.begin(), made.end());
}

std::string table_name(std::size_t number) { return fmt::format("lookup_table_{}", number); }

ObjectNode* Export::table_function(const std::string& base, const std::function<Tensor()>& fn) {
  Concrete concrete;
  concrete.traced = graph::trace(function_name(base), [&](const Tensors&) { return Tensors{fn()}; }, {});
  write_input_signature({}, std::nullopt, &concrete.input_signature);
  write_spec({Shape{}, concrete.traced.outputs[0].dtype}, &concrete.output_signature);
  library_.merge(concrete.traced.library);
  library_.add(concrete.traced.function);
  table_functions_.push_back(std::move(concrete));
  return add_object(ObjectNode::Kind::kTableFunction, table_functions_.size() - 1);
}

// A table has a function that makes it and one that gives it its entries, which are constants of that function.
void Export::add_table(const std::shared_ptr<ops::TableResource>& table) {
  ObjectNode* node = add_object(ObjectNode::Kind::kTable);
  node->table = table;
  table_objects_.emplace(table.get(), node);
  const ops::Attrs attrs{{"key_dtype", table->key_dtype()},
                         {"value_dtype", table->value_dtype()},
                         {"shared_name", table_name(tables_.size())}};
  node->children.emplace_back("_create_resource", table_function("creator", [&] {
                                return graph::record_operation("HashTableV2", {}, attrs)[0];
                              }));
  node->children.emplace_back(
      "_initialize", table_function("initializer", [&] {
        const Tensors entries = table->export_all();
        graph::record_operation("InitializeTableV2", {Tensor::resource(table), entries[0], entries[1]});
        return Tensor::scalar(std::int32_t{1});
      }));
  tables_.push_back(node);
}

// Tables, and states of generators that are members of a layer without being tracked: a call would draw the same
// numbers each time without them.
void Export::add_captures(const Concrete& concrete) {
  for (const Tensor& capture : concrete.traced.captures) {
    const auto table = std::dynamic_pointer_cast<ops::TableResource>(capture.resource_value());
    if (table && table_objects_.count(table.get()) == 0) add_table(table);
    const auto variable = std::dynamic_pointer_cast<distribute::VariableImpl>(capture.resource_value());
    if (variable && variable_objects_.count(variable.get()) == 0 && variable->path().ends_with("/seed_generator_state"))
      generators_.push_back(variable_object(variable));
  }
}

ObjectNode* Export::variable_list(const std::function<bool(const VariablePtr&)>& wanted) {
  ObjectNode* list = add_object(ObjectNode::Kind::kList);
  for (const VariablePtr& variable : model_.variables) {
    if (wanted(variable)) list->children.emplace_back(std::to_string(list->children.size()), variable_object(variable));
  }
  return list;
}

void Export::build_objects() {
  ObjectNode* root = root_ = add_object(ObjectNode::Kind::kObject);
  const auto trainable = [](const VariablePtr& variable) { return variable->trainable(); };
  const auto frozen = [](const VariablePtr& variable) { return !variable->trainable(); };
  root->children.emplace_back("variables", variable_list([](const VariablePtr&) { return true; }));
  root->children.emplace_back("trainable_variables", variable_list(trainable));
  root->children.emplace_back("non_trainable_variables", variable_list(frozen));
  for (const auto& [name, node] : model_.tracked) root->children.emplace_back(name, tracked_object(*node));
  ObjectNode* losses = add_object(ObjectNode::Kind::kList);
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    losses->children.emplace_back(std::to_string(i), add_object(ObjectNode::Kind::kLoss, i));
  }
  root->children.emplace_back("regularization_losses", losses);
  for (const auto& traces : functions_) {
    for (const Concrete& concrete : traces) add_captures(concrete);
  }
  for (const Concrete& concrete : losses_) add_captures(concrete);
  for (std::size_t i = 0; i < tables_.size(); ++i) root->children.emplace_back(table_name(i), tables_[i]);
  for (std::size_t i = 0; i < generators_.size(); ++i)
    root->children.emplace_back(fmt::format("seed_generator_{}", i), generators_[i]);
  ObjectNode* signatures = add_object(ObjectNode::Kind::kSignatureMap);
  for (std::size_t i = 0; i < signatures_.size(); ++i) {
    signatures->children.emplace_back(signatures_[i].key, add_object(ObjectNode::Kind::kSignature, i));
  }
  root->children.emplace_back("signatures", signatures);
  std::vector<std::pair<std::string, std::size_t>> names;
  for (std::size_t i = 0; i < model_.functions.size(); ++i) {
    for (const std::string& name : model_.functions[i].names) names.emplace_back(name, i);
  }
  add_functions(names, root);
  std::set<std::string> taken;
  for (const auto& [name, child] : root->children) {
    if (!taken.insert(name).second)
      throw_invalid_argument(fmt::format("the exported model has two children named '{}'", name));
  }
}

void Export::number_objects() {
  std::deque<ObjectNode*> queue{root_};
  root_->id = 0;
  while (!queue.empty()) {
    ObjectNode* node = queue.front();
    queue.pop_front();
    objects_.push_back(node);
    if (node->kind == ObjectNode::Kind::kVariable) variables_.push_back(node);
    for (const auto& [name, child] : node->children) {
      if (child->id >= 0) continue;
      child->id = static_cast<int>(objects_.size() + queue.size());
      queue.push_back(child);
    }
  }
}

void Export::build_checkpoint_graph() {
  formats::CheckpointGraph graph;
  graph.nodes.resize(objects_.size());
  for (const ObjectNode* node : objects_) {
    for (const auto& [name, child] : node->children) graph.add_edge(node->id, name, child->id);
    if (node->kind == ObjectNode::Kind::kVariable) graph.set_variable(node->id, node->variable->path());
  }
  graph.assign_keys();
  for (const ObjectNode* node : variables_) {
    keys_.push_back(graph.nodes[static_cast<std::size_t>(node->id)].attribute(formats::kVariableValue)->key);
  }
  checkpoint_graph_ = graph.serialize();
}

const ObjectNode& Export::object_of(const Tensor& capture, const std::string& function) const {
  for (const auto* objects : {&variable_objects_, &table_objects_}) {
    if (const auto found = objects->find(capture.resource_value().get()); found != objects->end())
      return *found->second;
  }
  throw_failed_precondition(
      fmt::format("function '{}' uses '{}', which the exported model does not track; add it to the model's variables",
                  function, capture.resource_value()->resource_name()));
}

void Export::add_concrete(const Concrete& concrete, tensorflow::SavedObjectGraph* graph) const {
  const std::string& name = concrete.traced.function->name;
  auto& entry = (*graph->mutable_concrete_functions())[name];
  for (const Tensor& capture : concrete.traced.captures) entry.add_bound_inputs(object_of(capture, name).id);
  *entry.mutable_canonicalized_input_signature() = concrete.input_signature;
  *entry.mutable_output_signature() = concrete.output_signature;
}

void Export::write_objects(tensorflow::SavedObjectGraph* graph) const {
  for (const ObjectNode* node : objects_) write_object(*node, graph->add_nodes());
  for (const auto& traces : functions_) {
    for (const Concrete& concrete : traces) add_concrete(concrete, graph);
  }
  for (const auto* more : {&losses_, &table_functions_}) {
    for (const Concrete& concrete : *more) add_concrete(concrete, graph);
  }
  for (const SignatureExport& signature : signatures_) add_concrete(signature.wrapper, graph);
  for (const auto& [name, gradient] : gradients_) add_gradient(*gradient, graph);
}

// A function of the gradients of the node's outputs. Tensors that it captures are separate objects.
void Export::add_gradient(const graph::RegisteredGradient& gradient, tensorflow::SavedObjectGraph* graph) const {
  const auto function = library_.find(gradient.function);
  auto& entry = (*graph->mutable_concrete_functions())[gradient.function];
  for (const graph::RegisteredGradient::Capture& capture : gradient.captures) {
    if (capture.value.defined()) {
      entry.add_bound_inputs(object_of(capture.value, gradient.function).id);
      continue;
    }
    const graph::Node& node = library_.find(capture.function)->body.node(capture.output.node);
    entry.add_bound_inputs(graph->nodes_size());
    auto* captured = graph->add_nodes()->mutable_captured_tensor();
    captured->set_name(fmt::format("{}:{}", node.name, capture.output.output));
    captured->set_concrete_function(capture.function);
  }
  auto* both = entry.mutable_canonicalized_input_signature()->mutable_tuple_value();
  auto* positional = both->add_values()->mutable_tuple_value();
  positional->add_values()->mutable_none_value();  // the operation
  for (std::size_t i = 0; i < gradient.parts.size(); ++i) {
    const graph::Argument& argument = function->arguments[i];
    write_spec({argument.shape.value_or(Shape::unknown_rank()), argument.dtype, argument.user_name},
               positional->add_values());
  }
  both->add_values()->mutable_dict_value();
  auto* results = entry.mutable_output_signature()->mutable_list_value();
  for (const graph::RegisteredGradient::Part& part : gradient.parts) {
    if (part.values < 0) {
      results->add_values()->mutable_none_value();
    } else {
      const graph::Result& result = function->results[static_cast<std::size_t>(part.values)];
      write_spec({Shape::unknown_rank(), result.dtype}, results->add_values());
    }
  }
}

void Export::write_object(const ObjectNode& node, tensorflow::SavedObject* object) const {
  for (const auto& [name, child] : node.children) {
    auto* reference = object->add_children();
    reference->set_node_id(child->id);
    reference->set_local_name(name);
  }
  const auto user_object = [&](const char* identifier) {
    auto* user = object->mutable_user_object();
    user->set_identifier(identifier);
    user->mutable_version()->set_producer(1);
    user->mutable_version()->set_min_consumer(1);
  };
  switch (node.kind) {
    case ObjectNode::Kind::kObject: user_object("_generic_user_object"); break;
    case ObjectNode::Kind::kList: user_object("trackable_list_wrapper"); break;
    case ObjectNode::Kind::kDict: user_object("trackable_dict_wrapper"); break;
    case ObjectNode::Kind::kTuple: user_object("trackable_tuple_wrapper"); break;
    case ObjectNode::Kind::kSignatureMap: user_object("signature_map"); break;
    case ObjectNode::Kind::kVariable: {
      auto* variable = object->mutable_variable();
      variable->set_dtype(static_cast<tensorflow::DataType>(node.variable->dtype()));
      graph::shape_to_proto(node.variable->shape(), variable->mutable_shape());
      variable->set_trainable(node.variable->trainable());
      // A strategy turns AUTO into ON_WRITE: the same thing to whoever loads this.
      if (node.variable->synchronization() == distribute::VariableSynchronization::kOnRead) {
        variable->set_synchronization(tensorflow::VARIABLE_SYNCHRONIZATION_ON_READ);
      }
      variable->set_aggregation(static_cast<tensorflow::VariableAggregation>(node.variable->aggregation()));
      variable->set_name(node.variable->path());
      break;
    }
    case ObjectNode::Kind::kFunction: {
      const ExportFunction& function = model_.functions[node.functions[0]];
      auto* saved = object->mutable_function();
      for (const std::size_t index : node.functions) {
        for (const Concrete& concrete : functions_[index])
          saved->add_concrete_functions(concrete.traced.function->name);
      }
      std::vector<std::string> parameters;
      for (const auto& argument : function.arguments) parameters.push_back(argument.name);
      write_function_spec(parameters, function.takes_training, saved->mutable_function_spec());
      break;
    }
    case ObjectNode::Kind::kTable: object->mutable_resource(); break;
    case ObjectNode::Kind::kLoss:
    case ObjectNode::Kind::kTableFunction: {
      const auto& concretes = node.kind == ObjectNode::Kind::kLoss ? losses_ : table_functions_;
      object->mutable_function()->add_concrete_functions(concretes[node.index].traced.function->name);
      write_function_spec({}, false, object->mutable_function()->mutable_function_spec());
      break;
    }
    case ObjectNode::Kind::kSignature: {
      const SignatureExport& signature = signatures_[node.index];
      auto* bare = object->mutable_bare_concrete_function();
      bare->set_concrete_function_name(signature.wrapper.traced.function->name);
      for (const TensorSpec& input : signature.inputs) bare->add_argument_keywords(input.name);
      bare->set_allowed_positional_arguments(signature.inputs.size() == 1 ? 1 : 0);
      break;
    }
  }
}

}  // namespace lockstep::saved_model
