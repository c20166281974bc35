// keras.ops.numpy: ranges, diagonals, products of arrays, and reductions without NaN
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"
#include "lockstep/ops/composed.h"

namespace lockstep::keras::tensor_ops {
namespace {

constexpr std::int64_t kMostPlaces = 1 << 26;

Tensor diagonal_matrix(const Tensor& x, std::int64_t k) {
  return ops::call1("MatrixDiagV3", {x, Tensor::scalar(static_cast<std::int32_t>(k)), Tensor::scalar(std::int32_t{-1}),
                                     Tensor::scalar(std::int32_t{-1}), Tensor::scalar(0.0, x.dtype())});
}
Tensor diag(const Tensor& x, const Json& config) {
  const std::int64_t k = get(config, "k", 0).get<std::int64_t>();
  if (std::abs(k) > 1 << 20) bad(fmt::format("Diag: k is {}", k));
  if (x.rank() == 1) return diagonal_matrix(x, k);
  if (x.rank() == 2) return diagonal_part(x, k);
  bad(fmt::format("Diag of {} axes, expected 1 or 2", x.rank()));
}

// As many steps as Euclid's algorithm needs for two numbers of this many bits.
int euclid_steps(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kUInt64 ? 92 : 47; }
Tensor unsigned_or_abs(const Tensor& x) { return is_unsigned(x.dtype()) ? x : ops::abs(x); }
Tensor greatest_divisor(const Tensor& x, const Tensor& y) {
  if (!is_integer(x.dtype())) bad(fmt::format("Gcd and Lcm require integers, found {}", dtype_name(x.dtype())));
  Tensor a = unsigned_or_abs(x), b = unsigned_or_abs(y);
  const Tensor one = ops::ones_like(b + a), zero = ops::zeros_like(one);
  a = a + zero;
  b = b + zero;
  for (int i = 0; i < euclid_steps(x.dtype()); ++i) {
    const Tensor more = ops::not_equal(b, zero);
    const Tensor rest = ops::floor_mod(a, ops::where(more, b, one));
    a = ops::where(more, b, a);
    b = ops::where(more, rest, zero);
  }
  return a;
}
Tensor least_multiple(const Tensor& x, const Tensor& y) {
  const Tensor divisor = greatest_divisor(x, y), zero = ops::zeros_like(divisor);
  const Tensor none = ops::equal(divisor, zero);
  const Tensor product =
      unsigned_or_abs(x) * ops::floor_div(unsigned_or_abs(y), ops::where(none, ops::ones_like(divisor), divisor));
  return ops::where(none, zero, product);
}

struct Spaced {
  Tensor values, step;
};
Spaced spaced(const Json& config, const Tensor& from, const Tensor& to) {
  const std::int64_t count = get(config, "num", 50).get<std::int64_t>();
  if (count < 0 || count > kMostPlaces) bad(fmt::format("num is {}, expected 0 to 2^26", count));
  const DType dtype = dtype_or(config, from.dtype());
  // The ends are truncated to integers first; their difference may wrap around, and is divided in TensorFlow's
  // precision.
  const DType computed = !is_integer(dtype) ? dtype : dtype_size(dtype) > 2 ? DType::kFloat64 : DType::kFloat32;
  const Tensor first = ops::cast(from, dtype), last = ops::cast(to, dtype), zero = ops::zeros_like(first + last);
  const Tensor start = ops::cast(first + zero, computed);
  Tensor stop = ops::cast(last + zero, computed);
  const bool endpoint = get(config, "endpoint", true).get<bool>();
  const auto parts = [&](std::int64_t n) { return static_cast<double>(std::max<std::int64_t>(n, 1)); };
  const Tensor step = ops::cast(last - first + zero, computed) / parts(endpoint ? count - 1 : count);
  Tensor apart = step;
  if (!endpoint && count > 1) {
    stop = stop - step;
    apart = (stop - start) / parts(count - 1);
  }
  const int rank = start.rank();
  std::int64_t axis = axis_or(config, 0);
  if (axis < -rank - 1 || axis > rank) bad(fmt::format("axis {} of a tensor with {} axes", axis, rank + 1));
  const int at = static_cast<int>(axis < 0 ? axis + rank + 1 : axis);
  ops::Ints shape(static_cast<std::size_t>(rank) + 1, 1);
  shape[static_cast<std::size_t>(at)] = count;
  const Tensor places = ops::reshape(ops::range(count), shape);
  Tensor y = ops::expand_dims(start, at) + ops::cast(places, computed) * ops::expand_dims(apart, at);
  if (count > 1) {
    const Tensor at_end = ops::equal(places, Tensor::scalar(static_cast<std::int32_t>(count - 1)));
    y = ops::where(at_end, ops::expand_dims(stop, at), y);
  }
  if (is_integer(dtype)) y = ops::floor(y);
  return {ops::cast(y, dtype), step};
}

Tensor powers(double base, const Tensor& exponents) { return ops::pow(ops::zeros_like(exponents) + base, exponents); }

std::pair<Tensor, Tensor> ends(const CallArguments& call) {
  const auto [start, stop] = operands(call, "start", "stop");
  return {to_floating(start), to_floating(stop)};
}

void add_ranges(const std::function<void(const char*, Run)>& row) {
  row("Linspace", [](const CallArguments& call, const Json& config) {
    const auto [start, stop] = ends(call);
    const Spaced all = spaced(config, start, stop);
    return get(config, "retstep", false) == true ? Structure::list({all.values, all.step}) : Structure(all.values);
  });
  row("Logspace", [](const CallArguments& call, const Json& config) {
    const auto [start, stop] = ends(call);
    return Structure(powers(get(config, "base", 10).get<double>(), spaced(config, start, stop).values));
  });
  row("Geomspace", [](const CallArguments& call, const Json& config) {
    const auto [start, stop] = ends(call);
    const double ten = std::log(10.0);
    const Tensor y = powers(10, spaced(config, ops::log(ops::abs(start)) / ten, ops::log(ops::abs(stop)) / ten).values);
    return Structure(y * ops::cast(ops::sign(start), y.dtype()));
  });
  row("Meshgrid", [](const CallArguments& call, const Json& config) {
    Tensors axes;
    for (const Argument& each : call.args) {
      if (each.is_leaf())
        axes.push_back(each.leaf().tensor);
      else
        for (const Tensor& part : tensor_list(each)) axes.push_back(part);
    }
    const bool swapped = get(config, "indexing", "xy") == "xy" && axes.size() > 1;
    Tensors sizes;
    for (Tensor& axis : axes) {
      axis = ops::reshape(axis, ops::Ints{-1});
      sizes.push_back(ops::dim_of(axis, 0));
    }
    if (swapped) std::swap(sizes[0], sizes[1]);
    Structure::List out;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      ops::Ints shape(axes.size(), 1);
      shape[swapped && i < 2 ? 1 - i : i] = -1;
      out.emplace_back(ops::broadcast_to(ops::reshape(axes[i], shape), ops::stack(sizes)));
    }
    return Structure::list(std::move(out));
  });
  row("Vander", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    const Json given = get(config, "N");
    const std::int64_t n = given.is_null() ? extent(x, 0, "Vander") : given.get<std::int64_t>();
    if (n < 0 || n > kMostPlaces) bad(fmt::format("Vander: N is {}", n));
    Tensor exponents = ops::range(n, DType::kFloat32);
    if (get(config, "increasing", false) == false) exponents = static_cast<double>(n - 1) - exponents;
    const Tensor base = ops::expand_dims(to_floating(x), -1);
    const Tensor all = ops::cast(exponents, base.dtype());
    return Structure(ops::cast(ops::pow(base + ops::zeros_like(all), ops::zeros_like(base) + all), x.dtype()));
  });
}

// ---- products ----------------------------------------------------------------------------------------------------

// The axes of both operands that are summed over.
Tensor contracted(const Tensor& a, const Tensor& b, const Json& axes) {
  ops::Ints first, second;
  if (axes.is_number_integer()) {
    const std::int64_t n = axes.get<std::int64_t>();
    if (n < 0 || n > a.rank() || n > b.rank()) bad(fmt::format("Tensordot: axes is {}", n));
    for (std::int64_t i = 0; i < n; ++i) first.push_back(a.rank() - n + i), second.push_back(i);
  } else {
    if (!axes.is_array() || axes.size() != 2) bad(fmt::format("Tensordot: axes is {}", dump_json(axes)));
    first = int_list(axes[0], "axes");
    second = int_list(axes[1], "axes");
    if (first.size() != second.size()) bad(fmt::format("Tensordot: axes is {}", dump_json(axes)));
  }
  if (a.rank() + b.rank() > 50) bad("Tensordot of more than 50 axes");
  const auto letter = [](int i) { return static_cast<char>(i < 26 ? 'a' + i : 'A' + i - 26); };
  std::string left, right, out;
  for (int i = 0; i < a.rank(); ++i) left += letter(i);
  for (int i = 0; i < b.rank(); ++i) right += letter(a.rank() + i);
  for (std::size_t i = 0; i < first.size(); ++i)
    right[static_cast<std::size_t>(positive_axis(b, second[i]))] =
        left[static_cast<std::size_t>(positive_axis(a, first[i]))];
  for (const char c : left + right) {
    if ((left.find(c) == std::string::npos) != (right.find(c) == std::string::npos)) out += c;
  }
  return ops::einsum(left + "," + right + "->" + out, {a, b});
}

Tensor kronecker(const Tensor& x, const Tensor& y) {
  Tensor a = x, b = y;
  while (a.rank() < b.rank()) a = ops::expand_dims(a, 0);
  while (b.rank() < a.rank()) b = ops::expand_dims(b, 0);
  const int rank = a.rank();
  Tensors sizes;
  for (int i = 0; i < rank; ++i) sizes.push_back(ops::dim_of(a, i) * ops::dim_of(b, i));
  for (int i = 0; i < rank; ++i) {
    a = ops::expand_dims(a, 2 * i + 1);
    b = ops::expand_dims(b, 2 * i);
  }
  return rank == 0 ? a * b : ops::reshape(a * b, ops::stack(sizes));
}

Tensor correlation_coefficients(const Tensor& x) {
  if (x.rank() == 0) return ops::zeros_like(x) + std::numeric_limits<double>::quiet_NaN();
  const Tensor vectors = x.rank() == 1 ? ops::expand_dims(x, 0) : x;
  const Tensor centred = vectors - ops::reduce_mean(vectors, ops::Axes(-1), true);
  const Tensor count = ops::cast(ops::dim_of(x, x.rank() - 1), x.dtype()) - 1.0;
  const Tensor covariance = ops::matmul(centred, centred, false, true) / count;
  if (x.rank() > 2) bad(fmt::format("Corrcoef of {} axes, expected 1 or 2", x.rank()));
  const Tensor deviation = ops::sqrt(diagonal_part(covariance, 0));
  return ops::clip_by_value(covariance / (ops::expand_dims(deviation, 1) * ops::expand_dims(deviation, 0)), -1.0, 1.0);
}

Tensor correlation(const Tensor& x, const Tensor& y, const Json& mode) {
  if (x.rank() != 1 || y.rank() != 1) bad("Correlate requires two vectors");
  const std::int64_t n = extent(x, 0, "Correlate"), m = extent(y, 0, "Correlate");
  if (mode != "full" && mode != "same" && mode != "valid")
    bad(fmt::format("mode is {}, expected \"full\", \"same\" or \"valid\"", dump_json(mode)));
  const DType dtype = x.dtype() == DType::kInt64 ? DType::kFloat64
                      : is_floating(x.dtype())   ? x.dtype()
                                                 : DType::kFloat32;
  Tensor signal = ops::cast(x, dtype);
  if (mode != "valid") signal = ops::pad(signal, {{m - 1, m - 1}});
  const Tensor z = ops::reshape(
      ops::conv2d(ops::reshape(signal, {1, 1, -1, 1}), ops::reshape(ops::cast(y, dtype), {1, m, 1, 1})), {-1});
  if (mode != "same") return z;
  const std::int64_t size = std::max(n, m), start = (n + m - 1 - size) / 2;
  return ops::slice_axis(z, 0, start, start + size);
}

// Keras computes these products of integers as float32, and returns integers.
Tensor as_floating(const Tensor& x, const Tensor& y,
                   const std::function<Tensor(const Tensor&, const Tensor&)>& multiply) {
  const DType dtype = x.dtype();
  if (dtype != DType::kBool && !is_integer(dtype)) return multiply(x, y);
  return ops::cast(multiply(ops::cast(x, DType::kFloat32), ops::cast(y, DType::kFloat32)), dtype);
}
Tensor inner(const Tensor& x, const Tensor& y) {
  return x.rank() == 0 || y.rank() == 0 ? x * y : contracted(x, y, Json::array({Json::array({-1}), Json::array({-1})}));
}
Tensor numpy_dot(const Tensor& x, const Tensor& y) {
  if (x.rank() == 0 || y.rank() == 0) return x * y;
  return contracted(x, y, Json::array({Json::array({-1}), Json::array({y.rank() == 1 ? -1 : -2})}));
}

void add_products(const std::function<void(const char*, Run)>& row) {
  row("Tensordot", [](const CallArguments& call, const Json& config) {
    const auto [x, y] = operands(call, "x1", "x2");
    const Json axes = get(config, "axes", 2);
    const auto multiply = [&](const Tensor& a, const Tensor& b) { return contracted(a, b, axes); };
    const bool exact = x.dtype() == DType::kInt32 || x.dtype() == DType::kInt64;
    return Structure(exact ? multiply(x, y) : as_floating(x, y, multiply));
  });
  row("Inner", binary([](const Tensor& x, const Tensor& y) { return as_floating(x, y, inner); }));
  row("Dot", binary([](const Tensor& x, const Tensor& y) { return as_floating(x, y, numpy_dot); }));
  row("Vdot", binary([](const Tensor& x, const Tensor& y) {
        return as_floating(ops::reshape(x, ops::Ints{-1}), ops::reshape(y, ops::Ints{-1}), inner);
      }));
  row("Outer", binary([](const Tensor& x, const Tensor& y) {
        const Tensor a = ops::reshape(x, ops::Ints{-1, 1}), b = ops::reshape(y, ops::Ints{1, -1});
        return x.dtype() == DType::kBool ? ops::logical_and(a, b) : a * b;
      }));
  row("Kron", binary(kronecker));
  row("Corrcoef", floating(correlation_coefficients));
  row("Correlate", [](const CallArguments& call, const Json& config) {
    const auto [x, y] = operands(call, "x1", "x2");
    return Structure(correlation(x, y, get(config, "mode", "valid")));
  });
  row("Gcd", strict_binary(greatest_divisor));
  row("Lcm", strict_binary(least_multiple));
}

// ---- without NaN -------------------------------------------------------------------------------------------------

Tensor nan_filled(const Tensor& x, double instead) {
  return is_floating(x.dtype()) ? ops::where(ops::is_nan(x), ops::zeros_like(x) + instead, x) : x;
}

// -1 where there are only NaN.
Run nan_place(bool largest) {
  return [largest](const CallArguments& call, const Json& config) {
    Tensor x = tensor_operand(call);
    const bool all = get(config, "axis").is_null();
    const int given_rank = x.rank();
    if (all) x = ops::reshape(x, ops::Ints{-1});
    const int axis = all ? 0 : positive_axis(x, axis_or(config, -1));
    const Tensor filled = nan_filled(x, largest ? -kInfinity : kInfinity);
    Tensor y = largest ? ops::argmax(filled, axis, DType::kInt32) : ops::argmin(filled, axis, DType::kInt32);
    if (is_floating(x.dtype()))
      y = ops::where(ops::reduce_all(ops::is_nan(x), ops::Axes(axis)),
                     ops::zeros_like(y) - Tensor::scalar(std::int32_t{1}), y);
    if (!keepdims_of(config)) return Structure(y);
    if (!all) return Structure(ops::expand_dims(y, axis));
    return Structure(ops::reshape(y, ops::Ints(static_cast<std::size_t>(given_rank), 1)));
  };
}

Run nan_scan(bool product) {
  return [product](const CallArguments& call, const Json& config) {
    const Tensor x = finite_numbers(tensor_operand(call), product ? 1.0 : 0.0);
    const bool all = get(config, "axis").is_null();
    const Tensor values = all ? ops::reshape(x, ops::Ints{-1}) : x;
    const int axis = all ? 0 : positive_axis(x, axis_or(config, -1));
    Tensor typed = ops::cast(values, dtype_or(config, x.dtype()));
    if (typed.dtype() == DType::kBool) typed = summable(typed);
    return Structure(product ? ops::cumprod(typed, axis) : ops::cumsum(typed, axis));
  };
}

// ---- selection and views -----------------------------------------------------------------------------------------

// The dtype that numpy gives these values together; their Python numbers are weak. Keras has other rules.
DType numpy_dtype(const std::vector<Argument>& values) {
  // Of floating types: 0 is one with 16 bits, 1 float32, 2 float64. Of integers: bits.
  int level = -1, needed = 0;
  std::size_t with_sign = 0, without = 0;
  bool weak_integer = false, weak_float = false;
  DType half = DType::kInvalid;
  for (const Argument& value : values) {
    if (value.is_leaf() && !value.leaf().is_tensor()) {
      weak_integer = weak_integer || value.leaf().value.is_number_integer();
      weak_float = weak_float || value.leaf().value.is_number_float();
      continue;
    }
    CallArguments one;
    one.args = {value};
    const DType dtype = tensor_operand(one).dtype();
    const auto bits = 8 * dtype_size(dtype);
    if (is_floating(dtype)) {
      level = std::max(level, bits == 64 ? 2 : bits == 32 || (half != DType::kInvalid && half != dtype) ? 1 : 0);
      if (bits == 16) half = dtype;
    } else if (dtype != DType::kBool) {
      std::size_t& widest = is_unsigned(dtype) ? without : with_sign;
      widest = std::max(widest, bits);
      needed = std::max(needed, bits > 16 ? 2 : bits > 8 ? 1 : 0);
    }
  }
  if (level >= 0) {
    level = std::max(level, needed);
    if (level == 0 && weak_float && half == DType::kBFloat16) return DType::kFloat64;
    return level == 0 ? half : level == 1 ? DType::kFloat32 : DType::kFloat64;
  }
  if (weak_float) return DType::kFloat64;
  if (with_sign == 0) {
    if (without == 0) return weak_integer ? DType::kInt64 : DType::kBool;
    return without == 8    ? DType::kUInt8
           : without == 16 ? DType::kUInt16
           : without == 32 ? DType::kUInt32
                           : DType::kUInt64;
  }
  const std::size_t all = std::max(with_sign, 2 * without);
  return all == 8    ? DType::kInt8
         : all == 16 ? DType::kInt16
         : all == 32 ? DType::kInt32
         : all == 64 ? DType::kInt64
                     : DType::kFloat64;
}

Structure select(const CallArguments& call, const Json&) {
  const Argument& conditions = argument(call, 0, "condlist");
  const Argument& choices = argument(call, 1, "choicelist");
  if (conditions.is_leaf() || choices.is_leaf() || conditions.parts().size() != choices.parts().size() ||
      choices.parts().empty())
    bad("Select requires as many conditions as choices");
  const Argument* given = find_argument(call, 2, "default");
  std::vector<Argument> values(choices.parts().begin(), choices.parts().end());
  values.push_back(given ? *given : Argument(ArgValue(Json(0))));
  const DType dtype = numpy_dtype(values);
  const auto value = [&](std::size_t i) {
    CallArguments both;
    both.args = {values[i], Argument(ArgValue(ops::cast(Tensor::scalar(0), dtype)))};
    return ops::cast(operands(both, "choicelist", "default").first, dtype);
  };
  Tensor y = value(values.size() - 1);
  for (std::size_t i = choices.parts().size(); i-- > 0;) {
    CallArguments condition;
    condition.args = {conditions.parts()[i]};
    y = ops::where(logical(tensor_operand(condition)), value(i), y);
  }
  return y;
}

Tensor sign_bit(const Tensor& x) {
  if (x.dtype() == DType::kBool) return ops::zeros_like(x);
  if (!is_floating(x.dtype())) return ops::less(x, ops::zeros_like(x));
  const Tensor bits = ops::bitcast(ops::cast(x, DType::kFloat32), DType::kInt32);
  return ops::less(bits, ops::zeros_like(bits));
}

// The bytes of x as numbers of another dtype.
Tensor viewed(const Tensor& x, DType dtype) {
  const auto from = static_cast<std::int64_t>(dtype_size(x.dtype())), to = static_cast<std::int64_t>(dtype_size(dtype));
  if (from == to) return ops::bitcast(x, dtype);
  if (x.rank() < 1 || x.dim(-1) == kUnknownDim || x.dim(-1) * from % to != 0)
    bad(fmt::format("View of {} with shape {} as {}: the last axis does not fit", dtype_name(x.dtype()),
                    x.shape().to_string(), dtype_name(dtype)));
  Tensors sizes;
  for (int i = 0; i + 1 < x.rank(); ++i) sizes.push_back(ops::dim_of(x, i));
  sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(x.dim(-1) * from / to)));
  if (from > to) return ops::reshape(ops::bitcast(x, dtype), ops::stack(sizes));
  sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(to / from)));
  return ops::bitcast(ops::reshape(x, ops::stack(sizes)), dtype);
}

}  // namespace

void add_arrays(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.numpy", std::move(run)}; };
  add_ranges(row);
  add_products(row);
  row("Diag",
      [](const CallArguments& call, const Json& config) { return Structure(diag(tensor_operand(call), config)); });
  row("Diagflat", [](const CallArguments& call, const Json& config) {
    return Structure(diag(ops::reshape(tensor_operand(call), ops::Ints{-1}), config));
  });
  row("Nanargmax", nan_place(true));
  row("Nanargmin", nan_place(false));
  row("Nancumsum", nan_scan(false));
  row("Nancumprod", nan_scan(true));
  row("Select", select);
  row("Signbit", unary(sign_bit));
  row("Size", unary([](const Tensor& x) { return ops::size_of(x); }));
  row("Ndim", unary([](const Tensor& x) { return Tensor::scalar(static_cast<std::int32_t>(x.rank())); }));
  row("Array", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    return Structure(ops::cast(ops::identity(x), dtype_or(config, x.dtype())));
  });
  row("View", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    return Structure(viewed(x, dtype_or(config, x.dtype())));
  });
}

}  // namespace lockstep::keras::tensor_ops
