// keras.ops.linalg
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"
#include "lockstep/ops/composed.h"

namespace lockstep::keras::tensor_ops {
namespace {

Tensor matrices_transposed(const Tensor& x) {
  ops::Ints order;
  for (int i = 0; i + 2 < x.rank(); ++i) order.push_back(i);
  order.push_back(x.rank() - 1);
  order.push_back(x.rank() - 2);
  return ops::transpose(x, order);
}

Tensor singular_values(const Tensor& x) { return ops::call("Svd", {x}, {{"compute_uv", false}})[0]; }

double machine_epsilon(const Tensor& x) {
  return x.dtype() == DType::kFloat64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}
double larger_side(const Tensor& x, std::string_view op) {
  return static_cast<double>(std::max(extent(x, x.rank() - 2, op), extent(x, x.rank() - 1, op)));
}
// A number, or one for each matrix: an argument that Keras stores with the operation.
double number_or(const Json& config, const char* key, double otherwise) {
  const Json given = get(config, key);
  if (given.is_null()) return otherwise;
  if (!given.is_number()) bad(fmt::format("{} is {}, expected a number", key, dump_json(given)));
  return given.get<double>();
}

double order_number(const Json& order) {
  if (order == "inf") return std::numeric_limits<double>::infinity();
  if (order == "-inf") return -std::numeric_limits<double>::infinity();
  if (!order.is_number()) bad(fmt::format("Norm with ord {} is not supported", dump_json(order)));
  return order.get<double>();
}

Tensor vector_norm(const Tensor& x, double p, const ops::Axes& axes, bool keepdims) {
  const Tensor size = ops::abs(x);
  if (std::isinf(p)) return p > 0 ? ops::reduce_max(size, axes, keepdims) : ops::reduce_min(size, axes, keepdims);
  if (p == 0) return ops::reduce_sum(ops::cast(ops::not_equal(x, 0.0), x.dtype()), axes, keepdims);
  if (p == 1) return ops::reduce_sum(size, axes, keepdims);
  return ops::pow(ops::reduce_sum(ops::pow(size, p), axes, keepdims), 1.0 / p);
}

Tensor matrix_norm(const Tensor& x, const Json& order, int rows, int columns, bool keepdims) {
  const bool nuclear = order == "nuc";
  const double p = nuclear ? 2 : order_number(order);
  if (nuclear || std::abs(p) == 2) {
    ops::Ints last;
    for (int i = 0; i < x.rank(); ++i) {
      if (i != rows && i != columns) last.push_back(i);
    }
    last.push_back(rows);
    last.push_back(columns);
    const Tensor s = singular_values(ops::transpose(x, last));
    const ops::Axes axis(-1);
    Tensor y = nuclear ? ops::reduce_sum(s, axis) : p > 0 ? ops::reduce_max(s, axis) : ops::reduce_min(s, axis);
    if (keepdims) y = ops::expand_dims(ops::expand_dims(y, std::min(rows, columns)), std::max(rows, columns));
    return y;
  }
  if (std::abs(p) != 1 && !std::isinf(p))
    bad(fmt::format("Norm of matrices with ord {} is not supported", dump_json(order)));
  const int summed = std::isinf(p) ? columns : rows, other = std::isinf(p) ? rows : columns;
  const Tensor sums = ops::reduce_sum(ops::abs(x), ops::Axes(summed), true);
  const Tensor y =
      p > 0 ? ops::reduce_max(sums, ops::Axes(other), true) : ops::reduce_min(sums, ops::Axes(other), true);
  return keepdims ? y : ops::squeeze(y, {summed, other});
}

struct Decomposition {
  Tensor u, s, v;
};
Decomposition decomposed(const Tensor& x, bool full) {
  const Tensors suv = ops::call("Svd", {x}, {{"compute_uv", true}, {"full_matrices", full}});
  return {suv[1], suv[0], suv[2]};
}

Tensor pseudo_inverse(const Tensor& x, const Json& config) {
  const double rcond = number_or(config, "rcond", 10 * larger_side(x, "Pinv") * machine_epsilon(x));
  const Decomposition d = decomposed(x, false);
  const Tensor least = ops::reduce_max(d.s, ops::Axes(-1), true) * rcond;
  const Tensor kept = ops::greater(d.s, least);
  const Tensor inverse = ops::where(kept, 1.0 / ops::where(kept, d.s, ops::ones_like(d.s)), ops::zeros_like(d.s));
  return ops::matmul(d.v * ops::expand_dims(inverse, -2), d.u, false, true);
}

Tensor least_squares(const Tensor& a, const Tensor& given, const Json& config) {
  if (a.rank() != 2 || given.rank() < 1 || given.rank() > 2)
    bad(fmt::format("Lstsq: found shapes {} and {}, expected a matrix and a vector or a matrix", a.shape().to_string(),
                    given.shape().to_string()));
  const Tensor b = given.rank() == 1 ? ops::expand_dims(given, 1) : given;
  const double epsilon = machine_epsilon(a);
  double rcond = number_or(config, "rcond", epsilon * larger_side(a, "Lstsq"));
  if (rcond < 0) rcond = epsilon;
  const Decomposition d = decomposed(a, false);
  const Tensor kept = ops::greater_equal(d.s, ops::slice_axis(d.s, 0, 0, 1) * rcond);
  const Tensor inverse = ops::where(kept, 1.0 / ops::where(kept, d.s, ops::ones_like(d.s)), ops::zeros_like(d.s));
  const Tensor y = ops::matmul(d.v, ops::expand_dims(inverse, 1) * ops::matmul(d.u, b, true, false));
  return given.rank() == 1 ? ops::reshape(y, {-1}) : y;
}

void add_decompositions(const std::function<void(const char*, Run)>& row) {
  row("Cholesky", [](const CallArguments& call, const Json& config) {
    const Tensor lower = ops::call1("Cholesky", {floating_operand(call)});
    return Structure(get(config, "upper", false) == true ? matrices_transposed(lower) : lower);
  });
  row("CholeskyInverse", [](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call);
    const bool upper = get(config, "upper", false).get<bool>();
    const Tensor one = ops::eye(extent(x, x.rank() - 1, "CholeskyInverse"), std::nullopt, x.dtype());
    const Tensor ones = ops::zeros_like(x) + one;
    const Tensor inverse = ops::call1("MatrixTriangularSolve", {x, ones}, {{"lower", !upper}});
    return Structure(ops::matmul(inverse, inverse, !upper, upper));
  });
  row("Qr", [](const CallArguments& call, const Json& config) {
    const Tensors qr =
        ops::call("Qr", {floating_operand(call)}, {{"full_matrices", get(config, "mode", "reduced") == "complete"}});
    return Structure::list({qr[0], qr[1]});
  });
  row("SVD", [](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call);
    if (get(config, "compute_uv", true) == false) return Structure(singular_values(x));
    const Decomposition d = decomposed(x, get(config, "full_matrices", true).get<bool>());
    return Structure::list({d.u, d.s, matrices_transposed(d.v)});
  });
  row("Eigh", [](const CallArguments& call, const Json&) {
    const Tensors ev = ops::call("SelfAdjointEigV2", {floating_operand(call)}, {{"compute_v", true}});
    return Structure::list({ev[0], ev[1]});
  });
  row("Eig", [](const CallArguments& call, const Json&) {
    const Tensor x = floating_operand(call);
    const DType dtype = x.dtype() == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
    const Tensors ev = ops::call("Eig", {x}, {{"compute_v", true}, {"Tout", dtype}});
    return Structure::list({ev[0], ev[1]});
  });
  row("LuFactor", [](const CallArguments& call, const Json&) {
    const Tensor x = floating_operand(call);
    if (x.rank() != 2) bad(fmt::format("LuFactor: found shape {}, expected one matrix", x.shape().to_string()));
    const Tensors lu = ops::call("Lu", {x}, {{"output_idx_type", DType::kInt32}});
    return Structure::list({lu[0], ops::call1("InvertPermutation", {lu[1]})});
  });
}

}  // namespace

Tensor norm(const Tensor& x, const Json& order, const ops::Axes& axes, bool keepdims) {
  ops::Ints on = axes ? *axes : ops::Ints{};
  if (!axes) {
    for (int i = 0; i < x.rank(); ++i) on.push_back(i);
  }
  for (std::int64_t& axis : on) axis = positive_axis(x, axis);
  if (order.is_null() || order == "fro" || (order == 2 && on.size() == 1))
    return ops::sqrt(ops::reduce_sum(ops::square(x), on, keepdims));
  if (on.size() == 1) return vector_norm(x, order_number(order), on, keepdims);
  if (on.size() != 2)
    bad(fmt::format("Norm with ord {} requires one or two axes, found {}", dump_json(order), on.size()));
  return matrix_norm(x, order, static_cast<int>(on[0]), static_cast<int>(on[1]), keepdims);
}

void add_linalg(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.linalg", std::move(run)}; };
  add_decompositions(row);
  row("Det", floating([](const Tensor& x) { return ops::call1("MatrixDeterminant", {x}); }));
  row("Inv", floating([](const Tensor& x) { return ops::call1("MatrixInverse", {x}); }));
  row("Solve", [](const CallArguments& call, const Json&) {
    const Tensor a = floating_operand(call, 0, "a"), b = floating_operand(call, 1, "b");
    if (b.rank() == a.rank()) return Structure(ops::call1("MatrixSolve", {a, b}));
    return Structure(ops::squeeze(ops::call1("MatrixSolve", {a, ops::expand_dims(b, -1)}), {-1}));
  });
  row("SolveTriangular", [](const CallArguments& call, const Json& config) {
    const Tensor a = floating_operand(call, 0, "a"), b = floating_operand(call, 1, "b");
    const bool lower = get(config, "lower", false).get<bool>();
    const bool vector = b.rank() == a.rank() - 1;
    const Tensor y = ops::call1("MatrixTriangularSolve", {a, vector ? ops::expand_dims(b, -1) : b}, {{"lower", lower}});
    return Structure(vector ? ops::squeeze(y, {-1}) : y);
  });
  row("Norm", [](const CallArguments& call, const Json& config) {
    return Structure(norm(floating_operand(call), get(config, "ord"), axes_of(config), keepdims_of(config)));
  });
  row("Pinv", [](const CallArguments& call, const Json& config) {
    return Structure(pseudo_inverse(floating_operand(call), config));
  });
  row("Lstsq", [](const CallArguments& call, const Json& config) {
    return Structure(least_squares(floating_operand(call, 0, "a"), floating_operand(call, 1, "b"), config));
  });
  row("MatrixRank", [](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call), s = singular_values(x);
    const Json tol = get(config, "tol");
    const Tensor least = ops::reduce_max(s, ops::Axes(-1), true) *
                         (tol.is_null() ? machine_epsilon(x) * larger_side(x, "MatrixRank") : 0.0);
    const Tensor counted = ops::greater(s, tol.is_null() ? least : least + number_or(config, "tol", 0));
    return Structure(ops::reduce_sum(ops::cast(counted, DType::kInt32), ops::Axes(-1)));
  });
  rows["Logdet"] = {"Logdet", "keras.src.ops.math",
                    floating([](const Tensor& x) { return ops::call("LogMatrixDeterminant", {x})[1]; })};
  rows["Slogdet"] = {"Slogdet", "keras.src.ops.numpy", [](const CallArguments& call, const Json&) {
                       const Tensors both = ops::call("LogMatrixDeterminant", {floating_operand(call)});
                       return Structure::list({both[0], both[1]});
                     }};
}

}  // namespace lockstep::keras::tensor_ops
