// ParseExample and its relatives: features of serialized examples as sparse, dense and ragged tensors.
#include <algorithm>
#include <exception>
#include <optional>
#include <span>

#include "lockstep/ops/example_proto_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

using Strings = std::vector<std::string>;
using Dtypes = std::vector<DType>;

// The positions of the inputs of a call, and the requested features.
struct FeatureSpec {
  Strings sparse_keys, dense_keys, ragged_keys;
  Dtypes sparse_types, dense_types, ragged_types, split_types;
  Tensors dense_defaults;
  std::vector<Shape> dense_shapes;
};

Strings keys_at(const Call& call, int i) { return strings_in(call, i); }
Strings single_keys(const Call& call, int first, std::int64_t count) {
  Strings out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(string_in(call, first + static_cast<int>(i)));
  return out;
}

void check_spec(const FeatureSpec& spec) {
  const auto expect = [](std::size_t found, std::size_t expected, const char* what) {
    if (found != expected)
      throw_invalid_argument(fmt::format("invalid {}: found {}, expected {}", what, found, expected));
  };
  expect(spec.sparse_keys.size(), spec.sparse_types.size(), "number of sparse keys");
  expect(spec.dense_keys.size(), spec.dense_types.size(), "number of dense keys");
  expect(spec.dense_defaults.size(), spec.dense_keys.size(), "number of dense defaults");
  expect(spec.dense_shapes.size(), spec.dense_keys.size(), "number of dense shapes");
  expect(spec.ragged_keys.size(), spec.ragged_types.size(), "number of ragged keys");
  expect(spec.split_types.size(), spec.ragged_keys.size(), "number of ragged split types");
}

// The rows of a dense feature: a fixed shape, or one whose first extent varies ("stride" values for each step of it).
struct DenseLayout {
  bool varies = false;
  std::int64_t stride = 1;  // values of the shape, or of all extents but the first
  Ints inner;               // the shape, or all extents but the first
};

DenseLayout layout_of(const Shape& shape, const std::string& key) {
  if (!shape.known_rank()) throw_invalid_argument(fmt::format("feature '{}' needs a shape of known rank", key));
  DenseLayout out;
  out.inner = shape.dims();
  out.varies = shape.rank() > 0 && shape[0] == kUnknownDim;
  if (out.varies) out.inner.erase(out.inner.begin());
  for (const std::int64_t extent : out.inner) {
    if (extent < 0) throw_invalid_argument(fmt::format("feature '{}' has an unknown extent after the first", key));
  }
  out.stride = element_count(out.inner, sizeof(std::int64_t));
  return out;
}

const EncodedFeature* find_feature(const EncodedFeatures& features, const std::string& key) {
  const EncodedFeature* const found = features.find(key);
  return !found || found->dtype == DType::kInvalid ? nullptr : found;
}

Ints with_front(Ints dims, std::initializer_list<std::int64_t> front) {
  dims.insert(dims.begin(), front);
  return dims;
}

struct FeatureOutputs {
  Tensors sparse_indices, sparse_values, sparse_shapes, dense, ragged_values, ragged_splits;
};

using Rows = std::span<const EncodedFeatures>;

// The values of one feature of all examples, and how many each example has.
struct ListColumn {
  ListColumn(const std::string& name, DType dtype) : key(name), values(dtype) {}

  void add(Rows rows) {
    for (const EncodedFeatures& row : rows) {
      const std::size_t before = values.size();
      if (const EncodedFeature* feature = find_feature(row, key)) append_values(*feature, key, values);
      lengths.push_back(static_cast<std::int64_t>(values.size() - before));
    }
  }
  // The rows of a column of later examples.
  void append(ListColumn&& later) {
    values.append(std::move(later.values));
    lengths.insert(lengths.end(), later.lengths.begin(), later.lengths.end());
  }
  // The index of each value: its row, if `batched`, and its place there.
  Tensor indices(bool batched) const {
    const auto width = batched ? 2 : 1;
    const at::Tensor out = at::empty({static_cast<std::int64_t>(values.size()), width}, at::kLong);
    auto* to = out.mutable_data_ptr<std::int64_t>();
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      for (std::int64_t i = 0; i < lengths[row]; ++i) {
        if (batched) *to++ = static_cast<std::int64_t>(row);
        *to++ = i;
      }
    }
    return wrap(out);
  }

  const std::string& key;
  ValueColumn values;
  Ints lengths;
};
std::vector<ListColumn> list_columns(const Strings& keys, const Dtypes& types) {
  std::vector<ListColumn> out;
  for (std::size_t k = 0; k < keys.size(); ++k) out.emplace_back(keys[k], types[k]);
  return out;
}

// Rows of one shape, whose first extent may vary: such rows are filled up to the longest.
class DenseColumn {
 public:
  // Of `count` examples, of which the column gets number `first` and following.
  DenseColumn(const std::string& key, DType dtype, const Tensor& standard, const Shape& shape, std::size_t count,
              std::size_t first, bool batched)
      : key_(key),
        dtype_(dtype),
        layout_(layout_of(shape, key)),
        fallback_(checked(standard, dtype, key, layout_)),
        values_(dtype),
        count_(count),
        row_(first),
        batched_(batched) {
    if (!layout_.varies) element_count(dims_of(layout_.inner), element_size());
  }

  void add(Rows rows) {
    for (const EncodedFeatures& row : rows) {
      const std::size_t before = values_.size();
      const EncodedFeature* const feature = find_feature(row, key_);
      if (feature) append_values(*feature, key_, values_);
      if (layout_.varies) {
        check_steps(values_.size() - before);
      } else {
        if (!feature) append_default();
        check_size(values_.size() - before);
      }
      ++row_;
    }
  }
  void reserve(std::size_t rows) {
    if (!layout_.varies) values_.reserve(rows * static_cast<std::size_t>(layout_.stride));
  }
  // The rows of a column of later examples.
  void append(DenseColumn&& later) {
    values_.append(std::move(later.values_));
    lengths_.insert(lengths_.end(), later.lengths_.begin(), later.lengths_.end());
  }

  Tensor take() {
    if (!layout_.varies) return std::move(values_).to_tensor(Shape(dims_of(layout_.inner)));
    const std::size_t longest = lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end());
    const auto stride = layout_.stride;
    const Ints dims =
        dims_of(with_front(layout_.inner, {stride == 0 ? 0 : static_cast<std::int64_t>(longest) / stride}));
    const std::int64_t total = element_count(dims, element_size());
    if (values_.size() == static_cast<std::size_t>(total)) return std::move(values_).to_tensor(Shape(dims));
    ValueColumn all(dtype_);
    all.reserve(static_cast<std::size_t>(total));
    std::size_t first = 0;
    for (const std::size_t length : lengths_) {
      all.append(values_, first, length);
      if (length < longest) all.append(fallback_, 0, longest - length);
      first += length;
    }
    return std::move(all).to_tensor(Shape(dims));
  }

 private:
  // The default of rows of a fixed shape has that shape, or is empty: then the feature is required. Rows that vary are
  // filled up with one value.
  static ValueColumn checked(const Tensor& standard, DType dtype, const std::string& key, const DenseLayout& layout) {
    if (standard.dtype() != dtype)
      throw_invalid_argument(
          fmt::format("the default of '{}' is {}, expected {}", key, dtype_name(standard.dtype()), dtype_name(dtype)));
    const std::int64_t count = standard.num_elements();
    if (layout.varies ? count != 1 : count != 0 && standard.shape() != Shape(layout.inner))
      throw_invalid_argument(
          fmt::format("the default of '{}' has shape {}, expected {}", key, standard.shape().to_string(),
                      layout.varies ? "one value to fill up rows" : Shape(layout.inner).to_string()));
    return column_of(standard);
  }
  std::int64_t element_size() const { return dtype_ == DType::kString ? sizeof(std::string) : 8; }
  Ints dims_of(const Ints& inner) const {
    return batched_ ? with_front(inner, {static_cast<std::int64_t>(count_)}) : inner;
  }
  void append_default() {
    if (fallback_.size() == 0)
      throw_invalid_argument(fmt::format("feature '{}' is required, but example {} has none", key_, row_));
    values_.append(fallback_, 0, fallback_.size());
  }
  void check_size(std::size_t found) {
    const auto stride = static_cast<std::size_t>(layout_.stride);
    if (found != stride) {
      throw_invalid_argument(
          fmt::format("invalid feature '{}' of example {}: found {} values, expected {}", key_, row_, found, stride));
    }
  }
  void check_steps(std::size_t found) {
    if (layout_.stride == 0 || static_cast<std::int64_t>(found) % layout_.stride != 0) {
      throw_invalid_argument(
          fmt::format("invalid feature '{}' of example {}: found {} values, expected a multiple of {}", key_, row_,
                      found, layout_.stride));
    }
    lengths_.push_back(found);
  }

  const std::string& key_;
  DType dtype_;
  DenseLayout layout_;
  ValueColumn fallback_, values_;
  std::vector<std::size_t> lengths_;  // of rows that vary
  std::size_t count_, row_;
  bool batched_;
};

// Examples are read in blocks, so that what is known of a block stays in the cache while its features are taken.
constexpr std::size_t kBlock = 64;
constexpr std::size_t kLeastPart = 4 * kBlock;  // examples for which a thread is worth waking

// The features of the examples from `first` to `last`.
struct Columns {
  Columns(const Strings& serialized, const FeatureSpec& spec, std::size_t first, std::size_t last, bool batched)
      : sparse(list_columns(spec.sparse_keys, spec.sparse_types)),
        ragged(list_columns(spec.ragged_keys, spec.ragged_types)) {
    for (std::size_t k = 0; k < spec.dense_keys.size(); ++k) {
      dense.emplace_back(spec.dense_keys[k], spec.dense_types[k], spec.dense_defaults[k], spec.dense_shapes[k],
                         serialized.size(), first, batched);
    }
    std::vector<EncodedFeatures> block(std::min(kBlock, last - first));
    for (std::size_t begin = first; begin < last; begin += kBlock) {
      const std::size_t count = std::min(kBlock, last - begin);
      for (std::size_t i = 0; i < count; ++i) parse_features_of(serialized[begin + i], block[i]);
      const Rows rows(block.data(), count);
      for (ListColumn& column : sparse) column.add(rows);
      for (DenseColumn& column : dense) {
        column.add(rows);
        if (begin == first) column.reserve(last - first);
      }
      for (ListColumn& column : ragged) column.add(rows);
    }
  }

  std::vector<ListColumn> sparse, ragged;
  std::vector<DenseColumn> dense;
};

// The examples in parts, one for each thread that is free. A failure is that of the first part that fails.
std::vector<Columns> read_columns(const Strings& serialized, const FeatureSpec& spec, bool batched) {
  const std::size_t total = serialized.size(), most = 4 * static_cast<std::size_t>(std::max(parallel_threads(), 1)),
                    count = std::clamp<std::size_t>(total / kLeastPart, 1, parallel_threads() > 1 ? most : 1);
  std::vector<std::optional<Columns>> parts(count);
  std::vector<std::exception_ptr> failures(count);
  parallel_for(0, static_cast<std::int64_t>(count), 1, [&](std::int64_t from, std::int64_t to) {
    for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(to); ++i) {
      try {
        parts[i].emplace(serialized, spec, total * i / count, total * (i + 1) / count, batched);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  });
  std::vector<Columns> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    out.push_back(*std::move(parts[i]));
  }
  return out;
}

// `batched`: one row for each example; else a single example whose tensors have no axis for it.
FeatureOutputs parse_features(const Strings& serialized, const FeatureSpec& spec, bool batched) {
  check_spec(spec);
  std::vector<Columns> parts = read_columns(serialized, spec, batched);
  const auto all_of = [&parts](auto member) -> auto& {
    auto& columns = parts[0].*member;
    for (std::size_t k = 0; k < columns.size(); ++k) {
      for (std::size_t i = 1; i < parts.size(); ++i) columns[k].append(std::move((parts[i].*member)[k]));
    }
    return columns;
  };
  for (DenseColumn& column : parts[0].dense) column.reserve(serialized.size());
  std::vector<ListColumn>&sparse = all_of(&Columns::sparse), &ragged = all_of(&Columns::ragged);
  std::vector<DenseColumn>& dense = all_of(&Columns::dense);
  FeatureOutputs out;
  for (ListColumn& column : sparse) {
    const auto count = static_cast<std::int64_t>(column.values.size());
    const std::int64_t longest =
        column.lengths.empty() ? 0 : *std::max_element(column.lengths.begin(), column.lengths.end());
    out.sparse_indices.push_back(column.indices(batched));
    out.sparse_values.push_back(std::move(column.values).to_tensor(Shape{count}));
    out.sparse_shapes.push_back(
        wrap(int64_tensor(batched ? Ints{static_cast<std::int64_t>(serialized.size()), longest} : Ints{longest})));
  }
  for (DenseColumn& column : dense) out.dense.push_back(column.take());
  for (std::size_t k = 0; k < ragged.size(); ++k) {
    Ints splits = {0};
    for (const std::int64_t length : ragged[k].lengths) splits.push_back(splits.back() + length);
    const auto count = static_cast<std::int64_t>(ragged[k].values.size());
    out.ragged_values.push_back(std::move(ragged[k].values).to_tensor(Shape{count}));
    if (!batched) splits.clear();
    out.ragged_splits.push_back(wrap(int64_tensor(splits).to(to_scalar_type(spec.split_types[k]))));
  }
  return out;
}

Tensors joined(std::initializer_list<const Tensors*> groups) {
  Tensors out;
  for (const Tensors* group : groups) out.insert(out.end(), group->begin(), group->end());
  return out;
}

Tensors tail_inputs(const Call& call, std::size_t first, std::size_t count) {
  return Tensors(call.inputs().begin() + static_cast<std::ptrdiff_t>(first),
                 call.inputs().begin() + static_cast<std::ptrdiff_t>(first + count));
}

Tensors parse_example_v1(const Call& call) {
  FeatureSpec spec;
  const auto sparse = call.attr<std::int64_t>("Nsparse"), dense = call.attr<std::int64_t>("Ndense");
  spec.sparse_keys = single_keys(call, 2, sparse);
  spec.dense_keys = single_keys(call, 2 + static_cast<int>(sparse), dense);
  spec.sparse_types = call.attr<Dtypes>("sparse_types");
  spec.dense_types = call.attr<Dtypes>("Tdense");
  spec.dense_shapes = call.attr<std::vector<Shape>>("dense_shapes");
  spec.dense_defaults = tail_inputs(call, static_cast<std::size_t>(2 + sparse + dense), spec.dense_types.size());
  const FeatureOutputs out = parse_features(strings_in(call, 0), spec, true);
  return joined({&out.sparse_indices, &out.sparse_values, &out.sparse_shapes, &out.dense});
}

Tensors parse_example_v2(const Call& call) {
  FeatureSpec spec;
  spec.sparse_keys = keys_at(call, 2), spec.dense_keys = keys_at(call, 3), spec.ragged_keys = keys_at(call, 4);
  spec.sparse_types = call.attr<Dtypes>("sparse_types");
  spec.dense_types = call.attr<Dtypes>("Tdense");
  spec.ragged_types = call.attr<Dtypes>("ragged_value_types");
  spec.split_types = call.attr<Dtypes>("ragged_split_types");
  spec.dense_shapes = call.attr<std::vector<Shape>>("dense_shapes");
  spec.dense_defaults = tail_inputs(call, 5, spec.dense_types.size());
  if (call.attr<std::int64_t>("num_sparse") != static_cast<std::int64_t>(spec.sparse_keys.size()))
    throw_invalid_argument("num_sparse is not the number of sparse keys");
  if (call.input(0).rank() > 1) throw_invalid_argument("serialized must be a scalar or a vector");
  const FeatureOutputs out = parse_features(strings_in(call, 0), spec, call.input(0).rank() == 1);
  return joined({&out.sparse_indices, &out.sparse_values, &out.sparse_shapes, &out.dense, &out.ragged_values,
                 &out.ragged_splits});
}

Tensors parse_single_example(const Call& call) {
  FeatureSpec spec;
  spec.sparse_keys = call.attr<Strings>("sparse_keys"), spec.dense_keys = call.attr<Strings>("dense_keys");
  spec.sparse_types = call.attr<Dtypes>("sparse_types");
  spec.dense_types = call.attr<Dtypes>("Tdense");
  spec.dense_shapes = call.attr<std::vector<Shape>>("dense_shapes");
  spec.dense_defaults = tail_inputs(call, 1, spec.dense_types.size());
  if (call.attr<std::int64_t>("num_sparse") != static_cast<std::int64_t>(spec.sparse_keys.size()))
    throw_invalid_argument("num_sparse is not the number of sparse keys");
  const FeatureOutputs out = parse_features({string_in(call, 0)}, spec, false);
  return joined({&out.sparse_indices, &out.sparse_values, &out.sparse_shapes, &out.dense});
}

// ---- sequences -----------------------------------------------------------------------------------------------------
struct ListSpec {
  Strings sparse_keys, dense_keys, ragged_keys;
  Dtypes sparse_types, dense_types, ragged_types, split_types;
  std::vector<Shape> dense_shapes;
  std::vector<bool> may_be_missing;  // by dense key
};

struct ListOutputs {
  Tensors sparse_indices, sparse_values, sparse_shapes, dense, lengths, ragged_values, outer_splits, inner_splits;
};

const std::vector<EncodedFeature>* find_list(const EncodedFeatureLists& lists, const std::string& key) {
  const auto found = lists.find(key);
  return found == lists.end() ? nullptr : &found->second;
}

Tensor parse_dense_lists(const std::vector<EncodedFeatureLists>& rows, const ListSpec& spec, std::size_t k,
                         bool batched, Tensors& lengths) {
  const std::string& key = spec.dense_keys[k];
  const DenseLayout layout = layout_of(spec.dense_shapes[k], key);
  if (layout.varies) throw_unimplemented(fmt::format("feature list '{}' with an unknown extent", key));
  std::vector<ValueColumn> values;
  Ints steps;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    values.emplace_back(spec.dense_types[k]);
    const std::vector<EncodedFeature>* list = find_list(rows[row], key);
    if (!list && !spec.may_be_missing[k])
      throw_invalid_argument(fmt::format("feature list '{}' is required, but example {} has none", key, row));
    steps.push_back(list ? static_cast<std::int64_t>(list->size()) : 0);
    for (std::size_t step = 0; list && step < list->size(); ++step) {
      const std::size_t before = values.back().size();
      append_values((*list)[step], key, values.back());
      const auto count = static_cast<std::int64_t>(values.back().size() - before);
      if (count != layout.stride) {
        throw_invalid_argument(fmt::format("invalid step {} of feature list '{}': found {} values, expected {}", step,
                                           key, count, layout.stride));
      }
    }
  }
  const std::int64_t longest = steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
  Ints dims = with_front(layout.inner, {longest});
  if (batched) dims.insert(dims.begin(), static_cast<std::int64_t>(rows.size()));
  element_count(dims, spec.dense_types[k] == DType::kString ? sizeof(std::string) : 8);
  ValueColumn all(spec.dense_types[k]), zero(spec.dense_types[k]);
  zero.floats = {0.0f}, zero.ints = {0}, zero.strings = {""};
  for (ValueColumn& row : values) {
    all.append(row, 0, row.size());
    all.append(zero, 0, static_cast<std::size_t>(longest * layout.stride) - row.size());
  }
  lengths.push_back(wrap(batched ? int64_tensor(steps) : int64_tensor(steps)[0]));
  return std::move(all).to_tensor(Shape(dims));
}

ListOutputs parse_lists(const std::vector<EncodedFeatureLists>& rows, const ListSpec& spec, bool batched) {
  if (spec.sparse_keys.size() != spec.sparse_types.size() || spec.dense_keys.size() != spec.dense_types.size() ||
      spec.dense_shapes.size() != spec.dense_keys.size() || spec.ragged_keys.size() != spec.ragged_types.size() ||
      spec.split_types.size() != spec.ragged_keys.size() || spec.may_be_missing.size() != spec.dense_keys.size()) {
    throw_invalid_argument("the keys, types and shapes of the feature lists differ in number");
  }
  ListOutputs out;
  const auto collect = [&](const std::string& key, ValueColumn& values, const auto& per_step, const auto& per_row) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::vector<EncodedFeature>* list = find_list(rows[row], key);
      for (std::size_t step = 0; list && step < list->size(); ++step) {
        const std::size_t before = values.size();
        append_values((*list)[step], key, values);
        per_step(row, step, static_cast<std::int64_t>(values.size() - before));
      }
      per_row(list ? static_cast<std::int64_t>(list->size()) : 0);
    }
  };
  for (std::size_t k = 0; k < spec.sparse_keys.size(); ++k) {
    ValueColumn values(spec.sparse_types[k]);
    Ints indices;
    std::int64_t longest = 0, widest = 0;
    collect(
        spec.sparse_keys[k], values,
        [&](std::size_t row, std::size_t step, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) {
            if (batched) indices.push_back(static_cast<std::int64_t>(row));
            indices.push_back(static_cast<std::int64_t>(step)), indices.push_back(i);
          }
          widest = std::max(widest, count);
        },
        [&](std::int64_t steps) { longest = std::max(longest, steps); });
    const auto count = static_cast<std::int64_t>(values.size());
    Ints shape = {longest, widest};
    if (batched) shape.insert(shape.begin(), static_cast<std::int64_t>(rows.size()));
    out.sparse_indices.push_back(wrap(int64_tensor(indices, {count, batched ? 3 : 2})));
    out.sparse_values.push_back(std::move(values).to_tensor(Shape{count}));
    out.sparse_shapes.push_back(wrap(int64_tensor(shape)));
  }
  for (std::size_t k = 0; k < spec.dense_keys.size(); ++k)
    out.dense.push_back(parse_dense_lists(rows, spec, k, batched, out.lengths));
  for (std::size_t k = 0; k < spec.ragged_keys.size(); ++k) {
    ValueColumn values(spec.ragged_types[k]);
    Ints outer = {0}, inner = {0};
    collect(
        spec.ragged_keys[k], values,
        [&](std::size_t, std::size_t, std::int64_t count) { inner.push_back(inner.back() + count); },
        [&](std::int64_t steps) { outer.push_back(outer.back() + steps); });
    const auto count = static_cast<std::int64_t>(values.size());
    const at::ScalarType type = to_scalar_type(spec.split_types[k]);
    if (!batched) outer.clear();
    out.ragged_values.push_back(std::move(values).to_tensor(Shape{count}));
    out.outer_splits.push_back(wrap(int64_tensor(outer).to(type)));
    out.inner_splits.push_back(wrap(int64_tensor(inner).to(type)));
  }
  return out;
}

void common_types(const Call& call, FeatureSpec& context, ListSpec& lists) {
  context.sparse_types = call.attr<Dtypes>("context_sparse_types");
  context.dense_types = call.attr<Dtypes>("Tcontext_dense");
  context.dense_shapes = call.attr<std::vector<Shape>>("context_dense_shapes");
  lists.sparse_types = call.attr<Dtypes>("feature_list_sparse_types");
  lists.dense_types = call.attr<Dtypes>("feature_list_dense_types");
  lists.dense_shapes = call.attr<std::vector<Shape>>("feature_list_dense_shapes");
}

std::vector<bool> named_in(const Strings& keys, const Strings& missing) {
  std::vector<bool> out;
  for (const std::string& key : keys) out.push_back(std::find(missing.begin(), missing.end(), key) != missing.end());
  return out;
}

Tensors run_sequences(const Strings& serialized, const FeatureSpec& context, const ListSpec& lists, bool batched,
                      bool with_lengths, bool with_ragged) {
  std::vector<EncodedFeatureLists> rows;
  for (const std::string& bytes : serialized) rows.push_back(parse_lists_of(bytes));
  const ListOutputs b = parse_lists(rows, lists, batched);
  const FeatureOutputs a = parse_features(serialized, context, batched);
  Tensors out = joined({&a.sparse_indices, &a.sparse_values, &a.sparse_shapes, &a.dense});
  const auto add = [&](const Tensors& more) { out.insert(out.end(), more.begin(), more.end()); };
  if (with_ragged) add(a.ragged_values), add(a.ragged_splits);
  add(b.sparse_indices), add(b.sparse_values), add(b.sparse_shapes), add(b.dense);
  if (with_lengths) add(b.lengths);
  if (with_ragged) add(b.ragged_values), add(b.outer_splits), add(b.inner_splits);
  return out;
}

void check_counts(const Call& call, const FeatureSpec& context, const ListSpec& lists) {
  const auto expect = [&](const char* name, std::size_t found) {
    const std::int64_t* declared = call.find_attr<std::int64_t>(name);
    if (declared && *declared != static_cast<std::int64_t>(found))
      throw_invalid_argument(fmt::format("invalid {}: found {}, expected {}", name, *declared, found));
  };
  expect("Ncontext_sparse", context.sparse_keys.size());
  expect("Ncontext_dense", context.dense_keys.size());
  expect("Nfeature_list_sparse", lists.sparse_keys.size());
  expect("Nfeature_list_dense", lists.dense_keys.size());
}

Tensors parse_sequence_v1(const Call& call) {
  FeatureSpec context;
  ListSpec lists;
  common_types(call, context, lists);
  context.sparse_keys = call.attr<Strings>("context_sparse_keys");
  context.dense_keys = call.attr<Strings>("context_dense_keys");
  context.dense_defaults = tail_inputs(call, 2, context.dense_types.size());
  lists.sparse_keys = call.attr<Strings>("feature_list_sparse_keys");
  lists.dense_keys = call.attr<Strings>("feature_list_dense_keys");
  lists.may_be_missing = named_in(lists.dense_keys, call.attr<Strings>("feature_list_dense_missing_assumed_empty"));
  check_counts(call, context, lists);
  return run_sequences(strings_in(call, 0), context, lists, true, true, false);
}

Tensors parse_sequence_v2(const Call& call) {
  FeatureSpec context;
  ListSpec lists;
  common_types(call, context, lists);
  context.sparse_keys = keys_at(call, 2), context.dense_keys = keys_at(call, 3), context.ragged_keys = keys_at(call, 4);
  context.ragged_types = call.attr<Dtypes>("context_ragged_value_types");
  context.split_types = call.attr<Dtypes>("context_ragged_split_types");
  context.dense_defaults = tail_inputs(call, 9, context.dense_types.size());
  lists.sparse_keys = keys_at(call, 5), lists.dense_keys = keys_at(call, 6), lists.ragged_keys = keys_at(call, 7);
  lists.ragged_types = call.attr<Dtypes>("feature_list_ragged_value_types");
  lists.split_types = call.attr<Dtypes>("feature_list_ragged_split_types");
  for (const std::int64_t missing : ints_in(call, 8)) lists.may_be_missing.push_back(missing != 0);
  check_counts(call, context, lists);
  if (call.input(0).rank() > 1) throw_invalid_argument("serialized must be a scalar or a vector");
  return run_sequences(strings_in(call, 0), context, lists, call.input(0).rank() == 1, true, true);
}

Tensors parse_single_sequence(const Call& call) {
  FeatureSpec context;
  ListSpec lists;
  common_types(call, context, lists);
  const Strings missing = strings_in(call, 1);
  int next = 2;
  const auto keys = [&](const char* count) {
    const std::int64_t n = call.attr<std::int64_t>(count);
    Strings out = single_keys(call, next, n);
    next += static_cast<int>(n);
    return out;
  };
  context.sparse_keys = keys("Ncontext_sparse"), context.dense_keys = keys("Ncontext_dense");
  lists.sparse_keys = keys("Nfeature_list_sparse"), lists.dense_keys = keys("Nfeature_list_dense");
  context.dense_defaults = tail_inputs(call, static_cast<std::size_t>(next), context.dense_types.size());
  lists.may_be_missing = named_in(lists.dense_keys, missing);
  return run_sequences({string_in(call, 0)}, context, lists, false, false, false);
}

}  // namespace

void register_parse_example(Table& table) {
  table.add("ParseExample", nullptr, parse_example_v1);
  table.add("ParseExampleV2", nullptr, parse_example_v2);
  table.add("ParseSingleExample", nullptr, parse_single_example);
  table.add("ParseSequenceExample", nullptr, parse_sequence_v1);
  table.add("ParseSequenceExampleV2", nullptr, parse_sequence_v2);
  table.add("ParseSingleSequenceExample", nullptr, parse_single_sequence);
}

}  // namespace lockstep::ops
