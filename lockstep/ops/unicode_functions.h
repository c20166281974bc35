// Functions of characters in string tensors, as code points. Names, order of arguments and defaults are TensorFlow's;
// encodings are "UTF-8", "UTF-16-BE", "UTF-32-BE" and those of the same names that TensorFlow accepts.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/ragged_functions.h"
#include "lockstep/ops/ragged_tensor.h"
#include "lockstep/ops/string_functions.h"

namespace lockstep::strings {

// `errors` is the policy for invalid input bytes: "replace", "ignore", or "strict", which throws InvalidArgument.
struct UnicodeDecodeKeywords {
  FieldNamesOnly names_only = {};
  std::string input_encoding = "UTF-8";
  std::string errors = "replace";
  std::int64_t replacement_char = 0xFFFD;
  bool replace_control_characters = false;
};
// The code points of each string, int32; of one string a tensor.
RaggedRow unicode_decode(const Text& input, const UnicodeDecodeKeywords& keywords);
// Functions of an encoding by position are templates, because GCC would take keywords for the characters of a string.
template <std::convertible_to<std::string> S>
RaggedRow unicode_decode(const Text& input, const S& input_encoding) {
  return unicode_decode(input, UnicodeDecodeKeywords{.input_encoding = input_encoding});
}
// With the number of the first byte of each character, int64.
std::pair<RaggedRow, RaggedRow> unicode_decode_with_offsets(const Text& input, const UnicodeDecodeKeywords& keywords);
template <std::convertible_to<std::string> S>
std::pair<RaggedRow, RaggedRow> unicode_decode_with_offsets(const Text& input, const S& input_encoding) {
  return unicode_decode_with_offsets(input, UnicodeDecodeKeywords{.input_encoding = input_encoding});
}

struct UnicodeEncodeKeywords {
  FieldNamesOnly names_only = {};
  std::string output_encoding = "UTF-8";
  std::string errors = "replace";
  std::int64_t replacement_char = 0xFFFD;
};
// A string of the code points of each innermost row; of a vector one string.
RaggedRow encoded(const RaggedTensor& input, const UnicodeEncodeKeywords& keywords);
inline Tensor unicode_encode(const Tensor& input, const UnicodeEncodeKeywords& keywords) {
  return encoded(input, keywords);
}
template <std::convertible_to<std::string> S>
Tensor unicode_encode(const Tensor& input, const S& output_encoding) {
  return encoded(input, {.output_encoding = output_encoding});
}
template <Ragged R>
RaggedRow unicode_encode(const R& input, const UnicodeEncodeKeywords& keywords) {
  return encoded(input, keywords);
}
template <Ragged R, std::convertible_to<std::string> S>
RaggedRow unicode_encode(const R& input, const S& output_encoding) {
  return encoded(input, {.output_encoding = output_encoding});
}

struct UnicodeTranscodeKeywords {
  FieldNamesOnly names_only = {};
  std::string input_encoding = "UTF-8";
  std::string output_encoding = "UTF-8";
  std::string errors = "replace";
  std::int64_t replacement_char = 0xFFFD;
  bool replace_control_characters = false;
};
Tensor unicode_transcode(const Text& input, const UnicodeTranscodeKeywords& keywords);
// The number of the script of each code point, as ICU numbers them; int32.
Tensor unicode_script(const Tensor& input);

// Of ragged strings or code points.
template <Ragged R>
RaggedRow unicode_decode(const R& input, const UnicodeDecodeKeywords& keywords) {
  return RaggedRow(ragged_rows(input, [&](const Tensor& values) { return unicode_decode(Text(values), keywords); }));
}
template <Ragged R, std::convertible_to<std::string> S>
RaggedRow unicode_decode(const R& input, const S& input_encoding) {
  return unicode_decode(input, UnicodeDecodeKeywords{.input_encoding = input_encoding});
}
template <Ragged R>
RaggedResult<R> unicode_transcode(const R& input, const UnicodeTranscodeKeywords& keywords) {
  return ragged_values(input, [&](const Tensor& values) { return unicode_transcode(Text(values), keywords); });
}
template <Ragged R>
RaggedResult<R> unicode_script(const R& input) {
  return ragged_values(input, [](const Tensor& values) { return unicode_script(values); });
}

}  // namespace lockstep::strings
