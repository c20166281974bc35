#include "lockstep/keras/layers/lora.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/fields_internal.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/lora_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

void Lora::enable(const LoraTarget& target, const LoraOptions& options, const AddWeight& add_weight) {
  const std::string who = fmt::format("enable_lora of {} '{}'", target.layer.class_name(), target.layer.name());
  if (!target.variable)
    throw_failed_precondition(fmt::format("{} requires a layer that has been built: call it on data first", who));
  if (enabled()) throw_failed_precondition(fmt::format("{}: the layer has LoRA already, of rank {}", who, rank_));
  if (options.rank < 1) throw_invalid_argument(fmt::format("{}: rank is {}, expected at least 1", who, options.rank));
  if (target.constraint)
    throw_invalid_argument(fmt::format("{} requires a layer without {}_constraint", who, target.name));
  std::optional<NameScope> scope;
  if (NameScope::current().empty()) scope.emplace(target.layer.name());
  Shape first = target.shape;
  first[-1] = options.rank;
  VariablePtr a = add_weight({.shape = first,
                              .initializer = options.a_initializer,
                              .dtype = DType::kFloat32,
                              .regularizer = target.regularizer,
                              .name = "lora_" + target.name + "_a"});
  b_ = add_weight({.shape = {options.rank, target.shape[-1]},
                   .initializer = options.b_initializer,
                   .dtype = DType::kFloat32,
                   .regularizer = target.regularizer,
                   .name = "lora_" + target.name + "_b"});
  a_ = std::move(a);
  target.variable->set_trainable(false);
  rank_ = options.rank;
  alpha_ = options.lora_alpha.value_or(Number(options.rank));
  note_changed_layer();
}

Tensor Lora::add_to(const Tensor& kernel, const Tensor& a, const Tensor& b, DType dtype) const {
  const Tensor added = ops::matmul(a, b) * scale();
  return ops::cast(ops::cast(kernel, added.dtype()) + added, dtype);
}

Tensor Lora::merged(const VariablePtr& kernel, DType dtype) const {
  const ops::ScopedRecorder eager(nullptr);
  return add_to(kernel->numpy(), a_->numpy(), b_->numpy(), dtype);
}

void write_lora(Json& config, const std::optional<std::int64_t>& rank, const std::optional<Number>& alpha) {
  if (rank.value_or(0) == 0) return;
  config["lora_rank"] = *rank;
  config["lora_alpha"] = FieldType<Number>::write(alpha.value_or(Number(*rank)));
}

OwnState state_with_lora(const Layer& layer, const Lora& lora, const VariablePtr& kernel) {
  OwnState state;
  for (const VariablePtr& variable : layer.own_variables()) {
    if (lora.enabled() && (variable == lora.a() || variable == lora.b())) {
      state.zeroed.push_back(variable);
    } else if (lora.enabled() && variable == kernel) {
      state.entries.push_back({variable, [lora, kernel, dtype = layer.compute_dtype()] {
                                 return ops::cast(lora.merged(kernel, dtype), kernel->dtype());
                               }});
    } else {
      state.entries.push_back({variable});
    }
  }
  return state;
}

}  // namespace lockstep::keras
