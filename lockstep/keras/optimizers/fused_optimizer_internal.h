// Optimizers whose rule is one of the fused kernels.
#pragma once

#include <array>

#include "lockstep/keras/optimizers/rule_internal.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"

namespace lockstep::optimizers {

class FusedOptimizer : public Optimizer {
 public:
  // Where workers are to keep parts of the state, new slots are ranges from the start, so that a restore reads no more.
  void keep_ranges();
  // After the first such step, the slots of shared variables are stored once for all workers, in shared memory.
  std::optional<ShardedStep> shard(const collectives::CommunicatorPtr& workers, const collectives::GradientSum& sum,
                                   const Tensors& gradients, const Variables& variables) override;
  // See optimizers::set_hyperparameter().
  virtual bool set_hyperparameter(std::string_view name, double value) { return (void)name, (void)value, false; }

 protected:
  using Optimizer::Optimizer;
  using Slots = std::array<VariablePtr, 3>;

  virtual ops::FusedRule rule(const Step& step) const = 0;
  // Whether the kernel has the rule for gradients with slices.
  virtual bool takes_slices() const { return true; }
  // Whether the kernel has the rule in this model.
  virtual bool fuses() const { return true; }
  // Whether only the rows with slices are updated: by most rules of optimizers with legacy rules.
  virtual bool changes_rows_only() const { return false; }
  // Once a step, before the first variable, unless the step is sharded.
  virtual void prepare(const Step&) {}
  // In the rule's order; null where the options ask for none.
  virtual Slots slots_of(std::size_t index) const = 0;
  // The rule in operations, for cases that the kernel does not support; the weight decay has not been applied to `w`
  // yet.
  virtual void update_one(std::size_t index, Tensor& w, const Tensor& gradient, float decay, const Step& step) = 0;

 private:
  struct SlotMemory;
  struct Shards;
  void update(Step& step) final;
  std::optional<ShardedStep> shard_ranges(const collectives::CommunicatorPtr& workers, const Tensors& gradients,
                                          const Variables& variables);

  std::shared_ptr<SlotMemory> memory_;  // null before the first step that is shared
};

}  // namespace lockstep::optimizers
