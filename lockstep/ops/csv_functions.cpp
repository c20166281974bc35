#include "lockstep/ops/csv_functions.h"

#include "lockstep/ops/functions.h"

namespace lockstep::io {

CsvDefault::CsvDefault(DType required)
    : value_(required == DType::kString ? Tensor::strings({}, Shape({0})) : ops::zeros(Shape({0}), required)) {}
CsvDefault::CsvDefault(std::string value) : value_(Tensor::strings({std::move(value)}, Shape())) {}

Tensors internal::decode_csv(const Tensor& records, const CsvDefaults& record_defaults, const CsvKeywords& keywords) {
  Tensors inputs = {records};
  for (const CsvDefault& each : record_defaults) inputs.push_back(ops::reshape(each.value(), {-1}));
  return ops::call("DecodeCSV", inputs,
                   {{"field_delim", std::string(keywords.field_delim)},
                    {"use_quote_delim", keywords.use_quote_delim},
                    {"na_value", std::string(keywords.na_value)},
                    {"select_cols", keywords.select_cols}});
}

}  // namespace lockstep::io
