#include "lockstep/graph/trace_internal.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/infer_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {
namespace {

thread_local Tracer* t_tracer = nullptr;
thread_local std::string t_scope;

// Stateful by registration, but nothing that others could notice.
constexpr std::array<std::string_view, 12> kReads = {"ReadVariableOp",    "ResourceGather",     "ResourceGatherNd",
                                                     "VariableShape",     "VarIsInitializedOp", "DisableCopyOnRead",
                                                     "LookupTableFindV2", "LookupTableSizeV2",  "LookupTableExportV2",
                                                     "VarHandleOp",       "HashTableV2",        "MutableHashTableV2"};

bool only_reads(const std::string& op) { return std::find(kReads.begin(), kReads.end(), op) != kReads.end(); }

bool draws(const std::string& op) { return op.starts_with("Random") || op == "Multinomial" || op == "TruncatedNormal"; }

// `base`, `base_0`, `base_1`, … whichever none of `taken` has.
template <typename Named>
std::string unique_name(const std::vector<Named>& taken, const std::string& base) {
  const auto is_taken = [&](const std::string& name) {
    return std::any_of(taken.begin(), taken.end(), [&](const Named& item) { return item.name == name; });
  };
  if (!is_taken(base)) return base;
  for (int i = 0;; ++i) {
    std::string name = fmt::format("{}_{}", base, i);
    if (!is_taken(name)) return name;
  }
}

}  // namespace

std::string argument_name(std::string_view text) {
  std::string name;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    name.push_back(std::isalnum(byte) ? static_cast<char>(std::tolower(byte)) : '_');
  }
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0]))) name.insert(0, "a");
  return name;
}

ops::Recorder& Edge::recorder() const { return *tracer_; }

std::shared_ptr<Tracer> Tracer::create(std::string name) {
  return std::shared_ptr<Tracer>(new Tracer(std::move(name)));
}

Tensor Tracer::input(const TensorSpec& spec) {
  const std::string label = spec.name.empty() ? fmt::format("args_{}", declared_.size()) : spec.name;
  Argument argument;
  argument.user_name = label;
  argument.dtype = spec.dtype;
  argument.shape = spec.shape;
  argument.name = unique_name(function_->arguments, argument_name(label));
  Node node;
  node.name = function_->body.unique_name(argument.name);
  node.op = "_Arg";
  node.attrs.set("T", spec.dtype);
  const int id = function_->body.add(std::move(node));
  declared_.push_back(id);
  function_->arguments.push_back(std::move(argument));
  return Tensor::symbol(std::make_shared<Edge>(shared_from_this(), Output{id, 0}, spec.dtype, spec.shape));
}

bool Tracer::encloses(const Tracer* inner) const {
  for (const Tracer* tracer = inner ? inner->parent_ : nullptr; tracer; tracer = tracer->parent_) {
    if (tracer == this) return true;
  }
  return false;
}

int Tracer::capture(const Tensor& tensor, const void* identity, std::shared_ptr<Resource> resource, std::string name) {
  const auto known = capture_of_.find(identity);
  if (known != capture_of_.end()) return captured_[static_cast<std::size_t>(known->second)];
  Node node;
  node.name = function_->body.unique_name(argument_name(name));
  node.op = "_Arg";
  node.attrs.set("T", tensor.dtype());
  const int id = function_->body.add(std::move(node));
  capture_of_.emplace(identity, static_cast<int>(captured_.size()));
  captured_.push_back(id);
  captures_.push_back(tensor);
  if (resource) resource_of_.emplace(id, std::move(resource));
  return id;
}

Output Tracer::constant(const Tensor& value) {
  const void* identity = value.impl().get();
  if (const auto known = constant_of_.find(identity); known != constant_of_.end()) return {known->second, 0};
  Node node;
  node.name = function_->body.unique_name(NameScope::current() + "Const");
  node.op = "Const";
  node.attrs.set("dtype", value.dtype());
  node.attrs.set("value", value);
  const int id = function_->body.add(std::move(node));
  constant_of_.emplace(identity, id);
  kept_.push_back(value);
  return {id, 0};
}

Output Tracer::import_output(const Tensor& tensor) {
  if (!tensor.defined()) throw_invalid_argument("an undefined tensor cannot enter a traced function");
  if (!tensor.is_symbolic()) {
    if (tensor.dtype() == DType::kResource) {
      const auto& resource = tensor.resource_value();
      return {capture(tensor, resource.get(), resource, resource->resource_name() + "_resource"), 0};
    }
    if (!tensor.is_value()) throw_unimplemented("a TensorList made outside a traced function cannot be used inside it");
    return constant(tensor);
  }
  const auto edge = std::dynamic_pointer_cast<const Edge>(tensor.symbol_value());
  if (!edge) throw_invalid_argument("a symbolic tensor of a model under construction cannot enter a traced function");
  if (edge->tracer().get() == this) return edge->output();
  if (!edge->tracer()->encloses(this)) {
    throw_failed_precondition("a tensor of a traced function is used outside of that function; return it instead");
  }
  const void* identity = edge->resource ? static_cast<const void*>(edge->resource.get()) : edge.get();
  return {capture(tensor, identity, edge->resource, "captured"), 0};
}

Tensor Tracer::import(const Tensor& tensor) {
  const Output output = import_output(tensor);
  auto edge = std::make_shared<Edge>(shared_from_this(), output, tensor.dtype(), tensor.shape());
  if (const auto resource = resource_of_.find(output.node); resource != resource_of_.end()) {
    edge->resource = resource->second;
  }
  return Tensor::symbol(std::move(edge));
}

void Tracer::add_function(const std::shared_ptr<const Function>& function, const FunctionLibrary& library) {
  library_.merge(library);
  if (!library_.find(function->name)) library_.add(function);
}

void Tracer::order_effects(Node& node, int id, const ops::Op& op, std::span<const Tensor> inputs) {
  if (!op.signature->stateful) return;
  const bool reads = only_reads(op.signature->name);
  const auto after = [&](int earlier) {
    if (std::find(node.control_inputs.begin(), node.control_inputs.end(), earlier) == node.control_inputs.end()) {
      node.control_inputs.push_back(earlier);
    }
  };
  bool touches = false;
  for (const Tensor& input : inputs) {
    if (input.dtype() != DType::kResource) continue;
    touches = true;
    const Resource* resource = nullptr;
    if (!input.is_symbolic()) {
      resource = input.resource_value().get();
    } else if (const auto* edge = dynamic_cast<const Edge*>(input.symbol_value().get())) {
      resource = edge->resource.get();
    }
    if (const auto write = last_write_.find(resource); write != last_write_.end()) after(write->second);
    if (reads) {
      reads_since_[resource].push_back(id);
      continue;
    }
    for (int read : reads_since_[resource]) after(read);
    reads_since_[resource].clear();
    last_write_[resource] = id;
  }
  if (reads || draws(op.signature->name)) return;
  if (!touches) {
    if (last_effect_ >= 0) after(last_effect_);
    last_effect_ = id;
  }
  function_->effects.push_back(id);
}

Tensors Tracer::record(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs) {
  if (t_tracer && t_tracer != this && encloses(t_tracer)) return t_tracer->record(op, inputs, attrs);
  if (finished_) {
    throw_failed_precondition(fmt::format(
        "{}: a tensor of the traced function '{}' is used after tracing; return it from the function instead",
        op.signature->name, function_->name));
  }
  std::vector<Inferred> outputs = graph::infer(op, inputs, attrs);
  if (auto values = fold(op, inputs, attrs, outputs)) return *std::move(values);
  Node node;
  node.name = function_->body.unique_name(NameScope::current() + op.signature->name);
  node.op = op.signature->name;
  node.attrs = attrs;
  for (const Tensor& input : inputs) node.inputs.push_back(import_output(input));
  const int id = function_->body.size();
  order_effects(node, id, op, inputs);
  function_->body.add(std::move(node));
  Tensors symbols;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto edge = std::make_shared<Edge>(shared_from_this(), Output{id, static_cast<int>(i)}, outputs[i].dtype,
                                       std::move(outputs[i].shape));
    edge->as_shape = std::move(outputs[i].as_shape);
    symbols.push_back(Tensor::symbol(std::move(edge)));
  }
  return symbols;
}

Tensors Tracer::record_gradient(const Tensors& results, const Tensors& arguments, const Gradient& gradient) {
  if (t_tracer && t_tracer != this && encloses(t_tracer))
    return t_tracer->record_gradient(results, arguments, gradient);
  Tensors all = results;
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<DType> types;
  for (const Tensor& each : all) types.push_back(each.dtype());
  const Tensors outputs = record(*ops::Table::instance().find("IdentityN"), all, ops::Attrs{{"T", types}});
  const auto first =
      std::dynamic_pointer_cast<const Edge>(outputs[0].is_symbolic() ? outputs[0].symbol_value() : nullptr);
  if (!first) return results;  // of values alone
  CustomGradient made{first->output().node, results.size(), arguments.size(), nullptr, {}};
  const auto inner = create(inner_name("gradient"));
  {
    const TraceScope scope(inner);
    Tensors dys;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Tensor dy = inner->input({all[i].shape(), all[i].dtype(), fmt::format("result_grads_{}", i)});
      if (i < results.size()) dys.push_back(dy);
    }
    const Tensors slopes = gradient(dys);
    Finished finished = inner->finish(slopes);
    add_function(finished.function, finished.library);
    made.function = std::move(finished.function);
    made.captures = std::move(finished.captures);
  }
  function_->body.node(made.node).gradient = made.function->name;
  custom_gradients_.push_back(std::move(made));
  return {outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(results.size())};
}

std::vector<Output> Tracer::captured_by_gradients(const std::vector<char>& needed) {
  std::vector<Output> outputs;
  for (const CustomGradient& each : custom_gradients_) {
    if (!needed[static_cast<std::size_t>(each.node)]) continue;
    for (const Tensor& capture : each.captures) {
      if (capture.is_symbolic() && capture.dtype() != DType::kResource) outputs.push_back(import_output(capture));
    }
  }
  return outputs;
}

void Tracer::register_gradients(const std::vector<char>& needed, const std::vector<int>& place) {
  for (const CustomGradient& each : custom_gradients_) {
    if (!needed[static_cast<std::size_t>(each.node)]) continue;
    RegisteredGradient gradient;
    gradient.function = each.function->name;
    for (const Tensor& capture : each.captures) {
      RegisteredGradient::Capture& made = gradient.captures.emplace_back();
      if (!capture.is_symbolic()) {
        made.value = capture;
      } else if (const auto edge = std::dynamic_pointer_cast<const Edge>(capture.symbol_value()); edge->resource) {
        made.value = Tensor::resource(edge->resource);
      } else {
        const Output output = import_output(capture);
        made.function = function_->name;
        made.output = {place[static_cast<std::size_t>(output.node)], output.output};
      }
    }
    gradient.parts.resize(each.results + each.arguments);
    for (std::size_t i = 0; i < each.arguments; ++i) gradient.parts[each.results + i].values = static_cast<int>(i);
    library_.register_gradient(each.function->name, std::move(gradient));
  }
}

std::string Tracer::inner_name(std::string_view kind) {
  Tracer* root = this;
  while (root->parent_) root = root->parent_;
  return fmt::format("{}_{}_{}", kind, root->function_->name, root->inner_functions_++);
}

Tracer::Finished Tracer::finish(const Tensors& results, const std::vector<std::string>& names) {
  std::vector<Output> values;
  for (const Tensor& result : results) values.push_back(import_output(result));
  std::vector<char> needed(static_cast<std::size_t>(function_->body.size()), 0);
  std::vector<int> stack = function_->effects;
  for (const Output& value : values) stack.push_back(value.node);
  const auto mark = [&] {
    while (!stack.empty()) {
      const int id = stack.back();
      stack.pop_back();
      if (std::exchange(needed[static_cast<std::size_t>(id)], 1)) continue;
      for (const Output& input : function_->body.node(id).inputs) stack.push_back(input.node);
      for (int control : function_->body.node(id).control_inputs) stack.push_back(control);
    }
  };
  mark();
  for (const Output& captured : captured_by_gradients(needed)) stack.push_back(captured.node);
  needed.resize(static_cast<std::size_t>(function_->body.size()), 0);
  mark();
  const Graph body = std::move(function_->body);

  Finished finished;
  Graph kept;
  std::vector<int> place(static_cast<std::size_t>(body.size()), -1);
  const auto keep = [&](int id) { place[static_cast<std::size_t>(id)] = kept.add(body.node(id)); };
  for (int id : declared_) keep(id);
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    const int id = captured_[i];
    if (!needed[static_cast<std::size_t>(id)]) continue;
    Argument argument;
    argument.name = unique_name(function_->arguments, body.node(id).name);
    argument.dtype = captures_[i].dtype();
    argument.shape = captures_[i].shape();
    if (VariableResource* variable = variable_of(captures_[i])) {
      argument.handle = TensorSpec(variable->shape(), variable->dtype());
    }
    function_->arguments.push_back(std::move(argument));
    finished.captures.push_back(captures_[i]);
    keep(id);
  }
  const int arguments = kept.size();
  for (int id = 0; id < body.size(); ++id) {
    if (needed[static_cast<std::size_t>(id)] && place[static_cast<std::size_t>(id)] < 0) keep(id);
  }
  for (int id = 0; id < kept.size(); ++id) {
    Node& node = kept.node(id);
    if (id < arguments) node.attrs.set("index", std::int64_t{id});
    for (Output& input : node.inputs) input.node = place[static_cast<std::size_t>(input.node)];
    for (int& control : node.control_inputs) control = place[static_cast<std::size_t>(control)];
    const ops::Op* op = id < arguments ? nullptr : ops::Table::instance().find(node.op);
    function_->stateful |= op && op->signature->stateful;
  }
  for (int& effect : function_->effects) effect = place[static_cast<std::size_t>(effect)];
  register_gradients(needed, place);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool named = i < names.size() && !names[i].empty();
    const std::string name =
        unique_name(function_->results, argument_name(named ? names[i] : fmt::format("output_{}", i)));
    const Output value{place[static_cast<std::size_t>(values[i].node)], values[i].output};
    function_->results.push_back({name, results[i].dtype(), value});
  }
  function_->body = std::move(kept);
  finished_ = true;
  finished.function = function_;
  finished.library = std::move(library_);
  return finished;
}

TraceScope::TraceScope(const std::shared_ptr<Tracer>& tracer)
    : tracer_(tracer), previous_(t_tracer), recorder_(tracer.get()) {
  tracer->parent_ = previous_;
  t_tracer = tracer.get();
}

TraceScope::~TraceScope() {
  t_tracer = previous_;
  tracer_->parent_ = nullptr;
}
Tracer* TraceScope::current() { return t_tracer; }

NameScope::NameScope(std::string_view name) : previous_(t_scope.size()) {
  t_scope.append(name);
  t_scope.push_back('/');
}
NameScope::~NameScope() { t_scope.resize(previous_); }
const std::string& NameScope::current() { return t_scope; }

TracedFunction trace(const std::string& name, const std::function<Tensors(const Tensors&)>& fn,
                     const std::vector<TensorSpec>& inputs, const std::vector<std::string>& output_names) {
  const auto tracer = Tracer::create(name);
  TracedFunction traced;
  traced.inputs = inputs;
  Tracer::Finished finished;
  {
    const TraceScope scope(tracer);
    Tensors symbols;
    for (const TensorSpec& spec : inputs) symbols.push_back(tracer->input(spec));
    const Tensors results = fn(symbols);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].defined()) throw_invalid_argument(fmt::format("{}: result {} is undefined", name, i));
      traced.outputs.push_back(
          {results[i].shape(), results[i].dtype(), i < output_names.size() ? output_names[i] : ""});
    }
    finished = tracer->finish(results, output_names);
  }
  traced.function = std::move(finished.function);
  traced.captures = std::move(finished.captures);
  traced.library = std::move(finished.library);
  return traced;
}

Tensors record_call(const TracedFunction& function, const Tensors& inputs) {
  Tracer* tracer = TraceScope::current();
  if (!tracer)
    throw_failed_precondition(fmt::format("'{}' can be recorded only inside a trace", function.function->name));
  tracer->add_function(function.function, function.library);
  Tensors arguments = inputs;
  arguments.insert(arguments.end(), function.captures.begin(), function.captures.end());
  std::vector<DType> types;
  for (const Result& result : function.function->results) types.push_back(result.dtype);
  return record_operation(function.function->stateful ? "StatefulPartitionedCall" : "PartitionedCall", arguments,
                          {{"f", ops::FunctionName{function.function->name, nullptr}}, {"Tout", types}});
}

Tensors record_operation(std::string_view name, const Tensors& inputs, ops::Attrs attrs) {
  Tracer* tracer = TraceScope::current();
  const ops::Op* op = ops::Table::instance().find(name);
  if (!tracer || !op) throw_failed_precondition(fmt::format("'{}' can be recorded only inside a trace", name));
  return tracer->record(*op, inputs, ops::complete_attrs(*op->signature, inputs, std::move(attrs)));
}

}  // namespace lockstep::graph
