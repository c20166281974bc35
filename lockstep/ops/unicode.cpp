// Encodings of text and of bytes: Unicode, base64, numbers as their bytes, comma-separated values.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "lockstep/base/strings_internal.h"
#include "lockstep/io/inflate_internal.h"
#include "lockstep/ops/code_pages_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/ops/text_case_internal.h"

namespace lockstep::ops {
namespace {

using Strings = std::vector<std::string>;

// ---- Unicode -----------------------------------------------------------------------------------------------------
enum class Charset { kUtf8, kUtf16, kUtf32, kAscii, kLatin1, kWindows1252, kCodePage };
// Characters 0x80 to 0x9F of windows-1252; five have none and stay control characters.
constexpr std::array<std::int32_t, 32> kWindows1252 = {0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                                       0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008D, 0x017D, 0x008F,
                                                       0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                                       0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178};
struct Encoding {
  Charset charset = Charset::kUtf8;
  bool little = false;
  bool marked = false;  // a byte order mark at the beginning tells whether it is little-endian
  const CodePage* page = nullptr;
};

Encoding encoding_of(const std::string& given) {
  std::string name;
  for (const char c : given) {
    if (c != '-' && c != '_') name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  }
  if (name == "UTF8") return {Charset::kUtf8, false};
  if (name == "UTF16") return {Charset::kUtf16, false, true};
  if (name == "UTF32") return {Charset::kUtf32, false, true};
  if (name == "UTF16BE" || name == "UTF16LE") return {Charset::kUtf16, name == "UTF16LE"};
  if (name == "UTF32BE" || name == "UTF32LE") return {Charset::kUtf32, name == "UTF32LE"};
  if (name == "USASCII" || name == "ASCII") return {Charset::kAscii, false};
  if (name == "ISO88591" || name == "88591" || name == "LATIN1" || name == "L1") return {Charset::kLatin1, false};
  if (name == "WINDOWS1252" || name == "CP1252") return {Charset::kWindows1252, false};
  for (const CodePage& page : kCodePages) {
    if (page.names.find(fmt::format(" {} ", name)) != std::string_view::npos)
      return {Charset::kCodePage, false, false, &page};
  }
  throw_unimplemented(fmt::format(
      "text encoding '{}' is not supported; expected Unicode or an encoding with one byte per character", given));
}

std::int32_t next_wide(std::string_view text, std::size_t& at, std::size_t size, bool little) {
  if (text.size() - at < size) {
    at = text.size();
    return kMalformed;
  }
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value = value << 8 | static_cast<std::uint8_t>(text[at + (little ? size - 1 - i : i)]);
  at += size;
  return value > 0x10FFFF ? kMalformed : static_cast<std::int32_t>(value);
}

bool is_surrogate(std::int32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

std::int32_t next_character(std::string_view text, std::size_t& at, const Encoding& encoding) {
  switch (encoding.charset) {
    case Charset::kUtf8: return next_utf8(text, at);
    case Charset::kUtf32: {
      const std::int32_t c = next_wide(text, at, 4, encoding.little);
      return is_surrogate(c) ? kMalformed : c;
    }
    case Charset::kUtf16: {
      const std::int32_t first = next_wide(text, at, 2, encoding.little);
      if (!is_surrogate(first)) return first;
      std::size_t behind = at;
      const bool leads = first < 0xDC00;
      if (leads && text.size() - at < 2) at = text.size();  // one error with the rest
      const std::int32_t second = leads ? next_wide(text, behind, 2, encoding.little) : kMalformed;
      if (second < 0xDC00 || second > 0xDFFF) return kMalformed;
      at = behind;
      return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    }
    case Charset::kAscii: {
      const auto c = static_cast<std::uint8_t>(text[at++]);
      return c < 0x80 ? c : kMalformed;
    }
    case Charset::kLatin1: return static_cast<std::uint8_t>(text[at++]);
    case Charset::kWindows1252: {
      const auto c = static_cast<std::uint8_t>(text[at++]);
      return c >= 0x80 && c < 0xA0 ? kWindows1252[c - 0x80] : c;
    }
    case Charset::kCodePage: {
      const auto c = static_cast<std::uint8_t>(text[at++]);
      if (encoding.page->swaps_controls && (c == 0x1A || c == 0x1C || c == 0x7F))
        return c == 0x1A ? 0x1C : c == 0x1C ? 0x7F : 0x1A;
      const std::int32_t upper = c < 0x80 ? c : encoding.page->upper[c - 0x80];
      return upper == 0xFFFD ? kMalformed : upper;
    }
  }
  return kMalformed;
}

void append_big_endian(std::string& out, std::uint32_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

void append_character(std::string& out, std::int32_t character, const Encoding& encoding) {
  const auto c = static_cast<std::uint32_t>(character);
  if (encoding.charset == Charset::kUtf32) return append_big_endian(out, c, 4);
  if (encoding.charset == Charset::kUtf16) {
    if (c < 0x10000) return append_big_endian(out, c, 2);
    append_big_endian(out, 0xD800 + ((c - 0x10000) >> 10), 2);
    return append_big_endian(out, 0xDC00 + ((c - 0x10000) & 0x3FF), 2);
  }
  append_utf8(out, character);
}

// What becomes of characters that are malformed, or control characters where these are replaced.
struct ErrorRule {
  std::string how;
  std::int32_t replacement = 0xFFFD;
  bool control = false;
  bool control_is_error = false;  // in strict mode
};

bool is_scalar_value(std::int64_t c) { return c >= 0 && c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF); }

ErrorRule error_rule(const Call& call) {
  ErrorRule rule;
  rule.how = call.attr<std::string>("errors");
  const std::int64_t replacement = call.attr<std::int64_t>("replacement_char");
  if (!is_scalar_value(replacement))
    throw_invalid_argument(fmt::format("replacement_char {} is not a Unicode character", replacement));
  rule.replacement = static_cast<std::int32_t>(replacement);
  if (const bool* control = call.find_attr<bool>("replace_control_characters")) rule.control = *control;
  return rule;
}

// The length of the byte order mark of a text that has one, whose order is set.
std::size_t read_mark(std::string_view text, Encoding& encoding) {
  if (!encoding.marked) return 0;
  const std::size_t size = encoding.charset == Charset::kUtf16 ? 2 : 4;
  for (const bool little : {false, true}) {
    std::size_t at = 0;
    if (text.size() < size || next_wide(text, at, size, little) != 0xFEFF) continue;
    encoding.little = little;
    return size;
  }
  return 0;
}

// `use` gets each character and where it begins; the first one begins with the byte order mark.
template <typename F>
void each_character(std::string_view text, Encoding encoding, const ErrorRule& rule, const F& use) {
  const std::size_t mark = read_mark(text, encoding);
  if (mark > 0 && mark == text.size()) return use(0xFFFF, 0);  // what ICU returns at the end
  for (std::size_t at = mark; at < text.size();) {
    const std::size_t begin = at == mark ? 0 : at;
    const std::int32_t c = next_character(text, at, encoding);
    if (c != kMalformed && !(rule.control && c <= 0x1F)) {
      use(c, begin);
    } else if (rule.how == "strict" && (c == kMalformed || rule.control_is_error)) {
      throw_invalid_argument(c == kMalformed ? "the input is not valid in its encoding"
                                             : "the input has control characters, which are errors here");
    } else if (rule.how != "ignore") {
      use(rule.replacement, begin);
    }
  }
}

Tensors unicode_decode(const Call& call) {
  const Encoding encoding = encoding_of(call.attr<std::string>("input_encoding"));
  const ErrorRule rule = error_rule(call);
  Ints splits = {0}, starts;
  std::vector<std::int32_t> characters;
  for (const std::string& text : strings_in(call, 0)) {
    MemoryLimit::check(static_cast<std::int64_t>(characters.size() + text.size()), 12);
    each_character(text, encoding, rule, [&](std::int32_t c, std::size_t begin) {
      characters.push_back(c);
      starts.push_back(static_cast<std::int64_t>(begin));
    });
    splits.push_back(static_cast<std::int64_t>(characters.size()));
  }
  Tensors out = {wrap(int64_tensor(splits).to(to_scalar_type(call.attr<DType>("Tsplits")))),
                 Tensor::from_vector(characters)};
  if (call.name() == "UnicodeDecodeWithOffsets") out.push_back(wrap(int64_tensor(starts)));
  return out;
}

Tensors unicode_encode(const Call& call) {
  const Encoding encoding = encoding_of(call.attr<std::string>("output_encoding"));
  const ErrorRule rule = error_rule(call);
  const Ints values = ints_in(call, 0), splits = ints_in(call, 1);
  if (splits.empty() || splits[0] != 0 || splits.back() != static_cast<std::int64_t>(values.size()) ||
      !std::is_sorted(splits.begin(), splits.end()))
    throw_invalid_argument(
        fmt::format("invalid input_splits: expected to go from 0 to {} and never back", values.size()));
  Strings out(splits.size() - 1);
  MemoryLimit::check(static_cast<std::int64_t>(out.size() + values.size()), 8);
  for (std::size_t row = 0; row < out.size(); ++row) {
    for (std::int64_t at = splits[row]; at < splits[row + 1]; ++at) {
      const std::int64_t c = values[static_cast<std::size_t>(at)];
      if (is_scalar_value(c)) {
        append_character(out[row], static_cast<std::int32_t>(c), encoding);
      } else if (rule.how == "strict") {
        throw_invalid_argument(fmt::format("{} is not a Unicode character", c));
      } else if (rule.how == "replace") {
        append_character(out[row], rule.replacement, encoding);
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(out.size());
  return {Tensor::strings(std::move(out), Shape{rows})};
}

template <typename F>
Tensors each_string(const Call& call, const F& f) {
  Strings out;
  std::size_t bytes = 0;
  for (const std::string& text : strings_in(call, 0)) {
    out.push_back(f(text));
    MemoryLimit::check(static_cast<std::int64_t>(bytes += out.back().size() + sizeof(std::string)), 1);
  }
  return {Tensor::strings(std::move(out), call.input(0).shape())};
}

Tensors unicode_transcode(const Call& call) {
  const Encoding from = encoding_of(call.attr<std::string>("input_encoding"));
  const Encoding to = encoding_of(call.attr<std::string>("output_encoding"));
  ErrorRule rule = error_rule(call);
  rule.control_is_error = true;
  return each_string(call, [&](const std::string& text) {
    std::string out;
    each_character(text, from, rule, [&](std::int32_t c, std::size_t) { append_character(out, c, to); });
    return out;
  });
}

// ---- base64, in the alphabet for web addresses -------------------------------------------------------------------
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string to_base64(const std::string& bytes, bool pad) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<std::uint8_t>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) {
      if (i <= count) out += kBase64[group >> (18 - 6 * i) & 63];
      if (i > count && pad) out += '=';
    }
  }
  return out;
}

std::string from_base64(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('=') && (text.size() % 4 == 0 || i > 0); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) throw_invalid_argument("invalid length of a base64 string");
  std::string out;
  std::uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    const std::size_t value = kBase64.find(c);
    if (value == std::string_view::npos)
      throw_invalid_argument("the string has a character that is not in the web-safe base64 alphabet");
    group = group << 6 | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits >= 8) out += static_cast<char>(group >> (bits -= 8) & 0xFF);
  }
  return out;
}

// ---- numbers as bytes --------------------------------------------------------------------------------------------
Tensor numbers_of(std::string bytes, DType dtype, bool little, Shape shape) {
  const std::size_t size = is_complex(dtype) ? dtype_size(dtype) / 2 : dtype_size(dtype);
  if (!little) {
    for (std::size_t at = 0; at + size <= bytes.size(); at += size)
      std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
  }
  if (dtype == DType::kBool)
    std::transform(bytes.begin(), bytes.end(), bytes.begin(), [](char c) { return c != 0 ? '\1' : '\0'; });
  return Tensor::from_data(
      formats::TensorData::copy_of(dtype, std::move(shape), std::as_bytes(std::span(bytes.data(), bytes.size()))));
}

Tensors decode_raw(const Call& call, bool padded) {
  const Strings& texts = strings_in(call, 0);
  const DType dtype = call.attr<DType>("out_type");
  const std::size_t size = dtype_size(dtype);
  std::size_t length = texts.empty() ? 0 : texts[0].size();
  if (padded) {
    const std::int64_t given = int_in(call, 1);
    if (given < 1) throw_invalid_argument(fmt::format("fixed_length must be positive, found {}", given));
    length = static_cast<std::size_t>(given);
  }
  if (length % size != 0)
    throw_invalid_argument(fmt::format("{} bytes are not a multiple of the {} of {}", length, size, dtype_name(dtype)));
  element_count({static_cast<std::int64_t>(texts.size()), static_cast<std::int64_t>(length)}, 1);
  std::string all;
  for (const std::string& text : texts) {
    if (!padded && text.size() != length)
      throw_invalid_argument(fmt::format("the strings differ in length: {} and {}", length, text.size()));
    all.append(text, 0, length);
    all.resize(all.size() + length - std::min(length, text.size()), '\0');
  }
  Shape shape = call.input(0).shape();
  shape.push_back(static_cast<std::int64_t>(length / size));
  return {numbers_of(std::move(all), dtype, call.attr<bool>("little_endian"), shape)};
}

Tensors decode_compressed(const Call& call) {
  const std::string& type = call.attr<std::string>("compression_type");
  if (!type.empty() && type != "ZLIB" && type != "GZIP")
    throw_invalid_argument(fmt::format("invalid compression_type: found '{}', expected '', 'ZLIB' or 'GZIP'", type));
  return each_string(call, [&](const std::string& text) {
    if (type.empty()) return text;
    return io::inflate_file(std::as_bytes(std::span(text.data(), text.size())),
                            type == "GZIP" ? io::Deflate::kGzip : io::Deflate::kZlib, "a compressed string");
  });
}

// ---- comma-separated values --------------------------------------------------------------------------------------
Strings csv_fields(const std::string& record, char delimiter, bool quotes) {
  Strings out;
  std::size_t at = 0;
  for (;;) {
    std::string field;
    if (quotes && at < record.size() && record[at] == '"') {
      for (++at;; ++at) {
        if (at >= record.size()) throw_invalid_argument("a quoted field has no end");
        if (record[at] != '"') {
          field += record[at];
        } else if (at + 1 < record.size() && record[at + 1] == '"') {
          field += record[at++];
        } else {
          break;
        }
      }
      if (++at < record.size() && record[at] != delimiter)
        throw_invalid_argument("a quoted field must be followed by a delimiter");
    } else {
      const std::size_t end = std::min(record.find(delimiter, at), record.size());
      field = record.substr(at, end - at);
      if (quotes && field.find('"') != std::string::npos)
        throw_invalid_argument("an unquoted field must not have quotes inside");
      at = end;
    }
    out.push_back(std::move(field));
    if (at >= record.size()) return out;
    ++at;
  }
}

template <typename T>
bool parse_number(std::string_view text, T& value) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && rest == text.data() + text.size();
}

template <typename T>
Tensor parse_column(const Strings& fields, const std::vector<bool>& absent, const Tensor& standard,
                    const Shape& shape) {
  std::vector<T> out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    T value{};
    if (absent[i]) {
      value = standard.to_vector<T>()[0];
    } else if (!parse_number(fields[i], value)) {
      throw_invalid_argument(
          fmt::format("'{}' in record {} is not of type {}", fields[i], i, dtype_name(standard.dtype())));
    }
    out.push_back(value);
  }
  return Tensor::from_vector(out, shape);
}

Tensors decode_csv(const Call& call) {
  const Strings& records = strings_in(call, 0);
  const std::string &delimiter = call.attr<std::string>("field_delim"), &missing = call.attr<std::string>("na_value");
  const auto& types = call.attr<std::vector<DType>>("OUT_TYPE");
  Ints columns = call.attr<Ints>("select_cols");
  const bool all = columns.empty();
  if (delimiter.size() != 1) throw_invalid_argument("field_delim must be one character");
  if (!all && columns.size() != types.size()) throw_invalid_argument("select_cols needs a number for each output");
  if (!std::is_sorted(columns.begin(), columns.end(), std::less_equal<>()) || (!all && columns[0] < 0))
    throw_invalid_argument("select_cols must ascend");
  for (std::size_t i = 0; all && i < types.size(); ++i) columns.push_back(static_cast<std::int64_t>(i));
  std::vector<Strings> cells(types.size());
  std::vector<std::vector<bool>> absent(types.size());
  for (std::size_t row = 0; row < records.size(); ++row) {
    const Strings fields = csv_fields(records[row], delimiter[0], call.attr<bool>("use_quote_delim"));
    if (all && fields.size() != types.size())
      throw_invalid_argument(fmt::format("record {} has {} fields, expected {}", row, fields.size(), types.size()));
    for (std::size_t k = 0; k < types.size(); ++k) {
      if (columns[k] >= static_cast<std::int64_t>(fields.size()))
        throw_invalid_argument(
            fmt::format("record {} has {} fields, but field {} is selected", row, fields.size(), columns[k]));
      const std::string& field = fields[static_cast<std::size_t>(columns[k])];
      absent[k].push_back(field.empty() || field == missing);
      if (absent[k].back() && call.input(static_cast<int>(k) + 1).num_elements() == 0)
        throw_invalid_argument(fmt::format("field {} is required but missing in record {}", columns[k], row));
      cells[k].push_back(field);
    }
  }
  Tensors out;
  const Shape& shape = call.input(0).shape();
  for (std::size_t k = 0; k < types.size(); ++k) {
    const Tensor& standard = call.input(static_cast<int>(k) + 1);
    if (standard.num_elements() > 1) throw_invalid_argument("a default must have at most one value");
    switch (types[k]) {
      case DType::kFloat32: out.push_back(parse_column<float>(cells[k], absent[k], standard, shape)); break;
      case DType::kFloat64: out.push_back(parse_column<double>(cells[k], absent[k], standard, shape)); break;
      case DType::kInt32: out.push_back(parse_column<std::int32_t>(cells[k], absent[k], standard, shape)); break;
      case DType::kInt64: out.push_back(parse_column<std::int64_t>(cells[k], absent[k], standard, shape)); break;
      default:
        for (std::size_t i = 0; i < cells[k].size(); ++i) {
          if (absent[k][i]) cells[k][i] = standard.string_values()[0];
        }
        out.push_back(Tensor::strings(std::move(cells[k]), shape));
    }
  }
  return out;
}

// MurmurHash64A of Austin Appleby with the seed that TensorFlow uses.
std::uint64_t murmur(const std::string& text) {
  constexpr std::uint64_t kFactor = 0xc6a4a7935bd1e995u;
  const auto mix = [](std::uint64_t k) {
    k *= kFactor;
    return (k ^ k >> 47) * kFactor;
  };
  std::uint64_t hash = std::uint64_t{0xDECAFCAFFE} ^ text.size() * kFactor;
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    hash = (hash ^ mix(word)) * kFactor;
  }
  if (at < text.size()) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, text.size() - at);
    hash = (hash ^ word) * kFactor;
  }
  hash = (hash ^ hash >> 47) * kFactor;
  return hash ^ hash >> 47;
}

Tensors old_hash_bucket(const Call& call) {
  const auto buckets = static_cast<std::uint64_t>(call.attr<std::int64_t>("num_buckets"));
  Ints out;
  for (const std::string& text : strings_in(call, 0)) out.push_back(static_cast<std::int64_t>(murmur(text) % buckets));
  return {Tensor::from_vector(out, call.input(0).shape())};
}

// The axes of segment_ids are the first ones of the texts.
Tensors segment_join(const Call& call) {
  const Strings& texts = strings_in(call, 0);
  const Shape &shape = call.input(0).shape(), &outer = call.input(1).shape();
  const Ints ids = ints_in(call, 1);
  const std::int64_t count = int_in(call, 2);
  Shape made{count};
  for (int i = 0; i < shape.rank(); ++i) {
    if (i >= outer.rank()) made.push_back(shape[i]);
  }
  if (outer.rank() > shape.rank() || !std::equal(outer.dims().begin(), outer.dims().end(), shape.dims().begin()))
    throw_invalid_argument(fmt::format("the shape of segment_ids, {}, must be the begin of that of the inputs, {}",
                                       outer.to_string(), shape.to_string()));
  if (count < 0) throw_invalid_argument("num_segments must not be negative");
  Strings out(static_cast<std::size_t>(element_count(made.dims(), sizeof(std::string))));
  const std::size_t inner = ids.empty() ? 0 : texts.size() / ids.size();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= count)
      throw_invalid_argument(fmt::format("segment id {} is not in [0, {})", ids[i], count));
    const auto segment = static_cast<std::size_t>(ids[i]);
    for (std::size_t k = 0; k < inner; ++k) {
      std::string& text = out[segment * inner + k];
      if (!text.empty()) text += call.attr<std::string>("separator");
      text += texts[i * inner + k];
    }
  }
  return {Tensor::strings(std::move(out), made)};
}

}  // namespace

void register_unicode(Table& table) {
  for (auto name : {"UnicodeDecode", "UnicodeDecodeWithOffsets"}) table.add(name, nullptr, unicode_decode);
  table.add("UnicodeEncode", nullptr, unicode_encode);
  table.add("UnicodeTranscode", same_shape, unicode_transcode);
  table.add("EncodeBase64", same_shape, [](const Call& call) {
    return each_string(call, [&](const std::string& text) { return to_base64(text, call.attr<bool>("pad")); });
  });
  table.add("DecodeBase64", same_shape, [](const Call& call) { return each_string(call, from_base64); });
  table.add("DecodeRaw", nullptr, [](const Call& call) { return decode_raw(call, false); });
  table.add("DecodePaddedRaw", nullptr, [](const Call& call) { return decode_raw(call, true); });
  table.add("DecodeCompressed", same_shape, decode_compressed);
  table.add(
      "DecodeCSV",
      [](const Call& call) { return Shapes(call.attr<std::vector<DType>>("OUT_TYPE").size(), call.input(0).shape()); },
      decode_csv);
  table.add("StringToHashBucket", same_shape, old_hash_bucket);
  table.add("UnsortedSegmentJoin", nullptr, segment_join);
}

}  // namespace lockstep::ops
