#include "lockstep/keras/layers/float8_product_internal.h"

#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/keras/layers/quantized_matrix_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

// The greatest numbers of the two types.
constexpr double kGreatestE4M3 = 448, kGreatestE5M2 = 57344;

// What remains of x in the 8-bit type `narrow`.
Tensor rounded(const Tensor& x, const Tensor& scale, DType narrow, double greatest) {
  const DType dtype = x.dtype();
  const Tensor factor = ops::cast(scale, dtype);
  const Tensor scaled = ops::clip_by_value(x / factor, -greatest, greatest);
  return ops::cast(ops::cast(scaled, narrow), dtype) * factor;
}

Tensor identity(const Tensor& dy) { return dy; }

}  // namespace

void Float8Scale::update(const Tensor& x, double greatest) const {
  const ops::GradientsOff off;
  const Tensor old = ops::reciprocal(scale->read()), history = amax_history->read();
  const Tensor amax = ops::reduce_max(history);
  const Tensor wanted = Tensor::scalar(static_cast<float>(greatest)) / amax;
  const Tensor factor = ops::where(ops::greater(amax, 0.0), wanted, old);
  const Tensor newest = ops::cast(ops::reduce_max(ops::abs(x)), DType::kFloat32);
  scale->assign(ops::reciprocal(ops::where(ops::is_finite(amax), factor, old)));
  const Tensor moved = ops::roll(history, {-1}, {0});
  amax_history->assign(ops::concat({ops::reshape(newest, {1}), ops::slice_axis(moved, 0, 1, std::nullopt)}, 0));
}

void Float8Product::build(std::int64_t history_length, const AddWeight& add_weight) {
  const auto add = [&](const std::string& name, Shape shape, const char* initializer) {
    return add_weight({.shape = std::move(shape),
                       .initializer = initializer,
                       .dtype = DType::kFloat32,
                       .trainable = false,
                       .autocast = false,
                       .aggregation = distribute::VariableAggregation::kMean,
                       .name = name});
  };
  for (const auto& [part, name] :
       {std::pair{&inputs_, "inputs"}, std::pair{&kernel_, "kernel"}, std::pair{&outputs_grad_, "outputs_grad"}}) {
    part->scale = add(std::string(name) + "_scale", {}, "ones");
    part->amax_history = add(std::string(name) + "_amax_history", {history_length}, "zeros");
  }
}

Tensor Float8Product::operator()(const Tensor& x, const Tensor& kernel, DType dtype, bool training,
                                 const Multiply& multiply) const {
  const distribute::ReplicaContext* const replica = distribute::get_replica_context();
  if (training && replica && replica->num_replicas_in_sync() > 1)
    throw_unimplemented("float8 layers train on one replica only: their scales follow from the whole batch");
  const auto operand = [&](const Tensor& given, const Float8Scale& part) {
    const Tensor plain = without_gradient(ops::cast(given, dtype));
    const Tensor made = rounded(plain, part.scale->read(), DType::kFloat8E4M3FN, kGreatestE4M3);
    if (training) part.update(plain, kGreatestE4M3);
    return with_straight_gradient(given, made, identity);
  };
  const Tensor y = multiply(operand(x, inputs_), operand(kernel, kernel_));
  if (!y.is_value()) return y;
  return with_straight_gradient(y, ops::detach(y), [part = outputs_grad_, training](const Tensor& dy) {
    const Tensor made = rounded(dy, part.scale->read(), DType::kFloat8E5M2, kGreatestE5M2);
    if (training) part.update(dy, kGreatestE5M2);
    return made;
  });
}

std::vector<VariablePtr> Float8Product::variables() const {
  return {inputs_.scale,        inputs_.amax_history, kernel_.scale,
          kernel_.amax_history, outputs_grad_.scale,  outputs_grad_.amax_history};
}

}  // namespace lockstep::keras
