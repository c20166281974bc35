#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/log_internal.h"

namespace lockstep {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    set_log_handler([this](LogLevel level, std::string_view message) {
      lines_.push_back(std::string(log_level_name(level)) + ": " + std::string(message));
    });
  }
  void TearDown() override {
    set_log_handler({});
    set_log_level(LogLevel::kWarning);
  }
  std::vector<std::string> lines_;
};

TEST_F(LogTest, DropsMessagesBelowTheLevel) {
  log(LogLevel::kInfo, "dropped");
  log_warning("{} of {}", 1, 2);
  set_log_level(LogLevel::kInfo);
  log(LogLevel::kInfo, "kept");
  set_log_level(LogLevel::kOff);
  log(LogLevel::kError, "dropped");
  log(LogLevel::kOff, "dropped");
  EXPECT_EQ(lines_, (std::vector<std::string>{"warning: 1 of 2", "info: kept"}));
}

TEST_F(LogTest, AMessageIsOneLine) {
  log_warning("a\nb\r\nc");
  EXPECT_EQ(lines_, std::vector<std::string>{"warning: a b  c"});
}

TEST_F(LogTest, AThrowingHandlerDoesNotFailTheCaller) {
  set_log_handler([](LogLevel, std::string_view) { throw std::runtime_error("no disk"); });
  log_warning("message");
}

TEST_F(LogTest, AHandlerMayLogAndBeReplacedByItself) {
  set_log_handler([this](LogLevel, std::string_view message) {
    lines_.push_back(std::string(message));
    set_log_handler([this](LogLevel, std::string_view inner) { lines_.push_back("inner " + std::string(inner)); });
    log_warning("again");
  });
  log_warning("first");
  EXPECT_EQ(lines_, (std::vector<std::string>{"first", "inner again"}));
}

TEST_F(LogTest, TheDefaultWritesToStderr) {
  const LogHandler mine = set_log_handler({});
  EXPECT_TRUE(mine);
  testing::internal::CaptureStderr();
  log_warning("disk is slow");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "lockstep: warning: disk is slow\n");
}

// Run in a separate process by the next test, because the variable is read once.
TEST(LogLevelVariable, Child) {
  if (std::getenv("LOCKSTEP_LOG_TEST_CHILD") == nullptr) return;
  log_warning("a warning");
  log(LogLevel::kError, "an error");
}

TEST(LogLevelVariable, SetsTheLevelAtStart) {
  std::string self(4096, '\0');
  self.resize(static_cast<std::size_t>(readlink("/proc/self/exe", self.data(), self.size())));
  const auto printed = [&](const std::string& level) {
    testing::internal::CaptureStderr();
    const std::string run = "LOCKSTEP_LOG_TEST_CHILD=1 LOCKSTEP_LOG_LEVEL=" + level + " " + self +
                            " --gtest_filter=LogLevelVariable.Child >/dev/null";
    EXPECT_EQ(std::system(run.c_str()), 0);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed("error"), "lockstep: error: an error\n");
  EXPECT_EQ(printed("off"), "");
  EXPECT_EQ(printed("loud"),
            "lockstep: warning: invalid LOCKSTEP_LOG_LEVEL 'loud': expected debug, info, warning, error or off; "
            "warning is used\nlockstep: warning: a warning\nlockstep: error: an error\n");
}

}  // namespace
}  // namespace lockstep
