// For tests: collects the messages that code logs, instead of printing them.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/base/log.h"

namespace lockstep {

// Receives all messages from construction to destruction, which restores the former handler. Threads that log must have
// ended by then.
class RecordedLog {
 public:
  RecordedLog() {
    former_ = set_log_handler([this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      text_ += log_level_name(level);
      text_ += ": ";
      text_ += message;
      text_ += '\n';
    });
  }
  RecordedLog(const RecordedLog&) = delete;
  RecordedLog& operator=(const RecordedLog&) = delete;
  ~RecordedLog() { set_log_handler(std::move(former_)); }

  // A line "<level>: <message>" for each message so far.
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  LogHandler former_;
};

}  // namespace lockstep
