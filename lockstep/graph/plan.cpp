#include "lockstep/graph/plan_internal.h"

#include <algorithm>
#include <new>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/compiled_internal.h"
#include "lockstep/graph/late_reads_internal.h"
#include "lockstep/graph/reciprocals_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/check_internal.h"
#include "lockstep/ops/random_scope_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {
namespace {

bool is_dataflow(const std::string& op) {
  static const std::set<std::string> names = {"_SwitchN", "Switch",        "Merge",    "Enter",
                                              "Exit",     "NextIteration", "LoopCond", "RefSwitch",
                                              "RefMerge", "RefEnter",      "RefExit",  "RefNextIteration"};
  return names.contains(op);
}

bool is_reference(const Tensor& tensor) { return tensor.dtype() == DType::kResource; }

bool gives_reference(const Node& node) {
  const ops::Op* op = ops::Table::instance().find(node.op);
  return op && std::any_of(op->signature->outputs.begin(), op->signature->outputs.end(),
                           [](const ops::ArgDef& arg) { return arg.is_ref; });
}

// A fetched reference is the value of its variable at the end.
Tensors with_values(const Graph& graph, const std::vector<Output>& fetches, Tensors results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (gives_reference(graph.node(fetches[i].node))) results[i] = dereferenced(results[i]);
  }
  return results;
}

bool has_resource_inputs(const ops::Signature& signature) {
  return std::any_of(signature.inputs.begin(), signature.inputs.end(), [](const ops::ArgDef& arg) {
    return arg.dtype == DType::kResource || !arg.type_list_attr.empty();
  });
}

// The half of a call's contract that no run changes: attributes, and the number of inputs and their dtypes.
void check_once(Step& step, const std::string& what) {
  const ops::Signature& signature = *step.op->signature;
  try {
    for (const auto& [name, value] : step.attrs.items()) {
      if (signature.find_attr(name) || name.starts_with("_")) continue;  // files give none with such a name
      throw_unimplemented(
          fmt::format("{} has the attribute '{}', which it does not have in TensorFlow 2.21: the file is of a newer "
                      "version; export it with an older one, or without this option",
                      signature.name, name));
    }
    ops::check_attrs(signature, step.attrs);
    step.input_types = ops::input_types(signature, step.attrs);
    if (step.node->inputs.size() != step.input_types.size()) {
      throw_invalid_argument(fmt::format("{} takes {} inputs, {} given", signature.name, step.input_types.size(),
                                         step.node->inputs.size()));
    }
  } catch (const Error& error) {
    throw_error(error.code(), fmt::format("{} [node '{}' of {}]", error.message(), step.node->name, what));
  }
}

// The half that each run checks; for operations of the op table run_kernel() checks the shapes. An executor operation
// reads references to V1 variables itself.
void check_inputs(const Step& step, const Tensors& inputs) {
  for (std::size_t i = 0; i < step.input_types.size(); ++i) {
    const DType found = inputs[i].defined() ? inputs[i].dtype() : DType::kInvalid;
    if (found == step.input_types[i] || (step.executor_op && found == DType::kResource)) continue;
    throw_invalid_argument(fmt::format("{}: input {} is {}, expected {}", step.node->op, i,
                                       found == DType::kInvalid ? "missing" : dtype_name(found),
                                       dtype_name(step.input_types[i])));
  }
  if (step.executor_op && step.op) ops::check_shapes(*step.op->signature, inputs, step.attrs);
}

}  // namespace

template <typename T>
const T& Step::attr(std::string_view name) const {
  const ops::Attr* value = attrs.find(name);
  if (!value) throw_invalid_argument(fmt::format("attribute '{}' is missing", name));
  const T* typed = std::get_if<T>(value);
  if (!typed) throw_invalid_argument(fmt::format("attribute '{}' has the wrong type", name));
  return *typed;
}

template const std::int64_t& Step::attr<std::int64_t>(std::string_view) const;
template const bool& Step::attr<bool>(std::string_view) const;
template const std::string& Step::attr<std::string>(std::string_view) const;
template const DType& Step::attr<DType>(std::string_view) const;
template const Shape& Step::attr<Shape>(std::string_view) const;
template const Tensor& Step::attr<Tensor>(std::string_view) const;
template const ops::FunctionName& Step::attr<ops::FunctionName>(std::string_view) const;
template const std::vector<std::int64_t>& Step::attr<std::vector<std::int64_t>>(std::string_view) const;
template const std::vector<std::string>& Step::attr<std::vector<std::string>>(std::string_view) const;
template const std::vector<DType>& Step::attr<std::vector<DType>>(std::string_view) const;
template const std::vector<Shape>& Step::attr<std::vector<Shape>>(std::string_view) const;
template const std::vector<ops::FunctionName>& Step::attr<std::vector<ops::FunctionName>>(std::string_view) const;

namespace {

std::vector<char> marks(const Graph& graph, const std::vector<Output>& outputs) {
  std::vector<char> marked(graph.nodes().size(), 0);
  for (const Output& output : outputs) marked[static_cast<std::size_t>(output.node)] = 1;
  return marked;
}

std::optional<Graph> changed_graph(const Graph& graph, const std::vector<char>& fed, const std::vector<Output>& fetches,
                                   const std::vector<int>& targets) {
  std::optional<Graph> late = with_late_reads(graph, fed, fetches, targets);
  std::optional<Graph> both = with_reciprocals(late ? *late : graph, fed);
  return both ? std::move(both) : std::move(late);
}

}  // namespace

Plan::Plan(const Graph& graph, const FunctionLibrary& library, const std::vector<Output>& feeds,
           const std::vector<Output>& fetches, const std::vector<int>& targets, std::string what)
    : compiled_(std::make_unique<CompiledPlan>()),
      what_(std::move(what)),
      original_(graph),
      fed_(marks(graph, feeds)),
      changed_(changed_graph(graph, fed_, fetches, targets)),
      graph_(changed_ ? *changed_ : graph),
      library_(library),
      feeds_(feeds),
      fetches_(fetches) {
  fed_.resize(graph_.nodes().size(), 0);
  select(fetches, targets);
  build_steps();
  number_values();
  if (!dataflow_) {
    order();
    find_last_uses();
    find_small_regions();
  }
}

Plan::~Plan() = default;

std::optional<Tensors> Plan::run_compiled(const Tensors& feeds, RunContext& context) const {
  if (feeds.size() != feeds_.size()) return std::nullopt;
  auto results = compiled_->run(*this, feeds, context);
  return results ? std::optional(with_values(graph_, fetches_, std::move(*results))) : std::nullopt;
}

// The nodes that the fetches and targets need. A fed node runs only if another of its outputs is needed; feeding
// covers all outputs, as graphs from exporters feed placeholders.
void Plan::select(const std::vector<Output>& fetches, const std::vector<int>& targets) {
  needed_.assign(graph_.nodes().size(), 0);
  for_gradients_.assign(graph_.nodes().size(), 0);
  std::vector<int> stack = targets, captured;
  for (const Output& fetch : fetches) stack.push_back(fetch.node);
  for (char for_gradients = 0; !stack.empty(); for_gradients = 1) {
    while (!stack.empty()) {
      const int id = stack.back();
      stack.pop_back();
      if (std::exchange(needed_[static_cast<std::size_t>(id)], 1)) continue;
      for_gradients_[static_cast<std::size_t>(id)] = for_gradients;
      if (fed_[static_cast<std::size_t>(id)]) continue;
      const Node& node = graph_.node(id);
      dataflow_ |= is_dataflow(node.op);
      for (const Output& input : node.inputs) stack.push_back(input.node);
      for (int control : node.control_inputs) stack.push_back(control);
      for (const Output& capture : captures_of(node)) captured.push_back(capture.node);
    }
    stack.swap(captured);
  }
}

std::vector<Output> Plan::captures_of(const Node& node) const {
  std::vector<Output> outputs;
  const auto gradient = node.gradient.empty() ? nullptr : library_.find_gradient(node.gradient);
  if (!gradient) return outputs;
  for (const RegisteredGradient::Capture& capture : gradient->captures) {
    const auto function = capture.function.empty() ? nullptr : library_.find(capture.function);
    if (function && &function->body == &original_) outputs.push_back(capture.output);
  }
  return outputs;
}

void Plan::build_steps() {
  steps_.resize(graph_.nodes().size());
  std::set<std::string> missing, unknown;
  for (int id = 0; id < graph_.size(); ++id) {
    if (!needed_[static_cast<std::size_t>(id)] || fed_[static_cast<std::size_t>(id)]) continue;
    const Node& node = graph_.node(id);
    Step& step = steps_[static_cast<std::size_t>(id)];
    step.node = &node;
    step.attrs = node.attrs;
    step.executor_op = find_executor_op(node.op);
    step.op = ops::Table::instance().find(node.op);
    step.for_gradients = for_gradients_[static_cast<std::size_t>(id)];
    if (!node.gradient.empty()) step.registered_gradient = library_.find_gradient(node.gradient);
    if (step.op) {
      check_once(step, what_);
      step.takes_references = !step.executor_op && !has_resource_inputs(*step.op->signature);
    }
    const bool runs = step.executor_op || (step.op && step.op->kernel) || library_.find(node.op) ||
                      node.op == "Const" || is_dataflow(node.op);
    if (!runs) (step.op ? missing : unknown).insert(node.op);
  }
  if (!unknown.empty()) {
    throw_unimplemented(fmt::format(
        "{}: unknown operation{} {}: of a TensorFlow newer than 2.21, of a library of custom operations, or "
        "a function that the file lacks{}; export the model without {}",
        what_, unknown.size() == 1 ? "" : "s", fmt::join(unknown, ", "),
        missing.empty() ? "" : fmt::format("; not implemented: {}", fmt::join(missing, ", ")),
        unknown.size() == 1 ? "it" : "them"));
  }
  if (missing.empty()) return;
  throw_unimplemented(fmt::format("{}: {} not implemented: {}", what_,
                                  missing.size() == 1 ? "this operation is" : "these operations are",
                                  fmt::join(missing, ", ")));
}

int Plan::outputs_of(const Node& node) const {
  const ops::Op* op = ops::Table::instance().find(node.op);
  if (!op) {
    const auto function = library_.find(node.op);
    return function ? static_cast<int>(function->results.size()) : 1;
  }
  const Step& step = steps_[static_cast<std::size_t>(&node - graph_.nodes().data())];
  std::size_t count = 0;
  for (const ops::ArgDef& arg : op->signature->outputs) count += ops::list_length(*op->signature, arg, step.attrs);
  return static_cast<int>(count);
}

void Plan::number_values() {
  first_value_.assign(graph_.nodes().size(), -1);
  for (int id = 0; id < graph_.size(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    if (!needed_[at]) continue;
    first_value_[at] = num_values_;
    int count = 1;
    if (fed_[at]) {
      for (const Output& feed : feeds_) count = feed.node == id ? std::max(count, feed.output + 1) : count;
    } else {
      count = outputs_of(graph_.node(id));
    }
    steps_[at].first_output = num_values_;
    steps_[at].num_outputs = count;
    num_values_ += count;
  }
  const auto value_of = [&](const Output& output, const std::string& user) {
    const Step& source = steps_[static_cast<std::size_t>(output.node)];
    if (output.output < 0 || output.output >= source.num_outputs) {
      throw_invalid_argument(fmt::format("{}: node '{}' has {} outputs; output {} is requested by '{}'", what_,
                                         graph_.node(output.node).name, source.num_outputs, output.output, user));
    }
    return source.first_output + output.output;
  };
  for (int id = 0; id < graph_.size(); ++id) {
    Step& step = steps_[static_cast<std::size_t>(id)];
    if (!step.node) continue;
    for (const Output& input : step.node->inputs) step.inputs.push_back(value_of(input, step.node->name));
    for (const Output& capture : captures_of(*step.node)) step.inputs.push_back(value_of(capture, step.node->name));
    if (step.node->op == "Const") {
      if (!step.attrs.find("value")) {
        throw_failed_precondition(
            fmt::format("{}: node '{}' is a constant without a readable value", what_, step.node->name));
      }
      if (!dataflow_) constants_.emplace_back(step.first_output, step.attr<Tensor>("value"));
    }
  }
  for (const Output& fetch : fetches_) value_of(fetch, "the caller");
}

// Kahn's algorithm; among ready nodes the one written first goes first.
void Plan::order() {
  std::vector<int> waiting(graph_.nodes().size(), 0);
  std::vector<std::vector<int>> users(graph_.nodes().size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int id = 0; id < graph_.size(); ++id) {
    const Step& step = steps_[static_cast<std::size_t>(id)];
    if (!step.node) continue;
    const auto wait_for = [&](int source) {
      if (!steps_[static_cast<std::size_t>(source)].node) return;
      users[static_cast<std::size_t>(source)].push_back(id);
      ++waiting[static_cast<std::size_t>(id)];
    };
    for (const Output& input : step.node->inputs) wait_for(input.node);
    for (const Output& capture : captures_of(*step.node)) wait_for(capture.node);
    for (int control : step.node->control_inputs) wait_for(control);
    if (waiting[static_cast<std::size_t>(id)] == 0) ready.push(id);
  }
  while (!ready.empty()) {
    const int id = ready.top();
    ready.pop();
    if (graph_.node(id).op != "Const") order_.push_back(id);
    for (int user : users[static_cast<std::size_t>(id)]) {
      if (--waiting[static_cast<std::size_t>(user)] == 0) ready.push(user);
    }
  }
}

void Plan::find_last_uses() {
  std::vector<char> done(static_cast<std::size_t>(num_values_), 0);
  for (const Output& fetch : fetches_) {
    done[static_cast<std::size_t>(steps_[static_cast<std::size_t>(fetch.node)].first_output + fetch.output)] = 1;
  }
  for (auto at = order_.rbegin(); at != order_.rend(); ++at) {
    Step& step = steps_[static_cast<std::size_t>(*at)];
    const auto drop = [&](int value) {
      if (!std::exchange(done[static_cast<std::size_t>(value)], 1)) step.last_uses.push_back(value);
    };
    for (int i = 0; i < step.num_outputs; ++i) drop(step.first_output + i);
    step.takes.assign(step.inputs.size(), 0);
    for (std::size_t i = step.inputs.size(); i-- > 0;) {
      step.takes[i] = !done[static_cast<std::size_t>(step.inputs[i])];
      drop(step.inputs[i]);
    }
  }
}

namespace {

// Of operations that draw random numbers, or call functions that do.
std::optional<ops::RandomScope> random_scope(const Step& step) {
  const bool may_draw = !step.op || step.executor_op || step.op->signature->stateful;
  if (!may_draw || !ops::RandomScope::active()) return std::nullopt;
  return std::optional<ops::RandomScope>(std::in_place, step.node->name);
}

Tensors run_operation(const Step& step, const Tensors& inputs, RunContext& context) {
  if (!step.op && !step.executor_op) return call_function(step.node->op, inputs, context);
  if (step.takes_references && std::any_of(inputs.begin(), inputs.end(), is_reference)) {
    Tensors values;
    for (const Tensor& input : inputs) values.push_back(dereferenced(input));
    check_inputs(step, values);
    return context.recording ? ops::call(step.node->op, values, step.attrs)
                             : ops::run_kernel(*step.op, values, step.attrs);
  }
  check_inputs(step, inputs);
  if (step.executor_op) return step.executor_op(step, inputs, context);
  if (context.recording) return ops::call(step.node->op, inputs, step.attrs);
  return ops::run_kernel(*step.op, inputs, step.attrs);
}

Tensors run_unnamed(const Step& step, const Tensors& inputs, RunContext& context) {
  context.budget.begin_step(step.node->name);
  const auto scope = random_scope(step);
  return step.node->gradient.empty() ? run_operation(step, inputs, context)
                                     : run_with_named_gradient(step, inputs, context, run_operation);
}

}  // namespace

Tensors run_step(const Step& step, const Tensors& inputs, RunContext& context, const std::string& what) {
  const auto named = [&](std::string_view message) {
    return fmt::format("{} [node '{}' of {}]", message, step.node->name, what);
  };
  try {
    Tensors outputs = run_unnamed(step, inputs, context);
    if (static_cast<int>(outputs.size()) != step.num_outputs) {
      throw_invalid_argument(
          fmt::format("{} gave {} outputs, expected {}", step.node->op, outputs.size(), step.num_outputs));
    }
    return outputs;
  } catch (const Error& error) {
    if (error.message().find("[node ") != std::string::npos) throw;
    throw_error(error.code(), named(error.message()));
  } catch (const std::bad_alloc&) {
    throw_resource_exhausted(named(fmt::format("{}: out of memory", step.node->op)));
  } catch (const std::exception& error) {
    throw_internal(named(fmt::format("{}: {}", step.node->op, error.what())));
  }
}

Tensors Plan::run(Tensors feeds, RunContext& context) const {
  if (feeds.size() != feeds_.size()) {
    throw_invalid_argument(fmt::format("{}: {} inputs given, expected {}", what_, feeds.size(), feeds_.size()));
  }
  const RunBudget::Call call(context.budget, what_);
  std::optional<ops::RandomScope> scope;
  if (ops::RandomScope::active()) scope.emplace(what_);
  return with_values(graph_, fetches_,
                     dataflow_ ? run_as_dataflow(feeds, context) : run_in_order(std::move(feeds), context));
}

void Plan::run_one(const Step& step, Tensors& values, Tensors& inputs, RunContext& context) const {
  inputs.clear();
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    Tensor& value = values[static_cast<std::size_t>(step.inputs[i])];
    inputs.push_back(step.takes[i] ? std::move(value) : value);
  }
  Tensors outputs = run_step(step, inputs, context, what_);
  for (int i = 0; i < step.num_outputs; ++i) {
    values[static_cast<std::size_t>(step.first_output + i)] = std::move(outputs[static_cast<std::size_t>(i)]);
  }
  for (int value : step.last_uses) values[static_cast<std::size_t>(value)] = Tensor();
}

Tensors Plan::run_in_order(Tensors feeds, RunContext& context) const {
  Tensors values(static_cast<std::size_t>(num_values_));
  for (const auto& [value, tensor] : copied_constants_) values[static_cast<std::size_t>(value)] = tensor;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const int first = first_value_[static_cast<std::size_t>(feeds_[i].node)];
    if (first >= 0) values[static_cast<std::size_t>(first + feeds_[i].output)] = std::move(feeds[i]);
  }
  Tensors inputs;
  const bool gradients = ops::grad_enabled() && !context.recording;
  for (const int item : schedule_) {
    if (item >= 0) {
      const Step& step = steps_[static_cast<std::size_t>(item)];
      if (gradients || !step.for_gradients) {
        run_one(step, values, inputs, context);
      } else {
        for (const int value : step.last_uses) values[static_cast<std::size_t>(value)] = Tensor();
      }
      continue;
    }
    const SmallRegion& region = regions_[static_cast<std::size_t>(~item)];
    if (run_region(region, values, context)) continue;
    for (const auto& [value, tensor] : region.constants) values[static_cast<std::size_t>(value)] = tensor;
    for (const int id : region.steps) run_one(steps_[static_cast<std::size_t>(id)], values, inputs, context);
  }
  Tensors results;
  for (const Output& fetch : fetches_) {
    results.push_back(
        values[static_cast<std::size_t>(first_value_[static_cast<std::size_t>(fetch.node)] + fetch.output)]);
  }
  return results;
}

}  // namespace lockstep::graph
