// The part of a layer that LoRA adds, as a member of the layer.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

// What LoRA is added to.
struct LoraTarget {
  const Layer& layer;
  std::string name;      // "kernel" or "embeddings": the matrices are lora_kernel_a and lora_kernel_b
  VariablePtr variable;  // is not trained any longer
  Shape shape;           // of the values that the layer computes with
  regularizers::RegularizerPtr regularizer;
  constraints::ConstraintPtr constraint;
};

// A layer's add_weight().
using AddWeight = std::function<VariablePtr(WeightOptions)>;

class Lora {
 public:
  // Makes the matrices. Throws FailedPrecondition for a layer that has not been built or has LoRA already, and
  // InvalidArgument for a rank below 1 and a kernel with a constraint.
  void enable(const LoraTarget& target, const LoraOptions& options, const AddWeight& add_weight);
  bool enabled() const { return static_cast<bool>(a_); }
  const VariablePtr& a() const { return a_; }
  const VariablePtr& b() const { return b_; }
  double scale() const { return alpha_.value / static_cast<double>(rank_); }
  // kernel + scale · (a · b) in `dtype`.
  Tensor add_to(const Tensor& kernel, const Tensor& a, const Tensor& b, DType dtype) const;
  // The same of the variables, outside of calls: Keras saves it in place of the kernel.
  Tensor merged(const VariablePtr& kernel, DType dtype) const;

 private:
  std::int64_t rank_ = 0;
  Number alpha_;
  VariablePtr a_, b_;
};

// The options of a layer that has LoRA now.
template <typename Options>
void remember_lora(Options& options, const LoraOptions& lora) {
  options.lora_rank = lora.rank;
  options.lora_alpha = lora.lora_alpha;
}
// The keys of a config, as Keras writes them for layers that have LoRA or get it when they are built.
void write_lora(Json& config, const std::optional<std::int64_t>& rank, const std::optional<Number>& alpha);

// The state of a layer whose kernel is saved with LoRA's part added, and which begins again with zeros for that part.
OwnState state_with_lora(const Layer& layer, const Lora& lora, const VariablePtr& kernel);

}  // namespace lockstep::keras
