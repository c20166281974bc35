// keras.ops.math, keras.ops.core and keras.ops.linalg
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"

namespace lockstep::keras::tensor_ops {
namespace {

// Of integers up to 32 bits, which float32 holds nearly.
std::pair<double, double> limits_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8: return {0, 255};
    case DType::kInt8: return {-128, 127};
    case DType::kUInt16: return {0, 65535};
    case DType::kInt16: return {-32768, 32767};
    default: bad(fmt::format("SaturateCast to {} is not supported", dtype_name(dtype)));
  }
}

Tensor matrices_transposed(const Tensor& x) {
  ops::Ints order;
  for (int i = 0; i + 2 < x.rank(); ++i) order.push_back(i);
  order.push_back(x.rank() - 1);
  order.push_back(x.rank() - 2);
  return ops::transpose(x, order);
}

// Of vectors along one axis, or of all elements of matrices.
Tensor norm(const Tensor& x, const Json& order, const ops::Axes& axes, bool keepdims) {
  const bool euclidean = order.is_null() || order == "fro" || (order == 2 && axes && axes->size() == 1);
  if (euclidean) return ops::sqrt(ops::reduce_sum(ops::square(x), axes, keepdims));
  const bool vectors = (axes && axes->size() == 1) || (!axes && x.rank() == 1);
  if (!vectors) bad(fmt::format("Norm of matrices with ord {} is not supported", dump_json(order)));
  const Tensor size = ops::abs(x);
  if (order == "inf" || (order.is_number() && std::isinf(order.get<double>()) && order.get<double>() > 0))
    return ops::reduce_max(size, axes, keepdims);
  if (order == "-inf" || (order.is_number() && std::isinf(order.get<double>())))
    return ops::reduce_min(size, axes, keepdims);
  if (!order.is_number()) bad(fmt::format("Norm with ord {} is not supported", dump_json(order)));
  const double p = order.get<double>();
  if (p == 0) return ops::reduce_sum(ops::cast(ops::not_equal(x, 0.0), x.dtype()), axes, keepdims);
  if (p == 1) return ops::reduce_sum(size, axes, keepdims);
  if (p == 2) return ops::sqrt(ops::reduce_sum(ops::square(x), axes, keepdims));
  return ops::pow(ops::reduce_sum(ops::pow(size, p), axes, keepdims), 1.0 / p);
}

}  // namespace

void add_math_and_core(Rows& rows) {
  rows["Rsqrt"] = {"Rsqrt", "keras.src.ops.math", floating(ops::rsqrt)};
  rows["Erf"] = {"Erf", "keras.src.ops.math", floating(ops::erf)};
  rows["Logsumexp"] = {"Logsumexp", "keras.src.ops.math", reduction(ops::reduce_logsumexp, false, true)};
  rows["Cast"] = {"Cast", "keras.src.ops.core", [](const CallArguments& call, const Json& config) {
                    return Structure(ops::cast(tensor_operand(call), dtype_of(get(config, "dtype"))));
                  }};
  // What is a tensor already stays as it is, but for its dtype.
  rows["ConvertToTensor"] = {"ConvertToTensor", "keras.src.ops.core",
                             [](const CallArguments& call, const Json& config) {
                               const Tensor x = tensor_operand(call);
                               return Structure(ops::cast(ops::identity(x), dtype_or(config, x.dtype())));
                             }};
  rows["Erfc"] = {"Erfc", "keras.src.ops.math", floating(ops::erfc)};
  rows["StopGradient"] = {"StopGradient", "keras.src.ops.core", unary(ops::stop_gradient)};
  const auto math = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.math", std::move(run)}; };
  const auto core = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.core", std::move(run)}; };
  const auto linalg = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.linalg", std::move(run)}; };
  math("Erfinv", floating([](const Tensor& x) { return ops::call1("Erfinv", {x}); }));
  math("Logdet", floating([](const Tensor& x) { return ops::call("LogMatrixDeterminant", {x})[1]; }));
  math("TopK", [](const CallArguments& call, const Json& config) {
    const ops::TopK best = ops::top_k(tensor_operand(call), get(config, "k").get<std::int64_t>());
    return Structure::list({best.values, best.indices});
  });
  math("InTopK", [](const CallArguments& call, const Json& config) {
    return Structure(ops::in_top_k(floating_operand(call, 1, "predictions"),
                                   ops::cast(tensor_operand(call, 0, "targets"), DType::kInt32),
                                   get(config, "k").get<std::int64_t>()));
  });
  core("Unstack", [](const CallArguments& call, const Json& config) {
    Structure::List out;
    for (Tensor& each : ops::unstack(tensor_operand(call), axis_or(config, 0))) out.emplace_back(std::move(each));
    return Structure::list(std::move(out));
  });
  core("Slice", [](const CallArguments& call, const Json& config) {
    const Tensor start = tensor_operand(call, 1, "start_indices");
    Tensors sizes;
    const Tensor x = tensor_operand(call, 0, "inputs");
    const Json shape = get(config, "shape");
    for (int i = 0; i < x.rank(); ++i) {
      const Json size = shape.at(static_cast<std::size_t>(i));
      sizes.push_back(size.is_null() ? ops::dim_of(x, i) : Tensor::scalar(size.get<std::int32_t>()));
    }
    return Structure(ops::slice(x, ops::cast(start, DType::kInt32), ops::stack(sizes)));
  });
  core("SaturateCast", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    const DType to = dtype_of(get(config, "dtype"));
    if (is_floating(to) || to == DType::kBool) return Structure(ops::cast(x, to));
    const auto range = limits_of(to);
    return Structure(ops::cast(ops::clip_by_value(x, range.first, range.second), to));
  });
  linalg("Cholesky", [](const CallArguments& call, const Json& config) {
    const Tensor lower = ops::call1("Cholesky", {floating_operand(call)});
    return Structure(get(config, "upper", false) == true ? matrices_transposed(lower) : lower);
  });
  linalg("Det", floating([](const Tensor& x) { return ops::call1("MatrixDeterminant", {x}); }));
  linalg("Inv", floating([](const Tensor& x) { return ops::call1("MatrixInverse", {x}); }));
  linalg("Solve", [](const CallArguments& call, const Json&) {
    const Tensor a = floating_operand(call, 0, "a"), b = floating_operand(call, 1, "b");
    if (b.rank() == a.rank()) return Structure(ops::call1("MatrixSolve", {a, b}));
    return Structure(ops::squeeze(ops::call1("MatrixSolve", {a, ops::expand_dims(b, -1)}), {-1}));
  });
  linalg("SolveTriangular", [](const CallArguments& call, const Json& config) {
    const Tensor a = floating_operand(call, 0, "a"), b = floating_operand(call, 1, "b");
    const bool lower = get(config, "lower", false).get<bool>();
    const bool vector = b.rank() == a.rank() - 1;
    const Tensor y = ops::call1("MatrixTriangularSolve", {a, vector ? ops::expand_dims(b, -1) : b}, {{"lower", lower}});
    return Structure(vector ? ops::squeeze(y, {-1}) : y);
  });
  linalg("Norm", [](const CallArguments& call, const Json& config) {
    return Structure(norm(floating_operand(call), get(config, "ord"), axes_of(config), keepdims_of(config)));
  });
}

}  // namespace lockstep::keras::tensor_ops
