// Update rules of optimizers as operations: ResourceApply… for whole gradients, ResourceSparseApply… for rows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/variables_internal.h"

namespace lockstep::ops {
namespace {

using Values = std::vector<at::Tensor>;

// The inputs of a call by the names of the signature.
class Arguments {
 public:
  explicit Arguments(const Call& call) : call_(call) {
    for (const ArgDef& input : call.signature().inputs) slots_ += input.dtype == DType::kResource;
  }

  int slots() const { return slots_; }  // the variable and its slots, the first inputs
  const at::Tensor& tensor(std::string_view name) const { return in(call_, place(name)); }
  double number(std::string_view name) const { return tensor(name).item().toDouble(); }
  bool has(std::string_view name) const { return find(name).has_value(); }
  // Whether rows of more than one element are updated.
  bool rows_of_several() const { return has("indices") && gradient().numel() > gradient().size(0); }
  const at::Tensor& gradient() const { return tensor(has("grad") ? "grad" : "delta"); }
  bool flag(std::string_view name) const { return call_.attr<bool>(name); }

 private:
  std::optional<int> find(std::string_view name) const {
    const auto& inputs = call_.signature().inputs;
    const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const ArgDef& arg) { return arg.name == name; });
    return found == inputs.end() ? std::nullopt : std::optional(static_cast<int>(found - inputs.begin()));
  }
  int place(std::string_view name) const {
    const auto found = find(name);
    if (!found) throw_internal(fmt::format("{} has no input '{}'", call_.name(), name));
    return *found;
  }

  const Call& call_;
  int slots_ = 0;
};

// The new values of the variable and its slots, in the order of the signature.
using Rule = Values (*)(const Values& old, const at::Tensor& g, const Arguments& in);

Values momentum(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double lr = in.number("lr"), momentum = in.number("momentum");
  const at::Tensor a = old[1] * momentum + g;
  return {old[0] - (in.flag("use_nesterov") ? g + a * momentum : a) * lr, a};
}

Values keras_momentum(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double lr = in.number("lr"), momentum = in.number("momentum");
  const at::Tensor a = old[1] * momentum - g * lr;
  return {old[0] + (in.flag("use_nesterov") ? a * momentum - g * lr : a), a};
}

double adam_rate(const Arguments& in) {
  return in.number("lr") * std::sqrt(1 - in.number("beta2_power")) / (1 - in.number("beta1_power"));
}

Values adam(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double beta1 = in.number("beta1"), beta2 = in.number("beta2");
  const at::Tensor m = old[1] * beta1 + g * (1 - beta1), v = old[2] * beta2 + g * g * (1 - beta2);
  const at::Tensor step = in.flag("use_nesterov") ? m * beta1 + g * (1 - beta1) : m;
  return {old[0] - step * adam_rate(in) / (at::sqrt(v) + in.number("epsilon")), m, v};
}

Values adam_with_amsgrad(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double beta1 = in.number("beta1"), beta2 = in.number("beta2");
  const at::Tensor m = old[1] * beta1 + g * (1 - beta1), v = old[2] * beta2 + g * g * (1 - beta2);
  const at::Tensor largest = at::maximum(old[3], v);
  return {old[0] - m * adam_rate(in) / (at::sqrt(largest) + in.number("epsilon")), m, v, largest};
}

Values ada_max(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double beta1 = in.number("beta1");
  const at::Tensor m = old[1] * beta1 + g * (1 - beta1), v = at::maximum(old[2] * in.number("beta2"), at::abs(g));
  return {old[0] - m / (v + in.number("epsilon")) * (in.number("lr") / (1 - in.number("beta1_power"))), m, v};
}

Values adadelta(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double rho = in.number("rho"), epsilon = in.number("epsilon");
  const at::Tensor a = old[1] * rho + g * g * (1 - rho);
  const at::Tensor update = at::sqrt(old[2] + epsilon) * at::rsqrt(a + epsilon) * g;
  return {old[0] - update * in.number("lr"), a, old[2] * rho + update * update * (1 - rho)};
}

Values adagrad(const Values& old, const at::Tensor& g, const Arguments& in) {
  const at::Tensor a = in.flag("update_slots") ? old[1] + g * g : old[1];
  return {old[0] - g * in.number("lr") * at::rsqrt(a), a};
}

Values adagrad_v2(const Values& old, const at::Tensor& g, const Arguments& in) {
  const at::Tensor a = in.flag("update_slots") ? old[1] + g * g : old[1];
  return {old[0] - g * in.number("lr") / (at::sqrt(a) + in.number("epsilon")), a};
}

Values rms_prop(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double rho = in.number("rho");
  const at::Tensor ms = old[1] * rho + g * g * (1 - rho);
  const at::Tensor mom = old[2] * in.number("momentum") + g * in.number("lr") / at::sqrt(ms + in.number("epsilon"));
  return {old[0] - mom, ms, mom};
}

Values centered_rms_prop(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double rho = in.number("rho");
  const at::Tensor mg = old[1] * rho + g * (1 - rho), ms = old[2] * rho + g * g * (1 - rho);
  const at::Tensor mom =
      old[3] * in.number("momentum") + g * in.number("lr") / at::sqrt(ms - mg * mg + in.number("epsilon"));
  return {old[0] - mom, mg, ms, mom};
}

template <bool shrinkage>
Values ftrl(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double lr = in.number("lr"), l1 = in.number("l1"), l2 = in.number("l2"), power = -in.number("lr_power");
  const bool by_lr = in.flag("multiply_linear_by_lr");
  const at::Tensor a = old[1] + g * g, shrunk = shrinkage ? g + old[0] * (2 * in.number("l2_shrinkage")) : g;
  const at::Tensor now = at::pow(a, power), change = (now - at::pow(old[1], power)) * old[0];
  const at::Tensor linear = by_lr ? old[2] + shrunk * lr - change : old[2] + shrunk - change / lr;
  const double bound = by_lr ? l1 * lr : l1;
  const at::Tensor quadratic = by_lr ? now + 2 * l2 * lr : now / lr + 2 * l2;
  const at::Tensor pulled = (at::sign(linear) * bound - linear) / quadratic;
  return {at::where(at::abs(linear) > bound, pulled, at::zeros_like(linear)), a, linear};
}

Values add_sign(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double beta = in.number("beta");
  const at::Tensor m = old[1] * beta + g * (1 - beta);
  return {old[0] - (at::sign(g) * at::sign(m) * in.number("sign_decay") + in.number("alpha")) * g * in.number("lr"), m};
}

Values power_sign(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double beta = in.number("beta");
  const at::Tensor m = old[1] * beta + g * (1 - beta);
  const at::Tensor power = at::sign(m) * at::sign(g) * (in.number("logbase") * in.number("sign_decay"));
  return {old[0] - at::exp(power) * g * in.number("lr"), m};
}

// Pulled towards zero by `amount`, which is zero or a number for each element.
at::Tensor shrunk(const at::Tensor& x, const at::Tensor& amount) { return at::sign(x) * at::relu(at::abs(x) - amount); }

Values adagrad_da(const Values& old, const at::Tensor& g, const Arguments& in) {
  const double lr = in.number("lr"), l1 = in.number("l1"), step = in.number("global_step");
  const at::Tensor sum = old[1] + g, squares = old[2] + g * g;
  if (in.rows_of_several()) {  // the same divided by the step, which may be zero there
    const at::Tensor pulled = l1 > 0 ? at::sign(sum) * at::relu(at::abs(sum) / step - l1) : sum / step;
    return {pulled * -lr / (at::sqrt(squares) / step + in.number("l2") * lr), sum, squares};
  }
  const at::Tensor pulled = l1 > 0 ? shrunk(sum, at::full_like(sum, l1 * step)) : sum;
  return {pulled * -lr / (at::sqrt(squares) + in.number("l2") * step * lr), sum, squares};
}

// A step with a rate for each element, then the penalties' proximal operator.
at::Tensor proximal(const at::Tensor& old, const at::Tensor& g, const at::Tensor& rate, const Arguments& in) {
  const double l1 = in.number("l1");
  const at::Tensor moved = old - g * rate;
  return (l1 > 0 ? shrunk(moved, rate * l1) : moved) / (rate * in.number("l2") + 1);
}

Values proximal_adagrad(const Values& old, const at::Tensor& g, const Arguments& in) {
  const at::Tensor a = old[1] + g * g;
  return {proximal(old[0], g, at::rsqrt(a) * in.number("lr"), in), a};
}

Values proximal_gradient_descent(const Values& old, const at::Tensor& g, const Arguments& in) {
  return {proximal(old[0], g, at::full_like(g, in.number("alpha")), in)};
}

// Requirements of TensorFlow's kernels on the hyperparameters; for Ftrl only the kernel for rows has them.
void check_numbers(const Arguments& in) {
  const double lr = in.number("lr");
  const bool zero_fits = in.has("linear") && in.flag("multiply_linear_by_lr");
  if (!(lr > 0 || (zero_fits && lr == 0)))
    throw_invalid_argument(fmt::format("invalid lr: found {}, expected a positive number", lr));
  for (const char* name : {"l1", "l2", "l2_shrinkage"}) {
    if (in.has(name) && !(in.number(name) >= 0))
      throw_invalid_argument(fmt::format("invalid {}: found {}, expected 0 or more", name, in.number(name)));
  }
  if (in.has("lr_power") && !(in.number("lr_power") <= 0))
    throw_invalid_argument(fmt::format("invalid lr_power: found {}, expected 0 or less", in.number("lr_power")));
}

void check_columns(const Call& call) {
  const Shape shape = variable_in(call).shape();
  const auto& dims = shape.dims();
  if (std::any_of(dims.begin() + 1, dims.end(), [](std::int64_t size) { return size == 0; }))
    throw_invalid_argument(
        fmt::format("the variable has shape {}, expected rows with one element or more", shape.to_string()));
}

Values slots_of(const Call& call, int count) {
  Values old;
  for (int i = 0; i < count; ++i) {
    old.push_back(dense(variable_in(call, i).read()).detach());
    if (old[static_cast<std::size_t>(i)].sizes() != old[0].sizes()) {
      throw_invalid_argument(fmt::format(
          "slot '{}' has shape {}, the variable {}", call.signature().inputs[static_cast<std::size_t>(i)].name,
          variable_in(call, i).shape().to_string(), variable_in(call).shape().to_string()));
    }
  }
  return old;
}

Tensors write(const Call& call, const Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) variable_in(call, static_cast<int>(i)).assign(wrap(values[i]));
  return {};
}

enum class Checks { kNone, kColumns, kNumbersOfRows, kNumbers };

Tensors apply(const Call& call, Rule rule, Checks checks) {
  const Arguments arguments(call);
  if (checks == Checks::kNumbers) check_numbers(arguments);
  const Values old = slots_of(call, arguments.slots());
  const at::Tensor& g = arguments.gradient();
  if (g.sizes() != old[0].sizes()) {
    throw_invalid_argument(fmt::format("the variable has shape {}, its gradient {}",
                                       variable_in(call).shape().to_string(), wrap(g).shape().to_string()));
  }
  return write(call, rule(old, g, arguments));
}

// Row `indices[i]` of the variable and its slots gets row i of the gradient, one after another.
Tensors apply_rows(const Call& call, Rule rule, Checks checks) {
  const Arguments arguments(call);
  if (checks >= Checks::kNumbersOfRows) check_numbers(arguments);
  Values values = slots_of(call, arguments.slots());
  const at::Tensor& g = arguments.gradient();
  const Ints rows = ints_of(arguments.tensor("indices"));
  Ints expected = values[0].sizes().vec();
  if (expected.empty()) throw_invalid_argument("a scalar variable has no rows");
  if (checks != Checks::kNone) check_columns(call);
  for (std::int64_t row : rows) {
    if (row < 0 || row >= expected[0]) {
      throw_invalid_argument(fmt::format("indices contains {}, which is not in [0, {})", row, expected[0]));
    }
  }
  expected[0] = static_cast<std::int64_t>(rows.size());
  if (g.sizes() != at::IntArrayRef(expected)) {
    throw_invalid_argument(fmt::format("the gradient has shape {}, expected {}", wrap(g).shape().to_string(),
                                       Shape(expected).to_string()));
  }
  for (at::Tensor& value : values) value = value.clone();
  const auto update = [&](const at::Tensor& places, const at::Tensor& gradient) {
    Values old;
    for (const at::Tensor& value : values) old.push_back(value.index_select(0, places));
    const Values now = rule(old, gradient, arguments);
    for (std::size_t i = 0; i < values.size(); ++i) values[i].index_copy_(0, places, now[i]);
  };
  const at::Tensor places = arguments.tensor("indices").to(at::kLong);
  if (std::set<std::int64_t>(rows.begin(), rows.end()).size() == rows.size()) {
    update(places, g);
  } else {
    for (std::int64_t i = 0; i < expected[0]; ++i) update(places.narrow(0, i, 1), g.narrow(0, i, 1));
  }
  return write(call, values);
}

Tensors apply_gradient_descent(const Call& call) {
  VariableResource& variable = variable_in(call);
  const at::Tensor& delta = in(call, 2);
  const at::Tensor old = dense(variable.read()).detach();
  if (delta.sizes() != old.sizes()) {
    throw_invalid_argument(fmt::format("the variable has shape {}, the update {}", variable.shape().to_string(),
                                       call.input(2).shape().to_string()));
  }
  variable.assign(wrap(old - delta * in(call, 1).item().toDouble()));
  return {};
}

}  // namespace

void register_apply_rules(Table& table) {
  const struct {
    const char* name;
    Rule rule;
    bool of_rows;
    Checks checks = Checks::kNone;
  } rows[] = {{"Adadelta", adadelta, true},
              {"Adagrad", adagrad, true, Checks::kColumns},
              {"AdagradV2", adagrad_v2, true, Checks::kColumns},
              {"Adam", adam, false},
              {"AdamWithAmsgrad", adam_with_amsgrad, false},
              {"AdaMax", ada_max, false},
              {"AdagradDA", adagrad_da, true, Checks::kColumns},
              {"AddSign", add_sign, false},
              {"CenteredRMSProp", centered_rms_prop, true},
              {"Ftrl", ftrl<false>, true, Checks::kNumbersOfRows},
              {"FtrlV2", ftrl<true>, true, Checks::kNumbersOfRows},
              {"KerasMomentum", keras_momentum, true},
              {"Momentum", momentum, true},
              {"PowerSign", power_sign, false},
              {"ProximalAdagrad", proximal_adagrad, true, Checks::kNumbers},
              {"ProximalGradientDescent", proximal_gradient_descent, true, Checks::kColumns},
              {"RMSProp", rms_prop, true}};
  for (const auto& row : rows) {
    const Rule rule = row.rule;
    const Checks checks = row.checks;
    table.add(fmt::format("ResourceApply{}", row.name), no_outputs,
              [=](const Call& call) { return apply(call, rule, checks); });
    if (!row.of_rows) continue;
    table.add(fmt::format("ResourceSparseApply{}", row.name), no_outputs,
              [=](const Call& call) { return apply_rows(call, rule, checks); });
  }
  table.add("ResourceApplyGradientDescent", no_outputs, apply_gradient_descent);
}

}  // namespace lockstep::ops
