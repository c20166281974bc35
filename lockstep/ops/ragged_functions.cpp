#include "lockstep/ops/ragged_functions.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

bool same_rows(const RaggedTensor& a, const RaggedTensor& b) {
  if (a.ragged_rank() != b.ragged_rank()) return false;
  for (int i = 0; i < a.ragged_rank(); ++i) {
    const auto level = static_cast<std::size_t>(i);
    if (a.nested_row_splits()[level].to_vector<std::int64_t>() !=
        b.nested_row_splits()[level].to_vector<std::int64_t>())
      return false;
  }
  return true;
}

// The values of a tensor at the places of a ragged one's; empty where they do not fit.
Tensor spread(const Tensor& values, const RaggedTensor& frame) {
  const int axes = frame.shape().rank();
  if (values.rank() > axes) return {};
  ops::Ints dims(static_cast<std::size_t>(axes - values.rank()), 1);
  for (const std::int64_t extent : values.shape()) dims.push_back(extent);
  const int ragged = frame.ragged_rank();
  for (int axis = 1; axis <= ragged; ++axis) {
    if (dims[static_cast<std::size_t>(axis)] != 1) return {};
  }
  if (dims[0] != 1 && dims[0] != frame.nrows()) return {};
  const Tensor rows = ops::reshape(values, [&] {
    ops::Ints shape = {dims[0]};
    shape.insert(shape.end(), dims.begin() + 1 + ragged, dims.end());
    return Shape(shape);
  }());
  if (dims[0] == 1) return rows;
  Tensor row_of = frame.value_rowids();
  for (RaggedTensor inner = frame.values(); inner.ragged_rank() > 0; inner = inner.values())
    row_of = ops::gather(row_of, inner.value_rowids());
  return ops::gather(rows, row_of);
}

}  // namespace

RaggedTensor ragged_rows(const RaggedTensor& x, const std::function<RaggedTensor(const Tensor&)>& fn) {
  return x.ragged_rank() == 0 ? fn(x.flat_values()) : x.with_values(ragged_rows(x.values(), fn));
}

RaggedTensor ragged_elementwise(const char* what, const RaggedTensor& a, const RaggedTensor& b,
                                const std::function<Tensor(const Tensor&, const Tensor&)>& fn) {
  if (a.ragged_rank() == 0 && b.ragged_rank() == 0) return RaggedTensor(fn(a.flat_values(), b.flat_values()));
  const RaggedTensor& frame = a.ragged_rank() > 0 ? a : b;
  const auto in_frame = [&](const RaggedTensor& x) {
    if (x.ragged_rank() == 0) return spread(x.flat_values(), frame);
    return same_rows(x, frame) ? x.flat_values() : Tensor();
  };
  const Tensor x = in_frame(a), y = in_frame(b);
  if (!x.defined() || !y.defined()) {
    throw_invalid_argument(fmt::format("'{}' of ragged tensors requires rows of equal lengths: found shapes {} and {}",
                                       what, a.shape().to_string(), b.shape().to_string()));
  }
  return frame.with_flat_values(fn(x, y));
}

RaggedRow map_ragged(const std::function<Tensor(const Tensor&)>& fn, const RaggedTensor& elems) {
  std::vector<RaggedTensor> rows;
  Tensors numbers;
  for (std::int64_t row = 0; row < elems.nrows(); ++row) {
    const Tensor made = fn(elems[row]);
    if (made.rank() == 0) numbers.push_back(made);
    rows.emplace_back(made);
  }
  if (rows.empty()) return RaggedRow(elems);
  if (numbers.size() == rows.size()) return RaggedRow(ops::stack(numbers));
  return RaggedRow(ragged::stack(rows));
}

namespace ops {

RaggedTensor tile_ragged(const RaggedTensor& ragged, const Ints& multiples) {
  if (static_cast<int>(multiples.size()) != ragged.shape().rank() || ragged.ragged_rank() != 1) {
    throw_invalid_argument(fmt::format(
        "tile of a ragged tensor requires one ragged axis, and a number for each axis: found shape {} and {} numbers",
        ragged.shape().to_string(), multiples.size()));
  }
  Ints inner(multiples.begin() + 1, multiples.end());
  inner[0] = 1;
  const RaggedTensor row = ragged.with_flat_values(tile(ragged.flat_values(), inner));
  const auto repeated = [](const RaggedTensor& each, std::int64_t times, int axis) {
    if (times < 1) throw_invalid_argument(fmt::format("tile of a ragged tensor: found {}, expected 1 or more", times));
    return concat_ragged(std::vector<RaggedTensor>(static_cast<std::size_t>(times), each), axis);
  };
  return repeated(repeated(row, multiples[1], 1), multiples[0], 0);
}
RaggedTensor gather_ragged(const RaggedTensor& params, const RaggedTensor& indices) {
  if (indices.ragged_rank() > 0)
    return RaggedTensor::from_row_splits(gather_ragged(params, indices.values()), indices.row_splits());
  if (params.ragged_rank() == 0) return gather(params.flat_values(), indices.flat_values());
  if (indices.flat_values().rank() != 1) {
    throw_invalid_argument(fmt::format("gather of a ragged tensor: found indices of shape {}, expected one axis",
                                       indices.shape().to_string()));
  }
  return params.rows(cast(indices.flat_values(), DType::kInt64).to_vector<std::int64_t>());
}

}  // namespace ops

namespace strings {

RaggedTensor join_ragged(const std::vector<RaggedTensor>& parts, std::string_view separator) {
  if (parts.empty()) throw_invalid_argument("join: found no strings");
  RaggedTensor joined = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    joined = ragged_elementwise("join", joined, parts[i], [&](const Tensor& x, const Tensor& y) {
      return join({Text(x), Text(y)}, separator);
    });
  }
  return joined;
}

}  // namespace strings
}  // namespace lockstep
