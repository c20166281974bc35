#include "lockstep/tensor/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"

namespace lockstep {
namespace {

// [[fill]align][sign][#][0][width][,][.precision][type], as in Python's "Format Specification Mini-Language".
struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', grouping = 0, type = 0;
  bool alternate = false;
  std::size_t width = 0;
  std::optional<int> precision;
};

// Bytes of the character of UTF-8 that begins the text.
std::size_t length_of_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return std::min(length, text.size());
}
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

constexpr bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }
constexpr int kLargestWidth = 1 << 20;

std::optional<Spec> parse(std::string_view text) {
  Spec spec;
  const auto next = [&] { return text.empty() ? '\0' : text.front(); };
  const auto skip = [&](std::size_t n) { text.remove_prefix(n); };
  const auto number = [&]() -> std::optional<int> {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0 || value > kLargestWidth) return std::nullopt;
    skip(static_cast<std::size_t>(end - text.data()));
    return value;
  };
  if (!text.empty()) {
    const std::size_t fill = length_of_character(text);
    if (text.size() > fill && is_align(text[fill])) {
      spec.fill = text.substr(0, fill);
      skip(fill);
    }
  }
  if (is_align(next())) spec.align = next(), skip(1);
  if (next() == '+' || next() == '-' || next() == ' ') spec.sign = next(), skip(1);
  if (next() == '#') spec.alternate = true, skip(1);
  if (next() == '0') {
    if (!spec.align) spec.align = '=', spec.fill = "0";
    skip(1);
  }
  if (next() >= '0' && next() <= '9') {
    const std::optional<int> width = number();
    if (!width) return std::nullopt;
    spec.width = static_cast<std::size_t>(*width);
  }
  if (next() == ',' || next() == '_') spec.grouping = next(), skip(1);
  if (next() == '.') {
    skip(1);
    if (!(spec.precision = number())) return std::nullopt;
  }
  if (!text.empty()) spec.type = next(), skip(1);
  if (!text.empty()) return std::nullopt;
  return spec;
}

std::string padded(std::string text, const Spec& spec, char align) {
  const std::size_t length = characters(text);
  if (length >= spec.width) return text;
  const auto fill = [&](std::size_t n) {
    std::string out;
    while (n-- > 0) out += spec.fill;
    return out;
  };
  const std::size_t missing = spec.width - length;
  switch (spec.align ? spec.align : align) {
    case '<': return text + fill(missing);
    case '^': return fill(missing / 2) + text + fill(missing - missing / 2);
    case '=': {
      const std::size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ') ? 1 : 0;
      return text.substr(0, sign) + fill(missing) + text.substr(sign);
    }
    default: return fill(missing) + text;
  }
}

// "1234567.5" as "1,234,567.5".
std::string grouped(const std::string& text, char separator) {
  const std::size_t begin = text.find_first_of("0123456789");
  const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
  if (begin == std::string::npos) return text;
  std::string out = text.substr(0, begin);
  for (std::size_t i = begin; i < end; ++i) {
    out += text[i];
    if ((end - i - 1) % 3 == 0 && i + 1 < end) out += separator;
  }
  return out + text.substr(end);
}

std::string signed_text(std::string text, bool negative, char sign) {
  if (negative) return "-" + text;
  return sign == '-' ? text : sign + text;
}

std::string of_integer(std::int64_t value, const Spec& spec) {
  const bool negative = value < 0;
  const std::uint64_t size = negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const char type = spec.type && spec.type != 'n' ? spec.type : 'd';
  std::string digits = fmt::format(fmt::runtime(fmt::format("{{:{}{}}}", spec.alternate ? "#" : "", type)), size);
  if (spec.grouping) digits = grouped(digits, spec.grouping);
  return signed_text(std::move(digits), negative, spec.sign);
}

std::string of_real(double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double size = std::isnan(value) ? std::abs(value) : std::abs(value) * (spec.type == '%' ? 100 : 1);
  std::string digits;
  if (!spec.type && !spec.precision) {
    digits = python_float(size);
  } else {
    const char type = spec.type == '%' ? 'f' : spec.type == 'n' || !spec.type ? 'g' : spec.type;
    const std::string format = fmt::format("{{:{}.{}{}}}", spec.alternate ? "#" : "", spec.precision.value_or(6), type);
    digits = fmt::format(fmt::runtime(format), size);
    // Python writes at least one digit behind the point where no type is given.
    if (!spec.type && digits.find_first_not_of("0123456789") == std::string::npos) digits += ".0";
  }
  if (spec.type == '%') digits += '%';
  if (spec.grouping) digits = grouped(digits, spec.grouping);
  return signed_text(std::move(digits), negative, spec.sign);
}

}  // namespace

class Formatter {
 public:
  Formatter(std::string_view text, std::initializer_list<FormatArgument> arguments)
      : text_(text), arguments_(arguments) {}

  std::string formatted() {
    std::string out;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      const bool twice = i + 1 < text_.size() && text_[i + 1] == c;
      if ((c == '{' || c == '}') && twice) {
        out += c;
        ++i;
      } else if (c == '{') {
        const std::size_t end = text_.find('}', i);
        if (end == std::string_view::npos) fail("a '{' has no '}'");
        out += field(text_.substr(i + 1, end - i - 1));
        i = end;
      } else if (c == '}') {
        fail("a '}' has no '{'");
      } else {
        out += c;
      }
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw_invalid_argument(fmt::format("format: invalid text '{}': {}", text_.substr(0, 80), why));
  }

  std::string field(std::string_view field) {
    const std::size_t colon = field.find(':');
    const std::string_view name = field.substr(0, colon);
    const std::string_view format = colon == std::string_view::npos ? "" : field.substr(colon + 1);
    std::size_t index = 0;
    if (name.empty()) {
      index = next_++;
    } else if (std::from_chars(name.data(), name.data() + name.size(), index).ptr != name.data() + name.size()) {
      fail(fmt::format("expected '{{}}' or '{{0}}', found '{{{}}}'", field));
    }
    if (index >= arguments_.size())
      fail(fmt::format("field {} has no argument, there are {}", index, arguments_.size()));
    const FormatArgument& argument = arguments_.begin()[index];
    if (format.empty()) return plain(argument);
    const std::optional<Spec> spec = parse(format);
    std::optional<std::string> found = spec ? with(argument, *spec) : std::nullopt;
    if (!found) fail(fmt::format("argument {} cannot have the format '{}'", index, format));
    return *std::move(found);
  }

  static std::string plain(const FormatArgument& argument) {
    std::ostringstream out;
    switch (argument.kind_) {
      case FormatArgument::Kind::kText: return std::string(argument.text());
      case FormatArgument::Kind::kNumber: out << Item(argument.number_); break;
      case FormatArgument::Kind::kTensor:
        if (!argument.print_) {
          const Tensor& tensor = argument.tensor_;
          out << (tensor.defined() ? tensor.numpy() : tensor);
          break;
        }
        [[fallthrough]];
      case FormatArgument::Kind::kObject: argument.print_(out, argument.object_);
    }
    return out.str();
  }

  // Nothing where the format does not fit.
  static std::optional<std::string> with(const FormatArgument& argument, const Spec& spec) {
    using Kind = FormatArgument::Kind;
    if (argument.kind_ == Kind::kNumber) return of_number(argument.number_, spec);
    const bool is_text = argument.kind_ != Kind::kTensor || argument.tensor_.dtype() == DType::kString;
    if (!is_text && argument.tensor_.is_value() && argument.tensor_.num_elements() == 1)
      return of_number(argument.tensor_.item(), spec);
    if ((spec.type && spec.type != 's') || spec.align == '=') return std::nullopt;
    const bool one_text = argument.kind_ == Kind::kTensor && is_text && argument.tensor_.num_elements() == 1;
    std::string text = one_text ? argument.tensor_.item<std::string>() : plain(argument);
    if (spec.precision && characters(text) > static_cast<std::size_t>(*spec.precision)) {
      std::size_t end = 0;
      for (int i = 0; i < *spec.precision; ++i) end += length_of_character(std::string_view(text).substr(end));
      text.resize(end);
    }
    return padded(std::move(text), spec, '<');
  }

  static std::optional<std::string> of_number(const Number& number, const Spec& spec) {
    constexpr std::string_view kReal = "eEfFgG%", kInteger = "bdnoxX";
    const bool as_integer =
        number.is_integer() && !spec.precision && (!spec.type || kInteger.find(spec.type) != std::string_view::npos);
    if (!as_integer && spec.type && spec.type != 'n' && kReal.find(spec.type) == std::string_view::npos)
      return std::nullopt;
    return padded(as_integer ? of_integer(number.integer(), spec) : of_real(number.value(), spec), spec, '>');
  }

  std::string_view text_;
  std::initializer_list<FormatArgument> arguments_;
  std::size_t next_ = 0;
};

std::string format_arguments(std::string_view text, std::initializer_list<FormatArgument> arguments) {
  return Formatter(text, arguments).formatted();
}

}  // namespace lockstep
