#include "lockstep/train/restore_report.h"

#include <fmt/format.h>

namespace lockstep::train {

std::string RestoreReport::to_string(std::string_view separator) const {
  std::string text = fmt::format("restored {}, missing {}, unused {}", restored.size(), missing.size(), unused.size());
  const auto count = [&](const char* what, std::size_t number) {
    if (number > 0) text += fmt::format(", {} {}", what, number);
  };
  count("reshaped", reshaped.size()), count("converted", converted.size());
  for (std::size_t i = 0; i < missing.size() && i < kMaxListed; ++i) {
    const Missing& each = missing[i];
    text += fmt::format("{}missing: {}", separator, each.path);
    if (!each.variable.empty()) text += fmt::format(" (variable '{}')", each.variable);
    if (!each.nearest.empty()) text += fmt::format(", similar to the unused {}", each.nearest);
  }
  if (missing.size() > kMaxListed) text += fmt::format("{}missing: {} more", separator, missing.size() - kMaxListed);
  for (std::size_t i = 0; i < unused.size() && i < kMaxListed; ++i)
    text += fmt::format("{}unused: {}", separator, unused[i]);
  if (unused.size() > kMaxListed) text += fmt::format("{}unused: {} more", separator, unused.size() - kMaxListed);
  const auto list = [&](const char* what, const std::vector<Changed>& changed) {
    for (std::size_t i = 0; i < changed.size() && i < kMaxListed; ++i) {
      const Changed& each = changed[i];
      text += fmt::format("{}{}: {} from {} to {} (variable '{}')", separator, what, each.path, each.from, each.to,
                          each.variable);
    }
    if (changed.size() > kMaxListed) text += fmt::format("{}{}: {} more", separator, what, changed.size() - kMaxListed);
  };
  list("reshaped", reshaped), list("converted", converted);
  return text;
}

}  // namespace lockstep::train
