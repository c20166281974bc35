#include "lockstep/ops/shape_rules_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::ops {

Shapes same_shape(const Call& call) { return {call.input(0).shape()}; }

Shape broadcast_shape(const Shape& a, const Shape& b) {
  if (!a.known_rank() || !b.known_rank()) return Shape::unknown_rank();
  const int rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank));
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank() ? a[-i] : 1, y = i <= b.rank() ? b[-i] : 1;
    std::int64_t& out = dims[static_cast<std::size_t>(rank - i)];
    if (x == y || y == 1) {
      out = x;
    } else if (x == 1) {
      out = y;
    } else if (x == kUnknownDim || y == kUnknownDim) {
      out = std::max(x, y);
    } else {
      throw_invalid_argument(fmt::format("shapes {} and {} cannot be broadcast", a.to_string(), b.to_string()));
    }
  }
  return Shape(std::move(dims));
}

Shapes broadcast_rule(const Call& call) { return {broadcast_shape(call.input(0).shape(), call.input(1).shape())}; }

Shapes broadcast_all_rule(const Call& call) {
  Shape shape = call.input(0).shape();
  for (const Tensor& input : call.inputs().subspan(1)) shape = broadcast_shape(shape, input.shape());
  return {shape};
}

Shapes scalar_rule(const Call&) { return {Shape{}}; }
Shapes no_outputs(const Call&) { return {}; }

Shape shape_from_input(const Call& call, int i) {
  if (auto shape = constant_value_as_shape(call.input(i))) return *shape;
  const Shape& vector = call.input(i).shape();
  if (vector.known_rank() && vector.rank() == 1 && vector[0] >= 0 && vector[0] < 256) {
    return Shape(std::vector<std::int64_t>(static_cast<std::size_t>(vector[0]), kUnknownDim));
  }
  return Shape::unknown_rank();
}

ShapeRule shape_of_input(int i) {
  return [i](const Call& call) { return Shapes(call.signature().outputs.size(), shape_from_input(call, i)); };
}

std::optional<std::vector<std::int64_t>> known_ints(const Call& call, int i) {
  auto value = constant_value(call.input(i));
  if (!value) return std::nullopt;
  if (value->dtype() == DType::kInt64) return value->to_vector<std::int64_t>();
  if (value->dtype() == DType::kInt32) {
    const auto ints = value->to_vector<std::int32_t>();
    return std::vector<std::int64_t>(ints.begin(), ints.end());
  }
  return std::nullopt;
}

std::optional<std::int64_t> known_int(const Call& call, int i) {
  const auto ints = known_ints(call, i);
  if (!ints || ints->size() != 1) return std::nullopt;
  return ints->front();
}

Shape merge_shapes(const Shape& a, const Shape& b) {
  if (!a.known_rank()) return b;
  if (!b.known_rank()) return a;
  if (!a.compatible_with(b)) {
    throw_invalid_argument(fmt::format("shapes {} and {} differ", a.to_string(), b.to_string()));
  }
  Shape merged = a;
  for (int i = 0; i < a.rank(); ++i) merged[i] = std::max(a[i], b[i]);
  return merged;
}

std::int64_t add_dims(std::int64_t a, std::int64_t b) {
  if (a == kUnknownDim || b == kUnknownDim) return kUnknownDim;
  if (__builtin_add_overflow(a, b, &a)) throw_invalid_argument("the extents are too large");
  return a;
}
std::int64_t mul_dims(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kUnknownDim || b == kUnknownDim) return kUnknownDim;
  if (__builtin_mul_overflow(a, b, &a)) throw_invalid_argument("the extents are too large");
  return a;
}

std::int64_t window_output(std::int64_t input, std::int64_t window, std::int64_t stride, std::int64_t dilation,
                           const std::string& padding, std::int64_t before, std::int64_t after) {
  if (stride < 1 || window < 1 || dilation < 1) {
    throw_invalid_argument(
        fmt::format("window {}, stride {} and dilation {} must be positive", window, stride, dilation));
  }
  if (input == kUnknownDim) return kUnknownDim;
  const std::int64_t reach = (window - 1) * dilation;
  if (padding == "SAME") return (input + stride - 1) / stride;
  if (padding != "VALID" && padding != "EXPLICIT") throw_invalid_argument(fmt::format("unknown padding '{}'", padding));
  const std::int64_t padded = padding == "EXPLICIT" ? input + before + after : input;
  const std::int64_t output = (padded - reach - 1 + stride) / stride;
  if (output < 0) {
    throw_invalid_argument(fmt::format("the output size would be {}: input size {}, window {}, stride {}, dilation {}",
                                       output, padded, window, stride, dilation));
  }
  return output;
}

}  // namespace lockstep::ops
