#include "lockstep/keras/callbacks/progress_bar_internal.h"

#include <unistd.h>

#include <cmath>

#include <fmt/format.h>

#include "lockstep/keras/callbacks/monitors.h"

namespace lockstep::keras {
namespace {

std::string format_eta(double seconds) {
  const auto eta = static_cast<std::int64_t>(seconds);
  if (eta > 3600) return fmt::format("{}:{:02}:{:02}", eta / 3600, eta % 3600 / 60, eta % 60);
  if (eta > 60) return fmt::format("{}:{:02}", eta / 60, eta % 60);
  return fmt::format("{}s", eta);
}

}  // namespace

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

ProgressBar::ProgressBar(std::ostream& out, std::optional<std::int64_t> target, int verbose, bool dynamic,
                         ProgressBarLook look)
    : out_(out),
      target_(target),
      verbose_(verbose),
      dynamic_(dynamic),
      look_(std::move(look)),
      start_(std::chrono::steady_clock::now()) {}

double ProgressBar::seconds_since_start() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::string ProgressBar::format_metric(const std::string& name, double value, bool absolute) {
  value = callbacks::without_sign_of_nan(value);
  return (absolute ? std::abs(value) : value) > 1e-3 ? fmt::format(" - {}: {:.4f}", name, value)
                                                     : fmt::format(" - {}: {:.4e}", name, value);
}

std::string ProgressBar::format_time_per_step(double seconds, const std::string& unit_name) {
  if (seconds >= 1 || seconds == 0) return fmt::format("{:.0f}s/{}", seconds, unit_name);
  if (seconds >= 1e-3) return fmt::format("{:.0f}ms/{}", seconds * 1e3, unit_name);
  return fmt::format("{:.0f}us/{}", seconds * 1e6, unit_name);
}

// The first step, which warms up, is left out of the average once there is another.
double ProgressBar::time_per_step(std::int64_t current, double now) const {
  if (current <= 0) return 0;
  if (after_first_step_ >= 0 && current > 1) return (now - after_first_step_) / static_cast<double>(current - 1);
  return now / static_cast<double>(current);
}

std::string ProgressBar::bar_line(std::int64_t current, double elapsed, bool finalize) {
  const auto colour = [this](int code, const std::string& text) {
    return dynamic_ && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::string line;
  if (target_) {
    const std::string total = std::to_string(*target_);
    line += colour(1, fmt::format("{:>{}}/{}", current, total.size(), total)) + " ";
    const double share =
        *target_ > 0 ? std::min(1.0, static_cast<double>(current) / static_cast<double>(*target_)) : 1.0;
    const int done = static_cast<int>(share * look_.width);
    std::string full, rest;
    for (int i = 0; i < look_.width; ++i) (i < done ? full : rest) += "\u2501";
    line += colour(32, full) + colour(37, rest);
  } else {
    line += colour(1, fmt::format("{:7d}/Unknown", current));
  }
  line += " ";
  const double per_step = time_per_step(current, elapsed);
  if (target_ && !finalize) {
    line += colour(1, format_eta(per_step * static_cast<double>(*target_ - current)));
  } else {
    line += colour(1, fmt::format("{:.0f}s", elapsed));
  }
  return line + " " + format_time_per_step(per_step, look_.unit_name);
}

void ProgressBar::update(std::int64_t current, const LogItems& values, std::optional<bool> finalize) {
  if (verbose_ == 0) return;
  const bool last = finalize.value_or(target_ && current >= *target_);
  const double now = seconds_since_start();
  if (current >= 1 && after_first_step_ < 0) after_first_step_ = now;
  if (verbose_ == 2) {
    if (!last) return;
    std::string line = target_ ? fmt::format("{}/{}", current, *target_) : std::to_string(current);
    line += fmt::format(" - {:.0f}s - {}", now, format_time_per_step(time_per_step(current, now), look_.unit_name));
    for (const auto& [name, value] : values) line += format_metric(name, value, false);
    out_ << line << "\n" << std::flush;
    return;
  }
  if (!last && (!dynamic_ || now - last_drawn_ < look_.interval)) return;
  last_drawn_ = now;
  std::string line = bar_line(current, now, last);
  for (const auto& [name, value] : values) line += format_metric(name, value, true);
  const std::size_t width = line.size();
  if (dynamic_) out_ << std::string(previous_width_, '\b') << "\r";
  out_ << line;
  if (dynamic_ && previous_width_ > width) out_ << std::string(previous_width_ - width, ' ');
  if (last) out_ << "\n";
  out_ << std::flush;
  previous_width_ = width;
}

}  // namespace lockstep::keras
