#include "lockstep/ops/debugging.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/numerics_internal.h"

namespace lockstep::debugging {
namespace {

std::string with_message(const std::string& message, const std::string& what) {
  return message.empty() ? what : message + ": " + what;
}

std::pair<Tensor, Tensor> operands(const Operand& x, const Operand& y) {
  const auto like = [](const Operand& number, const Tensor& other) {
    return ops::cast(number.number(), other.dtype());
  };
  if (x.is_number() && y.is_number())
    return {ops::cast(x.number(), DType::kFloat64), ops::cast(y.number(), DType::kFloat64)};
  if (x.is_number()) return {like(x, y.tensor()), y.tensor()};
  if (y.is_number()) return {x.tensor(), like(y, x.tensor())};
  return {x.tensor(), y.tensor()};
}

std::string place_of(std::int64_t element, const Shape& shape) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = fmt::format("{}{}{}", element % shape[axis], text.empty() ? "" : ", ", text);
    element /= shape[axis];
  }
  return "[" + text + "]";
}

void check(const char* function, const char* sign, const Tensor& holds, const Tensor& x, const Tensor& y,
           const std::string& message) {
  if (!holds.is_value()) return;
  const std::vector<bool> elements = holds.to_vector<bool>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i]) continue;
    const auto text = [&](const Tensor& operand) {
      const Tensor all = ops::reshape(ops::broadcast_to(operand, holds.shape()), {-1});
      return strings::format("{}", all[static_cast<std::int64_t>(i)]).item<std::string>();
    };
    throw_invalid_argument(
        with_message(message, fmt::format("{}: x {} y does not hold at {}: found x = {}, y = {}", function, sign,
                                          place_of(static_cast<std::int64_t>(i), holds.shape()), text(x), text(y))));
  }
}

}  // namespace

#define LOCKSTEP_ASSERT(function, compare, sign)                                    \
  void function(const Operand& x, const Operand& y, const AssertOptions& options) { \
    const auto [a, b] = operands(x, y);                                             \
    check(#function, sign, ops::compare(a, b), a, b, options.message);              \
  }
LOCKSTEP_ASSERT(assert_equal, equal, "==")
LOCKSTEP_ASSERT(assert_none_equal, not_equal, "!=")
LOCKSTEP_ASSERT(assert_greater, greater, ">")
LOCKSTEP_ASSERT(assert_greater_equal, greater_equal, ">=")
LOCKSTEP_ASSERT(assert_less, less, "<")
LOCKSTEP_ASSERT(assert_less_equal, less_equal, "<=")
#undef LOCKSTEP_ASSERT
#define LOCKSTEP_ASSERT_SIGN(function, compare, sign)                        \
  void function(const Tensor& x, const AssertOptions& options) {             \
    const Tensor zero = ops::zeros_like(x);                                  \
    check(#function, sign, ops::compare(x, zero), x, zero, options.message); \
  }
LOCKSTEP_ASSERT_SIGN(assert_positive, greater, ">")
LOCKSTEP_ASSERT_SIGN(assert_non_negative, greater_equal, ">=")
LOCKSTEP_ASSERT_SIGN(assert_negative, less, "<")
LOCKSTEP_ASSERT_SIGN(assert_non_positive, less_equal, "<=")
#undef LOCKSTEP_ASSERT_SIGN

void assert_near(const Operand& x, const Operand& y, const NearOptions& options) {
  const auto [a, b] = operands(x, y);
  const double step = a.dtype() == DType::kFloat64    ? 0x1p-52
                      : a.dtype() == DType::kFloat16  ? 0x1p-10
                      : a.dtype() == DType::kBFloat16 ? 0x1p-7
                                                      : 0x1p-23;
  const double rtol = options.rtol < 0 ? 10 * step : options.rtol, atol = options.atol < 0 ? 10 * step : options.atol;
  const Tensor limit =
      ops::add(ops::mul(ops::abs(b), ops::cast(Number(rtol), b.dtype())), ops::cast(Number(atol), b.dtype()));
  check("assert_near", "near", ops::less_equal(ops::abs(ops::sub(a, b)), limit), a, b, options.message);
}

void assert_rank(const Tensor& x, int rank, const AssertOptions& options) {
  if (x.shape().known_rank() && x.rank() != rank) {
    throw_invalid_argument(
        with_message(options.message, fmt::format("assert_rank: found a tensor of rank {}, shape {}, expected rank {}",
                                                  x.rank(), x.shape().to_string(), rank)));
  }
}

void assert_type(const Tensor& x, DTypeLike tf_type, const AssertOptions& options) {
  if (x.dtype() != tf_type) {
    throw_invalid_argument(
        with_message(options.message, fmt::format("assert_type: found a tensor of dtype {}, expected {}",
                                                  dtype_name(x.dtype()), dtype_name(tf_type))));
  }
}

void assert_shapes(const std::vector<std::pair<Tensor, std::vector<NamedExtent>>>& shapes,
                   const AssertOptions& options) {
  std::map<std::string, std::int64_t> known;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto& [x, extents] = shapes[i];
    const Shape& shape = x.shape();
    if (!shape.known_rank()) continue;
    if (shape.rank() != static_cast<int>(extents.size())) {
      throw_invalid_argument(
          with_message(options.message, fmt::format("assert_shapes: tensor {} has rank {}, shape {}, expected rank {}",
                                                    i, shape.rank(), shape.to_string(), extents.size())));
    }
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const NamedExtent& extent = extents[static_cast<std::size_t>(axis)];
      std::int64_t expected = extent.number();
      if (shape[axis] == kUnknownDim) continue;
      if (!extent.name().empty()) expected = known.emplace(extent.name(), shape[axis]).first->second;
      if (expected != kUnknownDim && shape[axis] != expected) {
        throw_invalid_argument(with_message(
            options.message, fmt::format("assert_shapes: axis {} of tensor {} has extent {}, shape {}, expected {}{}",
                                         axis, i, shape[axis], shape.to_string(), expected,
                                         extent.name().empty() ? "" : " (" + extent.name() + ")")));
      }
    }
  }
}

void enable_check_numerics() { ops::check_numerics_enabled = true; }
void disable_check_numerics() { ops::check_numerics_enabled = false; }

Tensor check_numerics(const Tensor& x, std::string_view message) {
  return ops::call1("CheckNumerics", {x}, {{"message", std::string(message)}});
}

}  // namespace lockstep::debugging

namespace lockstep::strings {

Tensor format(std::string_view text, const Nested<Tensor>& inputs, const FormatKeywords& keywords) {
  return ops::call1("StringFormat", inputs.flatten(),
                    {{"template", std::string(text)},
                     {"placeholder", std::string(keywords.placeholder)},
                     {"summarize", keywords.summarize}});
}

}  // namespace lockstep::strings

namespace lockstep {

std::string Printed::to_string(std::int64_t summarize) const {
  if (is_text_) return text_;
  const auto text = [&](const auto& self, const Nested<Tensor>& part) -> std::string {
    if (part.is_leaf()) {
      return strings::format("{}", part.leaf(), {.summarize = summarize}).item<std::string>();
    }
    std::string out;
    if (part.is_list()) {
      for (const auto& item : part.parts()) out += (out.empty() ? "" : ", ") + self(self, item);
      return "[" + out + "]";
    }
    for (const auto& [name, value] : part.entries())
      out += fmt::format("{}'{}': {}", out.empty() ? "" : ", ", name, self(self, value));
    return "{" + out + "}";
  };
  return text(text, values_);
}

void internal::print(const std::vector<Printed>& parts, const PrintOptions& options) {
  std::FILE* stream = nullptr;
  if (options.output_stream == "stderr") stream = stderr;
  if (options.output_stream == "stdout") stream = stdout;
  constexpr std::string_view kFile = "file://";
  const bool to_file = options.output_stream.starts_with(kFile);
  if (!stream && !to_file) {
    throw_invalid_argument(
        fmt::format("print: invalid output_stream: found '{}', expected 'stderr', 'stdout' or 'file://PATH'",
                    options.output_stream));
  }
  std::string line;
  for (std::size_t i = 0; i < parts.size(); ++i) line += (i ? options.sep : "") + parts[i].to_string(options.summarize);
  line += options.end;
  if (to_file) {
    const std::string path = options.output_stream.substr(kFile.size());
    std::ofstream file(path, std::ios::app | std::ios::binary);
    if (!(file << line).flush()) throw_not_found(fmt::format("print: {} cannot be written", path));
    return;
  }
  std::fwrite(line.data(), 1, line.size(), stream);
  std::fflush(stream);
}

}  // namespace lockstep
