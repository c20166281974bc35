#include "lockstep/ops/eager_functions.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"

namespace lockstep {

void Logger::setLevel(std::string_view level) const {
  if (level == "DEBUG") return set_log_level(LogLevel::kDebug);
  if (level == "INFO") return set_log_level(LogLevel::kInfo);
  if (level == "WARNING" || level == "WARN") return set_log_level(LogLevel::kWarning);
  if (level == "ERROR") return set_log_level(LogLevel::kError);
  if (level == "CRITICAL" || level == "FATAL") return set_log_level(LogLevel::kOff);
  throw_invalid_argument(
      fmt::format("unknown level '{}': expected \"DEBUG\", \"INFO\", \"WARNING\", \"ERROR\" or \"CRITICAL\"", level));
}
void Logger::setLevel(int level) const {
  setLevel(level <= 10 ? "DEBUG" : level <= 20 ? "INFO" : level <= 30 ? "WARNING" : level <= 40 ? "ERROR" : "CRITICAL");
}

namespace ops {

Tensor truncatediv(const Tensor& x, const Tensor& y) { return call1("TruncateDiv", {x, y}); }
Tensor truncatemod(const Tensor& x, const Tensor& y) { return call1("TruncateMod", {x, y}); }
Tensor realdiv(const Tensor& x, const Tensor& y) { return call1("RealDiv", {x, y}); }

}  // namespace ops

namespace debugging {
namespace {

[[noreturn]] void fail(const AssertOptions& options, const std::string& what) {
  throw_invalid_argument(options.message.empty() ? what : options.message + ": " + what);
}

}  // namespace

void Assert(const Tensor& condition, const std::vector<Printed>& data, std::int64_t summarize) {
  if (!condition.is_value() || ops::reduce_all(condition).item<bool>()) return;
  std::string text;
  for (const Printed& part : data) text += " " + part.to_string(summarize);
  throw_invalid_argument("assertion failed:" + text);
}
void assert_rank_at_least(const Tensor& x, int rank, const AssertOptions& options) {
  if (x.shape().known_rank() && x.rank() < rank) {
    fail(options,
         fmt::format("assert_rank_at_least: found shape {}, expected {} axes or more", x.shape().to_string(), rank));
  }
}
void assert_rank_in(const Tensor& x, const std::vector<int>& ranks, const AssertOptions& options) {
  if (x.shape().known_rank() && std::find(ranks.begin(), ranks.end(), x.rank()) == ranks.end()) {
    fail(options, fmt::format("assert_rank_in: found shape {}, expected one of {} axes", x.shape().to_string(),
                              fmt::join(ranks, ", ")));
  }
}
void assert_integer(const Tensor& x, const AssertOptions& options) {
  if (!is_integer(x.dtype()))
    fail(options, fmt::format("assert_integer: found dtype {}, expected integers", dtype_name(x.dtype())));
}
void assert_scalar(const Tensor& tensor, const AssertOptions& options) {
  if (tensor.shape().known_rank() && tensor.rank() != 0)
    fail(options, fmt::format("assert_scalar: found shape {}, expected a scalar", tensor.shape().to_string()));
}
Tensor assert_all_finite(const Tensor& x, std::string_view message) { return check_numerics(x, message); }

}  // namespace debugging
}  // namespace lockstep
