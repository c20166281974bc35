// Reads lines of signatures.tsv: name, inputs, outputs, attrs, stateful (0 or 1), shapes of inputs if any, tab
// separated;
// "-" stands for an empty list. Attributes are written name:type{allowed}>=minimum=default. Shapes are written x:2 (two
// axes), x:1-3, x:1- (at least one axis), or y=x (y has the shape of x, an earlier input). The types int32 and
// list(int32) stand for int and list(int) of which TensorFlow's kernels accept numbers of 32 bits only.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/check_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::ops {
namespace {

// Splits at `separator` outside of brackets, braces, parentheses and quotes.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{' || c == '(') ++depth;
    if (c == ']' || c == '}' || c == ')') --depth;
    if (c == separator && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> list_items(std::string_view text) {
  if (text.empty() || text == "-") return {};
  auto parts = split(text, ',');
  for (auto& part : parts) part = trim(part);
  return parts;
}

std::string unquote(std::string_view text) {
  if (text.size() < 2 || text.front() != '"') return std::string(text);
  text = text.substr(1, text.size() - 2);
  if (text == "\\t") return "\t";
  return std::string(text);
}

ArgDef parse_arg(std::string_view item, const std::vector<AttrDef>& attrs) {
  ArgDef arg;
  const std::size_t colon = item.find(':');
  arg.name = item.substr(0, colon);
  std::string_view type = item.substr(colon + 1);
  const auto inside = [&](std::string_view prefix) {
    if (!type.starts_with(prefix) || !type.ends_with(")")) return false;
    type = type.substr(prefix.size(), type.size() - prefix.size() - 1);
    return true;
  };
  if (inside("list(")) {
    arg.type_list_attr = type;
    return arg;
  }
  arg.is_ref = inside("ref(");
  if (const std::size_t star = type.find('*'); star != std::string_view::npos) {
    arg.number_attr = type.substr(0, star);
    type = type.substr(star + 1);
    if (inside("ref(")) arg.is_ref = true;
  }
  const bool is_attr = std::any_of(attrs.begin(), attrs.end(), [&](const AttrDef& attr) { return attr.name == type; });
  if (is_attr) {
    arg.type_attr = type;
  } else if (auto dtype = parse_dtype(type)) {
    arg.dtype = *dtype;
  } else {
    throw_internal(fmt::format("signature table: unknown type '{}' of argument '{}'", type, arg.name));
  }
  return arg;
}

std::int64_t parse_int(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

float parse_float(std::string_view text) {
  float value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Attr parse_default(std::string_view type, std::string_view text) {
  if (type == "type") return *parse_dtype(text);
  if (type == "int" || type == "int32") return parse_int(text);
  if (type == "float") return parse_float(text);
  if (type == "bool") return text == "true";
  if (type == "string") return unquote(text);
  if (type == "shape") return text == "?" ? Shape::unknown_rank() : Shape{};
  const auto items = list_items(text.size() >= 2 ? text.substr(1, text.size() - 2) : "");
  if (type == "list(int)" || type == "list(int32)") {
    std::vector<std::int64_t> values;
    for (auto item : items) values.push_back(parse_int(item));
    return values;
  }
  if (type == "list(float)") {
    std::vector<float> values;
    for (auto item : items) values.push_back(parse_float(item));
    return values;
  }
  if (type == "list(type)") {
    std::vector<DType> values;
    for (auto item : items) values.push_back(*parse_dtype(item));
    return values;
  }
  if (type == "list(string)") {
    std::vector<std::string> values;
    for (auto item : items) values.push_back(unquote(item));
    return values;
  }
  if (type == "list(shape)") return std::vector<Shape>{};
  if (type == "list(bool)") return std::vector<bool>{};
  if (type == "list(func)") return std::vector<FunctionName>{};
  throw_internal(fmt::format("signature table: a default '{}' for an attribute of type {}", text, type));
}

AttrDef parse_attr(std::string_view item) {
  AttrDef attr;
  const std::size_t colon = item.find(':');
  attr.name = item.substr(0, colon);
  std::string_view rest = item.substr(colon + 1);
  const std::size_t type_end = rest.starts_with("list(") ? rest.find(')') + 1 : rest.find_first_of("{>=");
  attr.type = rest.substr(0, type_end);
  attr.kind = attr_kind(attr.type);
  rest = type_end < rest.size() ? rest.substr(type_end) : "";
  if (rest.starts_with("{")) {
    const std::size_t end = rest.find('}');
    for (auto allowed : split(rest.substr(1, end - 1), '|')) {
      if (attr.type == "type" || attr.type == "list(type)") {
        if (auto dtype = parse_dtype(allowed)) attr.allowed_types.push_back(*dtype);
      } else {
        attr.allowed_strings.push_back(unquote(allowed));
      }
    }
    rest = rest.substr(end + 1);
  }
  if (rest.starts_with(">=")) {
    const std::size_t end = rest.find('=', 2);
    attr.minimum = parse_int(rest.substr(2, end == std::string_view::npos ? end : end - 2));
    rest = end == std::string_view::npos ? "" : rest.substr(end);
  }
  if (rest.starts_with("=")) attr.default_value = parse_default(attr.type, rest.substr(1));
  return attr;
}

// One entry of the last column: "x:RANKS" or "y=x".
void parse_shape_rule(std::string_view item, const Signature& signature, std::vector<InputLimit>& limits) {
  const auto number_of = [&](std::string_view name) {
    for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
      if (signature.inputs[i].name == name) return i;
    }
    throw_internal(fmt::format("signature table: '{}' is about no input of {}", item, signature.name));
  };
  limits.resize(signature.inputs.size());
  const std::size_t sign = item.find_first_of(":=");
  InputLimit& limit = limits[number_of(item.substr(0, sign))];
  const std::string_view rule = sign == std::string_view::npos ? "" : item.substr(sign + 1);
  if (item[sign] == '=') {
    limit.same_shape_as = static_cast<int>(number_of(rule));
    return;
  }
  const std::size_t dash = rule.find('-');
  limit.min_rank = limit.max_rank = static_cast<int>(parse_int(rule));
  if (dash == std::string_view::npos) return;
  limit.max_rank = dash + 1 < rule.size() ? static_cast<int>(parse_int(rule.substr(dash + 1))) : InputLimit::kAnyRank;
}

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  for (std::size_t begin = 0; columns.size() < 6;) {
    const std::size_t end = line.find('\t', begin);
    columns.push_back(line.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) break;
    begin = end + 1;
  }
  if (columns.size() < 5) throw_internal(fmt::format("signature table: malformed line '{}'", line));
  return columns;
}

}  // namespace

Signature parse_signature(std::string_view line) {
  const std::vector<std::string_view> columns = columns_of(line);
  Signature signature;
  signature.name = columns[0];
  for (auto item : list_items(columns[3])) signature.attrs.push_back(parse_attr(item));
  for (auto item : list_items(columns[1])) signature.inputs.push_back(parse_arg(item, signature.attrs));
  for (auto item : list_items(columns[2])) signature.outputs.push_back(parse_arg(item, signature.attrs));
  signature.stateful = columns[4] == "1";
  return signature;
}

std::vector<InputLimit> parse_input_limits(std::string_view line, const Signature& signature) {
  std::vector<InputLimit> limits;
  const std::vector<std::string_view> columns = columns_of(line);
  if (columns.size() < 6) return limits;
  for (auto item : list_items(columns[5])) parse_shape_rule(item, signature, limits);
  return limits;
}

const AttrDef* Signature::find_attr(std::string_view attr_name) const {
  for (const AttrDef& attr : attrs) {
    if (attr.name == attr_name) return &attr;
  }
  return nullptr;
}

}  // namespace lockstep::ops
