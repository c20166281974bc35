#include "lockstep/ops/unicode_functions.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::strings {
namespace {

// The results of UnicodeDecode or UnicodeDecodeWithOffsets: splits, code points, and perhaps offsets.
Tensors decode(const char* op, const Tensor& input, const UnicodeDecodeKeywords& o) {
  return ops::call(op, {input.rank() == 0 ? ops::reshape(input, {1}) : input},
                   {{"input_encoding", o.input_encoding},
                    {"errors", o.errors},
                    {"replacement_char", o.replacement_char},
                    {"replace_control_characters", o.replace_control_characters}});
}
void require_one_axis(const char* function, const Tensor& input) {
  if (input.rank() <= 1) return;
  throw_invalid_argument(
      fmt::format("strings::{}: found shape {}, expected one axis at most", function, input.shape().to_string()));
}
RaggedRow rows(const Tensor& input, const Tensor& values, const Tensor& splits) {
  return RaggedRow(input.rank() == 0 ? RaggedTensor(values) : RaggedTensor::from_row_splits(values, splits));
}

}  // namespace

RaggedRow unicode_decode(const Text& input, const UnicodeDecodeKeywords& o) {
  if (input.rank() > 1) return unicode_decode(RaggedTensor::from_uniform_rows(input), o);
  const Tensors made = decode("UnicodeDecode", input, o);
  return rows(input, made[1], made[0]);
}
std::pair<RaggedRow, RaggedRow> unicode_decode_with_offsets(const Text& input, const UnicodeDecodeKeywords& o) {
  require_one_axis("unicode_decode_with_offsets", input);
  const Tensors made = decode("UnicodeDecodeWithOffsets", input, o);
  return {rows(input, made[1], made[0]), rows(input, made[2], made[0])};
}

std::pair<Parts, RaggedRow> unicode_split_with_offsets(const Text& x, const EncodingKeywords& o) {
  const std::string encoding(o.input_encoding), errors(o.errors);
  require_one_axis("unicode_split_with_offsets", x);
  const Tensors made = decode("UnicodeDecodeWithOffsets", x, {{}, encoding, errors, o.replacement_char});
  const Tensor each = ops::range(made[1].dim(0) + 1, DType::kInt64);
  const Tensor characters =
      ops::call1("UnicodeEncode", {made[1], each},
                 {{"output_encoding", encoding}, {"errors", errors}, {"replacement_char", o.replacement_char}});
  return {Parts(rows(x, characters, made[0])), rows(x, made[2], made[0])};
}
Parts unicode_split(const Tensor& x, const EncodingKeywords& o) {
  if (x.rank() > 1) return unicode_split(RaggedTensor::from_uniform_rows(x), o);
  return unicode_split_with_offsets(x, o).first;
}

RaggedRow encoded(const RaggedTensor& input, const UnicodeEncodeKeywords& o) {
  if (input.ragged_rank() == 0) {
    const Tensor& values = input.flat_values();
    if (values.rank() == 0) throw_invalid_argument("unicode_encode: found a scalar, expected one axis or more");
    if (values.rank() > 1) return encoded(RaggedTensor::from_uniform_rows(values), o);
    const Tensor splits = Tensor::from_vector(std::vector<std::int64_t>{0, values.dim(0)});
    const Tensor texts = encoded(RaggedTensor::from_row_splits(values, splits), o);
    return RaggedRow(ops::reshape(texts, Shape{}));
  }
  if (input.shape().rank() > 2) return RaggedRow(input.with_values(encoded(input.values(), o)));
  return RaggedRow(ops::call1(
      "UnicodeEncode", {input.flat_values(), input.row_splits()},
      {{"output_encoding", o.output_encoding}, {"errors", o.errors}, {"replacement_char", o.replacement_char}}));
}
Tensor unicode_transcode(const Text& input, const UnicodeTranscodeKeywords& o) {
  return ops::call1("UnicodeTranscode", {input},
                    {{"input_encoding", o.input_encoding},
                     {"output_encoding", o.output_encoding},
                     {"errors", o.errors},
                     {"replacement_char", o.replacement_char},
                     {"replace_control_characters", o.replace_control_characters}});
}
Tensor unicode_script(const Tensor& input) { return ops::call1("UnicodeScript", {input}); }

}  // namespace lockstep::strings
