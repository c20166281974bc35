// keras.ops.numpy: quantiles, percentiles and medians
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"

namespace lockstep::keras::tensor_ops {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// x with the reduced axes flattened into the last one.
struct Reduced {
  Tensor values;
  ops::Ints axes;  // ascending
  bool all = false;
};
Reduced reduced_last(const Tensor& x, const Json& config) {
  const Json given = get(config, "axis");
  if (given.is_null()) return {ops::reshape(x, ops::Ints{-1}), {}, true};
  ops::Ints axes = int_list(given, "axis");
  for (std::int64_t& axis : axes) axis = positive_axis(x, axis);
  std::sort(axes.begin(), axes.end());
  ops::Ints order;
  for (int i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  Tensor y = ops::transpose(x, order);
  if (axes.size() != 1) {
    const int kept = x.rank() - static_cast<int>(axes.size());
    std::int64_t count = 1;
    for (int i = kept; i < x.rank(); ++i) count = y.dim(i) < 0 || count < 0 ? -1 : count * y.dim(i);
    Tensors sizes;
    for (int i = 0; i < kept; ++i) sizes.push_back(ops::dim_of(y, i));
    sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(count)));
    y = ops::reshape(y, ops::stack(sizes));
  }
  return {y, axes, false};
}

// The values at a fraction `q` of those that are sorted along the last axis. `last` is the place of the last one that
// counts, float64: a scalar, or one for each vector.
Tensor at_fraction(const Tensor& sorted, const Tensor& last, double q, const std::string& method) {
  const Tensor place = last * q;
  const auto at = [&](const Tensor& index) {
    const Tensor whole = ops::cast(index, DType::kInt32);
    if (whole.rank() == 0) return ops::gather(sorted, whole, sorted.rank() - 1);
    return ops::squeeze(ops::gather(sorted, ops::expand_dims(whole, -1), sorted.rank() - 1, sorted.rank() - 1), {-1});
  };
  const Tensor below = ops::floor(place), above = ops::ceil(place);
  if (method == "lower") return at(below);
  if (method == "higher") return at(above);
  if (method == "nearest") return at(ops::round(place));
  if (method == "midpoint") return (at(below) + at(above)) * 0.5;
  if (method == "linear") {
    const Tensor weight = ops::cast(place - below, sorted.dtype());
    return at(below) * (1.0 - weight) + at(above) * weight;
  }
  bad(fmt::format("unknown method '{}' of Quantile", method));
}

Tensor quantile(const Tensor& x, const Reduced& reduced, double q, const Json& config, const std::string& method,
                bool without_nan) {
  if (!(q >= 0 && q <= 1)) bad(fmt::format("Quantile: q is {}, expected a number from 0 to 1", q));
  const Tensor& values = reduced.values;
  const int axis = values.rank() - 1;
  const Tensor nan = ops::is_nan(values);
  Tensor y;
  if (without_nan) {
    const Tensor infinity = ops::zeros_like(values) + std::numeric_limits<double>::infinity();
    const Tensor count = ops::reduce_sum(ops::cast(ops::logical_not(nan), DType::kFloat64), ops::Axes(axis), false);
    const Tensor none = ops::equal(count, 0.0);
    y = at_fraction(ops::sort(ops::where(nan, infinity, values), axis), ops::maximum(count - 1.0, 0.0), q, method);
    y = ops::where(none, ops::zeros_like(y) + kNan, y);
  } else {
    const Tensor last = ops::cast(ops::dim_of(values, axis), DType::kFloat64) - 1.0;
    y = at_fraction(ops::sort(values, axis), last, q, method);
    y = ops::where(ops::reduce_any(nan, ops::Axes(axis)), ops::zeros_like(y) + kNan, y);
  }
  if (!keepdims_of(config)) return y;
  if (reduced.all) return ops::reshape(y, ops::Ints(static_cast<std::size_t>(x.rank()), 1));
  for (const std::int64_t place : reduced.axes) y = ops::expand_dims(y, static_cast<int>(place));
  return y;
}

// `q` of the call is multiplied by `scale`.
Run quantiles(double scale, bool without_nan, bool takes_method = true) {
  return [=](const CallArguments& call, const Json& config) {
    const std::string method = takes_method ? get(config, "method", "linear").get<std::string>() : "linear";
    const Tensor x = floating_operand(call);
    const Reduced reduced = reduced_last(x, config);
    const auto of = [&](double q) { return quantile(x, reduced, q * scale, config, method, without_nan); };
    const Argument& q = argument(call, 1, "q");
    if (q.is_leaf() && !q.leaf().is_tensor()) return Structure(of(number_argument(call, 1, "q", 0)));
    std::vector<double> fractions;
    bool one = false;
    if (q.is_leaf()) {
      if (q.leaf().tensor.is_symbolic()) bad("Quantile requires a q that is a constant");
      fractions = ops::cast(q.leaf().tensor, DType::kFloat64).to_vector<double>();
      one = q.leaf().tensor.rank() == 0;
    } else {
      for (const Argument& each : q.parts()) fractions.push_back(each.leaf().value.get<double>());
    }
    Tensors all;
    for (const double fraction : fractions) all.push_back(of(fraction));
    return Structure(one ? all[0] : ops::stack(all, 0));
  };
}

Run median(bool without_nan) {
  return [=](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call);
    return Structure(quantile(x, reduced_last(x, config), 0.5, config, "linear", without_nan));
  };
}

}  // namespace

void add_quantiles(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.numpy", std::move(run)}; };
  row("Quantile", quantiles(1.0, false, false));  // Keras's class does not pass its method on
  row("Percentile", quantiles(0.01, false));
  row("Median", median(false));
  row("Nanquantile", quantiles(1.0, true));
  row("Nanpercentile", quantiles(0.01, true));
  row("Nanmedian", median(true));
}

}  // namespace lockstep::keras::tensor_ops
