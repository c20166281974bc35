// Keras's progress bar (keras.utils.Progbar), character for character.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::keras {

// Name and value pairs in the order they are shown.
using LogItems = std::vector<std::pair<std::string, double>>;

struct ProgressBarLook {
  int width = 20;          // characters of the bar
  double interval = 0.05;  // seconds between two drawings
  std::string unit_name = "step";
};

// One bar: `verbose` 1 draws "current/total ━━━━ time per-step - name: value" and redraws at most every
// `interval`; 2 prints one line at the end; 0 prints nothing. `dynamic` (a terminal) draws over the old
// text and uses colours; otherwise every redraw would be a new line, so only the final one is printed.
class ProgressBar {
 public:
  ProgressBar(std::ostream& out, std::optional<std::int64_t> target, int verbose, bool dynamic,
              ProgressBarLook look = {});

  // `current` steps are done; the line is finished when `finalize` is set, or when the target is reached
  // and finalize is not given.
  void update(std::int64_t current, const LogItems& values, std::optional<bool> finalize = std::nullopt);
  void set_target(std::int64_t target) { target_ = target; }

  // " - accuracy: 0.9127": four decimals above 1e-3, else scientific. Verbose 2 tests the sign too.
  static std::string format_metric(const std::string& name, double value, bool absolute);
  // "3ms/step".
  static std::string format_time_per_step(double seconds, const std::string& unit_name = "step");

 private:
  std::string bar_line(std::int64_t current, double elapsed, bool finalize);
  double time_per_step(std::int64_t current, double now) const;
  double seconds_since_start() const;

  std::ostream& out_;
  std::optional<std::int64_t> target_;
  int verbose_;
  bool dynamic_;
  ProgressBarLook look_;
  std::chrono::steady_clock::time_point start_;
  double last_drawn_ = -1;
  double after_first_step_ = -1;
  std::size_t previous_width_ = 0;
};

// Whether standard output is a terminal.
bool stdout_is_terminal();

}  // namespace lockstep::keras
