#include "lockstep/random/gamma.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/philox_internal.h"
#include "lockstep/random/batch_slice.h"
#include "lockstep/random/graph_draws_internal.h"

namespace lockstep::random {
namespace {

std::size_t checked_count(std::string_view what, const Shape& shape) {
  const auto count = shape.fully_known() ? shape.num_elements() : std::nullopt;
  if (!count)
    throw_invalid_argument(
        fmt::format("random.{}: invalid shape: found {}, expected known dimensions", what, shape.to_string()));
  return static_cast<std::size_t>(*count);
}

// In the dtype of the draw, for each element of the shape.
std::vector<double> parameters(std::string_view what, const Shape& shape, const Parameter& given, DType dtype) {
  if (dtype != DType::kFloat16 && dtype != DType::kFloat32 && dtype != DType::kFloat64) {
    throw_invalid_argument(fmt::format("random.{}: invalid dtype: found {}, expected float16, float32 or float64", what,
                                       dtype_name(dtype)));
  }
  const Tensor rounded = ops::cast(ops::cast(given, dtype), DType::kFloat64);
  std::vector<double> values = ops::broadcast_to(rounded, shape).to_vector<double>();
  for (const double value : values) {
    if (!(value > 0)) {
      throw_invalid_argument(
          fmt::format("random.{}: invalid parameter: found {}, expected a number above 0", what, value));
    }
  }
  return values;
}

// As tf.random.stateless_gamma: never 0.
Tensor gammas(const SeedPair& seed, std::int64_t offset, const std::vector<double>& alphas, const Shape& shape,
              DType dtype) {
  std::vector<double> drawn(alphas.size());
  ops::philox_gamma(
      ops::philox_from_stateless_seed(seed.first, seed.second), offset,
      [&](std::int64_t i) { return alphas[static_cast<std::size_t>(i - offset)]; }, drawn);
  const double tiny = dtype == DType::kFloat64   ? std::numeric_limits<double>::min()
                      : dtype == DType::kFloat16 ? 0x1p-14
                                                 : std::numeric_limits<float>::min();
  for (double& number : drawn) number = std::max(tiny, number);
  return ops::cast(Tensor::from_vector(drawn, shape), dtype);
}

// A draw whose parameters are tensors: the rows of this thread of what `draw` returns for the shape of the whole batch.
template <typename Draw>
Tensor own_rows(std::string_view what, const Shape& shape, int rank_of_parameters, Draw draw) {
  const BatchSlice* const slice = shape.rank() > 0 ? BatchSlice::current() : nullptr;
  if (!slice || slice->local_rows() != shape[0]) return draw(shape);
  if (rank_of_parameters == shape.rank()) {
    throw_invalid_argument(
        fmt::format("random.{}: parameters for each row of a batch require a strategy of one replica", what));
  }
  std::vector<std::int64_t> dims = shape.dims();
  dims[0] = slice->global_rows();
  return draw(Shape(dims))[Range{slice->offset_rows(), slice->offset_rows() + slice->local_rows()}];
}

}  // namespace

Tensor gamma(const ShapeArg& known, const Parameter& alpha, const ParameterOptions& o) {
  if (drawn_by_graph(known, o.seed))
    return stateless_gamma({.shape = known, .seed = any_seed_in_graph(o.seed), .alpha = alpha, .dtype = o.dtype});
  const Shape& shape = known.shape();
  checked_count("gamma", shape);
  const SeedPair pair = draw_seed(o.seed);
  if (alpha.num_elements() == 1)
    return gammas(pair, draw_offset(shape), parameters("gamma", shape, alpha, o.dtype), shape, o.dtype);
  const Shape inner = alpha.shape();
  const std::vector<double> alphas = parameters("gamma", inner, alpha, o.dtype);
  return own_rows("gamma", shape, inner.rank(), [&](const Shape& all) {
    const std::vector<std::int64_t> dims = all.dims(), ends = inner.dims();
    if (dims.size() < ends.size() || !std::equal(ends.rbegin(), ends.rend(), dims.rbegin())) {
      throw_invalid_argument(
          fmt::format("random.gamma: invalid shape: found {}, expected one that ends with that of alpha, {}",
                      all.to_string(), inner.to_string()));
    }
    // The numbers of one alpha follow each other in the stream.
    const std::size_t total = checked_count("gamma", all), each = alphas.empty() ? 0 : total / alphas.size();
    std::vector<double> streams(total);
    for (std::size_t i = 0; i < total; ++i) streams[i] = alphas[i / each];
    const Tensor drawn = gammas(
        pair, 0, streams, Shape{static_cast<std::int64_t>(alphas.size()), static_cast<std::int64_t>(each)}, o.dtype);
    return ops::reshape(ops::transpose(drawn, {1, 0}), dims);
  });
}

Tensor beta(const ShapeArg& known, const Parameter& alpha, const Parameter& beta, const ParameterOptions& o) {
  if (drawn_by_graph(known, o.seed)) {
    const Tensor first = any_seed_in_graph(o.seed), second = first + std::int32_t{12};
    const auto draw = [&](const Tensor& seed, const Parameter& parameter) {
      const Tensor whole = ops::broadcast_to(ops::cast(parameter, o.dtype), known);
      return stateless_gamma({.shape = known, .seed = seed, .alpha = whole, .dtype = o.dtype});
    };
    const Tensor a = draw(first, alpha);
    return a / (a + draw(second, beta));
  }
  const Shape& shape = known.shape();
  checked_count("beta", shape);
  const std::vector<double> alphas = parameters("beta", shape, alpha, o.dtype);
  const std::vector<double> betas = parameters("beta", shape, beta, o.dtype);
  const SeedPair pair = draw_seed(o.seed);
  const std::int64_t offset = draw_offset(shape);
  const Tensor a = gammas(pair, offset, alphas, shape, o.dtype);
  return a / (a + gammas({pair.first + 12, pair.second + 12}, offset, betas, shape, o.dtype));
}

Tensor binomial(const ShapeArg& known, const Parameter& counts, const Parameter& probabilities,
                const ParameterOptions& o) {
  if (drawn_by_graph(known, o.seed)) {
    const DType dtype = o.dtype == DType::kBFloat16 ? DType::kFloat32 : DType(o.dtype);
    const Tensor drawn = stateless_binomial({.shape = known,
                                             .seed = any_seed_in_graph(o.seed),
                                             .counts = counts,
                                             .probs = probabilities,
                                             .output_dtype = dtype});
    return ops::cast(drawn, o.dtype);
  }
  const Shape& shape = known.shape();
  checked_count("binomial", shape);
  const SeedPair pair = draw_seed(o.seed);
  const Tensor seed = Tensor::from_vector(std::vector<std::int64_t>{pair.first, pair.second});
  const DType drawn = o.dtype == DType::kBFloat16 ? DType::kFloat32 : DType(o.dtype);
  return own_rows("binomial", shape, std::max(counts.rank(), probabilities.rank()), [&](const Shape& all) {
    return ops::cast(ops::call1("StatelessRandomBinomial",
                                {ops::constant_ints(all.dims()), seed, counts, probabilities}, {{"dtype", drawn}}),
                     o.dtype);
  });
}

}  // namespace lockstep::random
