#include "lockstep/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_members_internal.h"
#include "lockstep/base/strings_internal.h"

namespace lockstep {
namespace {

constexpr int kMaxDepth = 512;

std::size_t utf8_length(std::string_view text, std::size_t at) {
  std::uint32_t code = 0;
  return decode_utf8(text.substr(at), code);
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Json parse() {
    Json value = parse_value(0);
    skip_space();
    if (at_ != text_.size()) fail("text after the end of the value");
    return value;
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i < at_ && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      if (text_[i] == '\n') ++line;
    }
    throw_data_loss(fmt::format("{} is not valid JSON: {} at line {}, column {} (byte {}){}", what_, problem, line,
                                column, at_, surroundings()));
  }

  // ", found '…' after '…'": what stands around the fault, printable ASCII alone.
  std::string surroundings() const {
    constexpr std::size_t kShown = 20;
    const std::size_t at = std::min(at_, text_.size());
    const auto printable = [](std::string_view part) {
      std::string out(part);
      for (char& c : out) c = c < ' ' || c > '~' ? '?' : c;
      return out;
    };
    const std::size_t begin = at < kShown ? 0 : at - kShown;
    const std::string after = at == begin ? "" : fmt::format(" after '{}'", printable(text_.substr(begin, at - begin)));
    if (at == text_.size()) return fmt::format(", found the end{}", after);
    return fmt::format(", found '{}'{}", printable(text_.substr(at, kShown)), after);
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
      ++at_;
    }
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  Json parse_value(int depth) {
    if (depth > kMaxDepth) fail(fmt::format("more than {} nested levels", kMaxDepth));
    skip_space();
    switch (peek()) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"': return parse_string();
      default: break;
    }
    if (take("true")) return true;
    if (take("false")) return false;
    if (take("null")) return nullptr;
    if (take("NaN")) return std::numeric_limits<double>::quiet_NaN();
    if (take("Infinity")) return std::numeric_limits<double>::infinity();
    if (take("-Infinity")) return -std::numeric_limits<double>::infinity();
    return parse_number();
  }

  Json parse_object(int depth) {
    ++at_;
    JsonMembers members;
    skip_space();
    if (take("}")) return members.take();
    while (true) {
      skip_space();
      if (peek() != '"') fail("expected a key in double quotes");
      std::string key = parse_string();
      skip_space();
      if (!take(":")) fail("expected ':' after a key");
      members.set(std::move(key), parse_value(depth + 1));
      skip_space();
      if (take("}")) return members.take();
      if (!take(",")) fail("expected ',' or '}'");
    }
  }

  Json parse_array(int depth) {
    ++at_;
    std::vector<Json> items;
    skip_space();
    if (take("]")) return items;
    while (true) {
      items.push_back(parse_value(depth + 1));
      skip_space();
      if (take("]")) return items;
      if (!take(",")) fail("expected ',' or ']'");
    }
  }

  Json parse_number() {
    const std::size_t begin = at_;
    std::size_t end = at_;
    const auto digits = [&] {
      const std::size_t first = end;
      while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
      return end - first;
    };
    if (end < text_.size() && text_[end] == '-') ++end;
    const std::size_t integer = end;
    if (digits() == 0) fail(begin < text_.size() ? "expected a value" : "the text ends too early");
    if (text_[integer] == '0' && end - integer > 1) fail("a number with a leading zero");
    bool whole = true;
    if (end < text_.size() && text_[end] == '.') {
      ++end;
      if (digits() == 0) fail("a number without digits after its point");
      whole = false;
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      ++end;
      if (end < text_.size() && (text_[end] == '+' || text_[end] == '-')) ++end;
      if (digits() == 0) fail("a number without digits in its exponent");
      whole = false;
    }
    at_ = end;
    return whole ? to_integer(text_.substr(begin, end - begin)) : to_double(text_.substr(begin, end - begin));
  }

  // Python's integers have no bounds; what does not fit 64 bits becomes the nearest double.
  static Json to_integer(std::string_view digits) {
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, value).ec == std::errc()) return value;
    std::uint64_t big = 0;
    if (digits.front() != '-' && std::from_chars(digits.data(), end, big).ec == std::errc()) return big;
    return to_double(digits);
  }

  static Json to_double(std::string_view digits) {
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec == std::errc::result_out_of_range) value = out_of_range(digits);
    return value;
  }

  // Python reads 1e999 as infinity and 1e-999 as zero. The scale of the number decides which of the two applies.
  static double out_of_range(std::string_view digits) {
    const bool negative = digits.front() == '-';
    const bool tiny = std::abs(std::strtod(std::string(digits).c_str(), nullptr)) < 1.0;
    const double size = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    return negative ? -size : size;
  }

  std::string parse_string() {
    ++at_;
    std::string value;
    while (true) {
      if (at_ >= text_.size()) fail("a string without its closing quote");
      const unsigned char c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return value;
      }
      if (c < 0x20) fail("a control character inside a string");
      if (c == '\\') {
        parse_escape(value);
      } else if (c < 0x80) {
        value.push_back(text_[at_++]);
      } else {
        const std::size_t length = utf8_length(text_, at_);
        if (length == 0) fail("bytes that are not UTF-8");
        value.append(text_.substr(at_, length));
        at_ += length;
      }
    }
  }

  void parse_escape(std::string& value) {
    ++at_;
    const char c = peek();
    ++at_;
    switch (c) {
      case '"': value.push_back('"'); return;
      case '\\': value.push_back('\\'); return;
      case '/': value.push_back('/'); return;
      case 'b': value.push_back('\b'); return;
      case 'f': value.push_back('\f'); return;
      case 'n': value.push_back('\n'); return;
      case 'r': value.push_back('\r'); return;
      case 't': value.push_back('\t'); return;
      case 'u': append_utf8(value, parse_code_point()); return;
      default: --at_; fail("an unknown escape in a string");
    }
  }

  unsigned parse_hex4() {
    unsigned value = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 4 || result.ptr != digits.data() + 4) fail("\\u without four hexadecimal digits");
    at_ += 4;
    return value;
  }

  unsigned parse_code_point() {
    const unsigned high = parse_hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) fail("half of a surrogate pair");
    const unsigned low = parse_hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  std::string_view text_;
  std::string_view what_;
  std::size_t at_ = 0;
};

// The escape of a character that every JSON text escapes; empty for others.
std::string_view short_escape(unsigned code) {
  switch (code) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: return {};
  }
}

struct PythonStyle {
  static constexpr std::string_view kComma = ", ";
  static constexpr std::string_view kColon = ": ";

  // Bytes that are not UTF-8 stand for themselves (Latin-1).
  static void put(std::string_view text, std::size_t& at, std::string& out) {
    const unsigned first = static_cast<unsigned char>(text[at++]);
    const int tail = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
    unsigned code = first;
    if (tail > 0 && at + static_cast<std::size_t>(tail) <= text.size()) {
      code = first & (0x3Fu >> tail);
      for (int i = 0; i < tail; ++i) code = (code << 6) | (static_cast<unsigned char>(text[at++]) & 0x3Fu);
    }
    if (code >= 0x20 && code < 0x80) {
      out.push_back(static_cast<char>(code));
    } else if (code < 0x10000) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                     0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
};

struct CompactStyle {
  static constexpr std::string_view kComma = ",";
  static constexpr std::string_view kColon = ":";

  static void put(std::string_view text, std::size_t& at, std::string& out) {
    const unsigned first = static_cast<unsigned char>(text[at]);
    const std::size_t length = first < 0x80 ? 1 : utf8_length(text, at);
    if (length == 0) throw JsonError("invalid string in JSON: found bytes that are not UTF-8");
    if (first < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", first);
    } else {
      out.append(text.substr(at, length));
    }
    at += length;
  }
};

template <class Style>
void dump_string(std::string_view text, std::string& out) {
  out.push_back('"');
  for (std::size_t at = 0; at < text.size();) {
    if (const std::string_view escape = short_escape(static_cast<unsigned char>(text[at])); !escape.empty()) {
      out += escape;
      ++at;
    } else {
      Style::put(text, at, out);
    }
  }
  out.push_back('"');
}

void dump_number(double number, std::string& out) {
  if (std::isnan(number)) {
    out += "NaN";
  } else if (std::isinf(number)) {
    out += number < 0 ? "-Infinity" : "Infinity";
  } else {
    out += python_float(number);
  }
}

template <class Style>
void dump_value(const Json& value, std::string& out) {
  std::string_view separator;
  switch (value.type()) {
    case Json::Type::kObject:
      out.push_back('{');
      for (const auto& [key, member] : value.items()) {
        out += std::exchange(separator, Style::kComma);
        dump_string<Style>(key, out);
        out += Style::kColon;
        dump_value<Style>(member, out);
      }
      out.push_back('}');
      return;
    case Json::Type::kArray:
      out.push_back('[');
      for (const Json& item : value) {
        out += std::exchange(separator, Style::kComma);
        dump_value<Style>(item, out);
      }
      out.push_back(']');
      return;
    case Json::Type::kString: return dump_string<Style>(value.text(), out);
    case Json::Type::kBoolean: out += value.get<bool>() ? "true" : "false"; return;
    case Json::Type::kInteger: out += std::to_string(value.get<std::int64_t>()); return;
    case Json::Type::kUnsigned: out += std::to_string(value.get<std::uint64_t>()); return;
    case Json::Type::kFloat: return dump_number(value.get<double>(), out);
    case Json::Type::kNull: out += "null"; return;
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view what) { return Parser(text, what).parse(); }

Json Json::parse(std::string_view text) { return parse_json(text, "the text"); }

std::string Json::dump() const {
  std::string out;
  dump_value<CompactStyle>(*this, out);
  return out;
}

std::string dump_json(const Json& value) {
  std::string out;
  dump_value<PythonStyle>(value, out);
  return out;
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(result.ptr - buffer));
  const std::size_t e = text.find('e');
  int exponent = 0;
  const char* digits = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  // Python spells these without an exponent, and whole numbers with ".0".
  const auto plain = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string out(buffer, plain.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

}  // namespace lockstep
