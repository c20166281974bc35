#include "lockstep/ops/examples.h"

#include <cstring>
#include <exception>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/io/atomic_file.h"
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

std::string Example::SerializeToString() const {
  std::string all;
  for (const auto& [name, value] : features.feature) {
    std::string entry;
    append_bytes_field(entry, 1, name);
    append_bytes_field(entry, 2, serialized(value));
    append_bytes_field(all, 1, entry);
  }
  std::string out;
  append_bytes_field(out, 1, all);
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

Nested<Tensor> parse_example(const Tensor& serialized, const FeatureDescription& features) {
  std::vector<std::string> sparse_keys, dense_keys;
  std::vector<DType> sparse_types, dense_types;
  std::vector<Shape> dense_shapes;
  Tensors defaults;
  for (const auto& [name, feature] : features) {
    if (const auto* any = std::get_if<VarLenFeature>(&feature)) {
      sparse_keys.push_back(name);
      sparse_types.push_back(any->dtype);
      continue;
    }
    const FixedLenFeature::Options& fixed = std::get<FixedLenFeature>(feature).options();
    dense_keys.push_back(name);
    dense_types.push_back(fixed.dtype);
    dense_shapes.push_back(fixed.shape.shape());
    if (!fixed.default_value.defined()) {
      defaults.push_back(fixed.dtype == DType::kString ? Tensor::strings({}, {0}) : Tensor::zeros({0}, fixed.dtype));
    } else {
      const Tensor value =
          fixed.dtype == DType::kString ? fixed.default_value : ops::cast(fixed.default_value, fixed.dtype);
      defaults.push_back(ops::reshape(value, fixed.shape));
    }
  }
  const auto names = [](const std::vector<std::string>& keys) {
    return Tensor::strings(keys, {static_cast<std::int64_t>(keys.size())});
  };
  Tensors inputs = {serialized, names({}), names(sparse_keys), names(dense_keys), names({})};
  inputs.insert(inputs.end(), defaults.begin(), defaults.end());
  const Tensors found = ops::call("ParseExampleV2", inputs,
                                  {{"Tdense", dense_types},
                                   {"num_sparse", static_cast<std::int64_t>(sparse_keys.size())},
                                   {"sparse_types", sparse_types},
                                   {"ragged_value_types", std::vector<DType>{}},
                                   {"ragged_split_types", std::vector<DType>{}},
                                   {"dense_shapes", dense_shapes}});
  Nested<Tensor>::Dict out;
  const std::size_t sparse = sparse_keys.size();
  for (std::size_t i = 0; i < sparse; ++i) {
    out.emplace_back(sparse_keys[i], Nested<Tensor>::dict({{"indices", found[i]},
                                                           {"values", found[sparse + i]},
                                                           {"dense_shape", found[2 * sparse + i]}}));
  }
  for (std::size_t i = 0; i < dense_keys.size(); ++i) out.emplace_back(dense_keys[i], found[3 * sparse + i]);
  return Nested<Tensor>::dict(std::move(out));
}
Nested<Tensor> parse_single_example(const Tensor& serialized, const FeatureDescription& features) {
  if (serialized.rank() != 0) {
    throw_invalid_argument(
        fmt::format("parse_single_example: found texts of shape {}, expected one; parse_example "
                    "takes a vector",
                    serialized.shape().to_string()));
  }
  return parse_example(serialized, features);
}

struct TFRecordWriter::File {
  explicit File(const std::string& path) : file(path), exceptions(std::uncaught_exceptions()) {}
  AtomicFile file;
  int exceptions;
};

TFRecordWriter::TFRecordWriter(const std::string& path) : file_(std::make_unique<File>(path)) {}
TFRecordWriter::TFRecordWriter(TFRecordWriter&&) noexcept = default;
TFRecordWriter::~TFRecordWriter() noexcept(false) {
  if (file_ && std::uncaught_exceptions() == file_->exceptions) close();
}
void TFRecordWriter::write(std::string_view record) {
  if (!file_) throw_failed_precondition("TFRecordWriter: the file is closed");
  file_->file.append(formats::tfrecord(record));
}
void TFRecordWriter::close() {
  if (!file_) return;
  file_->file.commit();
  file_.reset();
}

}  // namespace lockstep::io
