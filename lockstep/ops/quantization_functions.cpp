#include "lockstep/ops/quantization_functions.h"

#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::quantization {
namespace {

// Numbers take the dtype that operations want.
Tensor float_of(const Tensor& x) { return ops::cast(x, DType::kFloat32); }

}  // namespace

Tensor fake_quant_with_min_max_args(const Tensor& inputs, const FakeQuantKeywords& o) {
  return ops::call1("FakeQuantWithMinMaxArgs", {inputs},
                    {{"min", static_cast<float>(o.min)},
                     {"max", static_cast<float>(o.max)},
                     {"num_bits", o.num_bits},
                     {"narrow_range", o.narrow_range}});
}
Tensor fake_quant_with_min_max_vars(const Tensor& inputs, const Tensor& min, const Tensor& max,
                                    const FakeQuantOptions& o) {
  return ops::call1("FakeQuantWithMinMaxVars", {inputs, float_of(min), float_of(max)},
                    {{"num_bits", o.num_bits}, {"narrow_range", o.narrow_range}});
}
Tensor fake_quant_with_min_max_vars_per_channel(const Tensor& inputs, const Tensor& min, const Tensor& max,
                                                const FakeQuantOptions& o) {
  return ops::call1("FakeQuantWithMinMaxVarsPerChannel", {inputs, float_of(min), float_of(max)},
                    {{"num_bits", o.num_bits}, {"narrow_range", o.narrow_range}});
}
Tensor quantize_and_dequantize_v2(const Tensor& input, const Tensor& input_min, const Tensor& input_max,
                                  const QuantizeAndDequantizeKeywords& o) {
  return ops::call1("QuantizeAndDequantizeV4",
                    {input, ops::cast(input_min, input.dtype()), ops::cast(input_max, input.dtype())},
                    {{"signed_input", o.signed_input},
                     {"num_bits", o.num_bits},
                     {"range_given", o.range_given},
                     {"round_mode", o.round_mode},
                     {"narrow_range", o.narrow_range},
                     {"axis", o.axis.value_or(-1)}});
}
Quantized quantize(const Tensor& input, const Tensor& min_range, const Tensor& max_range, DTypeLike T,
                   const QuantizeKeywords& o) {
  const Tensors out = ops::call("QuantizeV2", {input, float_of(min_range), float_of(max_range)},
                                {{"T", DType(T)},
                                 {"mode", o.mode},
                                 {"round_mode", o.round_mode},
                                 {"narrow_range", o.narrow_range},
                                 {"axis", o.axis.value_or(-1)},
                                 {"ensure_minimum_range", static_cast<float>(o.ensure_minimum_range)}});
  return {out[0], out[1], out[2]};
}
Tensor dequantize(const Tensor& input, const Tensor& min_range, const Tensor& max_range, const DequantizeKeywords& o) {
  return ops::call1("Dequantize", {input, float_of(min_range), float_of(max_range)},
                    {{"mode", o.mode}, {"axis", o.axis.value_or(-1)}, {"narrow_range", o.narrow_range}});
}

}  // namespace lockstep::quantization
