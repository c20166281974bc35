// Resource variables: reads and writes of whole values and of parts.
#include <memory>

#include "lockstep/ops/call.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/ops/variables_internal.h"

namespace lockstep::ops {

VariableResource& variable_in(const Call& call, int i) {
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

namespace {

Shape variable_shape(const Call& call, int i = 0) {
  const Tensor& handle = call.input(i);
  if (handle.is_symbolic() || !handle.impl()->resource) return Shape::unknown_rank();
  const auto* found = dynamic_cast<const VariableResource*>(handle.resource_value().get());
  return found ? found->shape() : Shape::unknown_rank();
}

Tensors read(const Call& call) {
  VariableResource& v = variable_in(call);
  if (!v.is_initialized()) {
    throw_failed_precondition(
        fmt::format("variable '{}' is read before it was assigned; initialize it first", v.resource_name()));
  }
  return {v.read()};
}

Tensors assign(const Call& call) {
  const auto* validate = call.find_attr<bool>("validate_shape");
  VariableResource& v = variable_in(call);
  if (validate && *validate && v.is_initialized()) {
    const Shape now = v.shape().fully_known() ? v.shape() : v.read().shape();
    if (!(now == call.input(1).shape())) {
      throw_invalid_argument(fmt::format("variable '{}' has shape {}, assigned {}", v.resource_name(), now.to_string(),
                                         call.input(1).shape().to_string()));
    }
  }
  v.assign(call.input(1));
  return {};
}

Tensors add_to(const Call& call, int sign) {
  VariableResource& v = variable_in(call);
  const at::Tensor value = dense(v.read()).detach(), &delta = in(call, 1);
  if (value.sizes() != delta.sizes()) {
    throw_invalid_argument(fmt::format("variable '{}' has shape {}, the update {}", v.resource_name(),
                                       Shape(value.sizes().vec()).to_string(), call.input(1).shape().to_string()));
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
                 {variable_in(call).read(), call.input(1),
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
  VariableResource& v = variable_in(call);
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
    out = add_rows(value, indices, updates, how == Scatter::kSub);
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

Tensors scatter_nd(const Call& call, std::string_view on_values) {
  VariableResource& v = variable_in(call);
  Attrs attrs;
  if (const auto* policy = call.find_attr<std::string>("bad_indices_policy")) attrs.set("bad_indices_policy", *policy);
  v.assign(through(on_values, {wrap(dense(v.read()).detach()), call.input(1), call.input(2)}, std::move(attrs))[0]);
  return {};
}

// The places in a tensor with `dims` that StridedSlice takes with the same begin, end, strides and masks.
at::Tensor places_of_slice(const Call& call, at::IntArrayRef dims) {
  Attrs masks;
  for (const char* name : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
    masks.set(name, call.attr<std::int64_t>(name));
  }
  const at::Tensor numbers = at::arange(c10::multiply_integers(dims), at::kLong).reshape(dims);
  return dense(through("StridedSlice", {wrap(numbers), call.input(1), call.input(2), call.input(3)}, masks)[0]);
}

// The value for the places, which is repeated along axes where it has one element.
Tensor value_for(const Call& call, const at::Tensor& places) {
  const Tensor& value = call.input(4);
  Ints dims = value.shape().dims();
  while (static_cast<std::int64_t>(dims.size()) > places.dim() && dims.front() == 1) dims.erase(dims.begin());
  const Shape slice(places.sizes().vec());
  const bool fits = static_cast<std::int64_t>(dims.size()) <= places.dim() &&
                    std::equal(dims.rbegin(), dims.rend(), places.sizes().rbegin(),
                               [](std::int64_t given, std::int64_t wanted) { return given == wanted || given == 1; });
  if (!fits) {
    throw_invalid_argument(
        fmt::format("the slice has shape {}, the value {}", slice.to_string(), value.shape().to_string()));
  }
  const Tensor reshaped = call1("Reshape", {value, wrap(int64_tensor(dims))});
  return call1("BroadcastTo", {reshaped, wrap(int64_tensor(slice.dims()))});
}

// `x` with the value at the places.
at::Tensor assign_slice(const Call& call, const at::Tensor& x) {
  const at::Tensor places = places_of_slice(call, x.sizes());
  if (places.numel() == 0) return x;
  const at::Tensor value = dense(value_for(call, places));
  const at::Tensor changed = widen(x).flatten().index_copy(0, places.flatten(), widen(value).flatten());
  return narrow_to(changed.reshape(x.sizes()), x.scalar_type());
}

Tensors update_slice(const Call& call) {
  const Tensor& x = call.input(0);
  if (x.dtype() != DType::kString) return one(assign_slice(call, in(call, 0)));
  const at::Tensor places = places_of_slice(call, x.shape().dims());
  if (places.numel() == 0) return {x};
  const Tensor value = value_for(call, places);
  std::vector<std::string> texts(x.string_values().begin(), x.string_values().end());
  const Ints order = ints_of(places.flatten());
  for (std::size_t i = 0; i < order.size(); ++i) texts[static_cast<std::size_t>(order[i])] = value.string_values()[i];
  return {Tensor::strings(std::move(texts), x.shape())};
}

Tensors strided_slice_assign(const Call& call) {
  VariableResource& v = variable_in(call);
  v.assign(ops::detach(wrap(assign_slice(call, dense(v.read()).detach()))));
  return {};
}

Tensors count_up_to(const Call& call) {
  VariableResource& v = variable_in(call);
  const at::Tensor now = dense(v.read()).detach();
  if (now.dim() != 0) throw_invalid_argument(fmt::format("variable '{}' is not a scalar", v.resource_name()));
  const auto limit = call.attr<std::int64_t>("limit");
  if (now.item().toLong() >= limit) throw_out_of_range(fmt::format("reached the limit of {}", limit));
  v.assign(wrap(now + 1));
  return one(now);
}

}  // namespace

void register_variables(Table& table) {
  table.add(
      "ReadVariableOp", [](const Call& call) { return Shapes{variable_shape(call)}; }, read);
  table.add("AssignVariableOp", no_outputs, assign);
  table.add("AssignAddVariableOp", no_outputs, [](const Call& call) { return add_to(call, 1); });
  table.add("AssignSubVariableOp", no_outputs, [](const Call& call) { return add_to(call, -1); });
  table.add("VarIsInitializedOp", scalar_rule,
            [](const Call& call) { return one(at::full({}, variable_in(call).is_initialized(), at::kBool)); });
  table.add("DisableCopyOnRead", no_outputs, [](const Call&) { return Tensors{}; });
  table.add(
      "VariableShape",
      [](const Call& call) {
        const Shape shape = variable_shape(call);
        return Shapes{Shape{shape.known_rank() ? shape.rank() : kUnknownDim}};
      },
      [](const Call& call) {
        VariableResource& v = variable_in(call);
        const Shape shape = v.shape().fully_known() ? v.shape() : v.read().shape();
        return one(
            at::tensor(at::IntArrayRef(shape.dims()), at::kLong).to(to_scalar_type(call.attr<DType>("out_type"))));
      });
  table.add("ResourceGather", gather_shape, resource_gather);
  table.add("ResourceGatherNd", nullptr, [](const Call& call) {
    return through("GatherNd", {variable_in(call).read(), call.input(1)});
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
  for (const char* suffix : {"Update", "Add", "Sub", "Max", "Min"}) {
    const std::string on_values = fmt::format("TensorScatter{}", suffix);
    table.add(fmt::format("ResourceScatterNd{}", suffix), no_outputs,
              [on_values](const Call& call) { return scatter_nd(call, on_values); });
  }
  table.add("ResourceStridedSliceAssign", no_outputs, strided_slice_assign);
  table.add("TensorStridedSliceUpdate", same_shape, update_slice);
  table.add("ResourceCountUpTo", scalar_rule, count_up_to);
  register_apply_rules(table);
}

}  // namespace lockstep::ops
