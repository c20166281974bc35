#include "lockstep/cli/option_values_internal.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/strings_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/formats/op_versions_internal.h"

namespace lockstep::cli {
namespace {

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void throw_expected(const std::string& option, const std::string& expected, const std::string& found) {
  throw_usage(fmt::format("{} requires {}, found '{}'", option, expected, found));
}

void check_choice(const std::string& option, const std::string& text, const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, text) != choices.end()) return;
  throw_usage(fmt::format("{} requires one of {}, found '{}'{}", option, fmt::join(choices, ", "), text,
                          did_you_mean(text, choices)));
}

}  // namespace

std::int64_t parse_integer(const std::string& option, const std::string& text, std::int64_t least, std::int64_t most) {
  const auto value = parse_number<std::int64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  const bool bounded = most != std::numeric_limits<std::int64_t>::max();
  throw_expected(option,
                 bounded ? fmt::format("a whole number from {} to {}", least, most)
                         : fmt::format("a whole number of at least {}", least),
                 text);
}

double parse_seconds(const std::string& option, const std::string& text) {
  const auto value = parse_number<double>(text);
  if (!value || !(*value > 0)) throw_expected(option, "a number of seconds greater than 0", text);
  return *value;
}

std::int64_t parse_bytes(const std::string& option, const std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  std::string_view digits = text;
  const std::size_t unit = digits.empty() ? std::string_view::npos : kUnits.find(digits.back());
  if (unit != std::string_view::npos) digits.remove_suffix(1);
  const auto value = parse_number<std::int64_t>(digits);
  const int shift = unit == std::string_view::npos ? 0 : 10 * static_cast<int>(unit + 1);
  if (!value || *value < 1 || *value > std::numeric_limits<std::int64_t>::max() >> shift)
    throw_expected(option, "a number of bytes such as 500000, 512M or 2G", text);
  return *value << shift;
}

double parse_fraction(const std::string& option, const std::string& text) {
  const auto value = parse_number<double>(text);
  if (!value || !(*value >= 0 && *value < 1)) throw_expected(option, "a fraction of at least 0 and less than 1", text);
  return *value;
}

double parse_factor(const std::string& option, const std::string& text) {
  const std::string_view all = text;
  const std::size_t slash = all.find('/');
  const auto numerator = parse_number<double>(all.substr(0, slash));
  const auto denominator =
      slash == std::string_view::npos ? std::optional(1.0) : parse_number<double>(all.substr(slash + 1));
  if (!numerator || !denominator || *denominator == 0)
    throw_expected(option, "a number or a fraction such as 1/255", text);
  return *numerator / *denominator;
}

std::map<std::int64_t, double> parse_class_weights(const std::string& option, const std::string& text) {
  std::map<std::int64_t, double> weights;
  const std::string_view all = text;
  for (std::size_t begin = 0; begin <= all.size();) {
    const std::size_t end = std::min(all.find(',', begin), all.size());
    const std::string_view item = all.substr(begin, end - begin);
    const std::size_t colon = std::min(item.find(':'), item.size());
    const auto label = parse_number<std::int64_t>(item.substr(0, colon));
    const auto weight = parse_number<double>(item.substr(std::min(colon + 1, item.size())));
    if (!label || !weight) throw_expected(option, "CLASS:WEIGHT pairs such as 0:1.0,1:2.5", text);
    weights[*label] = *weight;
    begin = end + 1;
  }
  return weights;
}

PartitionerValue parse_partitioner(const std::string& option, const std::string& text) {
  constexpr std::int64_t kMost = 1 << 20;  // shards
  const std::size_t first = std::min(text.find(':'), text.size());
  const std::size_t second = std::min(text.find(':', std::min(first + 1, text.size())), text.size());
  PartitionerValue value{text.substr(0, first)};
  const std::string size = text.substr(std::min(first + 1, text.size()), second - std::min(first + 1, second));
  const bool limited = second < text.size();
  const bool fixed = value.kind == "fixed", least = value.kind == "min_size", most = value.kind == "max_size";
  if ((!fixed && !least && !most) || size.empty() || (fixed && limited) || (least && !limited))
    throw_expected(option, "fixed:SHARDS, min_size:BYTES:MAX_SHARDS, max_size:BYTES or max_size:BYTES:MAX_SHARDS",
                   text);
  value.size = fixed ? parse_integer(option, size, 1, kMost) : parse_bytes(option, size);
  if (limited) value.max_shards = parse_integer(option, text.substr(second + 1), 1, kMost);
  return value;
}

void check_partitioner(const std::string& option, const std::string& text) { parse_partitioner(option, text); }
void check_seconds(const std::string& option, const std::string& text) { parse_seconds(option, text); }
void check_bytes(const std::string& option, const std::string& text) { parse_bytes(option, text); }
void check_fraction(const std::string& option, const std::string& text) { parse_fraction(option, text); }
void check_factor(const std::string& option, const std::string& text) { parse_factor(option, text); }
void check_class_weights(const std::string& option, const std::string& text) { parse_class_weights(option, text); }

std::vector<std::int64_t> parse_image_shape(const std::string& option, const std::string& text) {
  std::vector<std::int64_t> shape;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const auto number =
        part == "?" && shape.size() < 2 ? std::optional<std::int64_t>(-1) : parse_number<std::int64_t>(part);
    if (!number || (*number < 1 && part != "?")) break;
    shape.push_back(*number);
    begin = end + 1;
  }
  if (begin <= text.size() || shape.size() != 3)
    throw_expected(option, "height x width x channels, like 96x96x3", text);
  return shape;
}
void check_image_shape(const std::string& option, const std::string& text) { parse_image_shape(option, text); }
void check_pooling(const std::string& option, const std::string& text) { check_choice(option, text, {"avg", "max"}); }

void check_communication(const std::string& option, const std::string& text) {
  check_choice(option, text, {"auto", "ring"});
}

void check_compression(const std::string& option, const std::string& text) {
  check_choice(option, text, {"none", "float16", "bfloat16"});
}

void check_dialect(const std::string& name, const std::string& value) {
  check_choice(name, value, {"keras2", "keras3"});
}

void check_direction(const std::string& option, const std::string& text) {
  check_choice(option, text, {"TB", "BT", "LR", "RL"});
}

void check_quantization(const std::string& option, const std::string& text) {
  check_choice(option, text, {"int8", "int4", "float8"});
}

void check_strictness(const std::string& option, const std::string& text) {
  check_choice(option, text, {kStrictLevels.begin(), kStrictLevels.end()});
}

void check_tensorflow_version(const std::string& option, const std::string& text) {
  interpret_option(option, [&] { formats::parse_tensorflow_version(text); });
}

void check_arrays_path(const std::string& option, const std::string& text) {
  if (!text.ends_with(".npy") && !text.ends_with(".npz"))
    throw_expected(option, "a path that ends in .npy or .npz", text);
}

void check_picture_path(const std::string& option, const std::string& text) {
  if (!text.ends_with(".svg") && !text.ends_with(".dot"))
    throw_expected(option, "a path that ends in .svg or .dot", text);
}

}  // namespace lockstep::cli
