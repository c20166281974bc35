// tf.io.decode_csv.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::io {

// What a column has where its field is empty, 0.0 or "NA"; or its dtype, where each row must have a value.
class CsvDefault {
 public:
  CsvDefault(DType required);
  CsvDefault(Tensor value) : value_(std::move(value)) {}  // of one element, or of none: required
  CsvDefault(const char* value) : CsvDefault(std::string(value)) {}
  CsvDefault(std::string value);
  // float32 of a fraction and int32 of an integer, as TensorFlow converts Python's numbers.
  template <std::floating_point T>
  CsvDefault(T value) : CsvDefault(Tensor(Tensor::scalar(static_cast<float>(value)))) {}
  template <std::integral T>
  CsvDefault(T value) : CsvDefault(Tensor(Tensor::scalar(static_cast<std::int32_t>(value)))) {}
  const Tensor& value() const { return value_; }  // of shape (), or (0,)

 private:
  Tensor value_;
};
class CsvDefaults : public std::vector<CsvDefault> {
 public:
  using vector::vector;
  CsvDefaults(const std::vector<CsvDefault>& defaults) : vector(defaults) {}
  CsvDefaults(const Tensors& defaults) : vector(defaults.begin(), defaults.end()) {}
};

struct CsvKeywords {
  FieldNamesOnly names_only = {};
  std::string_view field_delim = ",";
  bool use_quote_delim = true;
  std::string_view na_value = "";
  std::vector<std::int64_t> select_cols = {};  // ascending; default: all
};
namespace internal {
Tensors decode_csv(const Tensor& records, const CsvDefaults& record_defaults, const CsvKeywords& keywords);
}
// The columns of records, each with the dtype of its default: decode_csv(lines, {0.0, "", 0}). A template, because GCC
// would take {.record_defaults = ...} for a list.
template <std::convertible_to<CsvDefaults> D = CsvDefaults>
Tensors decode_csv(const Tensor& records, const D& record_defaults, const CsvKeywords& keywords = {}) {
  return internal::decode_csv(records, record_defaults, keywords);
}
struct DecodeCsvKeywords {
  FieldNamesOnly names_only = {};
  CsvDefaults record_defaults = {};
  std::string_view field_delim = ",";
  bool use_quote_delim = true;
  std::string_view na_value = "";
  std::vector<std::int64_t> select_cols = {};
};
inline Tensors decode_csv(const Tensor& records, const DecodeCsvKeywords& o) {
  return internal::decode_csv(records, o.record_defaults,
                              {{}, o.field_delim, o.use_quote_delim, o.na_value, o.select_cols});
}

}  // namespace lockstep::io
