#include "lockstep/random/random.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include <immintrin.h>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/operators.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/philox_internal.h"
#include "lockstep/random/graph_draws_internal.h"

namespace lockstep::random {
namespace {

using formats::TensorData;

template <typename T>
std::span<T> typed(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Allocates a tensor and gives its elements to `fill`.
template <typename T, typename Fill>
Tensor make(const Shape& shape, DType dtype, const Fill& fill) {
  ops::MemoryLimit::check(shape.num_elements().value_or(0), static_cast<std::int64_t>(dtype_size(dtype)));
  std::span<std::byte> bytes;
  const TensorData data = TensorData::allocate(dtype, shape, bytes);
  fill(typed<T>(bytes));
  return Tensor::from_data(data);
}

std::uint16_t to_half(float value) { return static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)); }

std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float round16(float value, DType dtype) {
  if (dtype == DType::kFloat16) return _cvtsh_ss(to_half(value));
  return std::bit_cast<float>(static_cast<std::uint32_t>(to_bfloat16(value)) << 16);
}

// Calls fill(offset of the part, part) for parts of `out`, on several threads: each number depends on its place alone.
template <typename T, typename Fill>
void fill_parts(std::span<T> out, const Fill& fill) {
  constexpr std::size_t kPart = 4096;
  const auto parts = static_cast<std::int64_t>((out.size() + kPart - 1) / kPart);
  ops::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t from = static_cast<std::size_t>(begin) * kPart,
                      to = std::min(out.size(), static_cast<std::size_t>(end) * kPart);
    fill(static_cast<std::int64_t>(from), out.subspan(from, to - from));
  });
}

ops::PhiloxState state_of(const Seed& seed) {
  const SeedPair pair = draw_seed(seed);
  return ops::philox_from_stateless_seed(pair.first, pair.second);
}

[[noreturn]] void refuse(const char* what, DType dtype) {
  throw_invalid_argument(
      fmt::format("random.{}: dtype {} was given, expected a floating one", what, dtype_name(dtype)));
}

// Before a seed is drawn.
void check_shape(const char* what, const Shape& shape) {
  if (shape.fully_known() && shape.num_elements() && *shape.num_elements() >= 0) return;
  throw_invalid_argument(fmt::format(
      "random.{}: invalid shape: found {}, expected known dimensions that fit into memory; while a model is "
      "built, take unknown ones from ops::shape(x), as in {{ops::shape(x)[0], 2}}",
      what, shape.to_string()));
}

// An operation of standard values: its name where it has a state, and where it takes a seed.
struct DrawOp {
  const char* stateful;
  const char* stateless;
};

// Standard values, drawn when the graph runs.
Tensor record_draw(const DrawOp& op, const ShapeArg& shape, double scale, double shift, DType dtype, const Seed& seed) {
  const Tensor dims = ops::shape_tensor(shape), from = seed_in_graph(seed);
  const Tensor draw = from.defined() ? ops::call1(op.stateless, {dims, from}, {{"dtype", dtype}})
                                     : ops::call1(op.stateful, {dims}, {{"dtype", dtype}});
  if (scale == 1 && shift == 0) return draw;
  return draw * Number(scale) + Number(shift);
}

using FillFloat = void (*)(const ops::PhiloxState&, std::int64_t, std::span<float>);
using FillDouble = void (*)(const ops::PhiloxState&, std::int64_t, std::span<double>);

// Draws standard values in the dtype and moves them by scale and shift, every step rounded to it.
Tensor draw_scaled(const char* what, const DrawOp& op, const ShapeArg& shape_arg, double scale, double shift,
                   DType dtype, const Seed& seed, FillFloat fill_float, FillDouble fill_double) {
  if (!is_floating(dtype) || dtype_size(dtype) < 2) refuse(what, dtype);
  if (drawn_by_graph(shape_arg, seed)) return record_draw(op, shape_arg, scale, shift, dtype, seed);
  const Shape& shape = shape_arg.shape();
  check_shape(what, shape);
  const ops::PhiloxState state = state_of(seed);
  const std::int64_t offset = draw_offset(shape);
  if (dtype == DType::kFloat64) {
    return make<double>(shape, dtype, [&](std::span<double> out) {
      fill_parts(out, [&](std::int64_t at, std::span<double> part) {
        fill_double(state, offset + at, part);
        ops::scale_and_shift(part, scale, shift);
      });
    });
  }
  if (dtype == DType::kFloat32) {
    return make<float>(shape, dtype, [&](std::span<float> out) {
      fill_parts(out, [&](std::int64_t at, std::span<float> part) {
        fill_float(state, offset + at, part);
        ops::scale_and_shift(part, static_cast<float>(scale), static_cast<float>(shift));
      });
    });
  }
  std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()));
  fill_float(state, offset, values);
  const float scale16 = round16(static_cast<float>(scale), dtype);
  const float shift16 = round16(static_cast<float>(shift), dtype);
  for (float& value : values) value = round16(round16(value, dtype) * scale16, dtype) + shift16;
  return from_floats(values, shape, dtype);
}

void uniform16(const ops::PhiloxState& state, std::int64_t offset, std::span<float> out) {
  ops::philox_uniform16(state, offset, 10, out);
}
void uniform_b16(const ops::PhiloxState& state, std::int64_t offset, std::span<float> out) {
  ops::philox_uniform16(state, offset, 7, out);
}
FillFloat uniform_fill(DType dtype) {
  if (dtype == DType::kFloat16) return uniform16;
  if (dtype == DType::kBFloat16) return uniform_b16;
  return static_cast<FillFloat>(ops::philox_uniform);
}

}  // namespace

Tensor from_floats(const std::vector<float>& values, const Shape& shape, DType dtype) {
  if (dtype == DType::kFloat32) return Tensor::from_vector(values, shape);
  if (dtype == DType::kFloat64) return Tensor::from_vector(std::vector<double>(values.begin(), values.end()), shape);
  return make<std::uint16_t>(shape, dtype, [&](std::span<std::uint16_t> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = dtype == DType::kFloat16 ? to_half(values[i]) : to_bfloat16(values[i]);
    }
  });
}

Tensor uniform(const ShapeArg& shape, double minval, double maxval, DTypeLike dtype, const Seed& seed) {
  // The bounds become float32 whatever the dtype is; their difference is taken in the dtype.
  const auto low = static_cast<float>(minval), high = static_cast<float>(maxval);
  double scale = static_cast<double>(high) - static_cast<double>(low);
  if (dtype == DType::kFloat32) scale = high - low;
  if (dtype_size(dtype) == 2) scale = round16(high, dtype) - round16(low, dtype);
  return draw_scaled("uniform", {"RandomUniform", "StatelessRandomUniform"}, shape, scale, low, dtype, seed,
                     uniform_fill(dtype), ops::philox_uniform);
}

Tensor normal(const ShapeArg& shape, double mean, double stddev, DTypeLike dtype, const Seed& seed) {
  return draw_scaled("normal", {"RandomStandardNormal", "StatelessRandomNormal"}, shape, stddev, mean, dtype, seed,
                     ops::philox_normal, ops::philox_normal);
}

Tensor truncated_normal(const ShapeArg& shape, double mean, double stddev, DTypeLike dtype, const Seed& seed) {
  return draw_scaled("truncated_normal", {"TruncatedNormal", "StatelessTruncatedNormal"}, shape, stddev, mean, dtype,
                     seed, ops::philox_truncated_normal, ops::philox_truncated_normal);
}

Tensor randint(const ShapeArg& shape_arg, std::int64_t minval, std::int64_t maxval, DTypeLike dtype, const Seed& seed) {
  if (maxval <= minval) {
    throw_invalid_argument(fmt::format("random.randint: maxval {} is not above minval {}", maxval, minval));
  }
  if (drawn_by_graph(shape_arg, seed)) {
    const Tensor dims = ops::shape_tensor(shape_arg), from = seed_in_graph(seed);
    const DType drawn = dtype == DType::kInt32 ? DType::kInt32 : DType::kInt64;
    const Tensor low = ops::cast(Tensor::scalar(minval), drawn), high = ops::cast(Tensor::scalar(maxval), drawn);
    return ops::cast(from.defined() ? ops::stateless_random_uniform_int(dims, from, low, high)
                                    : ops::call1("RandomUniformInt", {dims, low, high}),
                     dtype);
  }
  const Shape& shape = shape_arg.shape();
  check_shape("randint", shape);
  const ops::PhiloxState state = state_of(seed);
  const std::int64_t offset = draw_offset(shape);
  if (dtype != DType::kInt32) {
    const Tensor drawn = make<std::int64_t>(shape, DType::kInt64, [&](std::span<std::int64_t> out) {
      const std::span<std::uint64_t> words(reinterpret_cast<std::uint64_t*>(out.data()), out.size());
      ops::philox_full_int(state, offset, words);
      const std::uint64_t width = static_cast<std::uint64_t>(maxval) - static_cast<std::uint64_t>(minval);
      for (std::uint64_t& word : words) word = static_cast<std::uint64_t>(minval) + word % width;
    });
    return dtype == DType::kInt64 ? drawn : ops::call1("Cast", {drawn}, {{"DstT", dtype}});
  }
  return make<std::int32_t>(shape, DType::kInt32, [&](std::span<std::int32_t> out) {
    const std::span<std::uint32_t> words(reinterpret_cast<std::uint32_t*>(out.data()), out.size());
    ops::philox_full_int(state, offset, words);
    const auto width = static_cast<std::uint32_t>(static_cast<std::uint64_t>(maxval - minval));
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(minval) + (width ? word % width : word);
  });
}

Tensor categorical(const Tensor& logits, std::int64_t num_samples, DTypeLike dtype, const Seed& seed) {
  if (logits.rank() != 2 || logits.dim(1) == 0) {
    throw_invalid_argument(fmt::format("random.categorical: logits of shape {} were given, expected (batch, classes)",
                                       logits.shape().to_string()));
  }
  if (logits.is_symbolic() || drawn_by_graph({}, seed)) {
    const Tensor count = Tensor::scalar(static_cast<std::int32_t>(num_samples));
    return ops::cast(ops::call1("StatelessMultinomial", {logits, count, any_seed_in_graph(seed)}), dtype);
  }
  const Tensor wide =
      logits.dtype() == DType::kFloat32 ? logits : ops::call1("Cast", {logits}, {{"DstT", DType::kFloat32}});
  const std::vector<float> values = wide.to_vector<float>();
  const auto classes = static_cast<std::size_t>(logits.dim(1));
  const Shape shape{logits.dim(0), num_samples};
  check_shape("categorical", shape);
  // One uniform double a sample, row by row in one stream.
  std::vector<double> draws(static_cast<std::size_t>(*shape.num_elements()));
  ops::philox_uniform(state_of(seed), draw_offset(shape), std::span<double>(draws));
  std::vector<std::int64_t> samples(draws.size());
  std::vector<double> cdf(classes);
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape[0]); ++row) {
    const float* logit = values.data() + row * classes;
    const float max = *std::max_element(logit, logit + classes);
    double total = 0;
    for (std::size_t i = 0; i < classes; ++i) cdf[i] = total += std::exp(static_cast<double>(logit[i] - max));
    for (std::size_t s = row * static_cast<std::size_t>(num_samples);
         s < (row + 1) * static_cast<std::size_t>(num_samples); ++s) {
      const double target = draws[s] * total;
      samples[s] = std::upper_bound(cdf.begin(), cdf.end() - 1, target) - cdf.begin();
    }
  }
  const Tensor result = Tensor::from_vector(samples, shape);
  return dtype == DType::kInt64 ? result : ops::call1("Cast", {result}, {{"DstT", dtype}});
}

Tensor dropout_mask(const Shape& shape, double rate, DType dtype, const Seed& seed) {
  check_shape("dropout", shape);
  const ops::PhiloxState state = state_of(seed);
  const std::int64_t offset = draw_offset(shape);
  if (dtype == DType::kFloat64) {
    return make<double>(shape, dtype, [&](std::span<double> out) {
      ops::philox_uniform(state, offset, out);
      for (double& value : out) value = value >= rate ? 1.0 / (1.0 - rate) : 0.0;
    });
  }
  const auto apply = [&](std::span<float> out, std::int64_t at) {
    uniform_fill(dtype)(state, at, out);
    const bool narrow = dtype_size(dtype) == 2;
    const float limit = narrow ? round16(static_cast<float>(rate), dtype) : static_cast<float>(rate);
    const auto scale = static_cast<float>(1.0 / (1.0 - rate));
    for (float& value : out) value = value >= limit ? scale : 0.0f;
  };
  if (dtype == DType::kFloat32) {
    return make<float>(shape, dtype, [&](std::span<float> out) {
      fill_parts(out, [&](std::int64_t at, std::span<float> part) { apply(part, offset + at); });
    });
  }
  std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()));
  apply(values, offset);
  return from_floats(values, shape, dtype);
}

namespace {

Tensor record_dropout(const Tensor& inputs, double rate, const std::optional<Shape>& noise_shape, const Seed& seed) {
  ShapeArg shape = ops::shape_of(inputs);
  if (noise_shape) {
    std::vector<Extent> extents;
    for (int axis = 0; axis < noise_shape->rank(); ++axis) {
      const std::int64_t extent = (*noise_shape)[axis];
      extents.push_back(extent == kUnknownDim ? Extent(ops::dim_of(inputs, axis)) : Extent(extent));
    }
    shape = ShapeArg(std::move(extents));
  }
  const DType dtype = inputs.dtype();
  const Tensor kept = ops::greater_equal(uniform(shape, 0.0, 1.0, dtype, seed), ops::constant(rate, dtype));
  return ops::where(kept, inputs * Number(1.0 / (1.0 - rate)), ops::constant(0.0, dtype));
}

}  // namespace

Tensor dropout(const Tensor& inputs, const DropoutKeywords& keywords) {
  if (!keywords.rate) throw_invalid_argument("random.dropout requires a rate");
  return dropout(inputs, *keywords.rate, keywords.noise_shape, keywords.seed);
}

Tensor dropout(const Tensor& inputs, double rate, const std::optional<Shape>& noise_shape, const Seed& seed) {
  if (!(rate >= 0 && rate <= 1)) {
    throw_invalid_argument(fmt::format("dropout: the rate is {}, expected 0 to 1", rate));
  }
  if (rate == 0) return inputs;
  if (rate == 1) return ops::call1("ZerosLike", {inputs});
  if (inputs.is_symbolic() || drawn_by_graph({}, seed)) return record_dropout(inputs, rate, noise_shape, seed);
  Shape shape = noise_shape.value_or(inputs.shape());
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == kUnknownDim) shape[axis] = inputs.dim(axis);
  }
  // As in TensorFlow, an infinite or NaN element that is dropped is zero, and so is its gradient.
  return ops::call1("MulNoNan", {inputs, dropout_mask(shape, rate, inputs.dtype(), seed)});
}

Tensor shuffle(const Tensor& x, int axis, const Seed& seed) {
  if (x.is_symbolic() || drawn_by_graph({}, seed)) {
    const Tensor keys = uniform(ShapeArg({ops::dim_of(x, axis)}), 0.0, 1.0, DType::kFloat32, seed);
    return ops::gather(x, ops::argsort(keys), axis);
  }
  const std::int64_t rows = x.dim(axis);
  std::vector<float> keys(static_cast<std::size_t>(rows));
  ops::philox_uniform(state_of(seed), 0, keys);
  std::vector<std::int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
  });
  return ops::call1("GatherV2", {x, Tensor::from_vector(order), Tensor::scalar<std::int32_t>(axis)});
}

}  // namespace lockstep::random
