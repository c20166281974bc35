// What both halves of the tool know of a command line.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/options_internal.h"

namespace lockstep::cli {
namespace {

std::int64_t to_integer(const std::string& name, const std::string& text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw_invalid_argument(fmt::format("{} takes a whole number, found '{}'", name, text));
  }
  if (value < least) throw_invalid_argument(fmt::format("{} must be at least {}, found {}", name, least, value));
  return value;
}

}  // namespace

std::string Arguments::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? "" : found->second;
}

std::optional<std::string> Arguments::maybe(const std::string& name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::int64_t Arguments::integer(const std::string& name, std::int64_t least) const {
  return to_integer(name, text(name), least);
}

std::optional<std::int64_t> Arguments::maybe_integer(const std::string& name, std::int64_t least) const {
  return has(name) ? std::optional(integer(name, least)) : std::nullopt;
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
