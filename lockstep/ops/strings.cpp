// Operations on byte strings.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include <re2/re2.h>

#include "lockstep/io/fingerprint_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/ops/text_case_internal.h"

namespace lockstep::ops {
namespace {

using Strings = std::vector<std::string>;

template <typename F>
Tensors map_strings(const Call& call, const F& f) {
  Strings out;
  out.reserve(strings_in(call, 0).size());
  std::size_t bytes = 0;
  for (const std::string& text : strings_in(call, 0)) {
    out.push_back(f(text));
    MemoryLimit::check(static_cast<std::int64_t>(bytes += out.back().size()), 1);
  }
  return {Tensor::strings(std::move(out), call.input(0).shape())};
}

Tensors join(const Call& call) {
  const std::string& separator = call.attr<std::string>("separator");
  Shape shape;
  for (const Tensor& x : call.inputs()) {
    if (x.rank() == 0) continue;
    if (shape.rank() > 0 && shape != x.shape())
      throw_invalid_argument("inputs that are not scalars must have equal shapes");
    shape = x.shape();
  }
  Strings out(static_cast<std::size_t>(*shape.num_elements()));
  std::size_t bytes = 0;
  for (int k = 0; k < call.num_inputs(); ++k) {
    std::size_t own = 0;
    for (const std::string& text : strings_in(call, k)) own += text.size();
    bytes += (call.input(k).rank() == 0 ? own * out.size() : own) + separator.size() * out.size();
  }
  MemoryLimit::check(static_cast<std::int64_t>(bytes), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (int k = 0; k < call.num_inputs(); ++k) {
      if (k > 0) out[i] += separator;
      out[i] += strings_in(call, k)[call.input(k).rank() == 0 ? 0 : i];
    }
  }
  return {Tensor::strings(std::move(out), shape)};
}
Shapes join_shape(const Call& call) {
  Shape out;
  for (const Tensor& x : call.inputs()) {
    if (!x.shape().known_rank()) return {Shape::unknown_rank()};
    if (x.rank() > 0) out = out.rank() == 0 ? x.shape() : merge_shapes(out, x.shape());
  }
  return {out};
}

Tensors reduce_join(const Call& call) {
  const Tensor& x = call.input(0);
  Ints axes = whole_axes(ints_in(call, 1), x.rank());
  const std::string& separator = call.attr<std::string>("separator");
  if (axes.empty()) return {x};
  Ints order, kept;
  for (int i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i), kept.push_back(x.dim(i));
  }
  order.insert(order.end(), axes.rbegin(), axes.rend());  // the first of the axes varies fastest
  const Ints index = ints_of(at::arange(x.num_elements()).view(x.shape().dims()).permute(order));
  std::int64_t rows = 1;
  for (auto dim : kept) rows *= dim;
  Strings out(static_cast<std::size_t>(rows));
  const std::size_t width = rows == 0 ? 0 : index.size() / static_cast<std::size_t>(rows);
  for (std::size_t r = 0; r < out.size(); ++r) {
    for (std::size_t i = 0; i < width; ++i) {
      if (i > 0) out[r] += separator;
      out[r] += x.string_values()[static_cast<std::size_t>(index[r * width + i])];
    }
  }
  if (call.attr<bool>("keep_dims")) {
    kept = x.shape().dims();
    for (auto axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  }
  return {Tensor::strings(std::move(out), Shape(kept))};
}

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// At most `limit` times from the left, 0: not at all, less: everywhere.
std::vector<std::string> split_text(const std::string& text, const std::string& separator, std::int64_t limit) {
  if (limit == 0) return {text};
  Strings parts;
  std::size_t at = 0;
  const auto full = [&] { return static_cast<std::int64_t>(parts.size()) == limit; };
  if (separator.empty()) {  // runs of blanks; what is behind the last one remains, even if nothing is
    const auto skip_blanks = [&] {
      while (at < text.size() && is_blank(text[at])) ++at;
    };
    for (skip_blanks(); at < text.size(); skip_blanks()) {
      std::size_t end = at;
      while (end < text.size() && !is_blank(text[end])) ++end;
      parts.push_back(text.substr(at, end - at));
      at = end;
      if (!full()) continue;
      skip_blanks();
      parts.push_back(text.substr(at));
      break;
    }
    return parts;
  }
  for (;;) {
    const std::size_t next = full() ? std::string::npos : text.find(separator, at);
    parts.push_back(text.substr(at, next == std::string::npos ? next : next - at));
    if (next == std::string::npos) return parts;
    at = next + separator.size();
  }
}

// The three outputs of a ragged list of parts: coordinates, values, dense shape.
Tensors as_sparse(const std::vector<Strings>& rows) {
  Strings values;
  Ints indices;
  std::int64_t widest = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      indices.push_back(static_cast<std::int64_t>(r)), indices.push_back(static_cast<std::int64_t>(i));
      values.push_back(rows[r][i]);
    }
    widest = std::max(widest, static_cast<std::int64_t>(rows[r].size()));
  }
  const auto n = static_cast<std::int64_t>(values.size());
  return {Tensor::from_vector(indices, Shape{n, 2}), Tensor::strings(std::move(values), Shape{n}),
          Tensor::from_vector(Ints{static_cast<std::int64_t>(rows.size()), widest})};
}
Shapes sparse_shape(const Call&) { return {Shape{kUnknownDim, 2}, Shape{kUnknownDim}, Shape{2}}; }
Tensors split_v2(const Call& call) {
  std::vector<Strings> rows;
  for (const std::string& text : strings_in(call, 0))
    rows.push_back(split_text(text, string_in(call, 1), call.attr<std::int64_t>("maxsplit")));
  return as_sparse(rows);
}
Tensors split_v1(const Call& call) {
  const std::string& delimiters = string_in(call, 1);
  std::vector<Strings> rows;
  for (const std::string& text : strings_in(call, 0)) {
    Strings parts = {""};
    for (char c : text) {
      if (delimiters.empty()) {
        parts.back().push_back(c), parts.emplace_back();
      } else if (delimiters.find(c) != std::string::npos) {
        parts.emplace_back();
      } else {
        parts.back().push_back(c);
      }
    }
    if (text.empty() || delimiters.empty() || call.attr<bool>("skip_empty")) std::erase(parts, "");
    rows.push_back(std::move(parts));
  }
  return as_sparse(rows);
}

std::size_t utf8_length(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}
Tensors length(const Call& call) {
  const bool characters = call.attr<std::string>("unit") == "UTF8_CHAR";
  std::vector<std::int32_t> out;
  for (const std::string& text : strings_in(call, 0))
    out.push_back(static_cast<std::int32_t>(characters ? utf8_length(text) : text.size()));
  return {Tensor::from_vector(out, call.input(0).shape())};
}

// Byte offsets of the starts of units, and the end. Bytes in front of the first character are one of their own.
std::vector<std::size_t> unit_starts(const std::string& text, bool characters) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!characters || i == 0 || (text[i] & 0xC0) != 0x80) starts.push_back(i);
  }
  starts.push_back(text.size());
  return starts;
}
Tensors substr(const Call& call) {
  const Tensor &x = call.input(0), &pos = call.input(1);
  if (!(pos.shape() == call.input(2).shape()))
    throw_invalid_argument(
        fmt::format("pos has the shape {}, len {}", pos.shape().to_string(), call.input(2).shape().to_string()));
  const Shape shape = broadcast_shape(x.shape(), pos.shape());
  const Ints& dims = shape.dims();
  element_count(dims, sizeof(std::string));
  const auto count = static_cast<std::int64_t>(x.string_values().size());
  const Ints places = ints_of(at::arange(count, at::kLong).reshape(x.shape().dims()).expand(dims)),
             positions = ints_of(in(call, 1).expand(dims)), lengths = ints_of(in(call, 2).expand(dims));
  const bool characters = call.attr<std::string>("unit") == "UTF8_CHAR";
  Strings out;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::string& text = x.string_values()[static_cast<std::size_t>(places[i])];
    const auto starts = unit_starts(text, characters);
    const auto size = static_cast<std::int64_t>(starts.size()) - 1;
    const std::int64_t given = positions[i], n = lengths[i];
    if (given > size || given < -size)
      throw_invalid_argument(fmt::format("pos {} out of range for a string of {} units", given, size));
    // A negative length is that of the rest in bytes, and in characters none.
    if (characters && n < 0 && given < 0)
      throw_invalid_argument(fmt::format("pos {} out of range with a length of {}", given, n));
    const std::int64_t begin = given < 0 ? given + size : given,
                       end = n < 0 ? (characters ? begin : size) : (n > size - begin ? size : begin + n);
    out.push_back(text.substr(starts[static_cast<std::size_t>(begin)],
                              starts[static_cast<std::size_t>(end)] - starts[static_cast<std::size_t>(begin)]));
  }
  return {Tensor::strings(std::move(out), shape)};
}

std::string ascii_case(std::string text, bool lower) {
  for (char& c : text) {
    if (lower ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z') c = static_cast<char>(c ^ 0x20);
  }
  return text;
}
Tensors change_case(const Call& call, bool lower) {
  const std::string& encoding = call.attr<std::string>("encoding");
  if (!encoding.empty() && encoding != "utf-8")
    throw_invalid_argument(fmt::format("only utf-8 is supported, not '{}'", encoding));
  return map_strings(call, [&](const std::string& text) {
    return encoding.empty() ? ascii_case(text, lower) : utf8_case(text, lower);
  });
}

std::string strip(const std::string& text) {
  std::size_t begin = 0, end = text.size();
  while (begin < end && is_blank(text[begin])) ++begin;
  while (end > begin && is_blank(text[end - 1])) --end;
  return text.substr(begin, end - begin);
}

Tensors to_number(const Call& call) {
  const DType dtype = call.attr<DType>("out_type");
  std::vector<double> reals;
  Ints ints;
  for (const std::string& raw : strings_in(call, 0)) {
    const std::string text = strip(raw);
    const auto bad = [&] {
      throw_invalid_argument(fmt::format("StringToNumberOp could not correctly convert string: {}", raw));
    };
    if (text.empty()) bad();
    if (is_floating(dtype)) {
      char* end = nullptr;
      reals.push_back(dtype == DType::kFloat32 ? static_cast<double>(std::strtof(text.c_str(), &end))
                                               : std::strtod(text.c_str(), &end));
      if (end != text.c_str() + text.size()) bad();
    } else {
      std::int64_t value = 0;
      const char* begin = text.c_str() + (text[0] == '+' ? 1 : 0);
      const auto [end, error] = std::from_chars(begin, text.c_str() + text.size(), value);
      if (error != std::errc() || end != text.c_str() + text.size()) bad();
      if (dtype == DType::kInt32 && value != static_cast<std::int32_t>(value)) bad();
      if (dtype == DType::kUInt32 && (value < 0 || value > 0xFFFFFFFFll)) bad();
      if (dtype == DType::kUInt64 && value < 0) bad();
      ints.push_back(value);
    }
  }
  const auto dims = call.input(0).shape().dims();
  if (is_floating(dtype))
    return one(at::tensor(at::ArrayRef<double>(reals), at::kDouble).view(dims).to(to_scalar_type(dtype)));
  return one(at::tensor(at::IntArrayRef(ints), at::kLong).view(dims).to(to_scalar_type(dtype)));
}

std::string number_text(double value, const Call& call, const std::string& format) {
  const auto precision = call.attr<std::int64_t>("precision"), width = call.attr<std::int64_t>("width");
  const std::string& fill = call.attr<std::string>("fill");
  std::string pattern = fmt::format("%{}", fill);
  if (width > -1) pattern += fmt::format("{}", width);
  if (precision > -1) pattern += fmt::format(".{}", precision);
  pattern += format;
  if (width > 4096 || precision > 4096) throw_invalid_argument("width and precision must be at most 4096");
  std::string out(8192, '\0');
  out.resize(static_cast<std::size_t>(std::snprintf(out.data(), out.size(), pattern.c_str(), value)));
  return out;
}
Tensors as_string(const Call& call) {
  const Tensor& x = call.input(0);
  Strings out;
  const auto width = call.attr<std::int64_t>("width");
  const std::string& fill = call.attr<std::string>("fill");
  if (fill.size() > 1 || (!fill.empty() && std::strchr(" +-0#", fill[0]) == nullptr))
    throw_invalid_argument(fmt::format("fill '{}' not supported", fill));
  const int columns = static_cast<int>(std::clamp<std::int64_t>(width, 0, 4096));
  const bool plain = is_integer(x.dtype()) || x.dtype() == DType::kBool;
  if (call.attr<bool>("scientific") && (plain || call.attr<bool>("shortest")))
    throw_invalid_argument(fmt::format("scientific does not apply to {}", plain ? dtype_name(x.dtype()) : "shortest"));
  if (call.attr<bool>("shortest") && plain)
    throw_invalid_argument(fmt::format("shortest does not apply to {}", dtype_name(x.dtype())));
  if (call.attr<std::int64_t>("precision") > -1 && plain)
    throw_invalid_argument(fmt::format("precision does not apply to {}", dtype_name(x.dtype())));
  const std::string format = call.attr<bool>("scientific") ? "e" : call.attr<bool>("shortest") ? "g" : "f";
  if (x.dtype() == DType::kString) {
    for (const std::string& text : x.string_values()) {
      const std::string space(static_cast<std::size_t>(columns) > text.size() ? columns - text.size() : 0, ' ');
      out.push_back(fill == "-" ? text + space : space + text);
    }
  } else if (is_complex(x.dtype())) {
    const at::Tensor parts = at::view_as_real(dense(x).to(at::kComplexDouble)).contiguous();
    const double* values = parts.const_data_ptr<double>();
    for (std::int64_t i = 0; i < parts.numel(); i += 2)
      out.push_back(
          fmt::format("({},{})", number_text(values[i], call, format), number_text(values[i + 1], call, format)));
  } else if (x.dtype() == DType::kBool) {
    for (bool value : x.to_vector<bool>()) out.push_back(value ? "true" : "false");
  } else if (is_floating(x.dtype())) {
    for (double value : wrap(dense(x).to(at::kDouble)).to_vector<double>())
      out.push_back(number_text(value, call, format));
  } else if (is_integer(x.dtype())) {
    const bool whole = dtype_name(x.dtype()).starts_with('u');
    const std::string pattern =
        fmt::format("%{}{}ll{}", fill, width > -1 ? std::to_string(columns) : "", whole ? 'u' : 'd');
    std::string buffer(static_cast<std::size_t>(columns) + 32, '\0');
    for (const auto value : ints_of(dense(x))) {
      const int size = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), static_cast<long long>(value));
      out.push_back(buffer.substr(0, static_cast<std::size_t>(size)));
    }
  } else {
    throw_unimplemented(fmt::format("AsString of {}", dtype_name(x.dtype())));
  }
  return {Tensor::strings(std::move(out), x.shape())};
}

Tensors hash_bucket_fast(const Call& call) {
  const auto buckets = static_cast<std::uint64_t>(call.attr<std::int64_t>("num_buckets"));
  Ints out;
  for (const std::string& text : strings_in(call, 0))
    out.push_back(static_cast<std::int64_t>(io::fingerprint64(text) % buckets));
  return {Tensor::from_vector(out, call.input(0).shape())};
}

// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
std::uint64_t sip_hash(std::uint64_t key0, std::uint64_t key1, const std::string& text) {
  std::uint64_t v[4] = {key0 ^ 0x736f6d6570736575, key1 ^ 0x646f72616e646f6d, key0 ^ 0x6c7967656e657261,
                        key1 ^ 0x7465646279746573};
  const auto rounds = [&v](int count) {
    for (int i = 0; i < count; ++i) {
      v[0] += v[1], v[1] = std::rotl(v[1], 13) ^ v[0], v[0] = std::rotl(v[0], 32);
      v[2] += v[3], v[3] = std::rotl(v[3], 16) ^ v[2];
      v[0] += v[3], v[3] = std::rotl(v[3], 21) ^ v[0];
      v[2] += v[1], v[1] = std::rotl(v[1], 17) ^ v[2], v[2] = std::rotl(v[2], 32);
    }
  };
  const auto word = [&](std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8 && at + i < text.size(); ++i)
      value |= std::uint64_t{static_cast<std::uint8_t>(text[at + i])} << (8 * i);
    return value;
  };
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) {
    v[3] ^= word(at);
    rounds(2);
    v[0] ^= word(at);
  }
  const std::uint64_t last = word(whole) | std::uint64_t{text.size()} << 56;
  v[3] ^= last;
  rounds(2);
  v[0] ^= last;
  v[2] ^= 0xff;
  rounds(4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

Tensors hash_bucket_strong(const Call& call) {
  const auto buckets = static_cast<std::uint64_t>(call.attr<std::int64_t>("num_buckets"));
  const auto& key = call.attr<Ints>("key");
  if (key.size() != 2) throw_invalid_argument(fmt::format("key must have two numbers, it has {}", key.size()));
  Ints out;
  for (const std::string& text : strings_in(call, 0)) {
    out.push_back(static_cast<std::int64_t>(
        sip_hash(static_cast<std::uint64_t>(key[0]), static_cast<std::uint64_t>(key[1]), text) % buckets));
  }
  return {Tensor::from_vector(out, call.input(0).shape())};
}

// How the n-grams of one row are made.
struct NGrams {
  static constexpr std::int64_t kMostPads = std::int64_t{1} << 31;

  const std::string& separator;
  const std::string& left;
  const std::string& right;

  // All of one width of the tokens in [begin, end), with `padding` pads on either side.
  void append(const Strings& tokens, std::int64_t begin, std::int64_t end, std::int64_t width, std::int64_t padding,
              Strings& out) const {
    if (padding > kMostPads) throw_resource_exhausted(fmt::format("{} pads on either side are too many", padding));
    const std::int64_t count = std::max<std::int64_t>(0, end - begin + 2 * padding - width + 1);
    if (count == 0) return;
    const auto bytes_of_token = static_cast<std::int64_t>(separator.size() + 1);
    MemoryLimit::check(count, static_cast<std::int64_t>(sizeof(std::string)) + width * bytes_of_token);
    for (std::int64_t i = 0; i < count; ++i) {
      std::string text;
      for (std::int64_t at = i - padding; at < i - padding + width; ++at) {
        if (at > i - padding) text += separator;
        text += at < 0 ? left : begin + at >= end ? right : tokens[static_cast<std::size_t>(begin + at)];
      }
      out.push_back(std::move(text));
    }
  }
};

Tensors string_ngrams(const Call& call) {
  const Strings& tokens = strings_in(call, 0);
  const Ints splits = ints_in(call, 1);
  const NGrams ngrams{call.attr<std::string>("separator"), call.attr<std::string>("left_pad"),
                      call.attr<std::string>("right_pad")};
  const auto pad = call.attr<std::int64_t>("pad_width");
  Strings out;
  Ints out_splits;
  if (!splits.empty()) out_splits.push_back(0);
  if (!splits.empty() && (splits.front() != 0 || splits.back() != static_cast<std::int64_t>(tokens.size())))
    throw_invalid_argument(fmt::format("data_splits go from {} to {}, expected 0 to {}, the number of tokens",
                                       splits.front(), splits.back(), tokens.size()));
  for (std::size_t row = 1; row < splits.size(); ++row) {
    const std::int64_t begin = splits[row - 1], end = splits[row];
    if (begin < 0 || end < begin || end > static_cast<std::int64_t>(tokens.size()))
      throw_invalid_argument("data_splits do not fit the data");
    const std::size_t before = out.size();
    for (const std::int64_t width : call.attr<Ints>("ngram_widths")) {
      if (width < 1) throw_invalid_argument("ngram widths must be positive");
      ngrams.append(tokens, begin, end, width, pad < 0 ? width - 1 : std::min(pad, width - 1), out);
    }
    if (out.size() == before && end > begin && call.attr<bool>("preserve_short_sequences")) {
      const std::int64_t around = std::max<std::int64_t>(pad, 0);
      ngrams.append(tokens, begin, end, end - begin + 2 * around, around, out);
    }
    out_splits.push_back(static_cast<std::int64_t>(out.size()));
  }
  const Shape count{static_cast<std::int64_t>(out.size())};
  const at::Tensor ends = at::tensor(at::IntArrayRef(out_splits), at::kLong);
  return {Tensor::strings(std::move(out), count), wrap(narrow_to(ends, in(call, 1).scalar_type()))};
}

// RE2 is TensorFlow's engine too: the same syntax, time linear in the text, bounded memory.
class Pattern {
 public:
  explicit Pattern(const std::string& text) : regex_(text, RE2::Quiet) {
    if (!regex_.ok()) throw_invalid_argument(fmt::format("Invalid pattern: {}, error: {}", text, regex_.error()));
  }
  const RE2& operator*() const { return regex_; }

 private:
  RE2 regex_;
};
Tensors full_match(const Call& call, const std::string& text) {
  const Pattern pattern(text);
  const Strings& inputs = strings_in(call, 0);
  at::Tensor out = at::empty(call.input(0).shape().dims(), at::kBool);
  for (std::size_t i = 0; i < inputs.size(); ++i) out.mutable_data_ptr<bool>()[i] = RE2::FullMatch(inputs[i], *pattern);
  return one(out);
}
// A rewrite that names a group that the pattern lacks leaves the text as it is, as in TensorFlow.
Tensors regex_replace(const Call& call, const std::string& text, const std::string& rewrite) {
  const Pattern pattern(text);
  const bool global = call.attr<bool>("replace_global");
  return map_strings(call, [&](std::string value) {
    if (global) {
      // Each match may give the rewrite, and each of its references all of the text.
      MemoryLimit::check(static_cast<std::int64_t>(value.size() + 1), static_cast<std::int64_t>(rewrite.size() + 1));
      RE2::GlobalReplace(&value, *pattern, rewrite);
    } else {
      RE2::Replace(&value, *pattern, rewrite);
    }
    return value;
  });
}

Tensors sharded_filename(const Call& call) {
  return {Tensor::strings({fmt::format("{}-{:05d}-of-{:05d}", string_in(call, 0), int_in(call, 1), int_in(call, 2))},
                          Shape{})};
}

}  // namespace

void register_strings(Table& table) {
  table.add("StringJoin", join_shape, join);
  table.add("ReduceJoin", nullptr, reduce_join);
  table.add("StringSplitV2", sparse_shape, split_v2);
  table.add("StringSplit", sparse_shape, split_v1);
  table.add("StringLength", same_shape, length);
  table.add("Substr", broadcast_rule, substr);
  table.add("StringLower", same_shape, [](const Call& call) { return change_case(call, true); });
  table.add("StringUpper", same_shape, [](const Call& call) { return change_case(call, false); });
  table.add("StringStrip", same_shape, [](const Call& call) { return map_strings(call, strip); });
  table.add("StringToNumber", same_shape, to_number);
  table.add("AsString", same_shape, as_string);
  table.add("StringToHashBucketFast", same_shape, hash_bucket_fast);
  table.add("StringToHashBucketStrong", same_shape, hash_bucket_strong);
  table.add("StringNGrams", nullptr, string_ngrams);
  table.add("StaticRegexFullMatch", same_shape,
            [](const Call& call) { return full_match(call, call.attr<std::string>("pattern")); });
  table.add("RegexFullMatch", same_shape, [](const Call& call) { return full_match(call, string_in(call, 1)); });
  table.add("StaticRegexReplace", same_shape, [](const Call& call) {
    return regex_replace(call, call.attr<std::string>("pattern"), call.attr<std::string>("rewrite"));
  });
  table.add("RegexReplace", same_shape,
            [](const Call& call) { return regex_replace(call, string_in(call, 1), string_in(call, 2)); });
  table.add("ShardedFilename", scalar_rule, sharded_filename);
}

}  // namespace lockstep::ops
