#include "lockstep/base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/strings_internal.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warning", "error", "off"};
constexpr const char* kLevelVariable = "LOCKSTEP_LOG_LEVEL";

// One write per line, so that lines of several threads and processes do not mix.
void write_to_stderr(LogLevel level, std::string_view message) {
  const std::string line = fmt::format("lockstep: {}: {}\n", log_level_name(level), printable(message));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

struct Settings {
  std::mutex mutex;
  std::shared_ptr<const LogHandler> handler = std::make_shared<LogHandler>(write_to_stderr);
  std::atomic<LogLevel> level{LogLevel::kWarning};

  Settings() {
    const char* const given = std::getenv(kLevelVariable);
    if (given == nullptr || *given == '\0') return;
    for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
      if (kLevelNames[i] == given) {
        level = static_cast<LogLevel>(i);
        return;
      }
    }
    write_to_stderr(LogLevel::kWarning,
                    fmt::format("invalid {} '{}': expected debug, info, warning, error or off; warning is used",
                                kLevelVariable, given));
  }
};

// Never destroyed: destructors of other static objects may log.
Settings& settings() {
  static Settings* instance = new Settings();
  return *instance;
}

}  // namespace

std::string_view log_level_name(LogLevel level) noexcept {
  const auto index = static_cast<std::size_t>(level);
  return index < kLevelNames.size() ? kLevelNames[index] : "unknown";
}

void set_log_level(LogLevel level) noexcept { settings().level = level; }

LogLevel log_level() noexcept { return settings().level; }

LogHandler set_log_handler(LogHandler handler) {
  auto next = std::make_shared<const LogHandler>(handler ? std::move(handler) : LogHandler(write_to_stderr));
  const std::lock_guard lock(settings().mutex);
  settings().handler.swap(next);
  return *next;
}

void log(LogLevel level, std::string_view message) noexcept {
  try {
    if (level < log_level() || level >= LogLevel::kOff) return;
    std::shared_ptr<const LogHandler> handler;
    {
      const std::lock_guard lock(settings().mutex);
      handler = settings().handler;
    }
    std::string line(message);
    for (char& c : line) {
      if (c == '\n' || c == '\r') c = ' ';
    }
    (*handler)(level, line);
  } catch (...) {  // a message that cannot be written must not fail the work it is about
  }
}

}  // namespace lockstep
