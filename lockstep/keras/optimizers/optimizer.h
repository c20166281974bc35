// keras.optimizers.Optimizer: state, common arguments and the order of work of every update rule.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lockstep/base/list.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/distribute/variable.h"
#include "lockstep/keras/handle.h"
#include "lockstep/keras/schedules/schedules.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/tensor/scalar_attribute.h"

namespace lockstep::collectives {
class GradientSum;
}
namespace lockstep::distribute {
struct RemoteOptimizer;
}
namespace lockstep::keras {
class BuildObservers;
struct BuildAccess;
}  // namespace lockstep::keras

namespace lockstep::optimizers {

struct ShardedStep;
using distribute::VariablePtr;
using Variables = std::vector<VariablePtr>;

// A learning rate: a number, a schedule, a variable of the caller, or a function that is called at each step.
class LearningRate {
 public:
  LearningRate(double value) : kind_(Kind::kNumber), number_(value) {}
  LearningRate(schedules::SchedulePtr schedule) : kind_(Kind::kSchedule), schedule_(std::move(schedule)) {}
  // A schedule of a user-defined class: Adam(WarmUp(1e-3)), or a pointer to one.
  template <std::derived_from<schedules::LearningRateSchedule> T>
  LearningRate(T schedule) : LearningRate(schedules::SchedulePtr(std::make_shared<T>(std::move(schedule)))) {}
  template <std::derived_from<schedules::LearningRateSchedule> T>
  LearningRate(std::shared_ptr<T> schedule) : LearningRate(schedules::SchedulePtr(std::move(schedule))) {}
  LearningRate(VariablePtr variable) : kind_(Kind::kVariable), variable_(std::move(variable)) {}
  template <typename F>
  requires std::is_invocable_r_v<double, F&> LearningRate(F function)
      : kind_(Kind::kFunction), function_(std::move(function)) {}

  // One of these is not null.
  const double* number() const { return kind_ == Kind::kNumber ? &number_ : nullptr; }
  const schedules::SchedulePtr* schedule() const { return kind_ == Kind::kSchedule ? &schedule_ : nullptr; }
  const VariablePtr* variable() const { return kind_ == Kind::kVariable ? &variable_ : nullptr; }
  const std::function<double()>* function() const { return kind_ == Kind::kFunction ? &function_ : nullptr; }

 private:
  enum class Kind : std::uint8_t { kNumber, kSchedule, kVariable, kFunction };
  Kind kind_;
  double number_ = 0;
  schedules::SchedulePtr schedule_;
  VariablePtr variable_;
  std::function<double()> function_;
};

// The keyword arguments that all optimizers share, for their options structs, in which they follow weight_decay.
// At most one of clipnorm, clipvalue and global_clipnorm may be set.
#define LOCKSTEP_OPTIMIZER_OPTIONS                                        \
  std::optional<double> clipnorm = std::nullopt;                          \
  std::optional<double> clipvalue = std::nullopt;                         \
  std::optional<double> global_clipnorm = std::nullopt;                   \
  bool use_ema = false;                                                   \
  double ema_momentum = 0.99;                                             \
  std::optional<std::int64_t> ema_overwrite_frequency = std::nullopt;     \
  std::optional<double> loss_scale_factor = std::nullopt;                 \
  std::optional<std::int64_t> gradient_accumulation_steps = std::nullopt; \
  std::string name = {} /* default: the class's snake-case name, numbered */

struct CommonOptions {
  LearningRate learning_rate = 0.001;
  std::optional<double> weight_decay = std::nullopt;
  LOCKSTEP_OPTIMIZER_OPTIONS;
};

template <typename Options>
CommonOptions common_options(const Options& o) {
  return {o.learning_rate,
          o.weight_decay,
          o.clipnorm,
          o.clipvalue,
          o.global_clipnorm,
          o.use_ema,
          o.ema_momentum,
          o.ema_overwrite_frequency,
          o.loss_scale_factor,
          o.gradient_accumulation_steps,
          o.name};
}

// The argument of apply_gradients(): pairs of a gradient and its variable.
using GradientsAndVariables = std::vector<std::pair<Tensor, VariablePtr>>;

class OptimizerPtr;

// Rules of the optimizers of Keras 2 until 2.10 (tf.keras.optimizers.legacy) that differ for all classes: gradients are
// clipped by value before they are clipped by norm, and most rules change only the rows of an embedding that have a
// gradient.
struct LegacyRules {
  double schedule_decay = 0.004;  // of Nadam's momentum
};

// One optimizer object. Not thread-safe; under a strategy call apply() in every replica (it sums the
// replicas' gradients and updates once) or apply_aggregated() across replicas.
class Optimizer {
 public:
  using KerasFamily = Optimizer;
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer& operator=(Optimizer&&) = delete;

  // By default the name of the C++ class.
  virtual std::string class_name() const { return keras::unqualified_name(typeid(*this)); }
  const std::string& name() const { return name_; }

  // Creates the slots for these variables, in Keras's order. A second call does nothing for the same variables and
  // throws FailedPrecondition for others.
  virtual void build(const Variables& variables);
  bool built() const { return built_; }

  // One step. `variables` must be among those for which it was built (default: all of them, in order); the first step
  // builds it. A variable with an undefined gradient does not change. Throws InvalidArgument if no gradient is defined
  // or a shape does not fit. A class may override it, to change the gradients: fit calls it in each replica.
  virtual void apply(const Tensors& gradients, const Variables& variables = {});
  // The same without summing over replicas.
  virtual void apply_aggregated(Tensors gradients, const Variables& variables = {});
  // The same as apply(), for zip(gradients, variables).
  virtual void apply_gradients(const GradientsAndVariables& gradients_and_variables);
  // Whether the class overrides one of the two.
  bool has_own_apply() const;

  // The loss whose gradients apply() expects: times loss_scale_factor, if there is one.
  virtual Tensor scale_loss(const Tensor& loss) const;
  // With use_ema: assigns the averages to the variables; fit does it at its end.
  virtual void finalize_variable_values(const Variables& variables = {});

  // Weight decay is not applied to these variables, nor to those whose name or path contains a match of one of the
  // regular expressions (RE2). Throws InvalidArgument for a string that is not one.
  virtual void exclude_from_weight_decay(const Variables& variables, const std::vector<std::string>& names = {});

  // The rules of Keras 2.11 and later: the rows of an embedding's gradient are added, after clipping, before the rule
  // sees them, and the averages of use_ema begin as the variables.
  virtual void set_keras2_rules(bool keras2);
  // Also of an optimizer of Keras 2 until 2.10.
  bool has_keras2_rules() const { return keras2_rules_ || legacy_; }
  // Null unless this is an optimizer of Keras 2 until 2.10.
  const LegacyRules* legacy_rules() const { return legacy_ ? &*legacy_ : nullptr; }

  virtual std::int64_t iterations() const;
  virtual const VariablePtr& iterations_variable() const { return iterations_; }
  // The rate of the next step.
  virtual float learning_rate() const;
  // Throws FailedPrecondition when the rate is a schedule or a function.
  virtual void set_learning_rate(double value);
  // The inner optimizer of a LossScaleOptimizer; null for others.
  virtual OptimizerPtr inner_optimizer() const;
  // Of a LossScaleOptimizer: the factor of losses, and the number of good steps since it changed. Throw InvalidArgument
  // for others.
  virtual VariablePtr dynamic_scale() const;
  virtual VariablePtr step_counter() const;
  // Its arguments. Throw InvalidArgument for others.
  double initial_scale() const;
  std::int64_t dynamic_growth_steps() const;
  // Those of a MultiOptimizer; none for others.
  virtual std::vector<OptimizerPtr> optimizers() const;
  // The factor by which losses are multiplied and gradients divided; none: 1.
  void set_loss_scale_factor(std::optional<double> factor) { options_.loss_scale_factor = factor; }
  virtual bool has_fixed_learning_rate() const { return learning_rate_variable_ != nullptr; }

  // iteration, learning_rate (unless scheduled), averages, accumulators, slots: optimizer/vars/0, 1, … of files.
  virtual Variables variables() const;
  // Those of them that Keras holds as attributes only: it does not know them where a LossScaleOptimizer contains the
  // optimizer, and leaves them out of the files.
  virtual Variables attribute_variables() const { return {}; }
  const Variables& trainable_variables() const { return trainable_; }

  // Keras 3.15's config, keys in its order.
  virtual Json get_config() const;

 protected:
  Optimizer(std::string_view class_name, CommonOptions options);
  // With the name of the C++ class.
  explicit Optimizer(CommonOptions options);
  // Of an object that is given as a value: compile({.optimizer = MyOptimizer(0.1)}).
  Optimizer(Optimizer&&) = default;
  // Without variables, which would keep the strategy in whose scope they are made: an object of which nothing but the
  // class is used.
  explicit Optimizer(std::nullptr_t) {}

  // A class overrides create_slots() and update(), or, as in Keras, build(), which creates slots, and update_step(),
  // which updates one variable.
  virtual void update_step(const Tensor& gradient, const VariablePtr& variable, const Tensor& learning_rate);
  // For these: a slot of the variable's shape. get_variable_index() is the variable's index in trainable_variables().
  VariablePtr add_variable_from_reference(const VariablePtr& variable, std::string_view name) {
    return add_slot(index_of(variable), name);
  }
  std::size_t get_variable_index(const VariablePtr& variable) const { return index_of(variable); }
  void assign(const VariablePtr& variable, const Tensor& value) const { variable->assign(value); }
  void assign_add(const VariablePtr& variable, const Tensor& value) const { variable->assign_add(value); }
  void assign_sub(const VariablePtr& variable, const Tensor& value) const { variable->assign_sub(value); }

  // The input of an update rule in one step; the three lists are parallel.
  struct Step {
    std::vector<std::size_t> indices;  // of the variables in trainable_variables()
    Tensors gradients;                 // defined, clipped
    std::vector<float> decays;         // weight_decay · rate, 0 without weight decay
    std::int64_t t = 1;                // updates made, this one included
    float learning_rate = 0;
  };
  // Whether one element's update depends on its own gradient alone.
  bool is_elementwise() const;
  // The next step, with gradients as the rule expects them.
  Step begin_step(std::vector<std::size_t> indices, Tensors gradients) const;
  // After the rule, or after a step that only accumulated: averages, constraints, the count of steps.
  void end_step(const std::vector<std::size_t>& indices);
  // Ends a step in which the variables `made` have been updated; updates those of `rest` with `sums` of their
  // gradients.
  void end_step(std::vector<std::size_t> made, std::vector<std::size_t> rest, Tensors sums);
  std::size_t index_of(const VariablePtr& variable) const;
  virtual void create_slots() {}
  // Decays the weights and applies the rule to each variable.
  virtual void update(Step& step);
  virtual float decay_of(std::size_t index) const;
  bool is_excluded_from_weight_decay(std::size_t index) const;

  // A slot like variable `index` (or of `shape`), filled with `initial`, appended to the list of variables.
  VariablePtr add_slot(std::size_t index, std::string_view name, double initial = 0.0);
  VariablePtr add_variable(const Shape& shape, DType dtype, std::string path, double initial = 0.0);
  // w -= w · decay for all variables of the step; rules without a fused kernel call it first.
  void decay_weights(const Step& step);
  Json base_config() const;
  const CommonOptions& common() const { return options_; }

  Variables trainable_;
  Variables slots_;
  bool built_ = false;

 private:
  friend struct StepAccess;
  friend struct keras::BuildAccess;
  friend class BuiltInOptimizer;
  // See StepAccess (sharded_step_internal.h).
  virtual std::optional<ShardedStep> shard(const collectives::CommunicatorPtr& workers,
                                           const collectives::GradientSum& sum, const Tensors& gradients,
                                           const Variables& variables);
  const distribute::RemoteOptimizer& remote() const;
  // Makes it known to the ParameterServerStrategy in whose scope it is made.
  void announce();
  class Served;
  friend OptimizerPtr deserialize(const Json& config);
  friend Json serialize(const OptimizerPtr& optimizer);
  void set_base_config(const Json& config);
  void set_legacy_rules(const Json& config);
  void set_options(CommonOptions options);
  // The gradient, checked and cast to the variable's dtype.
  Tensor accepted(const Tensor& gradient, const distribute::VariableImpl& variable) const;
  std::int64_t updates_made() const;  // not counting steps that only accumulated
  bool accumulate(std::vector<std::size_t>& indices, Tensors& gradients);
  void clip(Tensors& gradients) const;
  void update_averages(const std::vector<std::size_t>& indices, std::int64_t iteration);
  void constrain(const std::vector<std::size_t>& indices);

  CommonOptions options_;
  std::optional<LegacyRules> legacy_;
  bool keras2_rules_ = false;
  std::string name_;
  VariablePtr iterations_, learning_rate_variable_;
  Variables averages_, accumulators_;
  std::unordered_map<const distribute::VariableImpl*, std::size_t> index_;
  std::unordered_set<const distribute::VariableImpl*> not_decayed_;
  std::vector<std::function<bool(const std::string&)>> not_decayed_names_;
  mutable std::shared_ptr<const distribute::RemoteOptimizer> remote_;
  std::shared_ptr<Served> served_;
  std::shared_ptr<keras::BuildObservers> build_observers_;
};

// A handle of an optimizer, which functions return and take.
class OptimizerPtr : public keras::Handle<Optimizer> {
 public:
  using Handle::Handle;
  void apply_gradients(const GradientsAndVariables& gradients_and_variables) const {
    object().apply_gradients(gradients_and_variables);
  }
  void apply(const Tensors& gradients, const Variables& variables = {}) const { object().apply(gradients, variables); }
  void build(const Variables& variables) const { object().build(variables); }
  bool built() const { return object().built(); }
  const std::string& name() const { return object().name(); }
  std::string class_name() const { return object().class_name(); }  // "Adam": optimizer.__class__.__name__ in Python
  lockstep::internal::ScalarAttribute<float> learning_rate() const {
    return {object().learning_rate(), [self = *this](double value) { self.set_learning_rate(value); }};
  }
  void set_learning_rate(double value) const { object().set_learning_rate(value); }
  lockstep::internal::ScalarAttribute<std::int64_t> iterations() const {
    return {object().iterations(), [self = *this](double value) {
              self->iterations_variable()->assign(Tensor::scalar(static_cast<std::int64_t>(value)));
            }};
  }
  Tensor scale_loss(const Tensor& loss) const { return object().scale_loss(loss); }
  OptimizerPtr inner_optimizer() const { return object().inner_optimizer(); }
  VariablePtr dynamic_scale() const { return object().dynamic_scale(); }
  VariablePtr step_counter() const { return object().step_counter(); }
  double initial_scale() const { return object().initial_scale(); }
  std::int64_t dynamic_growth_steps() const { return object().dynamic_growth_steps(); }
  List<VariablePtr> variables() const { return object().variables(); }
  void exclude_from_weight_decay(const Variables& variables, const std::vector<std::string>& names = {}) const {
    object().exclude_from_weight_decay(variables, names);
  }
  void finalize_variable_values(const Variables& variables = {}) const { object().finalize_variable_values(variables); }
  Json get_config() const { return object().get_config(); }
  // A new optimizer of the same class: optimizer.__class__.from_config(config) in Python.
  OptimizerPtr from_config(const Json& config) const;
};
using OptimizerArg = keras::ObjectArg<Optimizer>;

// From "adam", "SGD", …, a config of Keras 3 or 2 (lr, decay, Custom>Adam; unknown Keras 2 keywords are
// dropped; of the module keras.optimizers.legacy, with the rules of these) or an object. Throws InvalidArgument for an
// unknown name, with the nearest known one.
OptimizerPtr get(const OptimizerArg& identifier);
OptimizerPtr deserialize(const Json& config);
Json serialize(const OptimizerPtr& optimizer);
// Of an object of a user-defined class.
template <std::derived_from<Optimizer> T>
Json serialize(const T& object) {
  return serialize(OptimizerPtr(std::shared_ptr<Optimizer>(std::shared_ptr<Optimizer>(), const_cast<T*>(&object))));
}
}  // namespace lockstep::optimizers

namespace lockstep {

// optimizer.apply_gradients(zip(gradients, variables)). Throws InvalidArgument when the numbers differ.
optimizers::GradientsAndVariables zip(const Tensors& gradients, const std::vector<distribute::Variable>& variables);

}  // namespace lockstep
