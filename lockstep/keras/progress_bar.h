// keras.utils.Progbar: the progress bar of training loops of your own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/callbacks/logs.h"

namespace lockstep::keras {
class ProgressBar;
}

namespace lockstep::utils {

struct ProgbarOptions {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> target = std::nullopt;  // where it is not given by position
  int width = 20;                                     // characters of the bar
  int verbose = 1;                                    // 0: nothing, 1: a bar, 2: a line at the end
  double interval = 0.05;                             // seconds between two drawings
  // Stateful values are shown as they are, of others the mean until the last update. One of the two may be given; by
  // default all are means.
  std::optional<std::vector<std::string>> stateful_metrics = std::nullopt;
  std::optional<std::vector<std::string>> stateless_metrics = std::nullopt;
  std::string unit_name = "step";
};

//   utils::Progbar bar(steps, {.stateful_metrics = {"accuracy"}});
//   bar.update(step + 1, {{"loss", loss}});
//
// Where standard output is not a terminal, only the last state is printed.
class Progbar {
 public:
  // `target`: the number of steps; none: unknown. `out` is standard output by default. Throws InvalidArgument for both
  // stateful_metrics and stateless_metrics.
  explicit Progbar(std::optional<std::int64_t> target, ProgbarOptions options = {}, std::ostream* out = nullptr);
  explicit Progbar(const ProgbarOptions& options) : Progbar(options.target, options) {}
  ~Progbar();
  Progbar(Progbar&&) noexcept;

  // `current` steps are done, and have had these values since the last call. The line ends with finalize, by default
  // when the target is reached.
  void update(std::int64_t current, const keras::Logs& values = {}, std::optional<bool> finalize = std::nullopt);
  // n steps more.
  void add(std::int64_t n, const keras::Logs& values = {}) { update(seen_ + n, values); }

 private:
  struct Shown {
    std::string name;
    double sum = 0;
    std::int64_t steps = 0;
  };
  bool is_mean(const std::string& name) const;

  std::unique_ptr<keras::ProgressBar> bar_;
  ProgbarOptions options_;
  std::vector<Shown> shown_;
  std::int64_t seen_ = 0;
};

}  // namespace lockstep::utils
