#include "lockstep/io/directory_lock_internal.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

struct DirectoryLockTest : ::testing::Test {
  std::string folder = ::testing::TempDir() + "directory_lock" + std::to_string(getpid());
  DirectoryLockTest() { std::filesystem::create_directory(folder); }
  ~DirectoryLockTest() override { std::filesystem::remove_all(folder); }

  // A process that has the lock.
  pid_t other() {
    int ready[2];
    if (pipe(ready) != 0) throw_internal("no pipe");
    const pid_t child = fork();
    if (child == 0) {
      const DirectoryLock lock = lock_directory(folder);
      if (write(ready[1], lock.held ? "y" : "n", 1) == 1) pause();
      _exit(0);
    }
    char has = 0;
    EXPECT_EQ(read(ready[0], &has, 1), 1);
    EXPECT_EQ(has, 'y');
    close(ready[0]), close(ready[1]);
    return child;
  }
};

TEST_F(DirectoryLockTest, OneProcessHasIt) {
  DirectoryLock first = lock_directory(folder);
  EXPECT_TRUE(first.held);
  DirectoryLock second = lock_directory(folder + "/.");
  EXPECT_EQ(first.held, second.held) << "a process shares its lock";
  first.held.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "nothing is written";
}

// The last holder of a thread may be about to close the folder when another thread locks it.
TEST_F(DirectoryLockTest, ThreadsNeverTakeTheirProcessForAnother) {
  const auto locks = [&] {
    for (int i = 0; i < 20000; ++i) ASSERT_TRUE(lock_directory(folder).held) << i;
  };
  std::thread first(locks), second(locks);
  first.join(), second.join();
}

TEST_F(DirectoryLockTest, ItGoesWithTheProcess) {
  const pid_t process = other();
  const DirectoryLock refused = lock_directory(folder);
  EXPECT_FALSE(refused.held);
  EXPECT_EQ(refused.holder.value_or(process), process) << "not every file system lets it be known";
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  EXPECT_TRUE(lock_directory(folder).held);
}

TEST_F(DirectoryLockTest, AFolderThatIsNotThere) { EXPECT_THROW(lock_directory(folder + "/missing"), Error); }

}  // namespace
}  // namespace lockstep::io
