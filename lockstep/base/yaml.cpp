#include "lockstep/base/yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json_members_internal.h"
#include "lockstep/base/strings_internal.h"

namespace lockstep {
namespace {

constexpr int kMostDepth = 200;
constexpr std::size_t kMostValues = 4'000'000;

// A plain scalar as YAML 1.1 reads it; numbers with an exponent need a point.
Json resolved(const std::string& text) {
  static const std::regex kInteger("[-+]?[0-9][0-9_]*"), kFloat("[-+]?([0-9][0-9_]*)?\\.[0-9_]*([eE][-+][0-9]+)?");
  static constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
  static constexpr std::array<std::string_view, 9> kTrue = {"true", "True", "TRUE", "yes", "Yes",
                                                            "YES",  "on",   "On",   "ON"};
  static constexpr std::array<std::string_view, 9> kFalse = {"false", "False", "FALSE", "no", "No",
                                                             "NO",    "off",   "Off",   "OFF"};
  const auto is_one = [&](const auto& names) { return std::find(names.begin(), names.end(), text) != names.end(); };
  if (is_one(kNull)) return nullptr;
  if (is_one(kTrue)) return true;
  if (is_one(kFalse)) return false;
  if (text.size() > 64) return text;
  const bool may_be_number = text.find_first_not_of("0123456789+-._eE") == std::string::npos;
  std::string digits = text;
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  const char* begin = digits.c_str() + (digits[0] == '+' ? 1 : 0);
  const char* end = digits.c_str() + digits.size();
  if (may_be_number && std::regex_match(text, kInteger)) {
    std::int64_t value = 0;
    if (std::from_chars(begin, end, value).ptr == end) return value;
  }
  if (may_be_number && text != "." && std::regex_match(text, kFloat)) {
    double value = 0;
    if (std::from_chars(begin, end, value).ptr == end) return value;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == ".inf" || text == ".Inf") return kInfinity;
  if (text == "-.inf" || text == "-.Inf") return -kInfinity;
  if (text == ".nan" || text == ".NaN") return std::numeric_limits<double>::quiet_NaN();
  return text;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Json document() {
    std::uint32_t code = 0;
    for (std::size_t size = 0; at_ < text_.size(); at_ += size) {
      size = decode_utf8(text_.substr(at_), code);
      if (size == 0) fail("bytes that are not UTF-8");
    }
    at_ = 0;
    skip();
    if (text_.substr(at_, 3) == "---") at_ += 3;
    Json value = block(-1, 0);
    skip();
    if (text_.substr(at_, 3) == "...") return value;
    if (at_ < text_.size()) fail("text behind the document");
    return value;
  }

 private:
  struct Properties {
    std::string anchor;
    bool is_text = false;     // tagged as a string
    bool is_wrapped = false;  // a list in a list of arguments
  };

  [[noreturn]] void fail(std::string_view problem) const {
    const auto line =
        std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())), '\n') + 1;
    throw_data_loss(fmt::format("{}: malformed YAML in line {}: {}", what_, line, problem));
  }

  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool ends_token(std::size_t ahead) const {
    const char c = peek(ahead);
    return c == ' ' || c == '\n' || c == '\r' || c == '\0';
  }
  int column() const {
    const auto start = text_.rfind('\n', at_ == 0 ? 0 : at_ - 1);
    if (at_ == 0 || start == std::string_view::npos) return static_cast<int>(at_);
    return static_cast<int>(at_ - start - 1);
  }
  void skip_spaces() {
    while (peek() == ' ') ++at_;
  }
  // To the next token, over ends of lines and comments.
  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\n' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }
  bool at_line_end() {
    skip_spaces();
    return peek() == '\n' || peek() == '\r' || peek() == '\0' || peek() == '#';
  }

  void count(int depth) {
    if (depth > kMostDepth) fail(fmt::format("nested deeper than {} levels", kMostDepth));
    if (++values_ > kMostValues) fail(fmt::format("more than {} values", kMostValues));
  }

  std::string word() {
    const std::size_t start = at_;
    while (at_ < text_.size() && !ends_token(0) && peek() != ',' && peek() != ']' && peek() != '}') ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  Properties properties() {
    Properties found;
    while (true) {
      if (peek() == '&') {
        ++at_;
        found.anchor = word();
      } else if (peek() == '!') {
        const std::string tag = word();
        // tf.keras's own class for the lists of a layer, such as the axes of a BatchNormalization.
        found.is_wrapped = tag.starts_with("!!python/object/apply:") && tag.ends_with(".data_structures.ListWrapper");
        found.is_text = tag == "!!python/unicode" || tag == "!!str" || tag == "!!python/str" || tag == "!!binary";
        if (!found.is_text && !found.is_wrapped && tag != "!!python/tuple" && tag != "!!seq" && tag != "!!map" &&
            tag != "!!python/long" && tag != "!!omap" && tag != "!!int" && tag != "!!float")
          throw_unimplemented(fmt::format("{}: the tag {} names a Python object, which is never made", what_, tag));
      } else {
        return found;
      }
      skip_spaces();
    }
  }

  Json keep(const Properties& properties, Json value) {
    if (properties.is_wrapped) {
      if (!value.is_array() || value.size() != 1 || !value[0].is_array()) fail("a ListWrapper without a list");
      value = Json(value[0]);
    }
    if (!properties.anchor.empty()) anchors_[properties.anchor] = value;
    return value;
  }

  std::size_t size_of(const Json& value) const {
    if (!value.is_structured()) return 1;
    std::size_t size = 1;
    if (value.is_array()) {
      for (const Json& item : value) size += size_of(item);
    } else {
      for (const auto& [key, item] : value.items()) size += size_of(item);
    }
    return size;
  }

  Json alias() {
    ++at_;
    const std::string name = word();
    const auto found = anchors_.find(name);
    if (found == anchors_.end()) fail(fmt::format("unknown alias '*{}'", name));
    values_ += size_of(found->second);
    if (values_ > kMostValues) fail("aliases that multiply the text");
    return found->second;
  }

  // A node whose parent begins in column `parent`. A sequence may begin in the column of the mapping that has it.
  Json block(int parent, int depth, bool in_mapping = false) {
    count(depth);
    skip();
    Properties found = properties();
    if (at_line_end()) skip();
    const int indent = column();
    const bool sequence = peek() == '-' && ends_token(1);
    if (at_ >= text_.size() || indent < parent || (indent == parent && !(sequence && in_mapping)))
      return keep(found, nullptr);
    if (peek() == '*') return alias();
    if (sequence) return keep(found, block_sequence(indent, depth));
    if (peek() == '[' || peek() == '{') return keep(found, flow(depth));
    if (peek() == '|' || peek() == '>') return keep(found, literal(parent));
    const std::size_t start = at_;
    if (key()) {
      at_ = start;
      return keep(found, block_mapping(indent, depth));
    }
    at_ = start;
    return keep(found, scalar(parent, false, found.is_text));
  }

  Json block_sequence(int indent, int depth) {
    Json out = Json::array();
    while (at_ < text_.size() && column() == indent && peek() == '-' && ends_token(1)) {
      ++at_;
      out.push_back(block(indent, depth + 1));
      skip();
    }
    return out;
  }

  // The key of a mapping, if the line has one here.
  std::optional<std::string> key() {
    if (peek() == '\'' || peek() == '"') {
      const std::string name = quoted();
      skip_spaces();
      if (peek() != ':' || !ends_token(1)) return std::nullopt;
      ++at_;
      return name;
    }
    const std::size_t start = at_;
    for (; at_ < text_.size() && peek() != '\n'; ++at_) {
      if (peek() == ':' && ends_token(1)) {
        std::string name(text_.substr(start, at_ - start));
        while (name.ends_with(' ')) name.pop_back();
        ++at_;
        return name;
      }
      if (peek() == ' ' && peek(1) == '#') break;
    }
    return std::nullopt;
  }

  Json block_mapping(int indent, int depth) {
    JsonMembers out;
    while (at_ < text_.size() && column() == indent) {
      auto name = key();
      if (!name) fail("a key of a mapping is missing");
      out.set(*std::move(name), block(indent, depth + 1, true));
      skip();
      if (text_.substr(at_, 3) == "..." || text_.substr(at_, 3) == "---") break;
    }
    if (at_ < text_.size() && column() > indent) fail("a line is indented more than the mapping it follows");
    return out.take();
  }

  Json flow(int depth) {
    count(depth);
    const bool sequence = peek() == '[';
    const char end = sequence ? ']' : '}';
    ++at_;
    std::vector<Json> items;
    JsonMembers members;
    for (skip(); peek() != end; skip()) {
      if (at_ >= text_.size()) fail(fmt::format("'{}' is missing", end));
      if (sequence) {
        items.push_back(flow_value(depth));
      } else {
        Json name = flow_scalar(true);
        if (!name.is_string()) name = dump_json(name);
        skip();
        if (peek() != ':') fail("':' is missing");
        ++at_;
        skip();
        members.set(name.text(), peek() == ',' || peek() == end ? Json(nullptr) : flow_value(depth));
      }
      skip();
      if (peek() == ',') {
        ++at_;
      } else if (peek() != end) {
        fail(fmt::format("',' or '{}' is missing", end));
      }
    }
    ++at_;
    return sequence ? Json(std::move(items)) : Json(members.take());
  }

  Json flow_value(int depth) {
    Properties found = properties();
    skip();
    if (peek() == '*') return alias();
    if (peek() == '[' || peek() == '{') return keep(found, flow(depth + 1));
    return keep(found, flow_scalar(found.is_text));
  }
  Json flow_scalar(bool is_text) {
    count(0);
    return scalar(-1, true, is_text);
  }

  // Plain or quoted. Lines of a plain one are joined by spaces as far as they are indented more than `parent`.
  Json scalar(int parent, bool in_flow, bool is_text) {
    if (peek() == '\'' || peek() == '"') return quoted();
    std::string value;
    while (true) {
      const std::size_t start = at_;
      while (at_ < text_.size() && peek() != '\n' && !(peek() == ' ' && peek(1) == '#') &&
             !(peek() == ':' && ends_token(1))) {
        if (in_flow && (peek() == ',' || peek() == ']' || peek() == '}' || peek() == '[' || peek() == '{')) break;
        ++at_;
      }
      std::string line(text_.substr(start, at_ - start));
      while (line.ends_with(' ') || line.ends_with('\r')) line.pop_back();
      value += value.empty() || line.empty() ? line : " " + line;
      if (peek() != '\n') break;
      const std::size_t end = at_;
      skip();
      const bool continues = at_ < text_.size() && column() > parent && text_.substr(at_, 3) != "...";
      if (!continues || (!in_flow && parent < 0)) {
        at_ = end;
        break;
      }
    }
    if (value.empty() && at_ < text_.size() && !in_flow) fail("a value is missing");
    return is_text ? Json(value) : resolved(value);
  }

  std::string quoted() {
    const char quote = text_[at_++];
    std::string out;
    while (true) {
      if (at_ >= text_.size()) fail("a quoted text without an end");
      const char c = text_[at_++];
      if (c == quote) {
        if (quote == '"' || peek() != '\'') return out;
        out += '\'';
        ++at_;
      } else if (c == '\\' && quote == '"') {
        escape(out);
      } else if (c == '\n') {
        // A line break is a space, several are one break less.
        while (out.ends_with(' ')) out.pop_back();
        std::size_t breaks = 1;
        for (; at_ < text_.size() && (peek() == ' ' || peek() == '\n'); ++at_) breaks += peek() == '\n';
        out += breaks == 1 ? std::string(" ") : std::string(breaks - 1, '\n');
      } else {
        out += c;
      }
    }
  }

  void escape(std::string& out) {
    static constexpr std::string_view kCodes = "0abtnvfre\"\\/ _";
    static constexpr std::string_view kValues{"\0\a\b\t\n\v\f\r\x1b\"\\/ \xa0", 14};
    const char c = peek();
    ++at_;
    if (c == '\n') {
      skip_spaces();
      return;
    }
    if (const auto found = kCodes.find(c); found != std::string_view::npos && c != '_') {
      out += kValues[found];
      return;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::uint32_t code = 0xa0;
    if (c != '_') {
      const std::string_view hex = text_.substr(std::min(at_, text_.size()), digits);
      if (digits == 0 || hex.size() != digits ||
          std::from_chars(hex.data(), hex.data() + digits, code, 16).ptr != hex.data() + digits || code > 0x10ffff ||
          (code >= 0xd800 && code < 0xe000))
        fail("a bad escape in a quoted text");
      at_ += digits;
    }
    append_utf8(out, code);
  }

  // `|` and `>`: all lines that are indented more than `parent`.
  Json literal(int parent) {
    const bool folded = peek() == '>';
    while (at_ < text_.size() && peek() != '\n') ++at_;
    std::string out;
    while (at_ < text_.size()) {
      const std::size_t start = at_;
      ++at_;
      skip_spaces();
      if (peek() != '\n' && (at_ >= text_.size() || column() <= parent)) {
        at_ = start;
        break;
      }
      const std::size_t begin = at_;
      while (at_ < text_.size() && peek() != '\n') ++at_;
      out += std::string(text_.substr(begin, at_ - begin)) + (folded ? " " : "\n");
    }
    return out;
  }

  std::string_view text_;
  std::string what_;
  std::size_t at_ = 0, values_ = 0;
  std::map<std::string, Json> anchors_;
};

}  // namespace

Json parse_yaml(std::string_view text, std::string_view what) { return Parser(text, what).document(); }

}  // namespace lockstep
