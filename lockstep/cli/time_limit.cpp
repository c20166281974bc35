#include "lockstep/cli/time_limit_internal.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/report_internal.h"

namespace lockstep::cli {
namespace {

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
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

TimeLimit::TimeLimit(const Arguments& arguments, double otherwise) {
  const auto given = arguments.maybe("--max-seconds");
  const double seconds = given ? parse_seconds("--max-seconds", *given) : otherwise;
  thread_ = std::jthread(
      [seconds, wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any stopped;
        while (!stop.stop_requested()) {
          if (now(CLOCK_MONOTONIC) - wall > seconds && now(CLOCK_PROCESS_CPUTIME_ID) - cpu > seconds) {
            report(fmt::format("the model took more than {:g} s; raise --max-seconds if it needs more", seconds));
            std::_Exit(kFailure);
          }
          std::unique_lock lock(mutex);
          stopped.wait_for(lock, stop, std::chrono::milliseconds(100), [] { return false; });
        }
      });
}

}  // namespace lockstep::cli
