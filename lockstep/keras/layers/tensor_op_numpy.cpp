// keras.ops.numpy: operations that are compositions of others
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"

namespace lockstep::keras::tensor_ops {
namespace {

Tensor truncated(const Tensor& x) {
  if (!is_floating(x.dtype())) return x;
  return ops::where(ops::less(x, 0.0), ops::ceil(x), ops::floor(x));
}

Tensor without_nan(const Tensor& x, double instead) {
  return is_floating(x.dtype()) ? ops::where(ops::is_nan(x), ops::zeros_like(x) + instead, x) : x;
}

// Logarithm, with base e^scale, of the sum of two powers of that base. The difference of equal infinities is NaN.
Tensor log_add(const Tensor& a, const Tensor& b, double scale) {
  const Tensor difference = a - b;
  return ops::where(ops::is_nan(difference), a + b,
                    ops::maximum(a, b) + ops::log1p(ops::exp(-ops::abs(difference) * scale)) / scale);
}

Tensor number_or(const Tensor& a, const Tensor& b, Binary fn) {
  if (!is_floating(a.dtype())) return fn(a, b);
  return ops::where(ops::is_nan(a), b, ops::where(ops::is_nan(b), a, fn(a, b)));
}

Tensor sinc(const Tensor& x) {
  const Tensor zero = ops::equal(x, 0.0), angle = ops::where(zero, ops::ones_like(x), x * std::numbers::pi);
  return ops::where(zero, ops::ones_like(x), ops::sin(angle) / angle);
}

Tensor rounded(const Tensor& x, int decimals) {
  if (!is_floating(x.dtype()) && decimals >= 0) return x;
  const double factor = std::pow(10.0, decimals);
  const Tensor y = to_floating(x);
  return ops::cast(decimals == 0 ? ops::round(y) : ops::round(y * factor) / factor, x.dtype());
}

Tensor flat(const Tensor& x) { return ops::reshape(x, ops::Ints{-1}); }

// Products of vectors of two or three numbers.
Tensor cross(const Tensor& x, const Tensor& y, const Json& config) {
  const auto axis = [&](const char* key) {
    const Json all = get(config, "axis"), own = get(config, key, -1);
    return (all.is_null() ? own : all).get<std::int64_t>();
  };
  const auto moved = [](const Tensor& t, std::int64_t from, std::int64_t to) {
    ops::Ints order;
    const int source = positive_axis(t, from), target = positive_axis(t, to);
    for (int i = 0; i < t.rank(); ++i) {
      if (i != source) order.push_back(i);
    }
    order.insert(order.begin() + target, source);
    return ops::transpose(t, order);
  };
  const auto of_three = [](const Tensor& t) {
    if (extent(t, t.rank() - 1, "Cross") == 3) return t;
    if (t.dim(-1) != 2) bad(fmt::format("Cross of vectors with {} numbers, expected 2 or 3", t.dim(-1)));
    return ops::concat({t, ops::zeros_like(ops::slice_axis(t, t.rank() - 1, 0, 1))}, -1);
  };
  const Tensor a = moved(x, axis("axisa"), -1), b = moved(y, axis("axisb"), -1);
  const bool flat = a.dim(-1) == 2 && b.dim(-1) == 2;
  const Tensor wide_a = of_three(a), wide_b = of_three(b), zero = ops::zeros_like(wide_a * wide_b);
  const Tensor z = ops::call1("Cross", {wide_a + zero, wide_b + zero});
  return flat ? ops::squeeze(ops::slice_axis(z, z.rank() - 1, 2, 3), {-1}) : moved(z, -1, axis("axisc"));
}

Tensor triangle(const Tensor& x, std::int64_t k, bool lower) {
  if (lower) return k >= 0 ? ops::matrix_band_part(x, -1, k) : x - ops::matrix_band_part(x, -k - 1, -1);
  return k <= 0 ? ops::matrix_band_part(x, -k, -1) : x - ops::matrix_band_part(x, -1, k - 1);
}

Tensor diagonal(const Tensor& x, const Json& config) {
  const int first = positive_axis(x, get(config, "axis1", 0).get<std::int64_t>());
  const int second = positive_axis(x, get(config, "axis2", 1).get<std::int64_t>());
  if (first == second) bad("Diagonal and Trace require two different axes");
  ops::Ints order;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != first && i != second) order.push_back(i);
  }
  order.push_back(first);
  order.push_back(second);
  return diagonal_part(ops::transpose(x, order), get(config, "offset", 0).get<std::int64_t>());
}

Tensor differences(const Tensor& x, const Json& config) {
  Tensor y = x;
  const auto differ = [](const Tensor& a, const Tensor& b) {
    return a.dtype() == DType::kBool ? ops::not_equal(a, b) : a - b;
  };
  const int axis = positive_axis(x, axis_or(config, -1));
  for (std::int64_t i = 0; i < get(config, "n", 1).get<std::int64_t>(); ++i)
    y = differ(ops::slice_axis(y, axis, 1, std::nullopt), ops::slice_axis(y, axis, 0, -1));
  return y;
}

Run joined(int axis, int least_rank) {
  return [=](const CallArguments& call, const Json&) {
    Tensors all = in_common_dtype(tensor_list(argument(call, 0, "xs")));
    for (Tensor& x : all) {
      if (x.rank() < least_rank && axis == 0) x = ops::expand_dims(x, 0);
    }
    const bool vectors = axis == 1 && all[0].rank() == 1;
    return Structure(ops::concat(all, vectors ? 0 : axis));
  };
}

// Parts of nearly one size, or those between the places that are given.
Structure split_array(const Tensor& x, const Json& parts, int axis) {
  if (parts.is_array()) return split_at(x, int_list(parts, "indices_or_sections"), axis);
  const std::int64_t count = parts.get<std::int64_t>(), size = extent(x, axis, "ArraySplit");
  if (count < 1 || count > 65536) bad(fmt::format("ArraySplit into {} parts", count));
  ops::Ints places;
  std::int64_t place = 0;
  for (std::int64_t i = 0; i + 1 < count; ++i) places.push_back(place += size / count + (i < size % count ? 1 : 0));
  return split_at(x, places, axis);
}

// `x`, broadcast to the extents of `other` on all axes but one.
Tensor broadcast_beside(const Tensor& x, const Tensor& other, int axis) {
  const Tensor like = ops::slice_axis(other, axis, 0, 1);
  return ops::where(ops::equal(like, like), x, x);
}

// np.take_along_axis, whose places may count from the end.
Tensor along(const Tensor& given, const Tensor& places, int axis) {
  const Tensor counted =
      ops::where(ops::less(places, 0.0), places + ops::cast(ops::dim_of(given, axis), places.dtype()), places);
  const Tensor x = broadcast_beside(given, counted, axis), indices = broadcast_beside(counted, given, axis);
  ops::Ints order;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  ops::Ints back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  const Tensor picked =
      ops::gather(ops::transpose(x, order), ops::transpose(indices, order), x.rank() - 1, x.rank() - 1);
  return ops::transpose(picked, back);
}

Tensor rotated(const Tensor& x, std::int64_t k, ops::Ints axes) {
  for (std::int64_t& axis : axes) axis = positive_axis(x, axis);
  ops::Ints swapped;
  for (int i = 0; i < x.rank(); ++i) swapped.push_back(i == axes[0] ? axes[1] : i == axes[1] ? axes[0] : i);
  k = ((k % 4) + 4) % 4;
  if (k == 0) return ops::identity(x);
  if (k == 2) return ops::reverse(x, axes);
  if (k == 1) return ops::transpose(ops::reverse(x, {axes[1]}), swapped);
  return ops::reverse(ops::transpose(x, swapped), {axes[1]});
}

using NanReduce = Tensor (*)(const Tensor&, const ops::Axes&, bool);
template <int kInstead, NanReduce kReduce>
Tensor nan_reduced(const Tensor& x, const ops::Axes& axes, bool keepdims) {
  const double instead = kInstead == 2 ? -kInfinity : kInstead == 3 ? kInfinity : kInstead;
  const Tensor values = without_nan(x, instead);
  const Tensor y = kReduce(kInstead < 2 ? summable(values) : values, axes, keepdims);
  if (kInstead < 2 || !is_floating(x.dtype())) return y;
  return ops::where(ops::reduce_all(ops::is_nan(x), axes, keepdims), ops::zeros_like(y) * kInfinity, y);
}
Tensor nan_mean(const Tensor& x, const ops::Axes& axes, bool keepdims) {
  const Tensor count = ops::reduce_sum(ops::cast(ops::logical_not(ops::is_nan(x)), x.dtype()), axes, keepdims);
  return ops::reduce_sum(without_nan(x, 0), axes, keepdims) / count;
}
Tensor nan_variance(const Tensor& x, const ops::Axes& axes, bool keepdims) {
  const Tensor counted = ops::logical_not(ops::is_nan(x));
  const Tensor count = ops::reduce_sum(ops::cast(counted, x.dtype()), axes, keepdims);
  // Without NaN before the square, whose gradient would spread them.
  const Tensor difference = ops::where(counted, x - nan_mean(x, axes, true), ops::zeros_like(x));
  return ops::reduce_sum(ops::square(difference), axes, keepdims) / count;
}
Tensor nan_deviation(const Tensor& x, const ops::Axes& axes, bool keepdims) {
  return ops::sqrt(nan_variance(x, axes, keepdims));
}

// Integers as the floating type that holds them: float64 for int64.
Tensor to_wide_floating(const Tensor& x) {
  return x.dtype() == DType::kInt64 ? ops::cast(x, DType::kFloat64) : to_floating(x);
}

void add_elementwise(const std::function<void(const char*, Run)>& row) {
  row("Fabs", floating(ops::abs));
  row("Cbrt", floating([](const Tensor& x) { return ops::sign(x) * ops::pow(ops::abs(x), 1.0 / 3.0); }));
  row("Deg2rad", unary([](const Tensor& x) { return to_wide_floating(x) * (std::numbers::pi / 180); }));
  row("Rad2deg", unary([](const Tensor& x) { return to_wide_floating(x) * (180 / std::numbers::pi); }));
  row("Trunc", unary(truncated));
  row("Sinc", floating(sinc));
  row("Round", [](const CallArguments& call, const Json& config) {
    return Structure(rounded(tensor_operand(call), get(config, "decimals", 0).get<int>()));
  });
  row("I0", floating([](const Tensor& x) { return ops::call1("BesselI0", {x}); }));
  row("Isneginf", floating([](const Tensor& x) { return ops::equal(x, -kInfinity); }));
  row("Isposinf", floating([](const Tensor& x) { return ops::equal(x, kInfinity); }));
  row("BitwiseInvert", unary([](const Tensor& x) { return ops::call1("Invert", {x}); }));
  row("BitwiseNot", unary([](const Tensor& x) { return ops::call1("Invert", {x}); }));
  row("NanToNum", [](const CallArguments& call, const Json& config) {
    const auto given = [&](const char* key) -> std::optional<double> {
      const Json value = get(config, key);
      return value.is_null() ? std::nullopt : std::optional(value.get<double>());
    };
    return Structure(
        finite_numbers(tensor_operand(call), given("nan").value_or(0.0), given("posinf"), given("neginf")));
  });
}

Tensor close(const CallArguments& call, const Json& config) {
  const auto [x, y] = operands(call, "x1", "x2");
  const Tensor a = to_floating(x), b = to_floating(y);
  const double rtol = number_argument(call, 2, "rtol", get(config, "rtol", 1e-5).get<double>());
  const double atol = number_argument(call, 3, "atol", get(config, "atol", 1e-8).get<double>());
  const Tensor near = ops::logical_and(ops::less_equal(ops::abs(a - b), ops::abs(b) * rtol + atol),
                                       ops::logical_and(ops::is_finite(a), ops::is_finite(b)));
  const Tensor out = ops::logical_or(near, ops::logical_and(ops::is_inf(a), ops::equal(a, b)));
  if (get(config, "equal_nan", false) == false) return out;
  return ops::logical_or(out, ops::logical_and(ops::is_nan(a), ops::is_nan(b)));
}

// Keras's remainder has the sign of `a`. TensorFlow's has no kernels for narrow types.
Tensor remainder(const Tensor& a, const Tensor& b) {
  const DType dtype = a.dtype() == DType::kBool ? DType::kInt32 : a.dtype();
  const DType wide = is_floating(dtype) || dtype == DType::kInt64 ? dtype : DType::kInt32;
  const Tensor x = ops::cast(a, wide), y = ops::cast(b, wide);
  return ops::cast(ops::sign(x) * ops::floor_mod(ops::abs(x), ops::abs(y)), dtype);
}

Tensor times_power_of_two(const Tensor& a, const Tensor& exponent) {
  return ops::where(ops::logical_or(ops::is_inf(a), ops::equal(a, 0.0)), a,
                    a * ops::pow(ops::zeros_like(exponent) + 2.0, exponent));
}

// The next one of float64, of which other types have at most themselves.
Tensor next_after(const Tensor& a, const Tensor& b) {
  const auto wide = [](const Tensor& x) { return ops::cast(x, DType::kFloat64); };
  return ops::cast(ops::call1("NextAfter", {wide(a), wide(b)}), a.dtype());
}

// As Keras scales it, so that squares of large numbers stay finite.
Tensor hypotenuse(const Tensor& x, const Tensor& y) {
  const auto magnitude = [](const Tensor& v) { return ops::abs(to_wide_floating(v)); };
  const Tensor a = magnitude(x), b = magnitude(y), most = ops::maximum(a, b);
  return most * ops::sqrt(ops::square(ops::div_no_nan(ops::minimum(a, b), most)) + 1.0);
}

void add_binary(const std::function<void(const char*, Run)>& row) {
  row("Hypot", strict_binary(hypotenuse));
  row("Logaddexp",
      strict_binary([](const Tensor& a, const Tensor& b) { return log_add(to_floating(a), to_floating(b), 1.0); }));
  row("Logaddexp2", strict_binary([](const Tensor& a, const Tensor& b) {
        return log_add(to_floating(a), to_floating(b), std::numbers::ln2);
      }));
  row("Heaviside", strict_binary([](const Tensor& x, const Tensor& y) {
        const Tensor a = to_wide_floating(x), b = to_wide_floating(y);
        return ops::where(ops::less(a, 0.0), ops::zeros_like(a),
                          ops::where(ops::greater(a, 0.0), ops::ones_like(a), b));
      }));
  row("Fmod", strict_binary(remainder));
  row("Fmax", binary([](const Tensor& a, const Tensor& b) { return number_or(a, b, ops::maximum); }));
  row("Fmin", binary([](const Tensor& a, const Tensor& b) { return number_or(a, b, ops::minimum); }));
  row("DivideNoNan", floating_binary(ops::div_no_nan));
  row("Nextafter", floating_binary(next_after));
  row("Ldexp", floating_binary(times_power_of_two));
  for (const auto& [name, op] : {std::pair{"BitwiseAnd", "BitwiseAnd"},
                                 {"BitwiseOr", "BitwiseOr"},
                                 {"BitwiseXor", "BitwiseXor"},
                                 {"BitwiseLeftShift", "LeftShift"},
                                 {"LeftShift", "LeftShift"},
                                 {"BitwiseRightShift", "RightShift"},
                                 {"RightShift", "RightShift"}}) {
    row(name, [op = op](const CallArguments& call, const Json&) {
      const auto [x, y] = operands(call, "x", "y");
      return Structure(ops::call1(op, {x, y}));
    });
  }
  row("Isclose", [](const CallArguments& call, const Json& config) { return Structure(close(call, config)); });
  row("AllClose",
      [](const CallArguments& call, const Json& config) { return Structure(ops::reduce_all(close(call, config))); });
  row("Cross", [](const CallArguments& call, const Json& config) {
    const auto [x, y] = operands(call, "x1", "x2");
    return Structure(cross(x, y, config));
  });
}

void add_reductions(const std::function<void(const char*, Run)>& row) {
  row("CountNonzero", reduction([](const Tensor& x, const ops::Axes& axes, bool keepdims) {
        return ops::reduce_sum(ops::cast(logical(x), DType::kInt32), axes, keepdims);
      }));
  row("Ptp", reduction([](const Tensor& x, const ops::Axes& axes, bool keepdims) {
        return ops::reduce_max(x, axes, keepdims) - ops::reduce_min(x, axes, keepdims);
      }));
  row("Nansum", reduction(nan_reduced<0, ops::reduce_sum>));
  row("Nanprod", reduction(nan_reduced<1, ops::reduce_prod>));
  row("Nanmax", reduction(nan_reduced<2, greatest>));
  row("Nanmin", reduction(nan_reduced<3, least>));
  row("Nanmean", reduction(nan_mean, false, true));
  row("Nanvar", reduction(nan_variance, false, true));
  row("Nanstd", reduction(nan_deviation, false, true));
  row("Average", [](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call);
    if (!is_given(call, 1, "weights")) return Structure(ops::reduce_mean(x, axes_of(config), false));
    Tensor weights = floating_operand(call, 1, "weights");
    const Json axis = get(config, "axis");
    if (weights.rank() == 1 && x.rank() > 1 && axis.is_number_integer()) {
      ops::Ints shape(static_cast<std::size_t>(x.rank()), 1);
      shape[static_cast<std::size_t>(positive_axis(x, axis.get<std::int64_t>()))] = -1;
      weights = ops::reshape(weights, shape);
    }
    const Tensor all = ops::zeros_like(x) + weights;
    return Structure(ops::reduce_sum(x * weights, axes_of(config), false) /
                     ops::reduce_sum(all, axes_of(config), false));
  });
  row("Trace", [](const CallArguments& call, const Json& config) {
    return Structure(ops::reduce_sum(summable(diagonal(tensor_operand(call), config)), ops::Ints{-1}, false));
  });
}

void add_shapes(const std::function<void(const char*, Run)>& row) {
  row("Hstack", joined(1, 1));
  row("Vstack", joined(0, 2));
  row("Dstack", joined(2, 3));
  row("Fliplr", unary([](const Tensor& x) { return ops::reverse(x, {1}); }));
  row("Flipud", unary([](const Tensor& x) { return ops::reverse(x, {0}); }));
  row("Append", [](const CallArguments& call, const Json& config) {
    const auto [x, y] = operands(call, "x1", "x2");
    if (get(config, "axis").is_null()) return Structure(ops::concat({flat(x), flat(y)}, 0));
    return Structure(ops::concat({x, y}, axis_or(config, 0)));
  });
  row("ArraySplit", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call);
    return split_array(x, get(config, "indices_or_sections"), positive_axis(x, axis_or(config, 0)));
  });
  for (const auto& [name, axis] : {std::pair{"Vsplit", 0}, {"Hsplit", 1}, {"Dsplit", 2}}) {
    row(name, [axis = axis](const CallArguments& call, const Json& config) {
      const Tensor x = tensor_operand(call);
      return split_array(x, get(config, "indices_or_sections"), axis == 1 && x.rank() == 1 ? 0 : axis);
    });
  }
  row("Diff", [](const CallArguments& call, const Json& config) {
    return Structure(differences(tensor_operand(call, 0, "a"), config));
  });
  row("Tril", [](const CallArguments& call, const Json& config) {
    return Structure(triangle(tensor_operand(call), get(config, "k", 0).get<std::int64_t>(), true));
  });
  row("Triu", [](const CallArguments& call, const Json& config) {
    return Structure(triangle(tensor_operand(call), get(config, "k", 0).get<std::int64_t>(), false));
  });
  row("Diagonal",
      [](const CallArguments& call, const Json& config) { return Structure(diagonal(tensor_operand(call), config)); });
  row("TakeAlongAxis", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call), indices = ops::cast(tensor_operand(call, 1, "indices"), DType::kInt32);
    if (get(config, "axis").is_null()) return Structure(along(flat(x), flat(indices), 0));
    return Structure(along(x, indices, positive_axis(x, axis_or(config, -1))));
  });
  row("Rot90", [](const CallArguments& call, const Json& config) {
    return Structure(rotated(tensor_operand(call, 0, "array"), get(config, "k", 1).get<std::int64_t>(),
                             int_list(get(config, "axes", Json::array({0, 1})), "axes")));
  });
  row("Trapezoid", [](const CallArguments& call, const Json& config) {
    const Tensor y = floating_operand(call, 0, "y");
    if (!get(config, "x").is_null()) bad("Trapezoid with places x is not supported");
    const int axis = positive_axis(y, axis_or(config, -1));
    const Tensor pairs = ops::slice_axis(y, axis, 1, std::nullopt) + ops::slice_axis(y, axis, 0, -1);
    return Structure(ops::reduce_sum(pairs, ops::Ints{axis}, false) * (get(config, "dx", 1.0).get<double>() / 2));
  });
}

}  // namespace

Tensor diagonal_part(const Tensor& x, std::int64_t k) {
  return ops::call1("MatrixDiagPart", {k == 0 ? x : ops::slice_axis(x, k > 0 ? -1 : -2, std::abs(k), std::nullopt)});
}

Tensor finite_numbers(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (!is_floating(x.dtype())) return x;
  const double most = x.dtype() == DType::kFloat16   ? 65504.0
                      : x.dtype() == DType::kFloat64 ? std::numeric_limits<double>::max()
                                                     : std::numeric_limits<float>::max();
  Tensor y = without_nan(x, nan);
  y = ops::where(ops::equal(x, kInfinity), ops::zeros_like(x) + posinf.value_or(most), y);
  return ops::where(ops::equal(x, -kInfinity), ops::zeros_like(x) + neginf.value_or(-most), y);
}

void add_more_numpy(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.numpy", std::move(run)}; };
  add_elementwise(row);
  add_binary(row);
  add_reductions(row);
  add_shapes(row);
}

}  // namespace lockstep::keras::tensor_ops
