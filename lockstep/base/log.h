// Messages for people, outside of results and errors. Nothing in lockstep writes to stderr but through log().
#pragma once

#include <functional>
#include <string_view>

namespace lockstep {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };

// "debug", "info", "warning", "error", "off".
std::string_view log_level_name(LogLevel level) noexcept;

// Messages below this level are dropped. At start it is the level that the environment variable LOCKSTEP_LOG_LEVEL
// names, or kWarning. Any thread.
void set_log_level(LogLevel level) noexcept;
LogLevel log_level() noexcept;

// Receives each message instead of stderr; the message is one line without a line break. It may be called from several
// threads at once, and may log itself.
using LogHandler = std::function<void(LogLevel level, std::string_view message)>;

// Replaces the handler and returns the former one. An empty handler restores the default, which writes
// "lockstep: warning: <message>" to stderr. Any thread.
LogHandler set_log_handler(LogHandler handler);

// Sends one message to the handler. Line breaks in it become spaces. Exceptions of the handler are dropped.
void log(LogLevel level, std::string_view message) noexcept;

}  // namespace lockstep
