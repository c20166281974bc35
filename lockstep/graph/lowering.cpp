#include "lockstep/graph/lowering_internal.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/graph/infer_internal.h"
#include "lockstep/graph/truth_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/small_program_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::graph {
namespace {

using inference::Dims;

constexpr int kMostSteps = 100'000;                          // calls inlined
constexpr std::int64_t kMostFolded = std::int64_t{1} << 26;  // elements of a constant

// Stands for a tensor of a program in shape rules.
class Extent : public Symbol {
 public:
  using Symbol::Symbol;
  ops::Recorder& recorder() const override { throw_internal("a shape rule calls an operation"); }
};

bool does_nothing(std::string_view op) { return op == "NoOp" || op == "ControlTrigger" || op == "DisableCopyOnRead"; }
bool names_resource(std::string_view op) {
  return op == "VarHandleOp" || op == "VariableV2" || op == "Variable" || op == "HashTableV2" ||
         op == "MutableHashTableV2";
}

// Those that know rows of a batch along another axis than the first.
bool takes_any_row_axis(std::string_view op) {
  static const std::set<std::string_view> names = {"Transpose", "ReverseV2", "StridedSlice", "Shape", "Size", "Rank"};
  return names.contains(op) || op.find("Segment") != op.npos;
}

}  // namespace

bool has_bytes(DType dtype) { return dtype != DType::kString && dtype != DType::kResource && dtype != DType::kVariant; }

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape()) || !has_bytes(a.dtype())) return false;
  const formats::TensorData x = a.to_data(), y = b.to_data();
  return std::ranges::equal(x.bytes, y.bytes);
}

Lowered known_constant(Tensor value) {
  Lowered known;
  known.dtype = value.dtype();
  if (value.is_value()) known.dims = known.other_dims = value.shape().dims();
  known.constant = std::move(value);
  return known;
}

std::int64_t floats_of(DType dtype, const Dims& dims) {
  return (inference::product_of(dims) * static_cast<std::int64_t>(dtype_size(dtype)) + 3) / 4;
}

bool passes_on(std::string_view op) {
  static const std::set<std::string_view> names = {"Identity", "StopGradient", "PreventGradient",
                                                   "Snapshot", "IdentityN",    "PlaceholderWithDefault"};
  return names.contains(op);
}

bool gives_shape(std::string_view op) { return op == "Shape" || op == "Size" || op == "Rank"; }

// ---- the plan ------------------------------------------------------------------------------------------

std::vector<Lowered> Lowering::lower(const Plan& plan, std::vector<Lowered> feeds) {
  require(!plan.dataflow_);
  std::vector<Lowered> values(static_cast<std::size_t>(plan.num_values_));
  for (const auto& [value, tensor] : plan.constants_) values[static_cast<std::size_t>(value)] = known_constant(tensor);
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const int first = plan.first_value_[static_cast<std::size_t>(plan.feeds_[i].node)];
    if (first >= 0) values[static_cast<std::size_t>(first + plan.feeds_[i].output)] = std::move(feeds[i]);
  }
  const std::map<int, Tensor> settled = find_settled(plan);
  for (const int id : plan.order_) {
    const Step& step = plan.steps_[static_cast<std::size_t>(id)];
    if (step.for_gradients) continue;
    if (const auto known = settled.find(id); known != settled.end()) {
      if (known->second.defined()) values[static_cast<std::size_t>(step.first_output)] = known_constant(known->second);
      continue;
    }
    require(++steps_ <= kMostSteps);
    context_.budget.begin_step(step.node->name);
    std::vector<Lowered> inputs;
    for (std::size_t i = 0; i < step.node->inputs.size(); ++i)
      inputs.push_back(values[static_cast<std::size_t>(step.inputs[i])]);
    std::vector<Lowered> outputs = [&] {
      try {
        if (auto joined = lower_groups(plan, step, values)) return *std::move(joined);
        if (auto joined = lower_dilated(plan, step, values)) return *std::move(joined);
        return lower_step(step, std::move(inputs));
      } catch (const NotCompiled&) {
        log(LogLevel::kDebug, fmt::format("{} runs operation by operation because of {} '{}'", plan.what_,
                                          step.node->op, step.node->name));
        throw;
      } catch (const NotByRows&) {
        log(LogLevel::kDebug,
            fmt::format("{} runs for whole batches because of {} '{}'", plan.what_, step.node->op, step.node->name));
        throw;
      }
    }();
    require(static_cast<int>(outputs.size()) == step.num_outputs);
    for (int i = 0; i < step.num_outputs; ++i)
      values[static_cast<std::size_t>(step.first_output + i)] = std::move(outputs[static_cast<std::size_t>(i)]);
  }
  std::vector<Lowered> results;
  for (const Output& fetch : plan.fetches_) {
    results.push_back(
        values[static_cast<std::size_t>(plan.first_value_[static_cast<std::size_t>(fetch.node)] + fetch.output)]);
  }
  return results;
}

std::vector<Lowered> Lowering::call(const std::string& function, std::vector<Lowered> inputs) {
  const auto found = context_.library.find(function);
  require(found && depth_ < context_.resources.limits.max_depth);
  const Plan& plan = context_.resources.plan_of(found, context_.library);
  require(inputs.size() == plan.feeds_.size());
  ++depth_;
  std::vector<Lowered> results = lower(plan, std::move(inputs));
  --depth_;
  return results;
}

std::vector<Lowered> Lowering::lower_step(const Step& step, std::vector<Lowered> inputs) {
  const std::string& op = step.node->op;
  for (const Lowered& input : inputs)
    require(input.is_constant() || input.value >= 0 || input.list || input.is_later() || input.before >= 0);
  if (!step.op && !step.executor_op) return call(op, std::move(inputs));
  const auto is_string = [](const Lowered& input) { return input.before >= 0 && input.value < 0; };
  if (std::ranges::none_of(inputs, is_string)) {
    if (auto outputs = lower_recurrence(*this, step, inputs)) return *std::move(outputs);
  }
  if (op == "PartitionedCall" || op == "StatefulPartitionedCall")
    return call(step.attr<ops::FunctionName>("f").name, std::move(inputs));
  if (is_for_later(step, inputs)) return lower_later(step, std::move(inputs));
  if ((op == "If" || op == "StatelessIf") && inputs[0].is_constant() && !inputs[0].other.defined() &&
      !inputs[0].series) {
    const bool taken = is_true(inputs[0].constant);
    inputs.erase(inputs.begin());
    return call(step.attr<ops::FunctionName>(taken ? "then_branch" : "else_branch").name, std::move(inputs));
  }
  if (does_nothing(op)) return {};
  if (!passes_on(op)) {
    if (is_before(step, inputs)) return lower_before(step, inputs);
    for (Lowered& input : inputs) input = as_input(input);
  }
  if (names_resource(op)) return {known_constant(step.executor_op(step, {}, context_)[0])};
  if (op == "ReadVariableOp") return {read(inputs[0])};
  if (passes_on(op)) {
    if (op != "Identity" || inputs[0].dtype != DType::kResource) return inputs;
    const DType* const type = std::get_if<DType>(step.attrs.find("T"));
    return {type && *type == DType::kResource ? inputs[0] : read(inputs[0])};
  }
  if (op == "While" || op == "StatelessWhile") return lower_loop(step, std::move(inputs));
  if (auto outputs = lower_list(step, inputs)) return *outputs;
  if (auto outputs = lower_lookup(*this, step, inputs)) return *outputs;
  require(step.op && step.op->kernel && !step.executor_op);
  const std::vector<Lowered> given = inputs;  // shape rules read the shape of a variable
  if (op == "ResourceGather") inputs[0] = read(inputs[0]);
  require(!step.op->signature->stateful || op == "ResourceGather");
  if (step.takes_references) {
    for (Lowered& input : inputs) {
      if (input.dtype == DType::kResource) input = read(input);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(has_bytes(inputs[i].dtype) || gives_shape(op));
    require(op == "ResourceGather" || i >= step.input_types.size() || inputs[i].dtype == step.input_types[i]);
  }
  if (op != "ResourceGather" && std::ranges::all_of(inputs, [](const Lowered& k) { return k.is_constant(); }))
    return fold(step, inputs);
  for (Lowered& input : inputs) {
    if (input.series) input = at_iteration(input);
    require_by_rows(input.row_axis == 0 || takes_any_row_axis(op));
  }
  if (op == "ZerosLike") {
    Lowered zeros = known_constant(Tensor::zeros(Shape(inputs[0].dims), inputs[0].dtype));
    if (by_rows() && inputs[0].other_dims != inputs[0].dims)
      zeros.other = Tensor::zeros(Shape(inputs[0].other_dims), inputs[0].dtype),
      zeros.other_dims = inputs[0].other_dims;
    return {zeros};
  }
  if (gives_shape(op)) return {shape_constant(step, inputs[0])};
  const LoweringRule rule = find_lowering_rule(op);
  const std::vector<Lowered> like = infer(step, op == "ResourceGather" ? given : inputs);
  if (rule) return rule(*this, step, inputs, like);
  return customs(step, inputs, like, false);
}

// Reading it now is what the program depends on.
Lowered Lowering::read(const Lowered& resource) {
  require(resource.is_constant() && resource.dtype == DType::kResource);
  const auto variable = std::dynamic_pointer_cast<VariableResource>(resource.constant.resource_value());
  require(variable && variable->is_initialized() && !set_.contains(variable.get()));
  for (const VariableRead& known : variables_) {
    if (known.variable == variable) return known_constant(known.value);
  }
  const Tensor value = variable->read();
  require(value.is_value());
  variables_.push_back({variable, value});
  return known_constant(value);
}

Tensor Lowering::view_of(const float* address, DType dtype, const Dims& dims) {
  formats::TensorData data;
  data.dtype = dtype, data.shape = Shape(dims);
  data.bytes = {reinterpret_cast<const std::byte*>(address),
                static_cast<std::size_t>(inference::product_of(dims)) * dtype_size(dtype)};
  return Tensor::from_data(data);
}

// ---- constants -----------------------------------------------------------------------------------------

namespace {

// Operations whose results for two numbers of rows determine those for all numbers: each element is an element of the
// inputs, or a sum or product of some.
bool is_linear(std::string_view op) {
  static const std::unordered_set<std::string_view> names = {
      "Pack",      "ConcatV2", "Concat",   "Reshape",   "ExpandDims",  "Squeeze",       "Cast", "Fill",
      "ZerosLike", "Prod",     "OnesLike", "Identity",  "BroadcastTo", "BroadcastArgs", "Tile", "Sum",
      "Add",       "AddV2",    "AddN",     "Transpose", "Sub",         "Neg",           "Mul",  "Unpack"};
  return names.contains(op);
}

// These take elements from places that the other inputs name.
bool takes_elements(std::string_view op) {
  static const std::unordered_set<std::string_view> names = {"StridedSlice", "Slice",  "GatherV2", "Gather",
                                                             "Pad",          "SplitV", "PadV2",    "ReverseV2"};
  return names.contains(op);
}

bool is_all_true(const Tensor& test) {
  const formats::TensorData data = test.to_data();
  return std::ranges::none_of(data.bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

// Results that depend on the number of rows are known for two numbers of rows only. These determine linear functions
// and values that are equal in all rows, but not an expression such as rows > 3 or random numbers.
bool Lowering::holds_for_all_rows(const Step& step, std::span<const Lowered> inputs) const {
  const std::string& op = step.node->op;
  const auto is_alike = [&](const Lowered& input) { return !as_one_row(input).other.defined(); };
  return is_linear(op) || std::ranges::all_of(inputs, is_alike) ||
         (takes_elements(op) && std::ranges::all_of(inputs.subspan(1), is_alike)) ||
         (op == "Split" && is_alike(inputs[0]));
}

std::vector<Lowered> Lowering::fold(const Step& step, std::span<const Lowered> inputs) {
  Tensors values, others;
  bool differs = false;
  for (const Lowered& input : inputs) {
    values.push_back(input.constant);
    others.push_back(input.other.defined() ? input.other : input.constant);
    differs |= input.other.defined();
  }
  for (const ops::OutputType& type : ops::infer_outputs(*step.op, values, step.attrs)) {
    const auto count = type.shape.num_elements();
    require(!type.shape.known_rank() || !count || *count <= kMostFolded);
  }
  const Tensors results = ops::run_kernel(*step.op, values, step.attrs);
  std::vector<Lowered> outputs;
  for (const Tensor& result : results) outputs.push_back(known_constant(result));
  if (std::ranges::any_of(inputs, [](const Lowered& input) { return input.series != nullptr; })) {
    require_by_rows(!differs);
    add_series(step, inputs, outputs);
    return outputs;
  }
  if (!differs) return outputs;
  const Tensors other_results = ops::run_kernel(*step.op, others, step.attrs);
  const bool is_equality = step.node->op == "Equal" && is_all_true(results[0]) && is_all_true(other_results[0]);
  require_by_rows(is_equality || holds_for_all_rows(step, inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (same_bytes(outputs[i].constant, other_results[i])) continue;
    outputs[i].other = other_results[i];
    if (other_results[i].is_value()) outputs[i].other_dims = other_results[i].shape().dims();
  }
  return outputs;
}

Lowered Lowering::shape_constant(const Step& step, const Lowered& input) const {
  const DType* const type = step.attrs.find("out_type") ? std::get_if<DType>(step.attrs.find("out_type")) : nullptr;
  const auto made = [&](const Dims& dims) {
    Dims numbers = dims;
    if (step.node->op == "Size") numbers = {inference::product_of(dims)};
    if (step.node->op == "Rank") numbers = {static_cast<std::int64_t>(dims.size())};
    const Shape shape = step.node->op == "Shape" ? Shape{static_cast<std::int64_t>(numbers.size())} : Shape{};
    if (type && *type == DType::kInt64) return Tensor::from_vector(numbers, shape);
    std::vector<std::int32_t> narrow;
    for (const std::int64_t n : numbers) {
      require(n <= std::numeric_limits<std::int32_t>::max());
      narrow.push_back(static_cast<std::int32_t>(n));
    }
    return Tensor::from_vector(narrow, shape);
  };
  Lowered known = known_constant(made(input.dims));
  if (!by_rows()) return known;
  const Tensor other = made(input.other_dims);
  if (!same_bytes(known.constant, other)) known.other = other;
  return known;
}

// ---- shapes --------------------------------------------------------------------------------------------

Tensors Lowering::symbols_of(std::span<const Lowered> inputs, bool other) {
  Tensors symbols;
  for (const Lowered& input : inputs) {
    if (input.is_constant()) {
      symbols.push_back(other && input.other.defined() ? input.other : input.constant);
    } else {
      symbols.push_back(
          Tensor::symbol(std::make_shared<Extent>(input.dtype, Shape(other ? input.other_dims : input.dims))));
    }
  }
  return symbols;
}

// The number of elements, as far as extents are known; nothing for negative ones, and for more elements than there can
// be.
static std::optional<std::int64_t> count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim == kUnknownDim) continue;
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

std::vector<Lowered> Lowering::infer(const Step& step, std::span<const Lowered> inputs) const {
  const auto shapes = [&](bool other) { return ops::infer_outputs(*step.op, symbols_of(inputs, other), step.attrs); };
  std::vector<Lowered> outputs;
  for (const ops::OutputType& type : shapes(false)) {
    Lowered& known = outputs.emplace_back();
    known.dtype = type.dtype, known.dims = known.other_dims = type.shape.dims();
    const std::optional<std::int64_t> count = count_of(known.dims);
    require(count.has_value());
    const bool fits = type.shape.known_rank() && type.shape.fully_known() && has_bytes(type.dtype) && *count > 0;
    if (!fits) known.dtype = DType::kInvalid;
  }
  if (!by_rows()) return outputs;
  // One row more must give results of one row more.
  const std::vector<ops::OutputType> others = [&] {
    try {
      return shapes(true);
    } catch (const Error&) {
      throw NotByRows{};
    }
  }();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Dims expected = outputs[i].dims;
    const bool has_rows = !expected.empty() && expected[0] % rows_ == 0;
    if (has_rows) expected[0] = expected[0] / rows_ * (rows_ + 1);
    outputs[i].rowwise = has_rows && others[i].shape.known_rank() && others[i].shape.dims() == expected;
    outputs[i].other_dims = std::move(expected);
  }
  return outputs;
}

// ---- for the rules -------------------------------------------------------------------------------------

Lowered Lowering::result(const Lowered& like) {
  require(like.dtype != DType::kInvalid);
  require_by_rows(like.rowwise);
  Lowered known = like;
  known.constant = known.other = Tensor(), known.before = -1;
  known.value = program_.add_value(floats_of(like.dtype, like.dims));
  return known;
}

inference::Constant Lowering::floats(const Lowered& known) const {
  require(known.is_constant() && known.dtype == DType::kFloat32);
  const auto data = std::make_shared<formats::TensorData>(known.constant.to_data());
  return {reinterpret_cast<const float*>(data->bytes.data()), known.constant.num_elements(), data};
}

float Lowering::float_number(const Lowered& known) const {
  const inference::Constant numbers = floats(known);
  require(known.dims.empty() && numbers.size == 1);
  return numbers.data[0];
}

Dims Lowering::integers(const Lowered& known) const {
  require(known.is_constant() && !known.other.defined());
  if (known.dtype == DType::kInt64) return known.constant.to_vector<std::int64_t>();
  require(known.dtype == DType::kInt32);
  const std::vector<std::int32_t> narrow = known.constant.to_vector<std::int32_t>();
  return {narrow.begin(), narrow.end()};
}

int Lowering::number(const Lowered& known) {
  if (!known.is_constant()) return known.value;
  require_by_rows(!known.other.defined());
  return program_.add_constant(floats(known));
}

Lowered Lowering::place(const Lowered& like) {
  Lowered known = like;
  known.constant = known.other = Tensor(), known.before = -1;
  known.series = nullptr;
  known.value = program_.add_value(0);
  return known;
}

bool Lowering::keeps_rows(const Lowered& operand, const Lowered& like) const {
  if (operand.dims.size() < like.dims.size()) return operand.is_constant() && !operand.other.defined();
  if (operand.dims.empty()) return false;
  return operand.is_constant() ? !operand.other.defined() && operand.dims[0] == 1 : operand.dims[0] == like.dims[0];
}

inference::Chain Lowering::chain(const Lowered& like, std::span<const Lowered> operands) {
  inference::Chain chain(like.dims);
  for (const Lowered& operand : operands) {
    require(operand.dtype == DType::kFloat32);
    require_by_rows(keeps_rows(operand, like));
    if (operand.is_constant()) {
      chain.add_operand({-1, floats(operand), operand.dims});
    } else {
      chain.add_operand({operand.value, {}, operand.dims});
    }
  }
  return chain;
}

Lowered Lowering::elementwise(const Lowered& like, inference::Function function, std::span<const Lowered> operands,
                              float alpha) {
  require(like.dtype == DType::kFloat32);
  inference::Chain steps = chain(like, operands);
  const int b = steps.operands().size() > 1 ? 1 : 0;
  steps.add({function, 0, b, alpha});
  Lowered out = result(like);
  program_.add(std::make_unique<inference::ElementwiseStep>(out.value, std::move(steps)));
  return out;
}

namespace {

// An operation on a few numbers, without a tensor for each of them: a call of LibTorch costs more than the rest of it.
// `constants` has an undefined tensor where the program's memory is read. Null where small programs have no kernel.
std::shared_ptr<const ops::SmallProgram> small_custom(const Step& step, std::span<const Lowered> inputs,
                                                      const Lowered& like) {
  const auto is_small = [](const Lowered& x) {
    return x.dims.size() <= ops::kSmallRank && inference::product_of(x.dims) <= ops::kSmallElements &&
           (!x.is_constant() || x.constant.is_value());
  };
  std::vector<DType> types;
  for (const Lowered& input : inputs) types.push_back(input.dtype);
  if (!is_small(like) || !std::ranges::all_of(inputs, is_small) ||
      !ops::SmallProgram::supports(*step.op, step.attrs, types))
    return nullptr;
  auto program = std::make_shared<ops::SmallProgram>();
  std::vector<int> operands;
  for (const Lowered& input : inputs)
    operands.push_back(input.is_constant() ? program->add_constant(input.constant) : program->add_input(input.dtype));
  program->add_output(program->add_instruction(*step.op, step.attrs, types, std::move(operands), 1));
  return program;
}

using Types = std::vector<std::pair<DType, Dims>>;

// Whether the program has written the result of `like` to `to`.
bool run_small(const ops::SmallProgram& program, const Tensors& constants, const Types& types,
               const std::vector<const float*>& memory, const std::pair<DType, Dims>& like, float* to) {
  thread_local std::vector<ops::SmallValue> given;
  given.clear();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (constants[i].defined()) continue;
    ops::SmallValue& value = given.emplace_back();
    value.data = memory[given.size() - 1], value.dtype = types[i].first;
    value.count = inference::product_of(types[i].second), value.rank = static_cast<int>(types[i].second.size());
    std::ranges::copy(types[i].second, value.dims.begin());
  }
  ops::SmallValue result[1];
  if (!program.compute(given, result) || result[0].dtype != like.first ||
      !std::ranges::equal(result[0].shape(), like.second))
    return false;
  std::memcpy(to, result[0].data, static_cast<std::size_t>(result[0].count) * dtype_size(like.first));
  return true;
}

}  // namespace

Lowered Lowering::custom(const Step& step, std::span<const Lowered> inputs, const Lowered& like, bool rowwise) {
  return customs(step, inputs, {&like, 1}, rowwise)[0];
}

// Several results are parts of one value of the program and are copied from it, because a step writes one value.
std::vector<Lowered> Lowering::customs(const Step& step, std::span<const Lowered> inputs, std::span<const Lowered> like,
                                       bool rowwise) {
  require(!like.empty());
  require_by_rows(rowwise);
  std::vector<int> reads;
  Tensors constants;
  Types types, wanted;
  for (const Lowered& input : inputs) {
    constants.push_back(input.constant);
    types.emplace_back(input.dtype, input.dims);
    if (!input.is_constant()) reads.push_back(input.value);
  }
  std::vector<Lowered> outputs;
  Dims places;  // of the results in that value, in floats
  std::int64_t size = 0;
  for (const Lowered& known : like) {
    outputs.push_back(result(known));
    wanted.emplace_back(known.dtype, known.dims);
    places.push_back(size);
    size += floats_of(known.dtype, known.dims);
  }
  const auto small = like.size() == 1 ? small_custom(step, inputs, like[0]) : nullptr;
  if (!small)
    log(LogLevel::kDebug, fmt::format("a program calls the operation {} '{}'", step.node->op, step.node->name));
  const auto work = [op = step.op, attrs = step.attrs, constants, types, wanted, places, small](
                        const std::vector<const float*>& memory, float* to) {
    if (small && run_small(*small, constants, types, memory, wanted[0], to)) return;
    Tensors arguments = constants;
    std::size_t next = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].defined()) arguments[i] = Lowering::view_of(memory[next++], types[i].first, types[i].second);
    }
    Tensors results;
    try {
      results = ops::run_kernel(*op, arguments, attrs);
    } catch (const Error& error) {
      if (error.code() == Code::kResourceExhausted || error.code() == Code::kDeadlineExceeded) throw;
      throw inference::InvalidInput{};  // the plain operations report it, with the node
    }
    if (results.size() != wanted.size()) throw inference::InvalidInput{};
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Tensor& value = results[i];
      if (value.dtype() != wanted[i].first || value.shape().dims() != wanted[i].second) throw inference::InvalidInput{};
      const formats::TensorData data = value.to_data();
      std::memcpy(to + places[i], data.bytes.data(), data.bytes.size());
    }
  };
  if (like.size() == 1) {
    program_.add(inference::custom(std::move(reads), outputs[0].value, like[0].dims, work));
    return outputs;
  }
  const int all = program_.add_value(size);
  program_.add(inference::custom(std::move(reads), all, {size}, work));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Dims count = {floats_of(like[i].dtype, like[i].dims)};
    program_.add(inference::copies(outputs[i].value, count, {{all, count, {1}, {1}, places[i], 0}}, true));
  }
  return outputs;
}

const Lowering::Padding* Lowering::padding_of(const Lowered& known) const {
  const auto found = paddings_.find({known.value, known.dims});
  return known.is_constant() || found == paddings_.end() ? nullptr : &found->second;
}

const Lowering::Hot* Lowering::hot_of(const Lowered& known) const {
  const auto found = hots_.find(known.value);
  return known.is_constant() || found == hots_.end() || found->second.dims != known.dims ? nullptr : &found->second;
}

const Lowered& Lowering::before_repeating(const Lowered& known) const {
  const auto found = repeated_.find(known.value);
  const bool same = !known.is_constant() && found != repeated_.end() && found->second.dims == known.dims;
  return same ? found->second.from : known;
}

LoweringRule find_lowering_rule(std::string_view op) {
  if (const LoweringRule rule = find_matrix_rule(op)) return rule;
  if (const LoweringRule rule = find_array_rule(op)) return rule;
  const LoweringRule rule = find_move_rule(op);
  return rule ? rule : find_row_rule(op);
}

}  // namespace lockstep::graph
