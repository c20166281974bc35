// tf.quantization: numbers rounded as quantization with few bits rounds them, and quantized numbers. Names, order of
// arguments and defaults are TensorFlow's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::quantization {

struct FakeQuantKeywords {
  FieldNamesOnly names_only = {};
  double min = -6;
  double max = 6;
  std::int64_t num_bits = 8;
  bool narrow_range = false;
};
// Numbers of the range, in 2^num_bits steps, or one less where it is narrow; gradients pass inside of the range.
Tensor fake_quant_with_min_max_args(const Tensor& inputs, const FakeQuantKeywords& o = {});
struct FakeQuantOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num_bits = 8;
  bool narrow_range = false;
};
inline Tensor fake_quant_with_min_max_args(const Tensor& inputs, double min, double max,
                                           const FakeQuantOptions& o = {}) {
  return fake_quant_with_min_max_args(inputs, FakeQuantKeywords{{}, min, max, o.num_bits, o.narrow_range});
}
// With a range that is trained: two numbers, or per channel two vectors.
Tensor fake_quant_with_min_max_vars(const Tensor& inputs, const Tensor& min, const Tensor& max,
                                    const FakeQuantOptions& o = {});
Tensor fake_quant_with_min_max_vars_per_channel(const Tensor& inputs, const Tensor& min, const Tensor& max,
                                                const FakeQuantOptions& o = {});

// Rounded as quantization rounds; without range_given, in the range of the numbers, of each slice of an axis.
struct QuantizeAndDequantizeKeywords {
  FieldNamesOnly names_only = {};
  bool signed_input = true;
  std::int64_t num_bits = 8;
  bool range_given = false;
  std::string round_mode = "HALF_TO_EVEN";  // or "HALF_UP"
  bool narrow_range = false;
  std::optional<std::int64_t> axis = std::nullopt;
};
Tensor quantize_and_dequantize_v2(const Tensor& input, const Tensor& input_min, const Tensor& input_max,
                                  const QuantizeAndDequantizeKeywords& o = {});
inline Tensor quantize_and_dequantize_v2(const Tensor& input, const Tensor& input_min, const Tensor& input_max,
                                         bool signed_input, std::int64_t num_bits = 8,
                                         QuantizeAndDequantizeKeywords o = {}) {
  o.signed_input = signed_input, o.num_bits = num_bits;
  return quantize_and_dequantize_v2(input, input_min, input_max, o);
}

// Quantized numbers of float32, and the range that they have.
struct Quantized {
  Tensor output, output_min, output_max;
};
struct QuantizeKeywords {
  FieldNamesOnly names_only = {};
  std::string mode = "MIN_COMBINED";  // or "MIN_FIRST", "SCALED"
  std::string round_mode = "HALF_AWAY_FROM_ZERO";
  bool narrow_range = false;
  std::optional<std::int64_t> axis = std::nullopt;
  double ensure_minimum_range = 0.01;
};
Quantized quantize(const Tensor& input, const Tensor& min_range, const Tensor& max_range, DTypeLike T,
                   const QuantizeKeywords& o = {});
struct DequantizeKeywords {
  FieldNamesOnly names_only = {};
  std::string mode = "MIN_COMBINED";
  std::optional<std::int64_t> axis = std::nullopt;
  bool narrow_range = false;
};
Tensor dequantize(const Tensor& input, const Tensor& min_range, const Tensor& max_range,
                  const DequantizeKeywords& o = {});

}  // namespace lockstep::quantization
