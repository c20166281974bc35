// The operations that the executor does itself: calls, control flow, variables by name, side effects.
#include <algorithm>
#include <functional>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/graph/collective_ops_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/graph/plan_internal.h"
#include "lockstep/graph/queues_internal.h"
#include "lockstep/graph/serialized_tensor_internal.h"
#include "lockstep/graph/tables_internal.h"
#include "lockstep/graph/truth_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"

namespace lockstep::graph {
namespace {

// A variable that a graph names and nobody has made: filled by Assign or a restore.
class GraphVariable : public VariableResource {
 public:
  GraphVariable(std::string name, DType dtype, Shape shape)
      : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)) {}

  std::string resource_name() const override { return name_; }
  DType dtype() const override { return dtype_; }
  Shape shape() const override {
    const Tensor now = value();
    return now.defined() && shape_.fully_known() ? now.shape() : shape_;
  }
  bool is_initialized() const override { return value().defined(); }
  Tensor read() override {
    Tensor now = value();
    if (!now.defined()) throw_failed_precondition(fmt::format("variable '{}' is used before it has a value", name_));
    return now;
  }
  void assign(const Tensor& value) override {
    if (value.dtype() != dtype_) {
      throw_invalid_argument(fmt::format("variable '{}' is {}; a value of {} cannot be assigned to it", name_,
                                         dtype_name(dtype_), dtype_name(value.dtype())));
    }
    const std::lock_guard lock(mutex_);
    value_ = value;
  }

 private:
  Tensor value() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

  const std::string name_;
  const DType dtype_;
  const Shape shape_;
  mutable std::mutex mutex_;
  Tensor value_;
};

std::string shared_name(const Step& step, bool or_node_name) {
  const std::string& container = step.attr<std::string>("container");
  const std::string& shared = step.attr<std::string>("shared_name");
  return fmt::format("{}/{}", container, shared.empty() && or_node_name ? step.node->name : shared);
}

Tensors variable(const Step& step, RunContext& context, bool or_node_name) {
  const std::string name = shared_name(step, or_node_name);
  return {Tensor::resource(context.resources.find_or_put("variable", name, [&]() -> std::shared_ptr<Resource> {
    return std::make_shared<GraphVariable>(name.substr(1), step.attr<DType>("dtype"), step.attr<Shape>("shape"));
  }))};
}

Tensors var_handle(const Step& step, const Tensors&, RunContext& context) { return variable(step, context, false); }
Tensors ref_variable(const Step& step, const Tensors&, RunContext& context) { return variable(step, context, true); }

Tensors assign(const Step& step, const Tensors& inputs, RunContext&) {
  VariableResource& target = referenced_variable(inputs[0]);
  const Tensor value = dereferenced(inputs[1]);
  const Shape now = target.is_initialized() ? target.read().shape() : target.shape();
  if (step.attr<bool>("validate_shape") && !now.compatible_with(value.shape())) {
    throw_invalid_argument(fmt::format("variable '{}' has shape {}; a value of shape {} cannot be assigned to it",
                                       target.resource_name(), now.to_string(), value.shape().to_string()));
  }
  target.assign(value);
  return {inputs[0]};
}

// A variable of its own in each run.
Tensors temporary_variable(const Step& step, const Tensors&, RunContext&) {
  const std::string& name = step.attr<std::string>("var_name");
  return {Tensor::resource(std::make_shared<GraphVariable>(name.empty() ? step.node->name : name,
                                                           step.attr<DType>("dtype"), step.attr<Shape>("shape")))};
}
Tensors value_of_temporary(const Step&, const Tensors& inputs, RunContext&) {
  return {referenced_variable(inputs[0]).read()};
}

// A graph runs on one thread, so nobody holds a lock that another one waits for.
class Mutex : public Resource {
 public:
  std::string resource_name() const override { return "Mutex"; }
};
Tensors make_mutex(const Step& step, const Tensors&, RunContext& context) {
  return {Tensor::resource(
      context.resources.find_or_put("mutex", shared_name(step, true), [] { return std::make_shared<Mutex>(); }))};
}
Tensors lock_mutex(const Step&, const Tensors& inputs, RunContext&) {
  if (inputs[0].is_symbolic() || !dynamic_cast<Mutex*>(inputs[0].resource_value().get()))
    throw_invalid_argument("the handle is not a mutex");
  return {Tensor::list({}, Shape::unknown_rank(), DType::kFloat32)};
}

template <bool subtract>
Tensors assign_change(const Step&, const Tensors& inputs, RunContext&) {
  VariableResource& target = referenced_variable(inputs[0]);
  const Shape now = target.read().shape(), change = dereferenced(inputs[1]).shape();
  if (!(now == change)) {
    throw_invalid_argument(fmt::format("variable '{}' has shape {}, the update {}", target.resource_name(),
                                       now.to_string(), change.to_string()));
  }
  target.assign(ops::call1(subtract ? "Sub" : "AddV2", {target.read(), dereferenced(inputs[1])}));
  return {inputs[0]};
}

Tensors is_variable_initialized(const Step&, const Tensors& inputs, RunContext&) {
  return {Tensor::scalar(referenced_variable(inputs[0]).is_initialized())};
}

Tensors forward(const Step&, const Tensors& inputs, RunContext&) { return inputs; }

Tensors identity(const Step& step, const Tensors& inputs, RunContext&) {
  const ops::Attr* type = step.attrs.find("T");
  const DType* dtype = type ? std::get_if<DType>(type) : nullptr;
  return {dtype && *dtype == DType::kResource ? inputs[0] : dereferenced(inputs[0])};
}

Tensors nothing(const Step&, const Tensors&, RunContext&) { return {}; }

Tensors unfed_placeholder(const Step& step, const Tensors&, RunContext&) {
  throw_invalid_argument(fmt::format("a value must be given for the placeholder '{}' ({}{})", step.node->name,
                                     dtype_name(step.attr<DType>("dtype")), step.attr<Shape>("shape").to_string()));
}

Tensors call_f(const Step& step, const Tensors& inputs, RunContext& context) {
  return call_function(step.attr<ops::FunctionName>("f").name, inputs, context);
}

Tensor rows_of(const Tensor& x, const std::vector<std::int64_t>& rows) {
  return ops::call1("GatherV2", {x, Tensor::from_vector(rows), Tensor::scalar(std::int32_t{0})});
}

// Requests of several callers are run together in TensorFlow; here there is one caller. As there a batch is filled up
// with copies of its first row to an allowed size, and a large one is run in parts.
Tensors call_batched(const Step& step, const Tensors& inputs, RunContext& context) {
  const std::string& function = step.attr<ops::FunctionName>("f").name;
  if (context.recording) return call_function(function, inputs, context);
  const std::size_t batched = step.attr<std::vector<DType>>("Tin").size();
  for (std::size_t i = 0; i < batched; ++i) {
    if (inputs[i].rank() < 1 || inputs[i].dim(0) != inputs[0].dim(0)) {
      throw_invalid_argument(fmt::format("batched inputs need the same number of rows: found shapes {} and {}",
                                         inputs[0].shape().to_string(), inputs[i].shape().to_string()));
    }
  }
  const std::int64_t rows = inputs[0].dim(0);
  const auto& allowed = step.attr<std::vector<std::int64_t>>("allowed_batch_sizes");
  const auto limit = step.attr<std::int64_t>("max_batch_size");
  if (rows > limit)
    throw_invalid_argument(fmt::format("a batch has {} rows, more than the {} that are allowed", rows, limit));
  const bool split = step.attr<bool>("enable_large_batch_splitting") && !allowed.empty();
  const std::int64_t most = split ? allowed.back() : limit;
  if (most < 1) throw_invalid_argument(fmt::format("invalid batch size: found {}, expected at least 1", most));
  std::vector<Tensors> parts;
  for (std::int64_t begin = 0; begin < rows || parts.empty(); begin += most) {
    const std::int64_t count = std::min(rows - begin, most);
    const auto size = std::find_if(allowed.begin(), allowed.end(), [&](std::int64_t each) { return each >= count; });
    std::vector<std::int64_t> taken(static_cast<std::size_t>(size == allowed.end() ? count : *size), begin);
    std::iota(taken.begin(), taken.begin() + count, begin);
    Tensors arguments = inputs;
    for (std::size_t i = 0; i < batched && rows > 0; ++i) arguments[i] = rows_of(inputs[i], taken);
    Tensors results = call_function(function, std::move(arguments), context);
    std::vector<std::int64_t> own(static_cast<std::size_t>(count));
    std::iota(own.begin(), own.end(), 0);
    for (Tensor& result : results) {
      const auto expected = rows > 0 ? static_cast<std::int64_t>(taken.size()) : 0;
      if (result.rank() < 1 || result.dim(0) != expected) {
        throw_invalid_argument(
            fmt::format("a batched output has the shape {}, expected {} rows", result.shape().to_string(), expected));
      }
      if (result.dim(0) != count) result = rows_of(result, own);
    }
    parts.push_back(std::move(results));
  }
  Tensors results = parts[0];
  for (std::size_t i = 0; parts.size() > 1 && i < results.size(); ++i) {
    Tensors pieces;
    for (const Tensors& part : parts) pieces.push_back(part[i]);
    pieces.push_back(Tensor::scalar(std::int32_t{0}));
    results[i] = ops::call1("ConcatV2", pieces);
  }
  return results;
}

// The gradients of a function with respect to its arguments, which come first; behind them those of its outputs.
Tensors gradient_of_function(const Step& step, const Tensors& inputs, RunContext& context) {
  if (context.recording) throw_unimplemented("a SymbolicGradient cannot be traced");
  const auto& types = step.attr<std::vector<DType>>("Tout");
  if (types.size() > inputs.size()) throw_invalid_argument("a SymbolicGradient with fewer inputs than outputs");
  const auto can_have_one = [](const Tensor& x) { return x.is_value() && is_floating(x.dtype()); };
  Tensors arguments(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(types.size())), leaves;
  const bool recorded = ops::grad_enabled();
  ops::set_grad_enabled(true);
  for (Tensor& x : arguments) {
    if (!can_have_one(x)) continue;
    if (!ops::requires_grad(x)) x = ops::make_leaf(x);
    leaves.push_back(x);
  }
  Tensors outputs, slopes, found;
  try {
    const Tensors given = call_function(step.attr<ops::FunctionName>("f").name, arguments, context);
    if (given.size() + types.size() != inputs.size())
      throw_invalid_argument(
          fmt::format("a SymbolicGradient has {} inputs, expected {}", inputs.size(), given.size() + types.size()));
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!can_have_one(given[i]) || !ops::requires_grad(given[i])) continue;
      outputs.push_back(given[i]);
      slopes.push_back(inputs[types.size() + i]);
    }
    if (!outputs.empty() && !leaves.empty()) found = ops::grad(outputs, leaves, slopes, recorded, recorded);
  } catch (...) {
    ops::set_grad_enabled(recorded);
    throw;
  }
  ops::set_grad_enabled(recorded);
  Tensors results;
  std::size_t next = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Tensor slope = can_have_one(arguments[i]) && next < found.size() ? found[next++] : Tensor();
    results.push_back(slope.defined() ? slope : ops::call1("ZerosLike", {inputs[i]}));
  }
  return results;
}

// The first input names a device; there is one here.
Tensors call_remotely(const Step& step, const Tensors& inputs, RunContext& context) {
  return call_function(step.attr<ops::FunctionName>("f").name, Tensors(inputs.begin() + 1, inputs.end()), context);
}

// The function on each row of the arguments, with the captured inputs as they are.
Tensors call_on_rows(const Step& step, const Tensors& inputs, RunContext& context) {
  if (context.recording) throw_unimplemented("a MapDefun cannot be traced");
  const std::size_t arguments = step.attr<std::vector<DType>>("Targuments").size();
  const std::string& function = step.attr<ops::FunctionName>("f").name;
  const auto& dtypes = step.attr<std::vector<DType>>("output_types");
  const auto& shapes = step.attr<std::vector<Shape>>("output_shapes");
  std::int64_t rows = -1;
  std::vector<Tensors> columns;
  for (std::size_t i = 0; i < arguments; ++i) {
    if (inputs[i].rank() == 0 || (rows >= 0 && inputs[i].dim(0) != rows))
      throw_invalid_argument("the arguments of a MapDefun must have the same number of rows");
    rows = inputs[i].dim(0);
    columns.push_back(rows == 0 ? Tensors{}
                                : ops::call("Unpack", {inputs[i]}, {{"num", rows}, {"axis", std::int64_t{0}}}));
  }
  std::vector<Tensors> results(dtypes.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    Tensors values;
    for (const Tensors& column : columns) values.push_back(column[static_cast<std::size_t>(row)]);
    values.insert(values.end(), inputs.begin() + static_cast<std::ptrdiff_t>(arguments), inputs.end());
    const Tensors outputs = call_function(function, std::move(values), context);
    if (outputs.size() != dtypes.size())
      throw_invalid_argument(
          fmt::format("function '{}' gave {} outputs, expected {}", function, outputs.size(), dtypes.size()));
    for (std::size_t i = 0; i < outputs.size(); ++i) results[i].push_back(outputs[i]);
  }
  Tensors stacked;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    if (rows > 0) {
      stacked.push_back(ops::call1("Pack", results[i]));
      continue;
    }
    if (i >= shapes.size() || !shapes[i].fully_known())
      throw_invalid_argument("a MapDefun without rows requires the shapes of its outputs");
    std::vector<std::int64_t> dims = shapes[i].dims();
    dims.insert(dims.begin(), 0);
    stacked.push_back(dtypes[i] == DType::kString ? Tensor::strings({}, Shape(dims))
                                                  : Tensor::zeros(Shape(dims), dtypes[i]));
  }
  return stacked;
}

// The place of this device's kind in the list, or behind it.
Tensors device_index(const Step& step, const Tensors&, RunContext&) {
  const auto& names = step.attr<std::vector<std::string>>("device_names");
  return {Tensor::scalar(static_cast<std::int32_t>(std::find(names.begin(), names.end(), "CPU") - names.begin()))};
}

Tensors to_bool(const Step&, const Tensors& inputs, RunContext&) {
  if (inputs[0].is_symbolic()) throw_unimplemented("a ToBool cannot be traced");
  return {Tensor::scalar(is_true(inputs[0]))};
}

// A value that nobody reads: of the branch of a conditional that was not taken.
Tensors fake_parameter(const Step& step, const Tensors&, RunContext&) {
  std::vector<std::int64_t> dims;
  const Shape& shape = step.attr<Shape>("shape");
  for (int i = 0; shape.known_rank() && i < shape.rank(); ++i) dims.push_back(std::max<std::int64_t>(shape[i], 0));
  const auto dtype = step.attr<DType>("dtype");
  if (dtype == DType::kVariant) return {Tensor::list({}, Shape::unknown_rank(), DType::kFloat32)};
  if (dtype == DType::kResource) throw_unimplemented("a FakeParam of a resource");
  const Tensor zero = dtype == DType::kString ? Tensor::strings({""}, Shape{}) : Tensor::scalar(0.0, dtype);
  return {ops::call1("Fill", {Tensor::from_vector(dims), zero})};
}

// The last input is the number of the device, which there is one of here.
Tensors call_on_device(const Step& step, const Tensors& inputs, RunContext& context) {
  if (inputs.empty()) throw_invalid_argument("a TPUPartitionedCall without the number of a device");
  return call_function(step.attr<ops::FunctionName>("f").name, Tensors(inputs.begin(), inputs.end() - 1), context);
}

Tensors first_device(const Step&, const Tensors&, RunContext&) { return {Tensor::scalar(std::int32_t{0})}; }

const std::vector<Shape>* output_shapes(const Step& step) {
  const ops::Attr* attr = step.attrs.find("output_shapes");
  const auto* shapes = attr ? std::get_if<std::vector<Shape>>(attr) : nullptr;
  return shapes && !shapes->empty() ? shapes : nullptr;
}

Tensors run_if(const Step& step, const Tensors& inputs, RunContext& context) {
  const Tensors arguments(inputs.begin() + 1, inputs.end());
  const auto branch = [&](const char* name) {
    return [&, name] { return call_function(step.attr<ops::FunctionName>(name).name, arguments, context); };
  };
  return cond(inputs[0], branch("then_branch"), branch("else_branch"));
}

Tensors run_while(const Step& step, const Tensors& inputs, RunContext& context) {
  const std::string& test = step.attr<ops::FunctionName>("cond").name;
  const std::string& body = step.attr<ops::FunctionName>("body").name;
  if (!context.recording) {
    const Plan &test_plan = plan_of_function(test, context), &body_plan = plan_of_function(body, context);
    Tensors variables = inputs;
    const auto small_test = test_plan.as_loop_part(), small_body = body_plan.as_loop_part();
    if (small_test && small_body) {
      ops::run_small_loop(*small_test, *small_body, variables, [&] { context.budget.count_iteration(); });
    }
    for (;;) {  // all iterations, or the rest
      const Tensors answer = test_plan.run(variables, context);
      if (answer.size() != 1) throw_invalid_argument("the condition of a loop must give one value");
      if (!is_true(answer[0])) return variables;
      context.budget.count_iteration();
      variables = body_plan.run(std::move(variables), context);
    }
  }
  const std::vector<Shape>* shapes = output_shapes(step);
  return while_loop([&](const Tensors& variables) { return call_function(test, variables, context)[0]; },
                    [&](const Tensors& variables) { return call_function(body, variables, context); }, inputs,
                    shapes && shapes->size() == inputs.size() ? *shapes : std::vector<Shape>{});
}

// The body gets the number of the iteration, then the variables.
Tensors run_for(const Step& step, const Tensors& inputs, RunContext& context) {
  if (context.recording) throw_unimplemented("a For cannot be traced");
  const std::int64_t first = inputs[0].item<std::int32_t>(), limit = inputs[1].item<std::int32_t>(),
                     delta = inputs[2].item<std::int32_t>();
  if (delta == 0) throw_invalid_argument("the delta of a For must not be 0");
  const Plan& body = plan_of_function(step.attr<ops::FunctionName>("body").name, context);
  Tensors variables(inputs.begin() + 3, inputs.end());
  for (std::int64_t i = first; delta > 0 ? i < limit : i > limit; i += delta) {
    context.budget.count_iteration();
    variables.insert(variables.begin(), Tensor::scalar(static_cast<std::int32_t>(i)));
    variables = body.run(std::move(variables), context);
  }
  return variables;
}

Tensors run_case(const Step& step, const Tensors& inputs, RunContext& context) {
  const auto& branches = step.attr<std::vector<ops::FunctionName>>("branches");
  if (branches.empty()) throw_invalid_argument("a Case without branches");
  const auto count = static_cast<std::int64_t>(branches.size());
  if (inputs[0].is_symbolic()) {
    const Tensors arguments(inputs.begin() + 1, inputs.end());
    const std::function<Tensors(std::int64_t)> from = [&](std::int64_t i) {
      const auto call = [&, i] {
        return call_function(branches[static_cast<std::size_t>(i)].name, arguments, context);
      };
      if (i + 1 == count) return call();
      const Tensor number = Tensor::scalar(static_cast<std::int32_t>(i));
      return cond(ops::call1("Equal", {inputs[0], number}), call, [&, i] { return from(i + 1); });
    };
    return from(0);
  }
  const std::int64_t index = inputs[0].item<std::int32_t>();
  const auto& branch = branches[static_cast<std::size_t>(index < 0 || index >= count ? count - 1 : index)];
  return call_function(branch.name, Tensors(inputs.begin() + 1, inputs.end()), context);
}

std::string brief(const Tensor& value, std::int64_t summarize) {
  if (value.dtype() == DType::kString) {
    return value.num_elements() > 0 ? fmt::format("[{}]", value.string_values()[0]) : "[]";
  }
  if (!value.is_value()) return "[…]";
  std::string text;
  const std::int64_t count = std::min(value.num_elements(), summarize < 0 ? value.num_elements() : summarize);
  if (value.dtype() == DType::kFloat32) {
    for (float x : value.to_vector<float>()) {
      if (static_cast<std::int64_t>(std::count(text.begin(), text.end(), ' ')) >= count) break;
      text += fmt::format("{} ", x);
    }
  } else if (value.dtype() == DType::kInt32) {
    for (std::int32_t x : value.to_vector<std::int32_t>()) {
      if (static_cast<std::int64_t>(std::count(text.begin(), text.end(), ' ')) >= count) break;
      text += fmt::format("{} ", x);
    }
  } else {
    text = value.shape().to_string();
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return fmt::format("[{}]", text);
}

Tensors check_assertion(const Step& step, const Tensors& inputs, RunContext& context) {
  if (context.recording) return {};  // a model that is traced again does not keep the checks of the old one
  if (is_true(inputs[0])) return {};
  std::string data;
  for (std::size_t i = 1; i < inputs.size(); ++i)
    data += fmt::format(" {}", brief(inputs[i], step.attr<std::int64_t>("summarize")));
  throw_invalid_argument(fmt::format("assertion failed:{}", data));
}

Tensors restore(const Step& step, const Tensors& inputs, RunContext& context) {
  const std::string& prefix = inputs[0].string_values().at(0);
  if (!context.resources.read_checkpoint || prefix != context.resources.checkpoint_prefix) {
    throw_invalid_argument(fmt::format("a graph wants to read the checkpoint '{}', which is not its own", prefix));
  }
  const std::vector<std::string>& names = inputs[1].string_values();
  // The operations of SaverDef.V1, Restore and RestoreSlice, read one tensor each.
  const std::vector<std::string> slices = inputs.size() > 2 ? inputs[2].string_values() : std::vector<std::string>(1);
  const bool several = step.attrs.find("dtypes") != nullptr;
  const auto dtypes = several ? step.attr<std::vector<DType>>("dtypes") : std::vector{step.attr<DType>("dt")};
  if (names.size() != dtypes.size() || slices.size() != dtypes.size()) {
    throw_invalid_argument(
        fmt::format("{} names, {} slices and {} dtypes are given", names.size(), slices.size(), dtypes.size()));
  }
  Tensors values;
  for (std::size_t i = 0; i < names.size(); ++i) {
    values.push_back(context.resources.read_checkpoint(names[i], slices[i]));
    if (values[i].dtype() != dtypes[i]) {
      throw_invalid_argument(fmt::format("'{}' is {} in the checkpoint, expected {}", names[i],
                                         dtype_name(values[i].dtype()), dtype_name(dtypes[i])));
    }
  }
  return values;
}

Tensors parse_tensor(const Step& step, const Tensors& inputs, RunContext&) {
  return {parsed(inputs[0], step.attr<DType>("out_type"))};
}
Tensors serialize_tensor(const Step&, const Tensors& inputs, RunContext&) { return {serialized(inputs[0])}; }

Tensors print(const Step&, const Tensors& inputs, RunContext&) { return {inputs[0]}; }

std::vector<ExecutorOp (*)(std::string_view op)>& contributions() {
  static std::vector<ExecutorOp (*)(std::string_view op)> functions;
  return functions;
}

}  // namespace

ExecutorOp find_executor_op(std::string_view op) {
  static const std::unordered_map<std::string_view, ExecutorOp> table = {
      {"VarHandleOp", var_handle},
      {"VariableV2", ref_variable},
      {"Variable", ref_variable},
      {"Assign", assign},
      {"AssignAdd", assign_change<false>},
      {"AssignSub", assign_change<true>},
      {"IsVariableInitialized", is_variable_initialized},
      {"TemporaryVariable", temporary_variable},
      {"DestroyTemporaryVariable", value_of_temporary},
      {"MutexV2", make_mutex},
      {"MutexLock", lock_mutex},
      {"ConsumeMutexLock", nothing},
      {"Identity", identity},
      {"RefIdentity", identity},
      {"IdentityN", forward},
      {"PlaceholderWithDefault", forward},
      {"NoOp", nothing},
      {"ControlTrigger", nothing},
      {"DisableCopyOnRead", nothing},
      {"Copy", forward},
      {"CopyHost", forward},
      {"PrintV2", nothing},
      {"Print", print},
      {"Placeholder", unfed_placeholder},
      {"PlaceholderV2", unfed_placeholder},
      {"PartitionedCall", call_f},
      {"StatefulPartitionedCall", call_f},
      {"BatchFunction", call_batched},
      {"SymbolicGradient", gradient_of_function},
      {"RemoteCall", call_remotely},
      {"MapDefun", call_on_rows},
      {"DeviceIndex", device_index},
      {"ToBool", to_bool},
      {"FakeParam", fake_parameter},
      {"TPUPartitionedCall", call_on_device},
      {"TPUOrdinalSelector", first_device},
      {"If", run_if},
      {"StatelessIf", run_if},
      {"While", run_while},
      {"StatelessWhile", run_while},
      {"For", run_for},
      {"Case", run_case},
      {"StatelessCase", run_case},
      {"Assert", check_assertion},
      {"Restore", restore},
      {"RestoreSlice", restore},
      {"RestoreV2", restore},
      {"ParseTensor", parse_tensor},
      {"SerializeTensor", serialize_tensor},
  };
  const auto found = table.find(op);
  if (found != table.end()) return found->second;
  if (const ExecutorOp reference = find_reference_operation(op)) return reference;
  if (const ExecutorOp serialization = find_sparse_serialization(op)) return serialization;
  if (const ExecutorOp collective = find_collective_operation(op)) return collective;
  if (const ExecutorOp queue = find_queue_operation(op)) return queue;
  if (const ExecutorOp on_table = find_table_operation(op)) return on_table;
  for (const auto find : contributions()) {
    if (const ExecutorOp contributed = find(op)) return contributed;
  }
  return nullptr;
}

void contribute_executor_ops(ExecutorOp (*find)(std::string_view op)) { contributions().push_back(find); }

}  // namespace lockstep::graph
