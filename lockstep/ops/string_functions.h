// tf.strings: functions of string tensors. Names, order of arguments and defaults are TensorFlow's; patterns are RE2's.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/list.h"
#include "lockstep/ops/ragged_tensor.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::strings {

Tensor lower(const Tensor& x);
Tensor upper(const Tensor& x);
Tensor strip(const Tensor& x);
Tensor length(const Tensor& x, std::string_view unit = "BYTE");  // int32; unit: "BYTE", "UTF8_CHAR"
// A string, or a string tensor.
class Text : public Tensor {
 public:
  Text(const Tensor& text) : Tensor(text) {}
  Text(const char* text) : Tensor(Tensor::strings({text}, {})) {}
  Text(std::string text) : Tensor(Tensor::strings({std::move(text)}, {})) {}
  Text(std::initializer_list<Values> texts) : Tensor(texts) {}  // join({{"a", "b"}, {"c", "d"}})
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor> && !std::is_base_of_v<Tensor, T>)
      Text(const T& text)
      : Tensor(static_cast<Tensor>(text)) {}
};
// Of one string: lower("The end"). Templates, because {"a", "b"} is a tensor.
#define LOCKSTEP_OF_TEXT(function)                             \
  template <std::convertible_to<std::string> T>                \
  Tensor function(const T& text) {                             \
    return function(Tensor::strings({std::string(text)}, {})); \
  }
LOCKSTEP_OF_TEXT(lower)
LOCKSTEP_OF_TEXT(upper)
LOCKSTEP_OF_TEXT(strip)
LOCKSTEP_OF_TEXT(length)
#undef LOCKSTEP_OF_TEXT
struct LengthKeywords {
  FieldNamesOnly names_only = {};
  std::string_view unit = "BYTE";
};
inline Tensor length(const Tensor& x, const LengthKeywords& keywords) { return length(x, keywords.unit); }
template <std::convertible_to<std::string> T>
Tensor length(const T& text, const LengthKeywords& keywords) {
  return length(Tensor::strings({std::string(text)}, {}), keywords.unit);
}
struct JoinKeywords {
  FieldNamesOnly names_only = {};
  std::string_view separator = "";
};
Tensor join(const std::vector<Text>& parts, std::string_view separator = "");
Tensor join(const std::vector<Text>& parts, const JoinKeywords& keywords);
template <std::same_as<Tensors> List>
Tensor join(const List& parts, std::string_view separator = "") {
  return join(std::vector<Text>(parts.begin(), parts.end()), separator);
}
// The strings of all elements, or of an axis, as one.
Tensor reduce_join(const Tensor& x, std::string_view separator = "");
Tensor reduce_join(const Tensor& x, int axis, bool keepdims = false, std::string_view separator = "");
struct ReduceJoinKeywords {
  FieldNamesOnly names_only = {};
  std::optional<int> axis = std::nullopt;
  bool keepdims = false;
  std::string_view separator = "";
};
inline Tensor reduce_join(const Tensor& x, const ReduceJoinKeywords& o) {
  return o.axis ? reduce_join(x, *o.axis, o.keepdims, o.separator) : reduce_join(x, o.separator);
}
Tensor substr(const Tensor& x, const Tensor& pos, const Tensor& len, std::string_view unit = "BYTE");
Tensor substr(const Tensor& x, int pos, int len, std::string_view unit = "BYTE");
Tensor regex_replace(const Tensor& x, std::string_view pattern, std::string_view rewrite, bool replace_global = true);
template <std::convertible_to<std::string> T>
Tensor regex_replace(const T& text, std::string_view pattern, std::string_view rewrite, bool replace_global = true) {
  return regex_replace(Tensor::strings({std::string(text)}, {}), pattern, rewrite, replace_global);
}
struct SubstrKeywords {
  FieldNamesOnly names_only = {};
  Tensor pos = 0;  // one number, or one for each text
  Tensor len = 0;
  std::string_view unit = "BYTE";
};
inline Tensor substr(const Tensor& x, const SubstrKeywords& o) { return substr(x, o.pos, o.len, o.unit); }
template <std::convertible_to<std::string> T>
Tensor substr(const T& text, const SubstrKeywords& o) {
  return substr(Tensor::strings({std::string(text)}, {}), o);
}
struct ReplaceKeywords {
  FieldNamesOnly names_only = {};
  std::string_view pattern = "";
  std::string_view rewrite = "";
  bool replace_global = true;
};
inline Tensor regex_replace(const Tensor& x, const ReplaceKeywords& o) {
  return regex_replace(x, o.pattern, o.rewrite, o.replace_global);
}
struct ReplaceGlobalKeywords {
  FieldNamesOnly names_only = {};
  bool replace_global = true;
};
inline Tensor regex_replace(const Tensor& x, std::string_view pattern, std::string_view rewrite,
                            const ReplaceGlobalKeywords& o) {
  return regex_replace(x, pattern, rewrite, o.replace_global);
}
Tensor regex_full_match(const Tensor& x, std::string_view pattern);
// The parts of one string, a vector, or of each of several, a ragged tensor; also a part, or the parts of one of the
// strings. They convert to a tensor of as many axes, FailedPrecondition where the numbers of parts differ, to
// std::string and to vectors.
class Parts : public RaggedRow {
 public:
  explicit Parts(const RaggedTensor& parts) : RaggedRow(parts) {}
  Parts(const std::vector<std::vector<std::string>>& rows, bool of_one_text);
  Parts operator[](std::int64_t index) const { return Parts(RaggedTensor::operator[](index)); }
  using RaggedRow::operator[];
  template <std::same_as<std::string> T>
  explicit operator T() const {
    return static_cast<Tensor>(*this).item<std::string>();
  }
  operator std::vector<std::string>() const { return to_vector<std::string>(); }
  // One row of one string.
  operator std::vector<std::vector<std::string>>() const;
  friend bool operator==(const Parts& parts, const std::vector<std::vector<std::string>>& lists) {
    return std::vector<std::vector<std::string>>(parts) == lists;
  }
  std::size_t size() const { return static_cast<std::size_t>(ragged_rank() > 0 ? nrows() : flat_values().dim(0)); }
  bool empty() const { return size() == 0; }

  class Iterator {
   public:
    Iterator(const Parts& parts, std::int64_t place) : parts_(&parts), place_(place) {}
    Parts operator*() const { return (*parts_)[place_]; }
    Iterator& operator++() {
      ++place_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return place_ == other.place_; }

   private:
    const Parts* parts_;
    std::int64_t place_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, static_cast<std::int64_t>(size())}; }
};
// The parts of each string between separators, at most maxsplit + 1 of them; "": words between white space.
Parts split(const Tensor& x, std::string_view separator = "", std::int64_t maxsplit = -1);
template <std::convertible_to<std::string> Text>
Tensor split(const Text& text, std::string_view separator = "", std::int64_t maxsplit = -1) {
  return split(Tensor::strings({std::string(text)}, {}), separator, maxsplit);
}
struct SplitKeywords {
  FieldNamesOnly names_only = {};
  std::string_view sep = "";
  std::int64_t maxsplit = -1;
};
inline Parts split(const Tensor& x, const SplitKeywords& o) { return split(x, o.sep, o.maxsplit); }
Parts bytes_split(const Tensor& x);
// The characters of each string, or of one string. Encodings and `errors`, the policy for invalid bytes, are those of
// unicode_decode(); the characters are in that encoding.
struct EncodingKeywords {
  FieldNamesOnly names_only = {};
  std::string_view input_encoding = "UTF-8";
  std::string_view errors = "replace";
  std::int64_t replacement_char = 0xFFFD;
};
Parts unicode_split(const Tensor& x, const EncodingKeywords& o);
inline Parts unicode_split(const Tensor& x, std::string_view input_encoding = "UTF-8") {
  return unicode_split(x, EncodingKeywords{.input_encoding = input_encoding});
}
template <std::convertible_to<std::string> Text>
Tensor unicode_split(const Text& text, std::string_view input_encoding = "UTF-8") {
  return unicode_split(Tensor::strings({std::string(text)}, {}), input_encoding);
}
// With the number of the first byte of each character, int64.
std::pair<Parts, RaggedRow> unicode_split_with_offsets(const Text& x, const EncodingKeywords& o);
template <std::convertible_to<std::string> S>
std::pair<Parts, RaggedRow> unicode_split_with_offsets(const Text& x, const S& input_encoding) {
  return unicode_split_with_offsets(x, EncodingKeywords{.input_encoding = input_encoding});
}
// Of strings in a vector.
template <std::same_as<std::vector<std::string>> Texts>
std::vector<std::vector<std::string>> unicode_split(const Texts& texts, std::string_view input_encoding = "UTF-8") {
  return unicode_split(Tensor::strings(texts, {static_cast<std::int64_t>(texts.size())}), input_encoding);
}
// A number from 0 to num_buckets - 1 for each string, int64.
Tensor to_hash_bucket_fast(const Tensor& x, std::int64_t num_buckets);
Tensor to_number(const Tensor& x, DTypeLike out_type = DType::kFloat32);
struct ToNumberKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike out_type = DType::kFloat32;
};
inline Tensor to_number(const Tensor& x, const ToNumberKeywords& o) { return to_number(x, o.out_type); }
Tensor as_string(const Tensor& x);
// The strings of each segment, one after the other. Ids in any order, each below num_segments; negative ones are left
// out.
struct SegmentJoinKeywords {
  FieldNamesOnly names_only = {};
  std::string_view separator = "";
};
Tensor unsorted_segment_join(const Tensor& inputs, const Tensor& segment_ids, std::int64_t num_segments,
                             const SegmentJoinKeywords& o = {});
template <std::convertible_to<std::string_view> S>
Tensor unsorted_segment_join(const Tensor& inputs, const Tensor& segment_ids, std::int64_t num_segments,
                             const S& separator) {
  return unsorted_segment_join(inputs, segment_ids, num_segments, SegmentJoinKeywords{.separator = separator});
}

}  // namespace lockstep::strings
