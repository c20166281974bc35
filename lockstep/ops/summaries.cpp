// Summaries of training as TensorBoard reads them. The message Summary, in the wire format of Protocol Buffers:
//
//   Summary    value = 1: entries of tag = 1, simple_value = 2 (float) or histo = 5
//   Histogram  min = 1, max = 2, num = 3, sum = 4, sum_squares = 5, bucket_limit = 6, bucket = 7 (doubles)
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "lockstep/formats/varint_internal.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/message_fields_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

using formats::append_bytes_field;

template <typename T>
void put_fixed(std::string& out, T bits) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>((bits >> (8 * i)) & 0xff));
}
void put_key(std::string& out, int field, int kind) {
  formats::append_varint(out, static_cast<std::uint64_t>(field * 8 + kind));
}
void put_double(std::string& out, int field, double value) {
  if (std::bit_cast<std::uint64_t>(value) == 0) return;  // the default
  put_key(out, field, MessageFields::kFixed64);
  put_fixed(out, std::bit_cast<std::uint64_t>(value));
}
void put_doubles(std::string& out, int field, const std::vector<double>& values) {
  std::string packed;
  for (const double value : values) put_fixed(packed, std::bit_cast<std::uint64_t>(value));
  append_bytes_field(out, field, packed);
}

Tensors scalar_summary(const Call& call) {
  const std::vector<std::string>& tags = strings_in(call, 0);
  if (call.input(0).shape() != call.input(1).shape()) {
    throw_invalid_argument(fmt::format("tags and values differ in their shapes: {} and {}",
                                       call.input(0).shape().to_string(), call.input(1).shape().to_string()));
  }
  const at::Tensor values = widen(in(call, 1)).to(at::kFloat).contiguous();
  std::string summary;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    std::string value;
    if (!tags[i].empty()) append_bytes_field(value, 1, tags[i]);
    put_key(value, 2, MessageFields::kFixed32);
    put_fixed(value, std::bit_cast<std::uint32_t>(values.const_data_ptr<float>()[i]));
    append_bytes_field(summary, 1, value);
  }
  return {Tensor::strings({std::move(summary)}, Shape{})};
}

// Bounds that grow by a tenth from 1e-12 to 1e20, on both sides of zero.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive, all;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return limits;
}

Tensors histogram_summary(const Call& call) {
  const at::Tensor values = widen(in(call, 1)).to(at::kDouble).contiguous();
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size()), shown_limits, shown;
  double least = limits.back(), most = limits.front(), sum = 0, squares = 0;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double value = values.const_data_ptr<double>()[i];
    if (!std::isfinite(value)) throw_invalid_argument(fmt::format("a value of the histogram is {}", value));
    const auto place = std::upper_bound(limits.begin(), limits.end() - 1, value) - limits.begin();
    counts[static_cast<std::size_t>(place)] += 1;
    least = std::min(least, value), most = std::max(most, value), sum += value, squares += value * value;
  }
  for (std::size_t i = 0; i < limits.size();) {  // empty buckets that are neighbours become one
    double end = limits[i];
    const double count = counts[i++];
    while (count <= 0 && i < limits.size() && counts[i] <= 0) end = limits[i++];
    shown_limits.push_back(end), shown.push_back(count);
  }
  std::string histogram, value, summary;
  put_double(histogram, 1, least), put_double(histogram, 2, most);
  put_double(histogram, 3, static_cast<double>(values.numel())), put_double(histogram, 4, sum);
  put_double(histogram, 5, squares);
  put_doubles(histogram, 6, shown_limits), put_doubles(histogram, 7, shown);
  if (const std::string& tag = string_in(call, 0); !tag.empty()) append_bytes_field(value, 1, tag);
  append_bytes_field(value, 5, histogram);
  append_bytes_field(summary, 1, value);
  return {Tensor::strings({std::move(summary)}, Shape{})};
}

// The values of all, each with its tag.
Tensors merge_summaries(const Call& call) {
  std::string merged;
  std::set<std::string_view> tags;
  for (int i = 0; i < call.num_inputs(); ++i) {
    for (const std::string& summary : strings_in(call, i)) {
      for (MessageFields values(summary, "serialized summary"); values.next();) {
        if (!values.is_message(1)) continue;
        std::string_view tag;
        for (MessageFields parts(values.payload, "serialized summary"); parts.next();) {
          if (parts.is_message(1)) tag = parts.payload;
        }
        if (!tag.empty() && !tags.insert(tag).second)
          throw_invalid_argument(fmt::format("the tag '{}' occurs in two summaries", tag));
      }
      merged += summary;
    }
  }
  return {Tensor::strings({std::move(merged)}, Shape{})};
}

}  // namespace

void register_summaries(Table& table) {
  table.add("ScalarSummary", scalar_rule, scalar_summary);
  table.add("HistogramSummary", scalar_rule, histogram_summary);
  table.add("MergeSummary", scalar_rule, merge_summaries);
}

}  // namespace lockstep::ops
