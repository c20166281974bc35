// Resource variables: reads, writes, and the update rules that exported training graphs contain.
#include <memory>

#include "lockstep/ops/call.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

VariableResource& variable(const Call& call, int i = 0) {
  auto* found = dynamic_cast<VariableResource*>(call.input(i).resource_value().get());
  if (!found) throw_invalid_argument(fmt::format("input {} is not a variable", i));
  for (const char* name : {"dtype", "T"}) {
    const DType* declared = call.find_attr<DType>(name);
    if (!declared || *declared == found->dtype()) continue;
    throw_invalid_argument(fmt::format("variable '{}' is {}, the call expects {}", found->resource_name(),
                                       dtype_name(found->dtype()), dtype_name(*declared)));
  }
  return *found;
}
Shape variable_shape(const Call& call, int i = 0) {
  const Tensor& handle = call.input(i);
  if (handle.is_symbolic() || !handle.impl()->resource) return Shape::unknown_rank();
  const auto* found = dynamic_cast<const VariableResource*>(handle.resource_value().get());
  return found ? found->shape() : Shape::unknown_rank();
}

Tensors read(const Call& call) {
  VariableResource& v = variable(call);
  if (!v.is_initialized()) {
    throw_failed_precondition(
        fmt::format("variable '{}' is read before it was assigned; initialize it first", v.resource_name()));
  }
  return {v.read()};
}

Tensors assign(const Call& call) {
  const auto* validate = call.find_attr<bool>("validate_shape");
  VariableResource& v = variable(call);
  if (validate && *validate && v.is_initialized() && !v.shape().compatible_with(call.input(1).shape())) {
    throw_invalid_argument(fmt::format("variable '{}' has shape {}, assigned {}", v.resource_name(),
                                       v.shape().to_string(), call.input(1).shape().to_string()));
  }
  v.assign(call.input(1));
  return {};
}

Tensors add_to(const Call& call, int sign) {
  VariableResource& v = variable(call);
  const at::Tensor value = dense(v.read()).detach(), &delta = in(call, 1);
  if (value.sizes() != delta.sizes()) {
    throw_invalid_argument(fmt::format("variable '{}' has shape {}, the update {}", v.resource_name(),
                                       v.shape().to_string(), call.input(1).shape().to_string()));
  }
  v.assign(wrap(at::add(value, delta, sign)));
  return {};
}

// Runs a row of the table on the variable's value.
Tensors through(std::string_view name, std::vector<Tensor> inputs, Attrs attrs = {}) {
  const Op& op = Table::instance().at(name);
  attrs = complete_attrs(*op.signature, inputs, std::move(attrs));
  return run_kernel(op, inputs, attrs);
}

Tensors resource_gather(const Call& call) {
  return through("GatherV2",
                 {variable(call).read(), call.input(1),
                  Tensor::scalar<std::int32_t>(static_cast<std::int32_t>(call.attr<std::int64_t>("batch_dims")))},
                 {{"batch_dims", call.attr<std::int64_t>("batch_dims")}});
}
Shapes gather_shape(const Call& call) {
  const Shape params = variable_shape(call), &indices = call.input(1).shape();
  const auto batch = call.attr<std::int64_t>("batch_dims");
  if (!params.known_rank() || !indices.known_rank()) return {Shape::unknown_rank()};
  if (batch < 0 || batch > indices.rank()) throw_invalid_argument("batch_dims is out of range");
  Shape out = indices;
  for (int i = static_cast<int>(batch) + 1; i < params.rank(); ++i) out.push_back(params[i]);
  return {out};
}

enum class Scatter { kUpdate, kAdd, kSub, kMul, kDiv, kMax, kMin };
// Rows of the variable named by indices of any shape.
Tensors scatter(const Call& call, Scatter how) {
  VariableResource& v = variable(call);
  const at::Tensor value = dense(v.read()).detach(), indices = in(call, 1).to(at::kLong).reshape({-1});
  const std::int64_t rows = value.size(0);
  for (auto i : ints_of(indices)) {
    if (i < 0 || i >= rows) throw_invalid_argument(fmt::format("indices = {} is not in [0, {})", i, rows));
  }
  Ints shape = value.sizes().vec();
  shape[0] = indices.numel();
  const at::Tensor updates = in(call, 2).dim() == 0 ? in(call, 2).expand(shape) : in(call, 2).reshape(shape);
  at::Tensor out;
  if (how == Scatter::kAdd || how == Scatter::kSub) {
    out = value.index_add(0, indices, updates, how == Scatter::kAdd ? 1 : -1);
  } else {
    out = value.clone();  // one row after another: later updates see earlier ones
    const Ints order = ints_of(indices);
    for (std::size_t i = 0; i < order.size(); ++i) {
      at::Tensor row = out.select(0, order[i]);
      const at::Tensor update = updates.select(0, static_cast<std::int64_t>(i));
      switch (how) {
        case Scatter::kMul: row.mul_(update); break;
        case Scatter::kDiv: row.div_(update); break;
        case Scatter::kMax: row.copy_(at::maximum(row, update)); break;
        case Scatter::kMin: row.copy_(at::minimum(row, update)); break;
        default: row.copy_(update); break;
      }
    }
  }
  v.assign(wrap(out));
  return {};
}

double number(const Call& call, int i) { return in(call, i).item().toDouble(); }
at::Tensor value_of(const Call& call, int i) { return dense(variable(call, i).read()).detach(); }
void write(const Call& call, int i, const at::Tensor& value) { variable(call, i).assign(wrap(value)); }

Tensors apply_gradient_descent(const Call& call) {
  write(call, 0, value_of(call, 0) - in(call, 2) * number(call, 1));
  return {};
}
Tensors apply_momentum(const Call& call) {
  const double lr = number(call, 2), momentum = number(call, 4);
  const at::Tensor& g = in(call, 3);
  const at::Tensor a = value_of(call, 1) * momentum + g;
  write(call, 1, a);
  write(call, 0, value_of(call, 0) - (call.attr<bool>("use_nesterov") ? g + a * momentum : a) * lr);
  return {};
}
Tensors apply_keras_momentum(const Call& call) {
  const double lr = number(call, 2), momentum = number(call, 4);
  const at::Tensor& g = in(call, 3);
  const at::Tensor a = value_of(call, 1) * momentum - g * lr;
  write(call, 1, a);
  write(call, 0, value_of(call, 0) + (call.attr<bool>("use_nesterov") ? a * momentum - g * lr : a));
  return {};
}
Tensors apply_adam(const Call& call) {
  const double power1 = number(call, 3), power2 = number(call, 4), lr = number(call, 5), beta1 = number(call, 6),
               beta2 = number(call, 7), epsilon = number(call, 8);
  const at::Tensor& g = in(call, 9);
  const at::Tensor m = value_of(call, 1) * beta1 + g * (1 - beta1), v = value_of(call, 2) * beta2 + g * g * (1 - beta2);
  const double rate = lr * std::sqrt(1 - power2) / (1 - power1);
  write(call, 1, m), write(call, 2, v);
  write(call, 0,
        value_of(call, 0) -
            (call.attr<bool>("use_nesterov") ? m * beta1 + g * (1 - beta1) : m) * rate / (at::sqrt(v) + epsilon));
  return {};
}
Tensors apply_adagrad_v2(const Call& call) {
  const double lr = number(call, 2), epsilon = number(call, 3);
  const at::Tensor& g = in(call, 4);
  const at::Tensor a = call.attr<bool>("update_slots") ? value_of(call, 1) + g * g : value_of(call, 1);
  write(call, 1, a);
  write(call, 0, value_of(call, 0) - g * lr / (at::sqrt(a) + epsilon));
  return {};
}
Tensors apply_rms_prop(const Call& call) {
  const double lr = number(call, 3), rho = number(call, 4), momentum = number(call, 5), epsilon = number(call, 6);
  const at::Tensor& g = in(call, 7);
  const at::Tensor ms = value_of(call, 1) * rho + g * g * (1 - rho);
  const at::Tensor mom = value_of(call, 2) * momentum + g * lr / at::sqrt(ms + epsilon);
  write(call, 1, ms), write(call, 2, mom);
  write(call, 0, value_of(call, 0) - mom);
  return {};
}

}  // namespace

void register_variables(Table& table) {
  table.add(
      "ReadVariableOp", [](const Call& call) { return Shapes{variable_shape(call)}; }, read);
  table.add("AssignVariableOp", no_outputs, assign);
  table.add("AssignAddVariableOp", no_outputs, [](const Call& call) { return add_to(call, 1); });
  table.add("AssignSubVariableOp", no_outputs, [](const Call& call) { return add_to(call, -1); });
  table.add("VarIsInitializedOp", scalar_rule,
            [](const Call& call) { return one(at::full({}, variable(call).is_initialized(), at::kBool)); });
  table.add("DisableCopyOnRead", no_outputs, [](const Call&) { return Tensors{}; });
  table.add(
      "VariableShape",
      [](const Call& call) {
        const Shape shape = variable_shape(call);
        return Shapes{Shape{shape.known_rank() ? shape.rank() : kUnknownDim}};
      },
      [](const Call& call) {
        return one(at::tensor(at::IntArrayRef(variable(call).shape().dims()), at::kLong)
                       .to(to_scalar_type(call.attr<DType>("out_type"))));
      });
  table.add("ResourceGather", gather_shape, resource_gather);
  table.add("ResourceGatherNd", nullptr, [](const Call& call) {
    return through("GatherNd", {variable(call).read(), call.input(1)});
  });
  for (const auto& [suffix, how] : {std::pair{"Update", Scatter::kUpdate},
                                    {"Add", Scatter::kAdd},
                                    {"Sub", Scatter::kSub},
                                    {"Mul", Scatter::kMul},
                                    {"Div", Scatter::kDiv},
                                    {"Max", Scatter::kMax},
                                    {"Min", Scatter::kMin}}) {
    const Scatter kind = how;
    table.add(fmt::format("ResourceScatter{}", suffix), no_outputs,
              [kind](const Call& call) { return scatter(call, kind); });
  }
  table.add("ResourceApplyGradientDescent", no_outputs, apply_gradient_descent);
  table.add("ResourceApplyMomentum", no_outputs, apply_momentum);
  table.add("ResourceApplyKerasMomentum", no_outputs, apply_keras_momentum);
  table.add("ResourceApplyAdam", no_outputs, apply_adam);
  table.add("ResourceApplyAdagradV2", no_outputs, apply_adagrad_v2);
  table.add("ResourceApplyRMSProp", no_outputs, apply_rms_prop);
}

}  // namespace lockstep::ops
