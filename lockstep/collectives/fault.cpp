#include "lockstep/collectives/fault_internal.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace lockstep::collectives {

std::string fault_text(const Fault& fault) { return fmt::format("{} {}", static_cast<int>(fault.code), fault.message); }

Fault parse_fault(const std::string& text) {
  int code = 0;
  std::from_chars(text.data(), text.data() + text.size(), code);
  const std::size_t end = std::min(text.find(' '), text.size());
  const bool known = code >= static_cast<int>(Code::kCancelled) && code <= static_cast<int>(Code::kDataLoss);
  return {known ? static_cast<Code>(code) : Code::kUnavailable, text.substr(std::min(end + 1, text.size()))};
}

}  // namespace lockstep::collectives
