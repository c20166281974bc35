#include "lockstep/keras/quantizers/quantize_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::quantizers {

using ops::operator+;
using ops::operator-;
using ops::operator*;
using ops::operator/;

namespace {

constexpr double kEpsilon = 1e-7;
constexpr double kLeast = -8, kGreatest = 7;  // of four bits

Tensor rounded(const Tensor& x, double least, double greatest) {
  return ops::clip_by_value(ops::round(x), least, greatest);
}

}  // namespace

Quantized abs_max_quantize(const Tensor& x, const keras::Ints& axes, const AbsMaxQuantizer& how) {
  const Tensor greatest = ops::reduce_max(ops::abs(x), axes, true) + how.epsilon;
  const Tensor scale = static_cast<double>(how.value_range.second) / greatest;
  return {rounded(x * scale, static_cast<double>(how.value_range.first), static_cast<double>(how.value_range.second)),
          scale};
}

QuantizedGroups quantize_groups(const Tensor& matrix, std::int64_t block_size) {
  const std::int64_t rows = matrix.dim(0), columns = matrix.dim(1), groups = (rows + block_size - 1) / block_size;
  const Tensor padded = ops::pad(matrix, {{0, groups * block_size - rows}, {0, 0}});
  const Tensor blocks = ops::reshape(padded, {groups, block_size, columns});
  const Tensor least = ops::reduce_min(blocks, ops::Ints{1}, true);
  const Tensor greatest = ops::reduce_max(blocks, ops::Ints{1}, true);
  const Tensor scale = ((greatest - least) + kEpsilon) / (kGreatest - kLeast);
  const Tensor zero = ops::clip_by_value(ops::round((least * -1.0) / scale) + kLeast, kLeast, kGreatest);
  const Tensor values = ops::clip_by_value(ops::round(blocks / scale) + zero, kLeast, kGreatest);
  return {ops::slice(ops::reshape(values, {groups * block_size, columns}), {0, 0}, {rows, columns}),
          ops::squeeze(scale, {1}), ops::squeeze(zero, {1})};
}

Tensor pack_int4(const Tensor& values, int axis) {
  const int rank = values.rank(), at = axis < 0 ? axis + rank : axis;
  const std::int64_t extent = values.dim(at);
  Tensor wide = ops::cast(values, DType::kInt32);
  if (extent % 2 == 1) {
    std::vector<std::pair<std::int64_t, std::int64_t>> paddings(static_cast<std::size_t>(rank));
    paddings[static_cast<std::size_t>(at)].second = 1;
    wide = ops::pad(wide, paddings);
  }
  const Tensor low = ops::slice_axis(wide, at, 0, std::nullopt, 2),
               high = ops::slice_axis(wide, at, 1, std::nullopt, 2);
  return ops::cast(ops::floor_mod(low, Tensor::scalar(std::int32_t{16})) + high * 16.0, DType::kInt8);
}

Tensor unpack_int4(const Tensor& packed, int axis, std::int64_t extent, DType dtype) {
  const int rank = packed.rank(), at = axis < 0 ? axis + rank : axis;
  const Tensor wide = ops::cast(packed, DType::kInt32), sixteen = Tensor::scalar(std::int32_t{16});
  const Tensor high = ops::floor_div(wide, sixteen);
  const Tensor rest = wide - high * sixteen;
  const Tensor low = rest - ops::floor_div(rest, Tensor::scalar(std::int32_t{8})) * sixteen;
  ops::Ints shape = packed.shape().dims();
  shape[static_cast<std::size_t>(at)] *= 2;
  const Tensor both = ops::reshape(ops::stack({low, high}, at + 1), shape);
  return ops::cast(ops::slice_axis(both, at, 0, extent), dtype);
}

DType exact_product_dtype(std::int64_t terms) {
  return terms * 128 * 128 <= (std::int64_t{1} << 24) ? DType::kFloat32 : DType::kFloat64;
}

}  // namespace lockstep::quantizers
