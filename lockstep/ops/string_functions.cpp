#include "lockstep/ops/string_functions.h"

#include <span>
#include <utility>

#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/ragged_elements_internal.h"
#include "lockstep/ops/ragged_functions.h"

namespace lockstep::strings {
namespace {

Tensor text(std::string_view value) { return Tensor::strings({std::string(value)}, {}); }

Tensor one_axis(const Tensor& x) { return x.rank() == 0 ? ops::expand_dims(x, 0) : x; }

}  // namespace

Tensor lower(const Tensor& x) { return ops::call1("StringLower", {x}); }
Tensor upper(const Tensor& x) { return ops::call1("StringUpper", {x}); }
Tensor strip(const Tensor& x) { return ops::call1("StringStrip", {x}); }
Tensor length(const Tensor& x, std::string_view unit) {
  return ops::call1("StringLength", {x}, {{"unit", std::string(unit)}});
}
Tensor join(const std::vector<Text>& parts, std::string_view separator) {
  const Tensors texts(parts.begin(), parts.end());
  return ops::call1("StringJoin", std::span<const Tensor>(texts), {{"separator", std::string(separator)}});
}
Tensor join(const std::vector<Text>& parts, const JoinKeywords& keywords) { return join(parts, keywords.separator); }
namespace {

Tensor vector_of(const std::vector<std::string>& texts) {
  return Tensor::strings(texts, {static_cast<std::int64_t>(texts.size())});
}

}  // namespace

Parts::Parts(const std::vector<std::vector<std::string>>& rows, bool of_one_text)
    : RaggedRow(of_one_text ? RaggedTensor(vector_of(rows[0])) : RaggedTensor(rows)) {}
Parts::operator std::vector<std::vector<std::string>>() const {
  if (ragged_rank() == 0) return {to_vector<std::string>()};
  std::vector<std::vector<std::string>> rows;
  for (const Parts& row : *this) rows.push_back(row);
  return rows;
}
Parts split(const Tensor& x, std::string_view separator, std::int64_t maxsplit) {
  if (x.rank() > 1) return split(RaggedTensor::from_uniform_rows(x), separator, maxsplit);
  const Tensor texts = one_axis(x);
  const Tensors parts = ops::call("StringSplitV2", {texts, text(separator)}, {{"maxsplit", maxsplit}});
  if (parts[0].is_symbolic()) return Parts(x.rank() == 0 ? RaggedTensor(parts[1]) : ops::traced_rows_of(parts));
  const std::vector<std::int64_t> places = parts[0].to_vector<std::int64_t>();
  const std::vector<std::string>& words = parts[1].string_values();
  std::vector<std::vector<std::string>> rows(static_cast<std::size_t>(texts.dim(0)));
  for (std::size_t i = 0; i < words.size(); ++i) rows[static_cast<std::size_t>(places[2 * i])].push_back(words[i]);
  return {rows, x.rank() == 0};
}
Parts bytes_split(const Tensor& x) {
  if (x.rank() > 1) return bytes_split(RaggedTensor::from_uniform_rows(x));
  std::vector<std::vector<std::string>> rows;
  for (const std::string& each : one_axis(x).string_values()) {
    rows.emplace_back();
    for (const char byte : each) rows.back().emplace_back(1, byte);
  }
  return {rows, x.rank() == 0};
}
Tensor unsorted_segment_join(const Tensor& inputs, const Tensor& segment_ids, std::int64_t num_segments,
                             const SegmentJoinKeywords& o) {
  return ops::call1("UnsortedSegmentJoin", {inputs, segment_ids, Tensor::scalar(num_segments)},
                    {{"separator", std::string(o.separator)}});
}
Tensor reduce_join(const Tensor& x, std::string_view separator) {
  return ops::call1("ReduceJoin", {x, ops::range(x.rank() - 1, -1, -1)}, {{"separator", std::string(separator)}});
}
Tensor reduce_join(const Tensor& x, int axis, bool keepdims, std::string_view separator) {
  return ops::call1("ReduceJoin", {x, Tensor::scalar(axis)},
                    {{"keep_dims", keepdims}, {"separator", std::string(separator)}});
}
Tensor substr(const Tensor& x, const Tensor& pos, const Tensor& len, std::string_view unit) {
  return ops::call1("Substr", {x, pos, len}, {{"unit", std::string(unit)}});
}
Tensor substr(const Tensor& x, int pos, int len, std::string_view unit) {
  return substr(x, Tensor::scalar(pos), Tensor::scalar(len), unit);
}
Tensor to_hash_bucket_fast(const Tensor& x, std::int64_t num_buckets) {
  return ops::call1("StringToHashBucketFast", {x}, {{"num_buckets", num_buckets}});
}
Tensor regex_replace(const Tensor& x, std::string_view pattern, std::string_view rewrite, bool replace_global) {
  return ops::call1("RegexReplace", {x, text(pattern), text(rewrite)}, {{"replace_global", replace_global}});
}
Tensor regex_full_match(const Tensor& x, std::string_view pattern) {
  return ops::call1("RegexFullMatch", {x, text(pattern)});
}
Tensor to_number(const Tensor& x, DTypeLike out_type) {
  return ops::call1("StringToNumber", {x}, {{"out_type", out_type}});
}
Tensor as_string(const Tensor& x) { return ops::call1("AsString", {x}); }

}  // namespace lockstep::strings
