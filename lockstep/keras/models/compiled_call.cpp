#include "lockstep/keras/models/compiled_call_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/graph/executor_internal.h"
#include "lockstep/graph/recurrence_internal.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/recurrent_cells_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"

namespace lockstep::keras {
namespace {

constexpr std::size_t kMostTraces = 8;

bool is_plain_value(const Tensor& tensor) {
  return tensor.defined() && tensor.is_value() && tensor.rank() > 0 && !tensor.mask().defined();
}

// What a call of a layer does depends on its config, its variables and its inputs alone.
bool can_be_traced(const Layer& layer) {
  const std::optional<LoopOptions> loop = loop_options(layer);
  if (loop && loop->stateful) return false;
  if (layer.module().is_null() && layer.class_name() != "Functional" && layer.class_name() != "Sequential")
    return false;
  if (layer.activity_regularizer()) return false;
  if (layer.class_name().starts_with("ConvLSTM")) return !draws_masks(layer);  // its cell is a part of it
  const std::vector<LayerPtr> inner = layer.sublayers();
  return std::ranges::all_of(inner, [](const LayerPtr& part) { return can_be_traced(*part); });
}

std::string key_of(const std::vector<Tensor>& inputs) {
  std::string key;
  for (const Tensor& input : inputs) {
    const auto& dims = input.shape().dims();
    key += fmt::format("{} {};", dtype_name(input.dtype()), fmt::join(dims.begin() + 1, dims.end(), "x"));
  }
  return key;
}

}  // namespace

CompiledCall::CompiledCall() = default;
CompiledCall::~CompiledCall() = default;

std::optional<std::vector<Tensor>> CompiledCall::run(
    const Layer& model, const std::vector<Tensor>& inputs,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& layers) {
  if (ops::grad_enabled() || ops::ScopedRecorder::active() || !std::ranges::all_of(inputs, is_plain_value))
    return std::nullopt;
  const distribute::ReplicaContext* const replica = distribute::get_replica_context();
  if (!replica || replica->num_replicas_in_sync() > 1) return std::nullopt;
  const TracePtr trace = trace_of(model, inputs, layers);
  if (!trace) return std::nullopt;
  Tensors feeds = inputs;
  feeds.insert(feeds.end(), trace->captures.begin(), trace->captures.end());
  const std::optional<Tensors> results = trace->executable->run_compiled(feeds);
  if (!results) {
    const std::lock_guard lock(mutex_);
    traces_[key_of(inputs)] = nullptr;
    return std::nullopt;
  }
  std::vector<Tensor> outputs(results->begin(), results->begin() + static_cast<std::ptrdiff_t>(trace->mask_of.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (trace->mask_of[i] >= 0) outputs[i].set_mask((*results)[static_cast<std::size_t>(trace->mask_of[i])]);
    if (trace->logits_of[i] >= 0) outputs[i].set_logits((*results)[static_cast<std::size_t>(trace->logits_of[i])]);
  }
  return outputs;
}

CompiledCall::TracePtr CompiledCall::trace_of(
    const Layer& model, const std::vector<Tensor>& inputs,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& layers) {
  const std::lock_guard lock(mutex_);
  if (!fits_) {
    fits_ = can_be_traced(model);
    if (!*fits_)
      log(LogLevel::kDebug, fmt::format("model '{}' runs layer by layer: not all layers can be traced", model.name()));
  }
  if (!*fits_) return nullptr;
  if (const std::uint64_t changes = changed_layers(); changes != changes_) {
    changes_ = changes;
    traces_.clear();
  }
  const std::string key = key_of(inputs);
  if (const auto known = traces_.find(key); known != traces_.end()) return known->second;
  if (traces_.size() >= kMostTraces) return nullptr;
  const auto trace = std::make_shared<Trace>();
  std::vector<TensorSpec> specs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Shape shape = inputs[i].shape();
    shape[0] = kUnknownDim;
    specs.push_back({shape, inputs[i].dtype(), fmt::format("input_{}", i)});
  }
  try {
    const PausedLosses no_losses;
    const graph::ScopedProgramTrace for_a_program;
    const graph::TracedFunction traced = graph::trace(
        "inference",
        [&](const Tensors& symbols) {
          Tensors results = layers(symbols);
          const std::size_t count = results.size();
          const auto add = [&](const Tensor& extra) {
            if (extra.defined()) results.push_back(extra);
            return extra.defined() ? static_cast<int>(results.size()) - 1 : -1;
          };
          for (std::size_t i = 0; i < count; ++i) {
            trace->mask_of.push_back(add(results[i].mask()));
            trace->logits_of.push_back(add(results[i].logits()));
          }
          return results;
        },
        specs);
    trace->captures = traced.captures;
    trace->executable =
        graph::Executable::prepare(traced.function, std::make_shared<graph::FunctionLibrary>(traced.library),
                                   std::make_shared<graph::Resources>());
  } catch (const Error& error) {
    log(LogLevel::kDebug, fmt::format("model '{}' runs layer by layer: {}", model.name(), error.message()));
    return traces_[key] = nullptr;  // the layers report the error
  }
  return traces_[key] = trace;
}

}  // namespace lockstep::keras
