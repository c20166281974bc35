// while_loop and cond: plain C++ on values, nodes with functions while tracing.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/graph/truth_internal.h"
#include "lockstep/ops/table_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::graph {
namespace {

constexpr int kMaxShapeRounds = 8;  // each round forgets at least one dimension

Shape merged(const Shape& a, const Shape& b) {
  if (!a.known_rank() || !b.known_rank() || a.rank() != b.rank()) return Shape::unknown_rank();
  Shape out = a;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a[axis] != b[axis]) out[axis] = kUnknownDim;
  }
  return out;
}

const void* identity_of(const Tensor& capture) {
  if (!capture.is_symbolic()) return capture.resource_value().get();
  return capture.symbol_value().get();
}

// The captures of several inner functions without repetitions.
Tensors union_of(const std::vector<const Tracer::Finished*>& functions) {
  Tensors all;
  for (const Tracer::Finished* function : functions) {
    for (const Tensor& capture : function->captures) {
      const bool known = std::any_of(all.begin(), all.end(),
                                     [&](const Tensor& other) { return identity_of(other) == identity_of(capture); });
      if (!known) all.push_back(capture);
    }
  }
  return all;
}

// The same function taking all of `captures` after its `declared` arguments, and returning them too when asked.
std::shared_ptr<const Function> with_captures(const Tracer::Finished& finished, std::size_t declared,
                                              const Tensors& captures, bool return_captures) {
  const Function& old = *finished.function;
  auto out = std::make_shared<Function>();
  out->name = old.name;
  out->stateful = old.stateful;
  std::vector<int> place(static_cast<std::size_t>(old.body.size()), -1);
  const auto keep = [&](int id) {
    Node node = old.body.node(id);
    node.name = out->body.unique_name(node.name);
    place[static_cast<std::size_t>(id)] = out->body.add(std::move(node));
  };
  for (std::size_t i = 0; i < declared; ++i) {
    keep(static_cast<int>(i));
    out->arguments.push_back(old.arguments[i]);
  }
  for (std::size_t i = 0; i < captures.size(); ++i) {
    const auto same = std::find_if(finished.captures.begin(), finished.captures.end(),
                                   [&](const Tensor& own) { return identity_of(own) == identity_of(captures[i]); });
    Argument argument;
    if (same != finished.captures.end()) {
      const std::size_t at = declared + static_cast<std::size_t>(same - finished.captures.begin());
      argument = old.arguments[at];
      argument.name = fmt::format("capture_{}", i);
      keep(static_cast<int>(at));
    } else {
      argument.name = fmt::format("capture_{}", i);
      argument.dtype = captures[i].dtype();
      argument.shape = captures[i].shape();
      Node node;
      node.name = out->body.unique_name(argument.name);
      node.op = "_Arg";
      node.attrs.set("T", argument.dtype);
      out->body.add(std::move(node));
    }
    out->body.node(out->body.size() - 1).attrs.set("index", static_cast<std::int64_t>(declared + i));
    out->arguments.push_back(std::move(argument));
  }
  for (int id = 0; id < old.body.size(); ++id) {
    if (place[static_cast<std::size_t>(id)] < 0) keep(id);
  }
  for (int id = static_cast<int>(declared + captures.size()); id < out->body.size(); ++id) {
    for (Output& input : out->body.node(id).inputs) input.node = place[static_cast<std::size_t>(input.node)];
    for (int& control : out->body.node(id).control_inputs) control = place[static_cast<std::size_t>(control)];
  }
  for (int effect : old.effects) out->effects.push_back(place[static_cast<std::size_t>(effect)]);
  for (const Result& result : old.results) {
    out->results.push_back(
        {result.name, result.dtype, {place[static_cast<std::size_t>(result.value.node)], result.value.output}});
  }
  for (std::size_t i = 0; return_captures && i < captures.size(); ++i) {
    out->results.push_back({fmt::format("captured_{}", i), captures[i].dtype(), {static_cast<int>(declared + i), 0}});
  }
  return out;
}

Tensors record_call(Tracer& tracer, const std::string& op_name, const Tensors& inputs, ops::Attrs attrs) {
  const ops::Op* op = ops::Table::instance().find(op_name);
  return tracer.record(*op, inputs, ops::complete_attrs(*op->signature, inputs, std::move(attrs)));
}

struct Traced {
  Tracer::Finished finished;
  std::vector<TensorSpec> results;
};

Traced trace_inner(Tracer& outer, std::string_view kind, const std::function<Tensors(const Tensors&)>& fn,
                   const std::vector<TensorSpec>& specs) {
  const auto tracer = Tracer::create(outer.inner_name(kind));
  const TraceScope scope(tracer);
  Tensors symbols;
  for (const TensorSpec& spec : specs) symbols.push_back(tracer->input(spec));
  const Tensors results = fn(symbols);
  Traced traced;
  for (const Tensor& result : results) traced.results.push_back({result.shape(), result.dtype()});
  traced.finished = tracer->finish(results);
  return traced;
}

// Forgets dimensions of `specs` that `results` do not keep. True when something changed.
bool relax(std::vector<TensorSpec>& specs, const std::vector<TensorSpec>& results) {
  if (results.size() != specs.size()) {
    throw_invalid_argument(
        fmt::format("while_loop: the body returns {} tensors for {} loop variables", results.size(), specs.size()));
  }
  bool changed = false;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (results[i].dtype != specs[i].dtype) {
      throw_invalid_argument(fmt::format("while_loop: loop variable {} is {} and becomes {} in the body", i,
                                         dtype_name(specs[i].dtype), dtype_name(results[i].dtype)));
    }
    if (specs[i].dtype == DType::kVariant) continue;
    Shape shape = merged(specs[i].shape, results[i].shape);
    changed |= !(shape == specs[i].shape);
    specs[i].shape = std::move(shape);
  }
  return changed;
}

std::vector<TensorSpec> loop_specs(const Tensors& initial, const std::vector<Shape>& shapes) {
  std::vector<TensorSpec> specs;
  for (std::size_t i = 0; i < initial.size(); ++i) {
    specs.push_back({i < shapes.size() ? shapes[i] : initial[i].shape(), initial[i].dtype()});
    if (specs[i].dtype == DType::kVariant) specs[i].shape = Shape{};
  }
  return specs;
}

// TensorFlow's gradient of While expects two loop variables before all others: how many iterations are done, and at
// most how many there may be (-1: any number).
constexpr std::size_t kLeading = 2;

Tensors without_leading(const Tensors& variables) { return Tensors(variables.begin() + kLeading, variables.end()); }

Tensors traced_while(Tracer& outer, const std::function<Tensor(const Tensors&)>& cond,
                     const std::function<Tensors(const Tensors&)>& body, const Tensors& initial,
                     const std::vector<Shape>& given) {
  Tensors variables{Tensor::scalar(std::int32_t{0}), Tensor::scalar(std::int32_t{-1})};
  variables.insert(variables.end(), initial.begin(), initial.end());
  std::vector<Shape> shapes_given(given);
  if (!given.empty()) shapes_given.insert(shapes_given.begin(), kLeading, Shape{});
  const auto counted_body = [&](const Tensors& inputs) {
    Tensors results = body(without_leading(inputs));
    results.insert(results.begin(), {ops::call1("AddV2", {inputs[0], Tensor::scalar(std::int32_t{1})}), inputs[1]});
    return results;
  };
  std::vector<TensorSpec> specs = loop_specs(variables, shapes_given);
  Traced traced_body;
  for (int round = 0;; ++round) {
    traced_body = trace_inner(outer, "while_body", counted_body, specs);
    if (!relax(specs, traced_body.results)) break;
    if (round == kMaxShapeRounds) throw_internal("while_loop: the shapes of the loop variables do not settle");
  }
  const auto test = [&](const Tensors& inputs) { return Tensors{cond(without_leading(inputs))}; };
  const Traced traced_cond = trace_inner(outer, "while_cond", test, specs);
  const Tensors captures = union_of({&traced_cond.finished, &traced_body.finished});
  const auto cond_function = with_captures(traced_cond.finished, variables.size(), captures, false);
  const auto body_function = with_captures(traced_body.finished, variables.size(), captures, true);
  outer.add_function(cond_function, traced_cond.finished.library);
  outer.add_function(body_function, traced_body.finished.library);
  variables.insert(variables.end(), captures.begin(), captures.end());
  std::vector<Shape> shapes;
  for (const TensorSpec& spec : specs) shapes.push_back(spec.shape);
  for (const Tensor& capture : captures) shapes.push_back(capture.shape());
  const bool stateful = cond_function->stateful || body_function->stateful;
  Tensors results = record_call(outer, stateful ? "While" : "StatelessWhile", variables,
                                {{"cond", ops::FunctionName{cond_function->name, nullptr}},
                                 {"body", ops::FunctionName{body_function->name, nullptr}},
                                 {"output_shapes", shapes}});
  results.resize(kLeading + initial.size());
  return without_leading(results);
}

// While only shapes are inferred: one iteration of the body decides which dimensions stay constant.
Tensors inferred_while(const std::function<Tensors(const Tensors&)>& body, const Tensors& initial,
                       const std::vector<Shape>& given) {
  std::vector<TensorSpec> specs = loop_specs(initial, given);
  ScratchScope scratch;
  const auto symbols = [&] {
    Tensors inputs;
    for (const TensorSpec& spec : specs) inputs.push_back(scratch.input(spec));
    return inputs;
  };
  for (int round = 0; round < kMaxShapeRounds; ++round) {
    std::vector<TensorSpec> results;
    for (const Tensor& result : body(symbols())) results.push_back({result.shape(), result.dtype()});
    if (!relax(specs, results)) break;
  }
  return symbols();
}

bool any_symbolic(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) { return tensor.is_symbolic(); });
}

void check_branches(const std::vector<TensorSpec>& a, const std::vector<TensorSpec>& b) {
  bool equal = a.size() == b.size();
  for (std::size_t i = 0; equal && i < a.size(); ++i) equal = a[i].dtype == b[i].dtype;
  if (!equal) throw_invalid_argument("cond: the two branches return different numbers or dtypes of tensors");
}

std::vector<TensorSpec> specs_of(const Tensors& tensors) {
  std::vector<TensorSpec> specs;
  for (const Tensor& tensor : tensors) specs.push_back({tensor.shape(), tensor.dtype()});
  return specs;
}

}  // namespace

Tensors while_loop(const std::function<Tensor(const Tensors&)>& cond,
                   const std::function<Tensors(const Tensors&)>& body, const Tensors& initial,
                   const std::vector<Shape>& shapes) {
  if (Tracer* tracer = TraceScope::current(); tracer && ops::ScopedRecorder::active() == tracer) {
    return traced_while(*tracer, cond, body, initial, shapes);
  }
  if (ops::ScopedRecorder::active() || any_symbolic(initial)) return inferred_while(body, initial, shapes);
  Tensors variables = initial;
  while (is_true(cond(variables))) variables = body(variables);
  return variables;
}

Tensors cond(const Tensor& predicate, const std::function<Tensors()>& true_fn,
             const std::function<Tensors()>& false_fn) {
  if (!predicate.is_symbolic()) return is_true(predicate) ? true_fn() : false_fn();
  Tracer* tracer = TraceScope::current();
  if (!tracer || ops::ScopedRecorder::active() != tracer) {
    ScratchScope scratch;
    std::vector<TensorSpec> specs = specs_of(true_fn());
    const std::vector<TensorSpec> others = specs_of(false_fn());
    check_branches(specs, others);
    Tensors results;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      results.push_back(scratch.input(specs[i].dtype, merged(specs[i].shape, others[i].shape)));
    }
    return results;
  }
  const Traced then_branch = trace_inner(*tracer, "cond_true", [&](const Tensors&) { return true_fn(); }, {});
  const Traced else_branch = trace_inner(*tracer, "cond_false", [&](const Tensors&) { return false_fn(); }, {});
  check_branches(then_branch.results, else_branch.results);
  const Tensors captures = union_of({&then_branch.finished, &else_branch.finished});
  const auto then_function = with_captures(then_branch.finished, 0, captures, false);
  const auto else_function = with_captures(else_branch.finished, 0, captures, false);
  tracer->add_function(then_function, then_branch.finished.library);
  tracer->add_function(else_function, else_branch.finished.library);
  Tensors inputs{predicate};
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  std::vector<DType> types;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < then_branch.results.size(); ++i) {
    types.push_back(then_branch.results[i].dtype);
    shapes.push_back(merged(then_branch.results[i].shape, else_branch.results[i].shape));
  }
  const bool stateful = then_function->stateful || else_function->stateful;
  return record_call(*tracer, stateful ? "If" : "StatelessIf", inputs,
                     {{"then_branch", ops::FunctionName{then_function->name, nullptr}},
                      {"else_branch", ops::FunctionName{else_function->name, nullptr}},
                      {"Tout", types},
                      {"output_shapes", shapes}});
}

Tensors Tracer::record_while(const std::function<Tensor(const Tensors&)>& cond,
                             const std::function<Tensors(const Tensors&)>& body, const Tensors& initial) {
  return while_loop(cond, body, initial);
}

Tensors Tracer::record_cond(const Tensor& predicate, const std::function<Tensors()>& true_fn,
                            const std::function<Tensors()>& false_fn) {
  return graph::cond(predicate, true_fn, false_fn);
}

std::vector<ops::OutputType> Tracer::infer(const std::function<Tensors(const Tensors&)>& fn,
                                           const std::vector<ops::OutputType>& inputs) {
  std::vector<TensorSpec> specs;
  for (const ops::OutputType& input : inputs) specs.emplace_back(input.shape, input.dtype);
  std::vector<ops::OutputType> results;
  for (const TensorSpec& result : trace_inner(*this, "shapes", fn, specs).results)
    results.push_back({result.dtype, result.shape});
  return results;
}

}  // namespace lockstep::graph
