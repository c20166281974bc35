#include "lockstep/graph/compiled_internal.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::graph {
namespace {

using inference::Dims;

constexpr std::size_t kMostMade = 16;  // of one plan
constexpr int kMostChanges = 3;        // of variables without a run between
constexpr std::int64_t kMostRows = 4;  // of a batch in one program
constexpr std::int64_t kLargeBatch = 16;
constexpr std::int64_t kMemory = std::int64_t{3} << 29;  // where RunLimits leave it to the run

bool is_dense(const Tensor& tensor) {
  return tensor.is_value() && tensor.dtype() != DType::kString && tensor.dtype() != DType::kVariant;
}

bool is_strings(const Tensor& tensor) { return tensor.is_value() && tensor.dtype() == DType::kString; }

// The rows of the batch that all inputs are, or 0.
std::int64_t batch_of(std::span<const Tensor> feeds) {
  std::int64_t batch = 0;
  for (const Tensor& feed : feeds) {
    if (!is_dense(feed) && !is_strings(feed)) continue;
    if (feed.rank() == 0 || (batch != 0 && feed.dim(0) != batch)) return 0;
    batch = feed.dim(0);
  }
  return batch;
}

// Pieces of few rows keep values in the cache, several rows share what is read of the weights.
std::int64_t rows_of_piece(std::int64_t batch) {
  return std::clamp<std::int64_t>(batch / (2 * ops::parallel_threads()), 1, kMostRows);
}

// More rows of a batch at a time if a run spends most of its time reading weights: as many rows as have their values in
// the cache, or few in comparison with the weights, in pieces of about equal numbers of rows for the threads.
std::int64_t rows_for_weights(const inference::Program& program, std::int64_t rows, std::int64_t batch) {
  const std::int64_t weights = program.weights_read();
  if (weights <= inference::kHeavy) return rows;
  const std::int64_t of_row = program.arena_size() / rows + 1, threads = ops::parallel_threads(),
                     pieces = (weights > 8 * inference::kHeavy ? 1 : 2) * threads;
  const std::int64_t most = std::min(std::max(inference::kHeavy, weights / 16) / of_row, batch / pieces);
  if (most <= rows) return rows;
  const std::int64_t equal = ((batch + most - 1) / most + threads - 1) / threads * threads;
  return std::max(rows, (batch + equal - 1) / equal);
}

Dims with_rows(Dims dims, std::int64_t rows) {
  if (rows > 0) dims[0] = rows;
  return dims;
}

// How often weights are read depends on the batch, and with it which algorithm is the fastest.
bool is_large(std::span<const Tensor> feeds) { return batch_of(feeds) >= kLargeBatch; }

std::string key_of(std::span<const Tensor> feeds, std::int64_t rows) {
  std::string key = rows > 0 ? fmt::format("{} rows{}", rows, is_large(feeds) ? " of many" : "") : "whole";
  for (const Tensor& feed : feeds) {
    if (is_dense(feed) || is_strings(feed))
      key += fmt::format("; {} {}", dtype_name(feed.dtype()), fmt::join(with_rows(feed.shape().dims(), rows), "x"));
  }
  return key;
}

// Inputs that may differ in the next run.
std::span<const Tensor> inputs_of(const Tensors& feeds, const RunContext& context) {
  return std::span(feeds).first(feeds.size() - std::min(feeds.size(), context.captured));
}

struct NewTensor {
  Tensor tensor;
  std::byte* memory = nullptr;
};
NewTensor output_of(DType dtype, const Dims& dims) {
  ops::MemoryLimit::check(inference::product_of(dims), static_cast<std::int64_t>(dtype_size(dtype)));
  std::span<std::byte> memory;
  const formats::TensorData data = formats::TensorData::allocate(dtype, Shape(dims), memory);
  return {Tensor::from_data(data), memory.data()};
}

}  // namespace

bool compiles_graphs() {
  const char* const value = std::getenv("LOCKSTEP_COMPILED_GRAPHS");
  return !value || std::string_view(value) != "0";
}

// Limits of time hold for programs too.
std::function<void()> CompiledPlan::before_step(const Plan& plan, RunContext& context) {
  return [&budget = context.budget, &name = plan.what_] { budget.begin_step(name); };
}

std::optional<Tensors> CompiledPlan::run(const Plan& plan, const Tensors& feeds, RunContext& context) {
  if (context.recording || ops::grad_enabled() || !compiles_graphs()) return std::nullopt;
  const std::int64_t batch = batch_of(inputs_of(feeds, context));
  if (batch > 1 && batch >= ops::parallel_threads()) {
    if (auto results = run_by_rows(plan, feeds, batch, context)) return results;
  }
  const MadePtr made = find_or_make(plan, feeds, 0, context);
  if (!made) return std::nullopt;
  const auto kept = inputs_for(*made, feeds, 0, context);
  if (!kept) return std::nullopt;
  std::vector<const void*> inputs;
  for (const formats::TensorData& input : *kept) inputs.push_back(input.bytes.data());
  Tensors results;
  std::vector<float*> outputs;
  for (const Lowered& known : made->outputs) {
    if (known.is_constant()) {
      results.push_back(known.constant);
      continue;
    }
    const NewTensor output = output_of(known.dtype, known.dims);
    results.push_back(output.tensor);
    outputs.push_back(reinterpret_cast<float*>(output.memory));
  }
  try {
    made->program.run(inputs, outputs, false, before_step(plan, context));
  } catch (const inference::InvalidInput&) {
    return std::nullopt;
  }
  made->effects.run();
  return results;
}

std::optional<Tensors> CompiledPlan::run_by_rows(const Plan& plan, const Tensors& feeds, std::int64_t batch,
                                                 RunContext& context) {
  std::int64_t rows = rows_of_piece(batch);
  MadePtr made = find_or_make(plan, feeds, rows, context);
  if (const std::int64_t more = made ? rows_for_weights(made->program, rows, batch) : rows; more > rows) {
    if (MadePtr larger = find_or_make(plan, feeds, more, context)) made = std::move(larger), rows = more;
  }
  const std::int64_t rest = batch % rows, pieces = batch / rows;
  const MadePtr last = !made || rest == 0 ? made : find_or_make(plan, feeds, rest, context);
  if (!made || !last) return std::nullopt;
  const auto inputs = inputs_for(*made, feeds, batch, context);
  if (!inputs) return std::nullopt;
  Tensors results;
  std::vector<NewTensor> outputs;
  for (const Lowered& known : made->outputs) {
    outputs.push_back(output_of(known.dtype, with_rows(known.dims, known.dims[0] / rows * batch)));
    results.push_back(outputs.back().tensor);
  }
  const std::function<void()> check = before_step(plan, context);
  const auto run_piece = [&](std::int64_t piece) {
    std::vector<const void*> from;
    std::vector<float*> to;
    for (const formats::TensorData& input : *inputs)
      from.push_back(input.bytes.data() + static_cast<std::int64_t>(input.bytes.size()) / batch * (piece * rows));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::int64_t row =
          results[i].num_elements() / batch * static_cast<std::int64_t>(dtype_size(results[i].dtype()));
      to.push_back(reinterpret_cast<float*>(outputs[i].memory + row * piece * rows));
    }
    (piece < pieces ? made : last)->program.run(from, to, true, check);
  };
  try {
    ops::parallel_for(0, pieces + (rest > 0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) run_piece(piece);
    });
  } catch (const inference::InvalidInput&) {
    return std::nullopt;
  }
  made->effects.run();
  return results;
}

// Those of the graph, then what its preprocessing gives. Nothing where the program is not for them.
std::optional<std::vector<formats::TensorData>> CompiledPlan::inputs_for(const Made& made, const Tensors& feeds,
                                                                         std::int64_t batch, RunContext& context) {
  std::vector<formats::TensorData> inputs;
  for (const Tensor& feed : inputs_of(feeds, context)) {
    if (is_dense(feed)) inputs.push_back(feed.to_data());
  }
  const std::optional<Tensors> before = [&]() -> std::optional<Tensors> {
    try {
      return made.preprocessing.run(inputs_of(feeds, context), batch);
    } catch (const Error&) {
      return std::nullopt;  // the plain operations report it, with the node
    }
  }();
  if (!before) return std::nullopt;
  for (const Tensor& value : *before) inputs.push_back(value.to_data());
  return inputs;
}

CompiledPlan::MadePtr CompiledPlan::find_or_make(const Plan& plan, const Tensors& feeds, std::int64_t rows,
                                                 RunContext& context) {
  const std::string key = key_of(inputs_of(feeds, context), rows);
  const std::span<const Tensor> captured = std::span(feeds).subspan(inputs_of(feeds, context).size());
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(key);
  if (found != made_.end()) {
    const bool current =
        !found->second ||
        (std::ranges::all_of(found->second->variables,
                             [](const VariableRead& read) { return same(read.variable->read(), read.value); }) &&
         std::ranges::equal(found->second->captured, captured,
                            [](const Tensor& a, const Tensor& b) { return same(a, b); }));
    if (current) {
      ++runs_since_change_;
      return found->second;
    }
    made_.clear();
    changes_in_a_row_ = runs_since_change_ > 0 ? 0 : changes_in_a_row_ + 1;
    runs_since_change_ = 0;
  }
  if (changes_in_a_row_ > kMostChanges) return nullptr;
  if (made_.size() >= kMostMade) made_.clear();
  VariableSet set;
  while (true) {
    try {
      MadePtr made = make(plan, feeds, rows, context, weights_, set, false);
      if (!made && std::ranges::any_of(inputs_of(feeds, context), is_strings))
        made = make(plan, feeds, rows, context, weights_, set, true);
      return made_[key] = made;
    } catch (const SetsVariable&) {
      continue;  // `set` has one more
    }
  }
}

CompiledPlan::MadePtr CompiledPlan::make(const Plan& plan, const Tensors& feeds, std::int64_t rows, RunContext& context,
                                         inference::WeightStore& weights, VariableSet& set, bool integers_before) {
  const auto made = std::make_shared<Made>();
  inference::Program& program = made->program;
  Lowering lowering(context, program, rows, is_large(inputs_of(feeds, context)), set);
  try {
    std::vector<Lowered> known;
    std::vector<int> inputs;
    const std::size_t may_change = inputs_of(feeds, context).size();
    made->captured.assign(feeds.begin() + static_cast<std::ptrdiff_t>(may_change), feeds.end());
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      const Tensor& feed = feeds[i];
      if (i >= may_change && (is_dense(feed) || is_strings(feed))) {
        known.push_back(known_constant(feed));
        continue;
      }
      Lowered& input = known.emplace_back();
      input.dtype = feed.dtype();
      if (!is_dense(feed) && !is_strings(feed)) {
        input.constant = feed;
        continue;
      }
      input.before = static_cast<int>(i);
      input.dims = with_rows(feed.shape().dims(), rows), input.other_dims = with_rows(input.dims, rows + (rows > 0));
      if (inference::product_of(input.dims) == 0) return nullptr;
      if (is_strings(feed)) continue;
      input.value = program.add_value(0);
      inputs.push_back(input.value);
    }
    lowering.preprocessing().begin(inputs_of(feeds, context), rows > 0 ? batch_of(inputs_of(feeds, context)) : 0,
                                   integers_before);
    made->outputs = lowering.lower(plan, known);
    for (Lowered& output : made->outputs) output = lowering.as_input(output);
    inputs.insert(inputs.end(), lowering.values_before().begin(), lowering.values_before().end());
    std::vector<int> outputs;
    for (Lowered& output : made->outputs) {
      if (output.is_constant()) {
        if (rows > 0) return nullptr;
        continue;
      }
      if (output.value < 0 || output.row_axis != 0) return nullptr;
      // Inputs and results that are requested twice are copied.
      const bool taken = std::ranges::find(inputs, output.value) != inputs.end() ||
                         std::ranges::find(outputs, output.value) != outputs.end();
      if (taken) {
        if (dtype_size(output.dtype) != 4) return nullptr;
        const std::int64_t count = inference::product_of(output.dims);
        const int copy = program.add_value(count);
        program.add(inference::copies(copy, output.dims, {{output.value, {count}, {1}, {1}}}, true));
        output.value = copy;
      }
      outputs.push_back(output.value);
    }
    program.finish(std::move(inputs), std::move(outputs), weights);
  } catch (const NotCompiled&) {
    return nullptr;
  } catch (const NotByRows&) {
    return nullptr;
  } catch (const std::exception& error) {
    log(LogLevel::kDebug, fmt::format("a graph runs operation by operation: {}", error.what()));
    return nullptr;  // the plain operations report it
  }
  const std::int64_t limit = context.resources.limits.max_memory == 0 ? kMemory : context.resources.limits.max_memory;
  const std::int64_t bytes = program.arena_size() * static_cast<std::int64_t>(sizeof(float));
  if (bytes > limit / (rows > 0 ? ops::parallel_threads() : 1)) return nullptr;
  made->variables = lowering.variables();
  lowering.effects().finish();
  made->effects = std::move(lowering.effects());
  lowering.preprocessing().finish();
  made->preprocessing = std::move(lowering.preprocessing());
  log(LogLevel::kDebug, fmt::format("a graph runs as a program of {} steps for {}", program.num_steps(),
                                    rows > 0 ? fmt::format("{} rows", rows) : "whole batches"));
  return made;
}

}  // namespace lockstep::graph
