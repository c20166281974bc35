#include "lockstep/ops/examples.h"

#include <cstring>
#include <exception>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/deflate_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/example_proto_internal.h"

namespace lockstep::train {
namespace {

using formats::append_bytes_field;

std::string serialized(const Feature& feature) {
  std::string list, out;
  if (feature.bytes_list) {
    for (const std::string& each : feature.bytes_list->value) append_bytes_field(list, 1, each);
    append_bytes_field(out, 1, list);
  } else if (feature.float_list) {
    const auto& values = feature.float_list->value;
    std::string packed(values.size() * sizeof(float), '\0');
    if (!values.empty()) std::memcpy(packed.data(), values.data(), packed.size());
    if (!values.empty()) append_bytes_field(list, 1, packed);
    append_bytes_field(out, 2, list);
  } else if (feature.int64_list) {
    std::string packed;
    for (const std::int64_t each : feature.int64_list->value)
      formats::append_varint(packed, static_cast<std::uint64_t>(each));
    if (!packed.empty()) append_bytes_field(list, 1, packed);
    append_bytes_field(out, 3, list);
  }
  return out;
}

}  // namespace

template <>
ListValues<float, double>::ListValues(const Tensor& values)
    : std::vector<float>(ops::cast(values, DType::kFloat32).to_vector<float>()) {}
template <>
ListValues<std::int64_t, std::int64_t>::ListValues(const Tensor& values)
    : std::vector<std::int64_t>(ops::cast(values, DType::kInt64).to_vector<std::int64_t>()) {}
template <>
ListValues<std::string, BytesValue>::ListValues(const Tensor& values)
    : std::vector<std::string>(values.to_vector<std::string>()) {}

std::string Feature::WhichOneof(std::string_view oneof) const {
  if (oneof != "kind") throw_invalid_argument(fmt::format("Feature.WhichOneof: unknown oneof '{}'", oneof));
  return bytes_list ? "bytes_list" : float_list ? "float_list" : int64_list ? "int64_list" : "";
}

std::string Feature::SerializeToString() const { return serialized(*this); }

namespace {

// A map of Features or FeatureLists.
template <typename Values, typename Serialize>
std::string serialized_map(const Values& values, Serialize serialize) {
  std::string all;
  for (const auto& [name, value] : values) {
    std::string entry;
    append_bytes_field(entry, 1, name);
    append_bytes_field(entry, 2, serialize(value));
    append_bytes_field(all, 1, entry);
  }
  return all;
}

}  // namespace

std::string Example::SerializeToString() const {
  std::string out;
  append_bytes_field(out, 1, serialized_map(features.feature, serialized));
  return out;
}

std::string SequenceExample::SerializeToString() const {
  std::string out;
  append_bytes_field(out, 1, serialized_map(context.feature, serialized));
  append_bytes_field(out, 2, serialized_map(feature_lists.feature_list, [](const FeatureList& list) {
                       std::string features;
                       for (const Feature& each : list.feature) append_bytes_field(features, 1, serialized(each));
                       return features;
                     }));
  return out;
}

Example Example::FromString(std::string_view bytes) {
  ops::EncodedFeatures encoded;
  ops::parse_features_of(bytes, encoded);
  Example out;
  for (const auto& [name, feature] : encoded.items()) {
    Feature value;
    ops::ValueColumn column(feature.dtype);
    if (feature.dtype != DType::kInvalid) ops::append_values(feature, name, column);
    if (feature.dtype == DType::kString) value.bytes_list = BytesList{.value = column.strings};
    if (feature.dtype == DType::kFloat32) value.float_list = FloatList{.value = column.floats};
    if (feature.dtype == DType::kInt64) value.int64_list = Int64List{.value = column.ints};
    out.features.feature[std::string(name)] = std::move(value);
  }
  return out;
}

}  // namespace lockstep::train

namespace lockstep::io {

namespace {

Tensor strings_of(const std::vector<std::string>& texts) {
  return Tensor::strings(texts, {static_cast<std::int64_t>(texts.size())});
}
std::int64_t count(const std::vector<std::string>& keys) { return static_cast<std::int64_t>(keys.size()); }

// The arguments of the parsing operations for a description, by kinds of features.
struct ParsedKeys {
  explicit ParsedKeys(const FeatureDescription& features) {
    for (const auto& [name, feature] : features) std::visit([&](const auto& each) { add(name, each); }, feature);
  }
  void add(const std::string& name, const VarLenFeature& feature) {
    sparse.push_back(name);
    sparse_types.push_back(feature.dtype);
  }
  void add(const std::string& name, const RaggedFeature& feature) {
    ragged.push_back(name);
    ragged_keys.push_back(feature.options.value_key.empty() ? name : feature.options.value_key);
    ragged_types.push_back(feature.options.dtype);
    split_types.push_back(feature.options.row_splits_dtype);
  }
  void add(const std::string& name, const FixedLenFeature& feature) {
    const FixedLenFeature::Options& o = feature.options();
    add_dense(name, o.dtype, o.shape.shape());
    missing.push_back(false);
    if (!o.default_value.defined()) {
      defaults.push_back(o.dtype == DType::kString ? Tensor::strings({}, {0}) : Tensor::zeros({0}, o.dtype));
    } else {
      const Tensor value = o.dtype == DType::kString ? o.default_value : ops::cast(o.default_value, o.dtype);
      defaults.push_back(ops::reshape(value, o.shape));
    }
  }
  void add(const std::string& name, const FixedLenSequenceFeature& feature) {
    const FixedLenSequenceFeature::Options& o = feature.options();
    std::vector<std::int64_t> dims = o.shape.shape().dims();
    dims.insert(dims.begin(), kUnknownDim);
    add_dense(name, o.dtype, Shape(dims));
    missing.push_back(o.allow_missing);
    const Tensor& given = o.default_value;
    if (given.defined()) {
      defaults.push_back(o.dtype == DType::kString ? given : ops::cast(given, o.dtype));
    } else {
      defaults.push_back(o.dtype == DType::kString ? Tensor::strings({""}, {}) : Tensor::zeros({}, o.dtype));
    }
  }
  // The shapes of steps.
  std::vector<Shape> shapes_of_steps() const {
    std::vector<Shape> shapes;
    for (const Shape& shape : dense_shapes) {
      if (shape.rank() == 0 || shape.dims()[0] != kUnknownDim)
        throw_invalid_argument("sequence features must be FixedLenSequenceFeature, VarLenFeature or RaggedFeature");
      shapes.emplace_back(std::vector<std::int64_t>(shape.dims().begin() + 1, shape.dims().end()));
    }
    return shapes;
  }
  std::vector<std::string> missing_keys() const {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < dense.size(); ++i) {
      if (missing[i]) keys.push_back(dense[i]);
    }
    return keys;
  }

  std::vector<std::string> sparse, dense, ragged, ragged_keys;
  std::vector<DType> sparse_types, dense_types, ragged_types, split_types;
  std::vector<Shape> dense_shapes;
  Tensors defaults;
  std::vector<bool> missing;

 private:
  void add_dense(const std::string& name, DType dtype, const Shape& shape) {
    dense.push_back(name);
    dense_types.push_back(dtype);
    dense_shapes.push_back(shape);
  }
};

// Takes outputs of an operation in their order.
class Outputs {
 public:
  explicit Outputs(Tensors values) : values_(std::move(values)) {}
  Tensors next(std::size_t n) {
    const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += n;
    return {begin, begin + static_cast<std::ptrdiff_t>(n)};
  }

 private:
  Tensors values_;
  std::size_t at_ = 0;
};

void add_sparse(Nested<Tensor>::Dict& out, const std::vector<std::string>& keys, Outputs& found) {
  const Tensors indices = found.next(keys.size()), values = found.next(keys.size()), shapes = found.next(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    out.emplace_back(
        keys[i], Nested<Tensor>::dict({{"indices", indices[i]}, {"values", values[i]}, {"dense_shape", shapes[i]}}));
  }
}
void add_dense(Nested<Tensor>::Dict& out, const std::vector<std::string>& keys, Outputs& found) {
  const Tensors values = found.next(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) out.emplace_back(keys[i], values[i]);
}
// The features of both kinds, whose outputs come in this order.
Nested<Tensor>::Dict sparse_and_dense(const ParsedKeys& keys, Outputs& found) {
  Nested<Tensor>::Dict out;
  add_sparse(out, keys.sparse, found);
  add_dense(out, keys.dense, found);
  return out;
}

}  // namespace

Nested<Tensor> parse_example(const Tensor& serialized, const FeatureDescription& features) {
  const ParsedKeys keys(features);
  Tensors inputs = {serialized, strings_of({}), strings_of(keys.sparse), strings_of(keys.dense),
                    strings_of(keys.ragged_keys)};
  inputs.insert(inputs.end(), keys.defaults.begin(), keys.defaults.end());
  Outputs found(ops::call("ParseExampleV2", inputs,
                          {{"Tdense", keys.dense_types},
                           {"num_sparse", count(keys.sparse)},
                           {"sparse_types", keys.sparse_types},
                           {"ragged_value_types", keys.ragged_types},
                           {"ragged_split_types", keys.split_types},
                           {"dense_shapes", keys.dense_shapes}}));
  Nested<Tensor>::Dict out = sparse_and_dense(keys, found);
  const Tensors values = found.next(keys.ragged.size()), splits = found.next(keys.ragged.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    out.emplace_back(keys.ragged[i], serialized.rank() == 0
                                         ? Nested<Tensor>(values[i])
                                         : Nested<Tensor>(RaggedTensor::from_row_splits(values[i], splits[i])));
  }
  return Nested<Tensor>::dict(std::move(out));
}

Nested<Tensor> parse_single_sequence_example(const Tensor& serialized, const SequenceFeatures& features) {
  const ParsedKeys context(features.context_features), lists(features.sequence_features);
  if (!context.ragged.empty() || !lists.ragged.empty())
    throw_unimplemented("parse_single_sequence_example: RaggedFeature is not supported; use parse_sequence_example");
  Tensors inputs = {serialized, strings_of(lists.missing_keys())};
  for (const auto* keys : {&context.sparse, &context.dense, &lists.sparse, &lists.dense}) {
    for (const std::string& key : *keys) inputs.push_back(Tensor::strings({key}, {}));
  }
  inputs.insert(inputs.end(), context.defaults.begin(), context.defaults.end());
  inputs.push_back(Tensor::strings({""}, {}));
  Outputs found(ops::call("ParseSingleSequenceExample", inputs,
                          {{"Ncontext_sparse", count(context.sparse)},
                           {"Ncontext_dense", count(context.dense)},
                           {"Nfeature_list_sparse", count(lists.sparse)},
                           {"Nfeature_list_dense", count(lists.dense)},
                           {"context_sparse_types", context.sparse_types},
                           {"Tcontext_dense", context.dense_types},
                           {"feature_list_dense_types", lists.dense_types},
                           {"context_dense_shapes", context.dense_shapes},
                           {"feature_list_sparse_types", lists.sparse_types},
                           {"feature_list_dense_shapes", lists.shapes_of_steps()}}));
  Nested<Tensor>::Dict of_context = sparse_and_dense(context, found), of_lists = sparse_and_dense(lists, found);
  return Nested<Tensor>::list({Nested<Tensor>::dict(std::move(of_context)), Nested<Tensor>::dict(std::move(of_lists))});
}

Nested<Tensor> parse_sequence_example(const Tensor& serialized, const SequenceFeatures& features) {
  const ParsedKeys context(features.context_features), lists(features.sequence_features);
  Tensors inputs = {serialized,
                    strings_of({}),
                    strings_of(context.sparse),
                    strings_of(context.dense),
                    strings_of(context.ragged_keys),
                    strings_of(lists.sparse),
                    strings_of(lists.dense),
                    strings_of(lists.ragged_keys),
                    Tensor::from_vector(lists.missing)};
  inputs.insert(inputs.end(), context.defaults.begin(), context.defaults.end());
  Outputs found(ops::call("ParseSequenceExampleV2", inputs,
                          {{"Ncontext_sparse", count(context.sparse)},
                           {"Tcontext_dense", context.dense_types},
                           {"context_sparse_types", context.sparse_types},
                           {"context_ragged_value_types", context.ragged_types},
                           {"context_ragged_split_types", context.split_types},
                           {"context_dense_shapes", context.dense_shapes},
                           {"Nfeature_list_sparse", count(lists.sparse)},
                           {"Nfeature_list_dense", count(lists.dense)},
                           {"feature_list_dense_types", lists.dense_types},
                           {"feature_list_sparse_types", lists.sparse_types},
                           {"feature_list_ragged_value_types", lists.ragged_types},
                           {"feature_list_ragged_split_types", lists.split_types},
                           {"feature_list_dense_shapes", lists.shapes_of_steps()}}));
  Nested<Tensor>::Dict of_context = sparse_and_dense(context, found), lengths;
  const Tensors values = found.next(context.ragged.size()), splits = found.next(context.ragged.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    of_context.emplace_back(context.ragged[i], RaggedTensor::from_row_splits(values[i], splits[i]));
  Nested<Tensor>::Dict of_lists = sparse_and_dense(lists, found);
  add_dense(lengths, lists.dense, found);
  const std::size_t ragged = lists.ragged.size();
  const Tensors steps = found.next(ragged), outer = found.next(ragged), inner = found.next(ragged);
  for (std::size_t i = 0; i < ragged; ++i) {
    const RaggedTensor rows = RaggedTensor::from_row_splits(steps[i], inner[i]);
    of_lists.emplace_back(lists.ragged[i], RaggedTensor::from_row_splits(rows, outer[i]));
  }
  return Nested<Tensor>::list({Nested<Tensor>::dict(std::move(of_context)), Nested<Tensor>::dict(std::move(of_lists)),
                               Nested<Tensor>::dict(std::move(lengths))});
}

Nested<Tensor> parse_single_example(const Tensor& serialized, const FeatureDescription& features) {
  if (serialized.rank() != 0) {
    throw_invalid_argument(
        fmt::format("parse_single_example: found strings of shape {}, expected one; parse_example "
                    "takes a vector",
                    serialized.shape().to_string()));
  }
  return parse_example(serialized, features);
}

Tensor encode_base64(const Tensor& input, bool pad) { return ops::call1("EncodeBase64", {input}, {{"pad", pad}}); }
Tensor decode_base64(const Tensor& input) { return ops::call1("DecodeBase64", {input}); }

namespace {

std::optional<Deflater> deflater_of(const TFRecordOptions& options) {
  const int level = options.compression_level.value_or(-1);
  if (level < -1 || level > 9) {
    throw_invalid_argument(fmt::format("TFRecordOptions: invalid compression_level: found {}, expected 0 to 9", level));
  }
  if (options.compression_type.empty()) return std::nullopt;
  if (options.compression_type == "GZIP") return Deflater(Deflate::kGzip, level);
  if (options.compression_type == "ZLIB") return Deflater(Deflate::kZlib, level);
  throw_invalid_argument(
      fmt::format("TFRecordOptions: unknown compression_type '{}', expected GZIP or ZLIB", options.compression_type));
}

}  // namespace

struct TFRecordWriter::File {
  File(const std::string& path, const TFRecordOptions& options)
      : file(path), deflater(deflater_of(options)), exceptions(std::uncaught_exceptions()) {}
  AtomicFile file;
  std::optional<Deflater> deflater;
  int exceptions;
};

TFRecordWriter::TFRecordWriter(const std::string& path, const TFRecordOptions& options)
    : file_(std::make_unique<File>(path, options)) {}
TFRecordWriter::TFRecordWriter(TFRecordWriter&&) noexcept = default;
TFRecordWriter::~TFRecordWriter() noexcept(false) {
  if (file_ && std::uncaught_exceptions() == file_->exceptions) close();
}
void TFRecordWriter::write(std::string_view record) {
  if (!file_) throw_failed_precondition("TFRecordWriter: the file is closed");
  const std::string framed = formats::tfrecord(record);
  file_->file.append(file_->deflater ? file_->deflater->compressed(framed) : framed);
}
void TFRecordWriter::close() {
  if (!file_) return;
  if (file_->deflater) file_->file.append(file_->deflater->end());
  file_->file.commit();
  file_.reset();
}

}  // namespace lockstep::io
