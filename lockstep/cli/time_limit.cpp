#include "lockstep/cli/time_limit_internal.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "lockstep/base/clock_internal.h"
#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/report_internal.h"

namespace lockstep::cli {
namespace {

// Of a file, or of all files of a folder; 0 for what does not exist.
double bytes_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const auto size = fs::file_size(path, error);
    return error ? 0 : static_cast<double>(size);
  }
  double bytes = 0;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code unknown;
    const auto size = it->is_regular_file(unknown) ? it->file_size(unknown) : 0;
    if (!unknown) bytes += static_cast<double>(size);
  }
  return bytes;
}

double seconds_to_load(const Arguments& arguments) {
  double bytes = 0;
  for (const char* name : {"MODEL", "--weights", "--input", "--data", "--validation-data"}) {
    if (const auto path = arguments.maybe(name)) bytes += bytes_of(*path);
  }
  return 8 + 1e-7 * bytes;
}

}  // namespace

double most_seconds(const keras::Model& model, const std::vector<Tensor>& inputs) {
  const double weights = 4e-6 * static_cast<double>(model.count_params());
  double values = 0;
  for (const Tensor& input : inputs) {
    const double numbers = input.dtype() == DType::kString ? 1000 : 1;  // a text becomes many
    values += 4e-6 * numbers * static_cast<double>(input.num_elements());
  }
  return weights + 8 * values + 60 * weights * values;
}

TimeLimit::TimeLimit(const Arguments& arguments)
    : loading_(seconds_to_load(arguments)),
      allowed_(loading_),
      wall_(seconds_of(CLOCK_MONOTONIC)),
      cpu_(seconds_of(CLOCK_PROCESS_CPUTIME_ID)) {
  if (const auto given = arguments.maybe("--max-seconds")) given_ = parse_seconds("--max-seconds", *given);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void TimeLimit::allow(double seconds) {
  const std::lock_guard lock(mutex_);
  allowed_ += seconds;
}

void TimeLimit::restart() {
  const std::lock_guard lock(mutex_);
  allowed_ = loading_;
  wall_ = seconds_of(CLOCK_MONOTONIC);
  cpu_ = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

void TimeLimit::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const double seconds = given_.value_or(allowed_);
    if (seconds_of(CLOCK_MONOTONIC) - wall_ > seconds / 2 && seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_ > seconds) {
      report(fmt::format("the model took more than {:g} s; raise --max-seconds if it needs more",
                         std::ceil(seconds * 10) / 10));
      std::_Exit(kFailure);
    }
    stopped_.wait_for(lock, stop, std::chrono::milliseconds(100), [] { return false; });
  }
}

}  // namespace lockstep::cli
