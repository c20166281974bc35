// Arguments, as both halves of the tool use them.
#include <algorithm>
#include <limits>

#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/options_internal.h"

namespace lockstep::cli {
std::string Arguments::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? "" : found->second;
}

std::optional<std::string> Arguments::maybe(const std::string& name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::int64_t Arguments::integer(const std::string& name) const {
  using Limits = std::numeric_limits<std::int64_t>;
  return parse_integer(name, text(name), Limits::min(), Limits::max());
}

std::optional<std::int64_t> Arguments::maybe_integer(const std::string& name) const {
  return has(name) ? std::optional(integer(name)) : std::nullopt;
}

std::vector<std::string> Arguments::list(const std::string& name) const {
  std::vector<std::string> parts;
  const std::string all = text(name);
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(',', at), all.size());
    if (end > at) parts.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace lockstep::cli
