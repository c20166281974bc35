#include "lockstep/train/restore_report.h"

#include <fmt/format.h>

namespace lockstep::train {
namespace {

constexpr std::size_t kMaxLines = 20;

}  // namespace

std::string RestoreReport::to_string(std::string_view separator) const {
  std::string text = fmt::format("restored {}, missing {}, unused {}", restored.size(), missing.size(), unused.size());
  for (std::size_t i = 0; i < missing.size() && i < kMaxLines; ++i) {
    const Missing& each = missing[i];
    text += fmt::format("{}missing: {}", separator, each.path);
    if (!each.variable.empty()) text += fmt::format(" (variable '{}')", each.variable);
    if (!each.nearest.empty()) text += fmt::format(", similar to the unused {}", each.nearest);
  }
  if (missing.size() > kMaxLines) text += fmt::format("{}missing: {} more", separator, missing.size() - kMaxLines);
  for (std::size_t i = 0; i < unused.size() && i < kMaxLines; ++i)
    text += fmt::format("{}unused: {}", separator, unused[i]);
  if (unused.size() > kMaxLines) text += fmt::format("{}unused: {} more", separator, unused.size() - kMaxLines);
  return text;
}

}  // namespace lockstep::train
