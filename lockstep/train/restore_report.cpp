#include "lockstep/train/restore_report.h"

#include <fmt/format.h>

namespace lockstep::train {

std::string RestoreReport::to_string(std::string_view separator) const {
  std::string text = fmt::format("restored {}, missing {}, unused {}", restored.size(), missing.size(), unused.size());
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
  return text;
}

}  // namespace lockstep::train
