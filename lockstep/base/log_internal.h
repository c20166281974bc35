// log() of warnings with fmt's format strings. Arguments are formatted only if the message is not dropped.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/log.h"

namespace lockstep {

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() <= LogLevel::kWarning) log(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
