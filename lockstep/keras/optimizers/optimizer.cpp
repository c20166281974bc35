#include "lockstep/keras/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <re2/re2.h>

#include "lockstep/base/error.h"
#include "lockstep/base/overrides_internal.h"
#include "lockstep/distribute/parameter_server_strategy.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/build_observers_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/keras/optimizers/fields_internal.h"
#include "lockstep/keras/optimizers/fused_optimizer_internal.h"
#include "lockstep/keras/optimizers/sharded_step_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::optimizers {
namespace {

// Optimizer state is read and written across replicas; a replica's assignment counts once.
VariablePtr make_variable(Tensor value, const std::string& path) {
  distribute::VariableOptions options;
  options.name = path.substr(path.rfind('/') + 1);
  options.trainable = false;
  options.aggregation = distribute::VariableAggregation::kOnlyFirstReplica;
  const distribute::ParameterServerStrategy::LocalVariables local;  // servers have their own
  VariablePtr variable = distribute::Variable::create(std::move(value), options);
  variable->set_path(path);
  return variable;
}

// Values that Keras treats as absent.
void drop_zeros(CommonOptions& options) {
  for (auto* limit : {&options.clipnorm, &options.clipvalue, &options.global_clipnorm}) {
    if (*limit && **limit <= 0) limit->reset();
  }
  for (auto* steps : {&options.ema_overwrite_frequency, &options.gradient_accumulation_steps}) {
    if (*steps && **steps == 0) steps->reset();
  }
}

void check_options(const std::string& who, const CommonOptions& options) {
  const int clips = options.clipnorm.has_value() + options.clipvalue.has_value() + options.global_clipnorm.has_value();
  if (clips > 1) {
    throw_invalid_argument(fmt::format("{}: only one of clipnorm, clipvalue and global_clipnorm can be set", who));
  }
  for (const auto& [key, limit] : {std::pair{"clipnorm", options.clipnorm}, std::pair{"clipvalue", options.clipvalue},
                                   std::pair{"global_clipnorm", options.global_clipnorm}}) {
    if (limit && std::isnan(*limit))
      throw_invalid_argument(fmt::format("{}: {} is {}, expected a number", who, key, *limit));
  }
  if (options.use_ema && !(options.ema_momentum >= 0 && options.ema_momentum <= 1)) {
    throw_invalid_argument(fmt::format("{}: ema_momentum is {}, expected 0 to 1", who, options.ema_momentum));
  }
  if (options.ema_overwrite_frequency && *options.ema_overwrite_frequency < 0) {
    throw_invalid_argument(fmt::format("{}: ema_overwrite_frequency must be positive", who));
  }
  if (const auto steps = options.gradient_accumulation_steps.value_or(0); steps == 1 || steps < 0) {
    throw_invalid_argument(fmt::format("{}: gradient_accumulation_steps is {}, expected 2 or more", who,
                                       *options.gradient_accumulation_steps));
  }
  if (options.loss_scale_factor && !(*options.loss_scale_factor > 0)) {
    throw_invalid_argument(fmt::format("{}: loss_scale_factor must be positive", who));
  }
}

// The square root of the sum of squares, in the gradients' dtype.
Tensor norm_of(const Tensor& gradient) { return ops::sqrt(ops::reduce_sum(ops::gradient_square(gradient))); }

}  // namespace

Optimizer::~Optimizer() = default;

Optimizer::Optimizer(std::string_view class_name, CommonOptions options)
    : name_(options.name.empty() ? keras::auto_name(class_name) : options.name) {
  check_options(std::string(class_name), options);
  set_options(std::move(options));
}

Optimizer::Optimizer(CommonOptions options) : Optimizer("Optimizer", std::move(options)) {}

void Optimizer::update_step(const Tensor&, const VariablePtr&, const Tensor&) {
  throw_unimplemented(fmt::format("optimizer '{}' has no rule: its class must override update_step()", name_));
}
void Optimizer::update(Step& step) {
  decay_weights(step);
  const Tensor rate = Tensor::scalar(step.learning_rate);
  for (std::size_t i = 0; i < step.indices.size(); ++i)
    update_step(step.gradients[i], trainable_[step.indices[i]], rate);
}

void Optimizer::set_options(CommonOptions options) {
  if (const auto* function = options.learning_rate.function()) require_function(*function, "learning_rate");
  options_ = std::move(options);
  drop_zeros(options_);
  if (!options_.name.empty()) name_ = options_.name;
  learning_rate_variable_ = nullptr;
  iterations_ = make_variable(Tensor::scalar<std::int64_t>(0), name_ + "/iteration");
  if (const double* rate = options_.learning_rate.number()) {
    learning_rate_variable_ = make_variable(Tensor::scalar(static_cast<float>(*rate)), name_ + "/learning_rate");
  } else if (const auto* variable = options_.learning_rate.variable()) {
    learning_rate_variable_ = *variable;
  }
  announce();
}

VariablePtr Optimizer::add_variable(const Shape& shape, DType dtype, std::string path, double initial) {
  const distribute::ScopedOwnInitialValues same_everywhere;
  slots_.push_back(make_variable(Tensor::full(shape, initial, dtype), path));
  return slots_.back();
}

VariablePtr Optimizer::add_slot(std::size_t index, std::string_view name, double initial) {
  const distribute::VariableImpl& variable = *trainable_[index];
  std::string path = variable.path();
  std::replace(path.begin(), path.end(), '/', '_');
  return add_variable(variable.shape(), variable.dtype(), fmt::format("{}/{}_{}", name_, path, name), initial);
}

void Optimizer::build(const Variables& variables) {
  if (built_) {
    for (const VariablePtr& variable : variables) index_of(variable);
    return;
  }
  trainable_ = variables;
  for (std::size_t i = 0; i < trainable_.size(); ++i) {
    if (!index_.emplace(trainable_[i].get(), i).second) {
      throw_invalid_argument(fmt::format("{}: variable '{}' is in the list twice", name_, trainable_[i]->path()));
    }
  }
  for (std::size_t i = 0; i < trainable_.size() && options_.use_ema; ++i) {
    averages_.push_back(add_slot(i, "average"));
  }
  for (std::size_t i = 0; i < trainable_.size() && options_.gradient_accumulation_steps; ++i) {
    accumulators_.push_back(add_slot(i, "gradient_accumulator"));
  }
  slots_.clear();
  create_slots();
  // Before anybody sees the slots.
  if (auto* const fused = dynamic_cast<FusedOptimizer*>(this)) fused->keep_ranges();
  built_ = true;
  set_keras2_rules(keras2_rules_);
  keras::BuildAccess::notify(*this);
}

std::size_t Optimizer::index_of(const VariablePtr& variable) const {
  const auto it = index_.find(variable.get());
  if (it == index_.end()) {
    throw_failed_precondition(
        fmt::format("{}: unknown variable '{}': the optimizer was built for other variables; make a new one (or "
                    "compile again) when trainable variables change",
                    name_, variable->path()));
  }
  return it->second;
}

Variables Optimizer::variables() const {
  Variables all = {iterations_};
  if (options_.learning_rate.number() && learning_rate_variable_) {
    all.push_back(learning_rate_variable_);
  }
  for (const Variables* list : {&averages_, &accumulators_, &slots_}) all.insert(all.end(), list->begin(), list->end());
  return all;
}

std::int64_t Optimizer::iterations() const { return iterations_->numpy().item<std::int64_t>(); }

float Optimizer::learning_rate() const {
  if (learning_rate_variable_) return learning_rate_variable_->numpy().item<float>();
  const LearningRate& rate = options_.learning_rate;
  if (rate.schedule()) return (**rate.schedule())(iterations());
  return static_cast<float>((*rate.function())());
}

void Optimizer::set_learning_rate(double value) {
  if (!learning_rate_variable_) {
    throw_failed_precondition(
        fmt::format("{}: the learning rate is a schedule or a function and cannot be set; make the optimizer with a "
                    "number",
                    name_));
  }
  learning_rate_variable_->assign(Tensor::scalar(static_cast<float>(value)));
}

void Optimizer::apply(const Tensors& gradients, const Variables& variables) {
  distribute::ReplicaContext* context = distribute::get_replica_context();
  if (!context || context->num_replicas_in_sync() == 1) return apply_aggregated(gradients, variables);
  const auto update_once = [&](const std::vector<Tensors>& arguments) {
    std::vector<const Tensors*> lists;
    for (const Tensors& argument : arguments) lists.push_back(&argument);
    apply_aggregated(context->sum_lists(lists), variables);
  };
  context->merge_call(update_once, gradients);
}

bool Optimizer::has_own_apply() const {
  class Plain : public Optimizer {
   public:
    Plain() : Optimizer(nullptr) {}
  };
  static const auto* const plain = new Plain();
  return overrides<Optimizer>(*this, *plain, &Optimizer::apply, &Optimizer::apply_gradients);
}

OptimizerPtr Optimizer::inner_optimizer() const { return nullptr; }
VariablePtr Optimizer::dynamic_scale() const {
  throw_invalid_argument(name() + ": only a LossScaleOptimizer has a dynamic_scale");
}
VariablePtr Optimizer::step_counter() const {
  throw_invalid_argument(name() + ": only a LossScaleOptimizer has a step_counter");
}
double Optimizer::initial_scale() const {
  if (!inner_optimizer()) throw_invalid_argument(name() + ": only a LossScaleOptimizer has an initial_scale");
  return get_config().at("initial_scale").get<double>();
}
std::int64_t Optimizer::dynamic_growth_steps() const {
  if (!inner_optimizer()) throw_invalid_argument(name() + ": only a LossScaleOptimizer has dynamic_growth_steps");
  return get_config().at("dynamic_growth_steps").get<std::int64_t>();
}
std::vector<OptimizerPtr> Optimizer::optimizers() const { return {}; }

void Optimizer::apply_gradients(const GradientsAndVariables& pairs) {
  Tensors gradients;
  Variables variables;
  for (const auto& [gradient, variable] : pairs) {
    gradients.push_back(gradient);
    variables.push_back(variable);
  }
  apply(gradients, variables);
}

void Optimizer::apply_aggregated(Tensors gradients, const Variables& variables) {
  const Variables& targets = variables.empty() ? trainable_ : variables;
  if (gradients.size() != targets.size()) {
    throw_invalid_argument(
        fmt::format("{}: {} gradients were given for {} variables", name_, gradients.size(), targets.size()));
  }
  const ops::GradientsOff off;
  build(targets);
  std::vector<std::size_t> indices;
  Tensors defined;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (!gradients[i].defined()) continue;
    Tensor gradient = accepted(gradients[i], *targets[i]);
    if (options_.loss_scale_factor) gradient = gradient / *options_.loss_scale_factor;
    indices.push_back(index_of(targets[i]));
    defined.push_back(std::move(gradient));
  }
  if (indices.empty()) throw_invalid_argument(fmt::format("{}: no gradients provided for any variable", name_));
  if (auto* const servers = distribute::ParameterServers::current()) {
    clip(defined);
    Tensors sent(trainable_.size());
    for (std::size_t i = 0; i < indices.size(); ++i)
      sent[indices[i]] = has_keras2_rules() ? ops::with_unique_slices(defined[i]) : std::move(defined[i]);
    const auto rate = options_.learning_rate.schedule() ? std::nullopt : std::optional<double>(learning_rate());
    iterations_->assign(Tensor::scalar(servers->apply(remote(), sent, rate)));
    return;
  }

  if (accumulate(indices, defined)) {
    clip(defined);
    Step step = begin_step(std::move(indices), std::move(defined));
    update(step);
    indices = std::move(step.indices);
  }
  end_step(indices);
}

Tensor Optimizer::accepted(const Tensor& gradient, const distribute::VariableImpl& variable) const {
  if (!(gradient.shape() == variable.shape())) {
    throw_invalid_argument(fmt::format("{}: the gradient of '{}' has shape {}, expected {}", name_, variable.path(),
                                       gradient.shape().to_string(), variable.shape().to_string()));
  }
  return gradient.dtype() == variable.dtype() ? gradient : ops::cast(gradient, variable.dtype());
}

std::optional<ShardedStep> Optimizer::shard(const collectives::CommunicatorPtr&, const collectives::GradientSum&,
                                            const Tensors&, const Variables&) {
  return std::nullopt;
}

bool Optimizer::is_elementwise() const {
  return !options_.clipnorm && !options_.clipvalue && !options_.global_clipnorm && !options_.loss_scale_factor &&
         !options_.gradient_accumulation_steps;
}

std::int64_t Optimizer::updates_made() const { return iterations() / options_.gradient_accumulation_steps.value_or(1); }

Optimizer::Step Optimizer::begin_step(std::vector<std::size_t> indices, Tensors gradients) const {
  if (has_keras2_rules()) {
    for (Tensor& gradient : gradients) gradient = ops::with_unique_slices(gradient);
  }
  Step step{std::move(indices), std::move(gradients), {}, updates_made() + 1, learning_rate()};
  for (std::size_t index : step.indices) step.decays.push_back(decay_of(index) * step.learning_rate);
  return step;
}

void Optimizer::end_step(const std::vector<std::size_t>& indices) {
  const ops::GradientsOff off;
  if (options_.use_ema) update_averages(indices, updates_made());
  constrain(indices);
  iterations_->assign(Tensor::scalar<std::int64_t>(iterations() + 1));
}

void Optimizer::end_step(std::vector<std::size_t> made, std::vector<std::size_t> rest, Tensors sums) {
  const ops::GradientsOff off;
  for (std::size_t k = 0; k < rest.size(); ++k) sums[k] = accepted(sums[k], *trainable_[rest[k]]);
  made.insert(made.end(), rest.begin(), rest.end());
  if (!rest.empty()) {
    Step step = begin_step(std::move(rest), std::move(sums));
    update(step);
  }
  end_step(made);
}

bool Optimizer::accumulate(std::vector<std::size_t>& indices, Tensors& gradients) {
  if (!options_.gradient_accumulation_steps) return true;
  const std::int64_t steps = *options_.gradient_accumulation_steps;
  const bool update_now = (iterations() + 1) % steps == 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    Tensor& held = accumulators_[indices[i]]->shared_value();
    const Tensor sum = gradients[i] + held;
    if (update_now) gradients[i] = sum / static_cast<double>(steps);
    held = update_now ? Tensor::zeros(sum.shape(), sum.dtype()) : sum;
  }
  return update_now;
}

void Optimizer::clip(Tensors& gradients) const {
  if (options_.clipvalue) {
    const double limit = *options_.clipvalue;
    for (Tensor& g : gradients)
      g = ops::slicewise(g, [&](const Tensor& v) { return ops::clip_by_value(v, -limit, limit); });
  }
  if (options_.clipnorm) {
    for (Tensor& g : gradients) {
      const Tensor norm = ops::maximum(norm_of(g), *options_.clipnorm);
      g = ops::slicewise(g, [&](const Tensor& values) { return values * *options_.clipnorm / norm; });
    }
  } else if (options_.global_clipnorm) {
    Tensor squares;
    for (const Tensor& g : gradients) {
      const Tensor sum = ops::cast(ops::reduce_sum(ops::gradient_square(g)), DType::kFloat32);
      squares = squares.defined() ? squares + sum : sum;
    }
    const Tensor norm = ops::sqrt(squares);
    const double limit = *options_.global_clipnorm;
    // norm - norm is NaN for a norm that is not finite, and nothing otherwise.
    const Tensor scale = ops::minimum(1.0 / norm, 1.0 / limit) * limit + (norm - norm);
    for (Tensor& g : gradients) {
      const auto scaled = [&](const Tensor& values) { return values * ops::cast(scale, g.dtype()); };
      g = has_keras2_rules() ? ops::slicewise(g, scaled) : scaled(g);  // Keras 3 makes it dense
    }
  }
}

float Optimizer::decay_of(std::size_t index) const {
  if (!options_.weight_decay || is_excluded_from_weight_decay(index)) return 0;
  return static_cast<float>(*options_.weight_decay);
}

bool Optimizer::is_excluded_from_weight_decay(std::size_t index) const {
  const distribute::VariableImpl& variable = *trainable_[index];
  return not_decayed_.contains(&variable) ||
         std::any_of(not_decayed_names_.begin(), not_decayed_names_.end(),
                     [&](const auto& matches) { return matches(variable.name()) || matches(variable.path()); });
}

void Optimizer::decay_weights(const Step& step) {
  for (std::size_t i = 0; i < step.indices.size(); ++i) {
    if (step.decays[i] == 0) continue;
    Tensor& value = trainable_[step.indices[i]]->shared_value();
    value = value - value * static_cast<double>(step.decays[i]);
  }
}

void Optimizer::exclude_from_weight_decay(const Variables& variables, const std::vector<std::string>& names) {
  if (built_) {
    throw_failed_precondition(
        fmt::format("{}: exclude_from_weight_decay() must be called before the optimizer is built", name_));
  }
  for (const VariablePtr& variable : variables) not_decayed_.insert(variable.get());
  for (const std::string& name : names) {
    auto pattern = std::make_shared<RE2>(name, RE2::Quiet);
    if (!pattern->ok())
      throw_invalid_argument(
          fmt::format("{}: '{}' is not a regular expression of RE2: {}", name_, name, pattern->error()));
    not_decayed_names_.emplace_back([pattern](const std::string& text) { return RE2::PartialMatch(text, *pattern); });
  }
}

void Optimizer::set_keras2_rules(bool keras2) {
  keras2_rules_ = keras2;
  if (!keras2 || !built_ || iterations() != 0) return;
  for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i]->shared_value() = trainable_[i]->numpy();
}

void Optimizer::update_averages(const std::vector<std::size_t>&, std::int64_t iteration) {
  const double momentum = iteration == 0 && !keras2_rules_ ? 0.0 : options_.ema_momentum;
  const bool overwrite = options_.ema_overwrite_frequency && (iteration + 1) % *options_.ema_overwrite_frequency == 0;
  for (std::size_t i = 0; i < trainable_.size(); ++i) {
    Tensor& average = averages_[i]->shared_value();
    Tensor& value = trainable_[i]->shared_value();
    average = average * momentum + value * (1.0 - momentum);
    if (overwrite) value = average;
  }
}

void Optimizer::constrain(const std::vector<std::size_t>& indices) {
  for (std::size_t index : indices) {
    const auto& constraint = trainable_[index]->constraint();
    if (!constraint) continue;
    Tensor& value = trainable_[index]->shared_value();
    value = constraint(value);
  }
}

Tensor Optimizer::scale_loss(const Tensor& loss) const {
  return options_.loss_scale_factor ? loss * *options_.loss_scale_factor : loss;
}

void Optimizer::finalize_variable_values(const Variables& variables) {
  if (!options_.use_ema || !built_) return;
  for (const VariablePtr& variable : variables.empty() ? trainable_ : variables) {
    variable->shared_value() = averages_[index_of(variable)]->numpy();
  }
}

Json Optimizer::base_config() const {
  CommonOptions written = options_;
  written.name = name_;
  if (learning_rate_variable_) written.learning_rate = static_cast<double>(Optimizer::learning_rate());
  Json config = Json::object();
  keras::FieldWriter writer(config);
  common_fields(writer, written);
  return config;
}

Json Optimizer::get_config() const { return base_config(); }

}  // namespace lockstep::optimizers

namespace lockstep {

optimizers::GradientsAndVariables zip(const Tensors& gradients, const std::vector<distribute::Variable>& variables) {
  if (gradients.size() != variables.size()) {
    throw_invalid_argument(
        fmt::format("zip: {} gradients were given for {} variables", gradients.size(), variables.size()));
  }
  optimizers::GradientsAndVariables pairs;
  for (std::size_t i = 0; i < gradients.size(); ++i) pairs.emplace_back(gradients[i], variables[i]);
  return pairs;
}

}  // namespace lockstep
