#include "lockstep/keras/progress_bar.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/keras/callbacks/progress_bar_internal.h"

namespace lockstep::utils {

Progbar::Progbar(std::optional<std::int64_t> target, ProgbarOptions options, std::ostream* out)
    : bar_(std::make_unique<keras::ProgressBar>(
          out ? *out : std::cout, target, options.verbose, !out && keras::stdout_is_terminal(),
          keras::ProgressBarLook{options.width, options.interval, options.unit_name})),
      options_(std::move(options)) {
  options_.target = target;
  if (options_.stateful_metrics && options_.stateless_metrics)
    throw_invalid_argument("Progbar: only one of stateful_metrics and stateless_metrics can be given");
}
Progbar::~Progbar() = default;
Progbar::Progbar(Progbar&&) noexcept = default;

bool Progbar::is_mean(const std::string& name) const {
  const auto contains = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (options_.stateless_metrics) return contains(*options_.stateless_metrics);
  return !options_.stateful_metrics || !contains(*options_.stateful_metrics);
}

// Means are weighted by the steps since the last call. As in Keras the values of the last update stand alone.
void Progbar::update(std::int64_t current, const keras::Logs& values, std::optional<bool> finalize) {
  const bool last = finalize.value_or(options_.target && current >= *options_.target);
  const std::int64_t steps = std::max<std::int64_t>(current - seen_, 1);
  for (const auto& [name, value] : values) {
    auto found = std::find_if(shown_.begin(), shown_.end(), [&](const Shown& s) { return s.name == name; });
    if (found == shown_.end()) found = shown_.insert(found, Shown{name, 0, 0});
    const auto number = static_cast<double>(value);
    if (last || !is_mean(name)) {
      *found = {name, number, 1};
    } else {
      found->sum += number * static_cast<double>(steps);
      found->steps += steps;
    }
  }
  seen_ = current;
  keras::LogItems items;
  for (const Shown& s : shown_)
    items.emplace_back(s.name, s.sum / static_cast<double>(std::max<std::int64_t>(s.steps, 1)));
  bar_->update(current, items, last);
}

}  // namespace lockstep::utils
