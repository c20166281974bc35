// SparseCross: all combinations of the features of each row, as texts or as hashes.
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

// Sparse columns first, then dense ones.
std::vector<CrossedColumn> columns_in(const Call& call) {
  const auto n = static_cast<int>(call.attr<std::int64_t>("N"));
  const auto dense_count = static_cast<int>(call.attr<std::vector<DType>>("dense_types").size());
  if (static_cast<int>(call.attr<std::vector<DType>>("sparse_types").size()) != n)
    throw_invalid_argument("sparse_types must have an entry for each of the N columns");
  std::vector<CrossedColumn> columns;
  for (int i = 0; i < n; ++i) {
    const Sparse x = sparse_in(call, i, n + i, 2 * n + i);
    if (x.rank != 2) throw_invalid_argument("sparse columns must have two axes");
    element_count({x.shape[0]}, sizeof(std::vector<CrossedFeature>));
    const std::vector<CrossedFeature> all = crossed_features(x.values);
    CrossedColumn column(static_cast<std::size_t>(x.shape[0]));
    for (std::int64_t k = 0; k < x.count; ++k)
      column[static_cast<std::size_t>(x.row(k)[0])].push_back(all[static_cast<std::size_t>(k)]);
    columns.push_back(std::move(column));
  }
  for (int i = 3 * n; i < 3 * n + dense_count; ++i) {
    const Tensor& x = call.input(i);
    if (x.rank() != 2) throw_invalid_argument("dense columns must have two axes");
    element_count({x.dim(0)}, sizeof(std::vector<CrossedFeature>));
    const std::vector<CrossedFeature> all = crossed_features(x);
    CrossedColumn column(static_cast<std::size_t>(x.dim(0)));
    for (std::size_t k = 0; k < all.size(); ++k) column[k / static_cast<std::size_t>(x.dim(1))].push_back(all[k]);
    columns.push_back(std::move(column));
  }
  for (const CrossedColumn& column : columns) {
    if (column.size() != columns[0].size()) throw_invalid_argument("the columns differ in their rows");
  }
  if (columns.empty()) throw_invalid_argument("there is no column");
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

Tensors crossed_texts(const Call& call, const std::string& separator) {
  Ints indices, shape;
  auto values = cross_rows<std::string>(columns_in(call), indices, shape, [&](const auto& picked) {
    std::string text = picked[0]->text;
    for (std::size_t k = 1; k < picked.size(); ++k) text += separator + picked[k]->text;
    return text;
  });
  const auto count = static_cast<std::int64_t>(values.size());
  return {wrap(int64_tensor(indices, {count, 2})), Tensor::strings(std::move(values), Shape{count}),
          wrap(int64_tensor(shape))};
}

// `start`: what the first feature is combined with, or null.
Tensors crossed_hashes(const Call& call, std::int64_t buckets, const std::uint64_t* start) {
  if (buckets < 0) throw_invalid_argument(fmt::format("num_buckets must not be negative, found {}", buckets));
  const auto range = static_cast<std::uint64_t>(buckets > 0 ? buckets : std::numeric_limits<std::int64_t>::max());
  Ints indices, shape;
  const auto values = cross_rows<std::int64_t>(columns_in(call), indices, shape, [&](const auto& picked) {
    std::uint64_t hash = start ? io::fingerprint_cat(*start, picked[0]->hash) : picked[0]->hash;
    for (std::size_t k = 1; k < picked.size(); ++k) hash = io::fingerprint_cat(hash, picked[k]->hash);
    return static_cast<std::int64_t>(hash % range);
  });
  const auto count = static_cast<std::int64_t>(values.size());
  return {wrap(int64_tensor(indices, {count, 2})), wrap(int64_tensor(values)), wrap(int64_tensor(shape))};
}

Tensors sparse_cross(const Call& call) {
  const bool hashed = call.attr<bool>("hashed_output");
  if (hashed != (call.attr<DType>("out_type") == DType::kInt64))
    throw_invalid_argument("out_type must be int64 for hashed_output, else string");
  if (!hashed) return crossed_texts(call, "_X_");
  const auto key = static_cast<std::uint64_t>(call.attr<std::int64_t>("hash_key"));
  return crossed_hashes(call, call.attr<std::int64_t>("num_buckets"), &key);
}

Tensors sparse_cross_hashed(const Call& call) {
  const int last = call.num_inputs() - 3;
  if (in(call, last + 1).numel() != 1 || in(call, last + 1).item<bool>()) throw_unimplemented("strong_hash true");
  for (const char* name : {"sparse_types", "dense_types"}) {
    for (const DType dtype : call.attr<std::vector<DType>>(name)) {
      if (dtype != DType::kString) throw_unimplemented("hashes of integer columns");
    }
  }
  return crossed_hashes(call, int_in(call, last), nullptr);
}

}  // namespace

void register_sparse_cross(Table& table) {
  const ShapeRule rule = [](const Call&) { return Shapes{Shape{kUnknownDim, 2}, Shape{kUnknownDim}, Shape{2}}; };
  table.add("SparseCross", rule, sparse_cross);
  table.add("SparseCrossV2", rule,
            [](const Call& call) { return crossed_texts(call, string_in(call, call.num_inputs() - 1)); });
  table.add("SparseCrossHashed", rule, sparse_cross_hashed);
}

}  // namespace lockstep::ops
