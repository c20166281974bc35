// Loops and lists of tensors as steps of a program. What only depends on constants, such as the number of iterations
// and the positions in lists, is computed here for all iterations; the rest of the body is a separate program.
#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/graph/lowering_internal.h"
#include "lockstep/graph/truth_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/check_internal.h"

namespace lockstep::graph {

using inference::Dims;

// What the body of a loop reads and writes in addition to its states.
struct LoopFrame {
  Lowering& around;
  std::int64_t iterations;
  std::vector<LoweredList> lists;  // by loop variable: as they are before the loop
  std::vector<int> body_inputs;    // values of the body
  std::vector<inference::LoopInput> inputs;
  struct Write {
    int variable;
    Lowered item;
    std::vector<std::int64_t> positions;
  };
  std::vector<Write> writes;
  std::vector<char> read;  // by loop variable: a list that is read
};

namespace {

constexpr std::int64_t kMostIterations = 20'000;    // of one loop
constexpr std::int64_t kMostVarying = 64;           // elements of a constant that iterations change
constexpr std::int64_t kMostInSeries = 16'000'000;  // elements of such a constant in all iterations

std::int64_t bytes_of(DType dtype, const Dims& dims) {
  return inference::product_of(dims) * static_cast<std::int64_t>(dtype_size(dtype));
}

inference::Constant bytes_as_constant(std::vector<std::byte> bytes) {
  const std::size_t floats = (bytes.size() + sizeof(float) - 1) / sizeof(float);
  std::vector<float> memory(floats);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  return inference::Constant::of(std::move(memory));
}

}  // namespace

// The part of a loop that follows from constants, as the plans of its test and body compute it.
class LoopConstants {
 public:
  LoopConstants(const Plan& test, const Plan& body, const std::vector<Lowered>& inputs)
      : test_(test), body_(body), inputs_(inputs), known_(inputs.size(), 0), unchanged_(inputs.size(), 0) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      unchanged_[k] = is_unchanged(k);
      const bool has_value = inputs[k].is_constant() && has_bytes(inputs[k].dtype) && !inputs[k].other.defined();
      known_[k] = has_value && (unchanged_[k] || inputs[k].constant.num_elements() <= kMostVarying);
    }
    for (bool settled = false; !settled;) {
      settled = true;
      const std::vector<char> values = known_values(body_, known_);
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (!known_[k] || unchanged_[k] || values[value_of(body_, k)]) continue;
        known_[k] = 0;
        settled = false;
      }
    }
  }

  bool is_unchanged(std::size_t k) {
    Output at = body_.fetches_[k];
    for (;;) {
      if (at == body_.feeds_[k]) return true;
      const Step& step = body_.steps_[static_cast<std::size_t>(at.node)];
      if (!step.node || step.node->op != "Identity") return false;
      at = step.node->inputs[0];
    }
  }
  bool unchanged(std::size_t k) const { return unchanged_[k] != 0; }
  bool varies(std::size_t k) const { return known_[k] && !unchanged_[k]; }

  // Values of the variables that vary, by iteration, and those after the last one. False where the test depends on
  // more, or there are too many iterations.
  bool run(std::int64_t most, RunContext& context) {
    if (!known_values(test_, known_)[value_of(test_, 0)]) return false;
    const std::vector<int> test_steps = steps_for(test_, {0}), body_steps = steps_for(body_, varying());
    Tensors now;
    for (const Lowered& input : inputs_) now.push_back(input.constant);
    series_.resize(inputs_.size());
    for (;;) {
      if (!is_true(compute(test_, test_steps, now, {0})[0])) break;
      if (++iterations_ > most) return false;
      context.budget.begin_step(test_.what_);
      for (const std::size_t k : varying()) series_[k].push_back(now[k]);
      const Tensors next = compute(body_, body_steps, now, varying());
      std::size_t at = 0;
      for (const std::size_t k : varying()) {
        now[k] = next[at++];
        if (now[k].num_elements() > kMostVarying) return false;
      }
    }
    last_ = std::move(now);
    return true;
  }
  std::int64_t iterations() const { return iterations_; }
  const Tensors& series(std::size_t k) const { return series_[k]; }
  const Tensor& last(std::size_t k) const { return last_[k]; }

 private:
  std::vector<std::size_t> varying() const {
    std::vector<std::size_t> found;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      if (varies(k)) found.push_back(k);
    }
    return found;
  }
  static std::size_t value_of(const Plan& plan, std::size_t fetch) {
    const Output& at = plan.fetches_[fetch];
    return static_cast<std::size_t>(plan.first_value_[static_cast<std::size_t>(at.node)] + at.output);
  }
  static int feed_value(const Plan& plan, std::size_t feed) {
    const int first = plan.first_value_[static_cast<std::size_t>(plan.feeds_[feed].node)];
    return first < 0 ? -1 : first + plan.feeds_[feed].output;
  }
  static std::vector<char> known_values(const Plan& plan, const std::vector<char>& feeds) {
    std::vector<char> known(static_cast<std::size_t>(plan.num_values_), 0);
    for (const auto& [value, tensor] : plan.constants_)
      known[static_cast<std::size_t>(value)] = has_bytes(tensor.dtype());
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      if (const int value = feed_value(plan, k); value >= 0) known[static_cast<std::size_t>(value)] = feeds[k];
    }
    for (const int id : plan.order_) {
      const Step& step = plan.steps_[static_cast<std::size_t>(id)];
      const bool computes = step.op && step.op->kernel && !step.op->signature->stateful &&
                            (!step.executor_op || step.node->op == "Identity") && !step.inputs.empty();
      const bool all = computes && std::ranges::all_of(step.inputs, [&](int value) {
                         return known[static_cast<std::size_t>(value)] != 0;
                       });
      for (int i = 0; all && i < step.num_outputs; ++i) known[static_cast<std::size_t>(step.first_output + i)] = 1;
    }
    return known;
  }
  // The steps that compute these results, in order.
  static std::vector<int> steps_for(const Plan& plan, const std::vector<std::size_t>& fetches) {
    std::vector<char> wanted(static_cast<std::size_t>(plan.num_values_), 0);
    for (const std::size_t fetch : fetches) wanted[value_of(plan, fetch)] = 1;
    std::vector<int> steps;
    for (auto id = plan.order_.rbegin(); id != plan.order_.rend(); ++id) {
      const Step& step = plan.steps_[static_cast<std::size_t>(*id)];
      bool used = false;
      for (int i = 0; i < step.num_outputs; ++i) used |= wanted[static_cast<std::size_t>(step.first_output + i)] != 0;
      if (!used) continue;
      for (const int value : step.inputs) wanted[static_cast<std::size_t>(value)] = 1;
      steps.push_back(*id);
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
  }
  static Tensors compute(const Plan& plan, const std::vector<int>& steps, const Tensors& feeds,
                         const std::vector<std::size_t>& fetches) {
    Tensors values(static_cast<std::size_t>(plan.num_values_));
    for (const auto& [value, tensor] : plan.constants_) values[static_cast<std::size_t>(value)] = tensor;
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      if (const int value = feed_value(plan, k); value >= 0) values[static_cast<std::size_t>(value)] = feeds[k];
    }
    for (const int id : steps) {
      const Step& step = plan.steps_[static_cast<std::size_t>(id)];
      Tensors inputs;
      for (const int value : step.inputs) inputs.push_back(values[static_cast<std::size_t>(value)]);
      const Tensors outputs = step.executor_op ? inputs : ops::run_kernel(*step.op, inputs, step.attrs);
      for (int i = 0; i < step.num_outputs; ++i)
        values[static_cast<std::size_t>(step.first_output + i)] = outputs[static_cast<std::size_t>(i)];
    }
    Tensors results;
    for (const std::size_t fetch : fetches) results.push_back(values[value_of(plan, fetch)]);
    return results;
  }

  const Plan &test_, &body_;
  const std::vector<Lowered>& inputs_;
  std::vector<char> known_, unchanged_;
  std::vector<Tensors> series_;
  Tensors last_;
  std::int64_t iterations_ = 0;
};

// ---- constants by iteration ----------------------------------------------------------------------------

void Lowering::add_series(const Step& step, std::span<const Lowered> inputs, std::vector<Lowered>& outputs) const {
  require(frame_ != nullptr);
  std::vector<std::shared_ptr<Tensors>> all(outputs.size());
  for (auto& series : all) series = std::make_shared<Tensors>();
  std::int64_t elements = 0;
  for (std::int64_t t = 0; t < frame_->iterations; ++t) {
    Tensors values;
    for (const Lowered& input : inputs)
      values.push_back(input.series ? (*input.series)[static_cast<std::size_t>(t)] : input.constant);
    const Tensors results = ops::run_kernel(*step.op, values, step.attrs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      elements += results[i].num_elements();
      all[i]->push_back(results[i]);
    }
    require(elements <= kMostInSeries);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool varies = std::ranges::any_of(*all[i], [&](const Tensor& x) { return !same_bytes(x, (*all[i])[0]); });
    if (varies) outputs[i].series = all[i];
  }
}

// Read from a table with a row for each iteration.
Lowered Lowering::at_iteration(const Lowered& known) {
  require(frame_ != nullptr);
  std::vector<std::byte> table;
  inference::LoopInput input;
  for (const Tensor& tensor : *known.series) {
    require(tensor.dtype() == known.dtype && tensor.shape().dims() == known.dims);
    const formats::TensorData data = tensor.to_data();
    input.offsets.push_back(static_cast<std::int64_t>(table.size()));
    table.insert(table.end(), data.bytes.begin(), data.bytes.end());
  }
  require(!table.empty());
  input.value = frame_->around.program_.add_constant(bytes_as_constant(std::move(table)));
  Lowered out = place(known);
  frame_->body_inputs.push_back(out.value);
  frame_->inputs.push_back(std::move(input));
  return out;
}

namespace {

bool has_rows_alike(const Tensor& tensor, std::span<const std::byte> row) {
  const formats::TensorData data = tensor.to_data();
  if (row.empty() || data.bytes.size() % row.size() != 0) return false;
  for (std::size_t at = 0; at < data.bytes.size(); at += row.size()) {
    if (!std::ranges::equal(std::span(data.bytes).subspan(at, row.size()), row)) return false;
  }
  return true;
}

}  // namespace

Lowered Lowering::as_one_row(const Lowered& known) const {
  const bool has_rows = by_rows() && known.is_constant() && known.other.defined() && has_bytes(known.dtype) &&
                        !known.dims.empty() && known.dims[0] % rows_ == 0 && known.row_axis == 0;
  if (!has_rows) return known;
  Dims other = known.dims;
  other[0] = known.dims[0] / rows_ * (rows_ + 1);
  const formats::TensorData data = known.constant.to_data();
  const auto row = std::span(data.bytes).first(data.bytes.size() / static_cast<std::size_t>(known.dims[0]));
  if (other != known.other_dims || !has_rows_alike(known.constant, row) || !has_rows_alike(known.other, row))
    return known;
  formats::TensorData one = data;
  Dims dims = known.dims;
  dims[0] = 1;
  one.shape = Shape(dims), one.bytes = row;
  return known_constant(Tensor::from_data(one));
}

int Lowering::start(const Lowered& known) {
  require_by_rows(!known.is_constant() || (known.other.defined() && !as_one_row(known).other.defined()));
  Lowered first = known;
  first.other = Tensor();
  return bytes(first);
}

int Lowering::bytes(const Lowered& known) {
  if (!known.is_constant()) return known.value;
  require_by_rows(!known.other.defined());
  const formats::TensorData data = known.constant.to_data();
  return program_.add_constant(bytes_as_constant({data.bytes.begin(), data.bytes.end()}));
}

// ---- lists ---------------------------------------------------------------------------------------------

namespace {

Lowered handle_of(LoweredList list) {
  Lowered known;
  known.dtype = DType::kVariant;
  known.list = std::make_shared<const LoweredList>(std::move(list));
  return known;
}

// The positions in a list, by iteration or one for all.
std::optional<std::vector<std::int64_t>> positions_of(const Lowered& index, std::int64_t count, std::int64_t most) {
  if (!index.is_constant() || index.other.defined() || index.dtype != DType::kInt32 ||
      index.constant.num_elements() != 1)
    return std::nullopt;
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < count; ++t) {
    const Tensor& at = index.series ? (*index.series)[static_cast<std::size_t>(t)] : index.constant;
    positions.push_back(at.item<std::int32_t>());
    if (positions.back() < 0 || positions.back() >= most) return std::nullopt;
  }
  return positions;
}

}  // namespace

Lowered Lowering::get_item(const LoweredList& handle, const Lowered& index) {
  const bool in_loop = handle.variable >= 0;
  require(!in_loop || frame_);
  const LoweredList& list = in_loop ? frame_->lists[static_cast<std::size_t>(handle.variable)] : handle;
  require(list.value >= 0 && handle.writes == 0);
  auto positions = positions_of(index, in_loop ? frame_->iterations : 1, list.count);
  require(positions.has_value());
  const std::int64_t size = bytes_of(list.dtype, list.dims);
  Lowered like;
  like.dtype = list.dtype, like.dims = list.dims, like.other_dims = list.other_dims;
  if (in_loop) {
    for (std::int64_t& position : *positions) position *= size;
    const Lowered item = place(like);
    frame_->read[static_cast<std::size_t>(handle.variable)] = 1;
    frame_->body_inputs.push_back(item.value);
    frame_->inputs.push_back({list.value, std::move(*positions)});
    return item;
  }
  require(size % static_cast<std::int64_t>(sizeof(float)) == 0);
  Lowered item = result(like);
  const std::int64_t floats = floats_of(list.dtype, list.dims);
  program_.add(
      inference::copies(item.value, {floats}, {{list.value, {floats}, {1}, {1}, (*positions)[0] * floats}}, true));
  return item;
}

Lowered Lowering::set_item(const Lowered& handle, const Lowered& index, const Lowered& item) {
  LoweredList list = *handle.list;
  require(frame_ && list.variable >= 0 && item.dtype == list.dtype);
  if (!item.is_constant()) require_by_rows(item.row_axis == 0);
  const LoweredList& before = frame_->lists[static_cast<std::size_t>(list.variable)];
  std::int64_t writes = 0;
  for (const LoopFrame::Write& write : frame_->writes) {
    if (write.variable != list.variable) continue;
    ++writes;
    require(write.item.dims == item.dims);
  }
  require(before.value < 0 && list.writes == writes);
  auto positions = positions_of(index, frame_->iterations, before.count);
  require(positions.has_value() && inference::product_of(item.dims) > 0);
  frame_->writes.push_back({list.variable, item, std::move(*positions)});
  ++list.writes;
  return handle_of(std::move(list));
}

std::optional<std::vector<Lowered>> Lowering::lower_list(const Step& step, std::span<const Lowered> inputs) {
  const std::string& op = step.node->op;
  const auto is_list = [&](std::size_t i) { return inputs.size() > i && inputs[i].list; };
  if (op == "TensorListReserve") {
    LoweredList list;
    list.dtype = step.attr<DType>("element_dtype");
    const Dims count = integers(inputs[1]);
    require(has_bytes(list.dtype) && count.size() == 1 && count[0] >= 0 && !inputs[1].series);
    list.count = count[0];
    return std::vector{handle_of(std::move(list))};
  }
  if (op == "TensorListFromTensor") {
    const Lowered& x = inputs[0];
    require(has_bytes(x.dtype) && !x.dims.empty() && !x.series && inference::product_of(x.dims) > 0);
    require_by_rows(!x.is_constant() && x.row_axis == 1);
    LoweredList list;
    list.dtype = x.dtype, list.count = x.dims[0];
    list.dims.assign(x.dims.begin() + 1, x.dims.end());
    list.other_dims.assign(x.other_dims.begin() + 1, x.other_dims.end());
    list.value = start(x);
    return std::vector{handle_of(std::move(list))};
  }
  if (op == "TensorListGetItem" && is_list(0)) return std::vector{get_item(*inputs[0].list, inputs[1])};
  if (op == "TensorListSetItem" && is_list(0)) return std::vector{set_item(inputs[0], inputs[1], inputs[2])};
  if (op == "TensorListStack" && is_list(0)) {
    const LoweredList& list = *inputs[0].list;
    require(list.value >= 0);
    Lowered out;
    out.dtype = list.dtype, out.value = list.value, out.row_axis = by_rows() ? 1 : 0;
    out.dims = list.dims, out.other_dims = list.other_dims;
    out.dims.insert(out.dims.begin(), list.count), out.other_dims.insert(out.other_dims.begin(), list.count);
    return std::vector{out};
  }
  return std::nullopt;
}

// ---- While ---------------------------------------------------------------------------------------------

std::vector<Lowered> Lowering::lower_loop(const Step& step, std::vector<Lowered> inputs) {
  const auto plan_named = [&](const char* attr) -> const Plan& {
    const auto function = context_.library.find(step.attr<ops::FunctionName>(attr).name);
    require(function != nullptr);
    return context_.resources.plan_of(function, context_.library);
  };
  const Plan &test = plan_named("cond"), &body = plan_named("body");
  require(!test.dataflow_ && !body.dataflow_ && test.feeds_.size() == inputs.size() && test.fetches_.size() == 1 &&
          body.feeds_.size() == inputs.size() && body.fetches_.size() == inputs.size());
  require(depth_ < context_.resources.limits.max_depth);
  for (Lowered& input : inputs) {
    if (input.series) input = at_iteration(input);
  }
  LoopConstants constants(test, body, inputs);
  require(constants.run(kMostIterations, context_));
  const std::int64_t times = frame_ ? frame_->iterations : 1;
  iterations_ += times * constants.iterations();
  require(iterations_ <= context_.resources.limits.max_iterations);
  if (constants.iterations() == 0) return inputs;

  inference::Loop loop;
  loop.iterations = constants.iterations();
  loop.body = std::make_shared<inference::Program>();
  LoopFrame frame{
      *this, loop.iterations, std::vector<LoweredList>(inputs.size()), {}, {}, {}, std::vector<char>(inputs.size(), 0)};
  Lowering inner(context_, *loop.body, rows_, large_batch_, set_);
  inner.frame_ = &frame;
  inner.depth_ = depth_ + 1, inner.steps_ = steps_, inner.iterations_ = iterations_;
  inner.variables_ = variables_;

  // The arguments of the body. Inputs of the program are states first.
  std::vector<Lowered> arguments;
  std::vector<int> state_of(inputs.size(), -1);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Lowered& input = inputs[k];
    if (input.list) {
      LoweredList list = *input.list;
      require(list.variable < 0);
      frame.lists[k] = list;
      list.variable = static_cast<int>(k);
      arguments.push_back(handle_of(std::move(list)));
    } else if (constants.varies(k)) {
      Lowered known = known_constant(constants.series(k)[0]);
      known.series = std::make_shared<const Tensors>(constants.series(k));
      arguments.push_back(std::move(known));
    } else if (constants.unchanged(k) && input.is_constant()) {
      arguments.push_back(input);
    } else {
      require(has_bytes(input.dtype) && inference::product_of(input.dims) > 0);
      arguments.push_back(inner.place(input));
      frame.body_inputs.push_back(arguments.back().value);
      frame.inputs.push_back({start(input), {}});
      if (!constants.unchanged(k)) state_of[k] = static_cast<int>(frame.inputs.size()) - 1;
    }
  }
  std::vector<Lowered> results = inner.lower(body, arguments);
  variables_ = inner.variables_, steps_ = inner.steps_, iterations_ = inner.iterations_;

  // The outputs of the body: what becomes a state, and what is written to lists.
  std::vector<int> outputs;
  const auto output_of = [&](const Lowered& known, bool shared) {
    const auto is_in = [&](const std::vector<int>& values) {
      return std::ranges::find(values, known.value) != values.end();
    };
    if (!known.is_constant() && !is_in(frame.body_inputs)) {
      const auto at = std::ranges::find(outputs, known.value);
      if (at == outputs.end() || shared) {
        if (at == outputs.end()) {
          outputs.push_back(known.value);
          loop.sizes.push_back(floats_of(known.dtype, known.dims));
          return static_cast<int>(outputs.size()) - 1;
        }
        return static_cast<int>(at - outputs.begin());
      }
    }
    const int from = known.is_constant() ? inner.start(known) : known.value;
    const std::int64_t floats = floats_of(known.dtype, known.dims);
    const int copy = loop.body->add_value(floats);
    const auto bytes = static_cast<std::size_t>(bytes_of(known.dtype, known.dims));
    loop.body->add(inference::custom(
        {from}, copy, {floats},
        [bytes](const std::vector<const float*>& memory, float* to) { std::memcpy(to, memory[0], bytes); }));
    outputs.push_back(copy);
    loop.sizes.push_back(floats);
    return static_cast<int>(outputs.size()) - 1;
  };
  std::int64_t floats = 0;
  // Parts of the result that become values.
  std::vector<inference::Move> moves;
  const auto part = [&](const Lowered& like, std::int64_t offset) {
    const std::int64_t count = floats_of(like.dtype, like.dims);
    Lowered out = like;
    out.constant = out.other = Tensor();
    out.value = program_.add_value(count);
    moves.push_back({out.value, {count}, {1}, {1}, offset});
    return out;
  };
  std::vector<std::pair<Lowered, std::int64_t>> parts(inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (state_of[k] < 0) continue;
    const Lowered& next = results[k];
    require(!next.list && next.dtype == inputs[k].dtype && next.dims == inputs[k].dims);
    require_by_rows(next.row_axis == inputs[k].row_axis);
    if (next.value >= 0 && next.value == arguments[k].value) continue;  // it stays
    Lowered now = next;
    if (now.series) now = inner.at_iteration(now);
    inference::LoopInput& state = frame.inputs[static_cast<std::size_t>(state_of[k])];
    state.output = output_of(now, false);
    state.bytes = bytes_of(now.dtype, now.dims);
    state.result_offset = floats;
    parts[k] = {inputs[k], floats};
    floats += inference::aligned(floats_of(now.dtype, now.dims));
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].list) continue;
    require(results[k].list && results[k].list->variable == static_cast<int>(k));
    LoweredList list = frame.lists[k];
    std::int64_t start_of = floats, size = 0;
    int writes = 0;
    for (const LoopFrame::Write& write : frame.writes) {
      if (write.variable != static_cast<int>(k)) continue;
      if (writes++ == 0) {
        list.dims = write.item.dims, list.other_dims = write.item.other_dims;
        size = bytes_of(list.dtype, list.dims);
        floats += inference::aligned((list.count * size + 3) / 4);
      }
      inference::LoopWrite to;
      to.output = output_of(write.item.series ? inner.at_iteration(write.item) : write.item, true);
      to.bytes = size;
      for (const std::int64_t position : write.positions) to.offsets.push_back(start_of * 4 + position * size);
      loop.writes.push_back(std::move(to));
    }
    require(results[k].list->writes == writes && !(writes > 0 && frame.read[k]));
    if (writes == 0) continue;
    Lowered like;
    like.dtype = list.dtype, like.dims = list.dims;
    like.dims.insert(like.dims.begin(), list.count);
    list.value = part(like, start_of).value;
    inputs[k] = handle_of(std::move(list));
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (constants.varies(k)) inputs[k] = known_constant(constants.last(k));
    if (parts[k].first.dtype != DType::kInvalid) inputs[k] = part(parts[k].first, parts[k].second);
  }
  require(floats > 0);
  loop.inputs = std::move(frame.inputs);
  loop.body_inputs = std::move(frame.body_inputs), loop.body_outputs = std::move(outputs);
  const int block = program_.add_value(floats);
  program_.add(inference::loop(block, floats, std::move(loop)));
  for (inference::Move& move : moves) {
    const int to = std::exchange(move.value, block);
    const Dims dims = move.extents;
    program_.add(inference::copies(to, dims, {std::move(move)}, true));
  }
  return inputs;
}

}  // namespace lockstep::graph
