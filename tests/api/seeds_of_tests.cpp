// After each test the random generators of the process have the state that they had before it, so that a seed that one
// test sets does not change the numbers of another.
#include <gtest/gtest.h>

#include "lockstep/random/seeds.h"

namespace {

class RestoreSeeds : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { state_ = lockstep::random::save_state(); }
  void OnTestEnd(const testing::TestInfo&) override { lockstep::random::restore_state(state_); }

  lockstep::Json state_;
};

[[maybe_unused]] const bool kRegistered = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new RestoreSeeds);
  return true;
}();

}  // namespace
