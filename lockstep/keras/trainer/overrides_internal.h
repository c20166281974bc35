// Whether a user's class overrides a member function of Model.
#pragma once

#include "lockstep/base/overrides_internal.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::keras {

// compute_loss() and compute_metrics(), which have forms by name too.
inline constexpr Tensor (Model::*kComputeLoss)(const Structure&, const Structure&, const Structure&,
                                               const Structure&) const = &Model::compute_loss;
inline constexpr Results (Model::*kComputeMetrics)(const Structure&, const Structure&, const Structure&,
                                                   const Structure&) const = &Model::compute_metrics;

// The model's object, where its class overrides one of the member functions; else null.
template <typename... Member>
Model* object_overriding(const ModelImpl& model, Member... member) {
  static const Model plain{ModelPtr()};
  Model* const object = model.object();
  return object && overrides(*object, plain, member...) ? object : nullptr;
}

}  // namespace lockstep::keras
