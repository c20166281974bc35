// tf.train.Example, and the functions of tf.io that write and read it.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/image_functions.h"
#include "lockstep/ops/ragged_tensor.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::train {

// Bytes in a list: a string, or a string tensor of one element.
class BytesValue {
 public:
  BytesValue(std::string bytes) : bytes_(std::move(bytes)) {}
  BytesValue(const char* text) : bytes_(text) {}
  BytesValue(const Tensor& scalar) : bytes_(scalar.item<std::string>()) {}
  operator std::string() const { return bytes_; }

 private:
  std::string bytes_;
};
// The values of a list: numbers or strings in braces or in a vector, or the elements of a tensor.
template <typename T, typename Item>
class ListValues : public std::vector<T> {
 public:
  ListValues() = default;
  ListValues(std::initializer_list<Item> values) : std::vector<T>(values.begin(), values.end()) {}
  ListValues(const std::vector<T>& values) : std::vector<T>(values) {}
  ListValues(const Tensor& values);
};
template <>
ListValues<float, double>::ListValues(const Tensor& values);
template <>
ListValues<std::int64_t, std::int64_t>::ListValues(const Tensor& values);
template <>
ListValues<std::string, BytesValue>::ListValues(const Tensor& values);

struct BytesList {
  FieldNamesOnly names_only = {};
  ListValues<std::string, BytesValue> value = {};
};
struct FloatList {
  FieldNamesOnly names_only = {};
  ListValues<float, double> value = {};
};
struct Int64List {
  FieldNamesOnly names_only = {};
  ListValues<std::int64_t, std::int64_t> value = {};
};
// A list that a feature may have; empty where it has another one, as in Python: feature.int64_list.value.
template <typename L>
class OneOf : public L {
 public:
  OneOf() = default;
  OneOf(L list) : L(std::move(list)), given_(true) {}
  bool has_value() const { return given_ || !this->value.empty(); }
  explicit operator bool() const { return has_value(); }
  const L& operator*() const { return *this; }
  const L* operator->() const { return this; }

 private:
  bool given_ = false;
};
// One of the three: Feature({.int64_list = Int64List({.value = {1}})}).
struct Feature {
  FieldNamesOnly names_only = {};
  OneOf<BytesList> bytes_list = {};
  OneOf<FloatList> float_list = {};
  OneOf<Int64List> int64_list = {};
  // "bytes_list", "float_list", "int64_list", or "" of an empty feature.
  std::string WhichOneof(std::string_view oneof = "kind") const;
  std::string SerializeToString() const;
};
struct Features {
  FieldNamesOnly names_only = {};
  std::map<std::string, Feature> feature = {};
};
// train::Example({.features = train::Features({.feature = {{"label", ...}}})}).
struct Example {
  FieldNamesOnly names_only = {};
  Features features = {};

  // Keys in sorted order.
  std::string SerializeToString() const;
  // Throw InvalidArgument for bytes that are not a valid Example.
  static Example FromString(std::string_view bytes);
  void ParseFromString(std::string_view bytes) { *this = FromString(bytes); }
  void ParseFromString(const Tensor& scalar) { *this = FromString(scalar.item<std::string>()); }
};
// A sequence of features, and a context that all of its steps have.
struct FeatureList {
  FieldNamesOnly names_only = {};
  std::vector<Feature> feature = {};
};
struct FeatureLists {
  FieldNamesOnly names_only = {};
  std::map<std::string, FeatureList> feature_list = {};
};
struct SequenceExample {
  FieldNamesOnly names_only = {};
  Features context = {};
  FeatureLists feature_lists = {};

  // Keys in sorted order.
  std::string SerializeToString() const;
};

}  // namespace lockstep::train

namespace lockstep::io {

// A feature of this number of values. Without a default value an example that lacks it is an InvalidArgument.
class FixedLenFeature {
 public:
  struct Options {
    FieldNamesOnly names_only = {};
    ShapeArg shape = {};
    DTypeLike dtype = DType::kFloat32;  // float32, int64 or string
    Tensor default_value = {};
  };
  FixedLenFeature(const Options& options) : options_(options) {}
  FixedLenFeature(const ShapeArg& shape, DTypeLike dtype) : options_{{}, shape, dtype} {}
  // A number, a string, a list or a tensor.
  template <typename V>
  FixedLenFeature(const ShapeArg& shape, DTypeLike dtype, const V& default_value)
      : options_{{}, shape, dtype, tensor(default_value)} {}
  struct DefaultValue {
    FieldNamesOnly names_only = {};
    FillValue default_value = {};
  };
  FixedLenFeature(const ShapeArg& shape, DTypeLike dtype, const DefaultValue& options)
      : options_{{}, shape, dtype, options.default_value} {}
  // Of a list in braces; GCC would take {.default_value = 0} for one, hence a template.
  template <int = 0>
  FixedLenFeature(const ShapeArg& shape, DTypeLike dtype, std::initializer_list<Values> default_value)
      : options_{{}, shape, dtype, Tensor(default_value, static_cast<DType>(dtype))} {}
  FixedLenFeature(const ShapeArg& shape, DTypeLike dtype, const char* default_value)
      : options_{{}, shape, dtype, Tensor::strings({default_value}, {})} {}
  const Options& options() const { return options_; }

 private:
  template <typename V>
  static Tensor tensor(const V& value) {
    if constexpr (std::is_arithmetic_v<V>) {
      return Tensor::scalar(value);
    } else if constexpr (std::is_convertible_v<const V&, Tensor>) {
      return value;
    } else {
      return Tensor::strings({std::string(value)}, {});
    }
  }
  Options options_;
};
// A feature of any number of values: a dict of indices, values and dense_shape, of which SparseTensor is made.
struct VarLenFeature {
  VarLenFeature(DTypeLike dtype) : dtype(dtype) {}
  DType dtype;
};
// A feature of any number of rows of this shape, padded with the default value to the longest of a batch; of a
// SequenceExample, a row for each step. allow_missing: an example may lack it; TensorFlow's parse_example requires it.
class FixedLenSequenceFeature {
 public:
  struct Options {
    FieldNamesOnly names_only = {};
    ShapeArg shape = {};
    DTypeLike dtype = DType::kFloat32;
    bool allow_missing = false;
    FillValue default_value = {};  // default: 0 or ""
  };
  FixedLenSequenceFeature(const Options& options) : options_(options) {}
  FixedLenSequenceFeature(const ShapeArg& shape, DTypeLike dtype, bool allow_missing = false)
      : options_{{}, shape, dtype, allow_missing} {}
  struct MissingOptions {
    FieldNamesOnly names_only = {};
    bool allow_missing = false;
    FillValue default_value = {};
  };
  FixedLenSequenceFeature(const ShapeArg& shape, DTypeLike dtype, const MissingOptions& options)
      : options_{{}, shape, dtype, options.allow_missing, options.default_value} {}
  const Options& options() const { return options_; }

 private:
  Options options_;
};
// A feature of any number of values: a tensor for one example, rows of a RaggedTensor for several. Partitions are not
// supported.
struct RaggedFeature {
  struct Options {
    FieldNamesOnly names_only = {};
    DTypeLike dtype = DType::kFloat32;
    std::string value_key = {};  // default: the name in the description
    DTypeLike row_splits_dtype = DType::kInt32;
  };
  RaggedFeature(DTypeLike dtype) : options{{}, dtype} {}
  RaggedFeature(const Options& options) : options(options) {}
  Options options;
};
class FeatureDescription
    : public std::map<std::string,
                      std::variant<FixedLenFeature, VarLenFeature, FixedLenSequenceFeature, RaggedFeature>> {
 public:
  using map::map;
  // Of features of one kind.
  template <typename Feature>
  FeatureDescription(const std::map<std::string, Feature>& features) : map(features.begin(), features.end()) {}
};

// Web-safe base64, elementwise.
Tensor encode_base64(const Tensor& input, bool pad = false);
Tensor decode_base64(const Tensor& input);
template <std::convertible_to<std::string> Text>
Tensor encode_base64(const Text& input, bool pad = false) {
  return encode_base64(Tensor::strings({std::string(input)}, {}), pad);
}
template <std::convertible_to<std::string> Text>
Tensor decode_base64(const Text& input) {
  return decode_base64(Tensor::strings({std::string(input)}, {}));
}

// The features of a serialized Example, or of a vector of them, by name.
Nested<Tensor> parse_single_example(const Tensor& serialized, const FeatureDescription& features);
Nested<Tensor> parse_example(const Tensor& serialized, const FeatureDescription& features);
// Of bytes: parse_single_example(example.SerializeToString(), description).
template <std::same_as<std::string> Bytes>
Nested<Tensor> parse_single_example(const Bytes& serialized, const FeatureDescription& features) {
  return parse_single_example(Tensor::strings({serialized}, {}), features);
}

struct SequenceFeatures {
  FieldNamesOnly names_only = {};
  FeatureDescription context_features = {};
  FeatureDescription sequence_features = {};
};
// The context and the lists of features of a serialized SequenceExample: const auto [context, sequences] = …
Nested<Tensor> parse_single_sequence_example(const Tensor& serialized, const SequenceFeatures& features);
template <std::same_as<std::string> Bytes>
Nested<Tensor> parse_single_sequence_example(const Bytes& serialized, const SequenceFeatures& features) {
  return parse_single_sequence_example(Tensor::strings({serialized}, {}), features);
}
// Of a vector of them: the context, the lists of features, and the number of steps of each list that is dense.
Nested<Tensor> parse_sequence_example(const Tensor& serialized, const SequenceFeatures& features);

struct TFRecordOptions {
  FieldNamesOnly names_only = {};
  std::string compression_type = {};                    // "", "GZIP" or "ZLIB"
  std::optional<int> compression_level = std::nullopt;  // 0 (none) to 9 (best)
};

// Writes a TFRecord file, which appears when it is closed. Errors are those of io::AtomicFile, and InvalidArgument for
// an unknown compression.
//
//   io::TFRecordWriter writer("train.tfrecord.gz", {.compression_type = "GZIP"});
class TFRecordWriter {
 public:
  explicit TFRecordWriter(const std::string& path, const TFRecordOptions& options = {});
  // TFRecordWriter(path, "GZIP")
  template <std::convertible_to<std::string> Type>
  TFRecordWriter(const std::string& path, const Type& compression_type)
      : TFRecordWriter(path, TFRecordOptions{.compression_type = compression_type}) {}
  // Closes, unless an exception is on its way.
  ~TFRecordWriter() noexcept(false);
  TFRecordWriter(TFRecordWriter&&) noexcept;
  TFRecordWriter& operator=(TFRecordWriter&&) = delete;
  void write(std::string_view record);
  void write(const Tensor& record) { write(std::string_view(record.item<std::string>())); }
  void flush() {}
  void close();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace lockstep::io
