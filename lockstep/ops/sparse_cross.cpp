// SparseCross and RaggedCross: all combinations of the features of each row, as texts or as hashes.
#include <algorithm>
#include <limits>

#include "lockstep/io/fingerprint_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

struct CrossedFeature {
  std::string text;
  std::uint64_t hash = 0;
};
// The features of each row of the batch.
using CrossedColumn = std::vector<std::vector<CrossedFeature>>;

std::vector<CrossedFeature> crossed_features(const Tensor& values) {
  std::vector<CrossedFeature> out;
  if (values.dtype() == DType::kString) {
    for (const std::string& text : values.string_values()) out.push_back({text, io::fingerprint64(text)});
  } else {
    for (const std::int64_t value : ints_of(dense(values)))
      out.push_back({std::to_string(value), static_cast<std::uint64_t>(value)});
  }
  return out;
}

CrossedColumn empty_column(std::int64_t rows) {
  element_count({rows}, sizeof(std::vector<CrossedFeature>));
  return CrossedColumn(static_cast<std::size_t>(rows));
}

CrossedColumn sparse_column(const Call& call, int indices, int values, int shape) {
  const Sparse x = sparse_in(call, indices, values, shape);
  if (x.rank != 2) throw_invalid_argument("sparse columns must have two axes");
  CrossedColumn column = empty_column(x.shape[0]);
  const std::vector<CrossedFeature> all = crossed_features(x.values);
  for (std::int64_t k = 0; k < x.count; ++k)
    column[static_cast<std::size_t>(x.row(k)[0])].push_back(all[static_cast<std::size_t>(k)]);
  return column;
}

CrossedColumn dense_column(const Tensor& x) {
  if (x.rank() != 2) throw_invalid_argument("dense columns must have two axes");
  CrossedColumn column = empty_column(x.dim(0));
  const std::vector<CrossedFeature> all = crossed_features(x);
  for (std::size_t k = 0; k < all.size(); ++k) column[k / static_cast<std::size_t>(x.dim(1))].push_back(all[k]);
  return column;
}

CrossedColumn ragged_column(const Tensor& values, const at::Tensor& row_splits) {
  if (values.rank() != 1 || row_splits.dim() != 1)
    throw_invalid_argument("values and row splits of a ragged column must be vectors");
  const Ints splits = ints_of(row_splits);
  const std::vector<CrossedFeature> all = crossed_features(values);
  if (splits.empty() || splits.front() != 0 || splits.back() != static_cast<std::int64_t>(all.size()) ||
      !std::is_sorted(splits.begin(), splits.end()))
    throw_invalid_argument("the row splits of a ragged column do not fit its values");
  CrossedColumn column = empty_column(static_cast<std::int64_t>(splits.size()) - 1);
  for (std::size_t row = 0; row < column.size(); ++row)
    column[row].assign(all.begin() + splits[row], all.begin() + splits[row + 1]);
  return column;
}

void check_columns(const std::vector<CrossedColumn>& columns) {
  for (const CrossedColumn& column : columns) {
    if (column.size() != columns[0].size()) throw_invalid_argument("the columns differ in their rows");
  }
  if (columns.empty()) throw_invalid_argument("found no columns");
}

// Sparse columns first, then dense ones.
std::vector<CrossedColumn> columns_in(const Call& call) {
  const auto n = static_cast<int>(call.attr<std::int64_t>("N"));
  const auto dense_count = static_cast<int>(call.attr<std::vector<DType>>("dense_types").size());
  if (static_cast<int>(call.attr<std::vector<DType>>("sparse_types").size()) != n)
    throw_invalid_argument("sparse_types must have an entry for each of the N columns");
  std::vector<CrossedColumn> columns;
  for (int i = 0; i < n; ++i) columns.push_back(sparse_column(call, i, n + i, 2 * n + i));
  for (int i = 3 * n; i < 3 * n + dense_count; ++i) columns.push_back(dense_column(call.input(i)));
  check_columns(columns);
  return columns;
}

// In the order of input_order: R, S or D for the next ragged, sparse or dense column.
std::vector<CrossedColumn> mixed_columns_in(const Call& call) {
  const auto ragged = static_cast<int>(call.attr<std::vector<DType>>("ragged_values_types").size());
  const auto sparse = static_cast<int>(call.attr<std::int64_t>("Nsparse"));
  const auto dense_count = static_cast<int>(call.attr<std::vector<DType>>("dense_types").size());
  if (static_cast<int>(call.attr<std::vector<DType>>("ragged_splits_types").size()) != ragged ||
      static_cast<int>(call.attr<std::vector<DType>>("sparse_values_types").size()) != sparse)
    throw_invalid_argument("the lists of types must have an entry for each column");
  std::vector<CrossedColumn> columns;
  int next_ragged = 0, next_sparse = 0, next_dense = 0;
  for (const char kind : call.attr<std::string>("input_order")) {
    const int first_sparse = 2 * ragged, first_dense = first_sparse + 3 * sparse;
    if (kind == 'R' && next_ragged < ragged) {
      columns.push_back(ragged_column(call.input(next_ragged), in(call, ragged + next_ragged)));
      ++next_ragged;
    } else if (kind == 'S' && next_sparse < sparse) {
      const int at = first_sparse + next_sparse++;
      columns.push_back(sparse_column(call, at, at + sparse, at + 2 * sparse));
    } else if (kind == 'D' && next_dense < dense_count) {
      columns.push_back(dense_column(call.input(first_dense + next_dense++)));
    } else {
      throw_invalid_argument("input_order does not fit the columns");
    }
  }
  if (next_ragged != ragged || next_sparse != sparse || next_dense != dense_count)
    throw_invalid_argument("input_order does not fit the columns");
  check_columns(columns);
  return columns;
}

// `make` gets one feature of each column, the last one changing first; its results are the values.
template <typename T, typename Make>
std::vector<T> cross_rows(const std::vector<CrossedColumn>& columns, Ints& indices, Ints& shape, const Make& make) {
  std::vector<T> out;
  shape = {static_cast<std::int64_t>(columns[0].size()), 0};
  for (std::size_t row = 0; row < columns[0].size(); ++row) {
    std::int64_t count = 1;
    for (const CrossedColumn& column : columns) {
      if (__builtin_mul_overflow(count, static_cast<std::int64_t>(column[row].size()), &count))
        throw_invalid_argument("there are too many combinations");
    }
    element_count({count + static_cast<std::int64_t>(out.size())}, sizeof(T) + 2 * sizeof(std::int64_t));
    shape[1] = std::max(shape[1], count);
    std::vector<const CrossedFeature*> picked(columns.size());
    std::size_t bytes = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i;
      for (std::size_t k = columns.size(); k-- > 0;) {
        const auto size = static_cast<std::int64_t>(columns[k][row].size());
        picked[k] = &columns[k][row][static_cast<std::size_t>(rest % size)];
        bytes += picked[k]->text.size();
        rest /= size;
      }
      MemoryLimit::check(static_cast<std::int64_t>(bytes), 1);
      out.push_back(make(picked));
      indices.push_back(static_cast<std::int64_t>(row)), indices.push_back(i);
    }
  }
  return out;
}

// Values and where they are: indices and shape of a sparse tensor.
struct Crossed {
  Tensor values;
  Ints indices, shape;
};

Tensors as_sparse(const Crossed& crossed) {
  const auto count = crossed.values.dim(0);
  return {wrap(int64_tensor(crossed.indices, {count, 2})), crossed.values, wrap(int64_tensor(crossed.shape))};
}

Crossed crossed_texts(const std::vector<CrossedColumn>& columns, const std::string& separator) {
  Ints indices, shape;
  auto values = cross_rows<std::string>(columns, indices, shape, [&](const auto& picked) {
    std::string text = picked[0]->text;
    for (std::size_t k = 1; k < picked.size(); ++k) text += separator + picked[k]->text;
    return text;
  });
  const auto count = static_cast<std::int64_t>(values.size());
  return {Tensor::strings(std::move(values), Shape{count}), std::move(indices), std::move(shape)};
}

// `start`: what the first feature is combined with, or null.
Crossed crossed_hashes(const std::vector<CrossedColumn>& columns, std::int64_t buckets, const std::uint64_t* start) {
  if (buckets < 0) throw_invalid_argument(fmt::format("num_buckets must not be negative, found {}", buckets));
  const auto range = static_cast<std::uint64_t>(buckets > 0 ? buckets : std::numeric_limits<std::int64_t>::max());
  Ints indices, shape;
  const auto values = cross_rows<std::int64_t>(columns, indices, shape, [&](const auto& picked) {
    std::uint64_t hash = start ? io::fingerprint_cat(*start, picked[0]->hash) : picked[0]->hash;
    for (std::size_t k = 1; k < picked.size(); ++k) hash = io::fingerprint_cat(hash, picked[k]->hash);
    return static_cast<std::int64_t>(hash % range);
  });
  return {wrap(int64_tensor(values)), std::move(indices), std::move(shape)};
}

// As the attributes of SparseCross and RaggedCross say.
Crossed crossed_by_attributes(const Call& call, const std::vector<CrossedColumn>& columns, const char* type) {
  const bool hashed = call.attr<bool>("hashed_output");
  if (hashed != (call.attr<DType>(type) == DType::kInt64))
    throw_invalid_argument(fmt::format("{} must be int64 for hashed_output, else string", type));
  if (!hashed) return crossed_texts(columns, "_X_");
  const auto key = static_cast<std::uint64_t>(call.attr<std::int64_t>("hash_key"));
  return crossed_hashes(columns, call.attr<std::int64_t>("num_buckets"), &key);
}

Tensors sparse_cross(const Call& call) { return as_sparse(crossed_by_attributes(call, columns_in(call), "out_type")); }

Tensors ragged_cross(const Call& call) {
  const Crossed crossed = crossed_by_attributes(call, mixed_columns_in(call), "out_values_type");
  Ints splits(static_cast<std::size_t>(crossed.shape[0]) + 1);
  for (std::size_t i = 0; i < crossed.indices.size(); i += 2)
    ++splits[static_cast<std::size_t>(crossed.indices[i]) + 1];
  for (std::size_t row = 1; row < splits.size(); ++row) splits[row] += splits[row - 1];
  return {crossed.values, wrap(int64_tensor(splits).to(to_scalar_type(call.attr<DType>("out_row_splits_type"))))};
}

Tensors sparse_cross_hashed(const Call& call) {
  const int last = call.num_inputs() - 3;
  if (in(call, last + 2).numel() != 2)
    throw_invalid_argument(fmt::format("salt must have two numbers, found {}", in(call, last + 2).numel()));
  if (in(call, last + 1).numel() != 1 || in(call, last + 1).item<bool>()) throw_unimplemented("strong_hash true");
  for (const char* name : {"sparse_types", "dense_types"}) {
    for (const DType dtype : call.attr<std::vector<DType>>(name)) {
      if (dtype != DType::kString) throw_unimplemented("hashes of integer columns");
    }
  }
  return as_sparse(crossed_hashes(columns_in(call), int_in(call, last), nullptr));
}

}  // namespace

void register_sparse_cross(Table& table) {
  const ShapeRule rule = [](const Call&) { return Shapes{Shape{kUnknownDim, 2}, Shape{kUnknownDim}, Shape{2}}; };
  table.add("SparseCross", rule, sparse_cross);
  table.add("SparseCrossV2", rule, [](const Call& call) {
    return as_sparse(crossed_texts(columns_in(call), string_in(call, call.num_inputs() - 1)));
  });
  table.add("SparseCrossHashed", rule, sparse_cross_hashed);
  table.add(
      "RaggedCross",
      [](const Call&) {
        return Shapes{Shape{kUnknownDim}, Shape{kUnknownDim}};
      },
      ragged_cross);
}

}  // namespace lockstep::ops
