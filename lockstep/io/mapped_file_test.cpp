#include <unistd.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"

namespace lockstep::io {
namespace {

TEST(MappedFileTest, AFileThatIsTruncatedWhileItIsReadIsAnError) {
  const std::string path = testing::TempDir() + "lockstep_mapped_" + std::to_string(getpid());
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::ofstream(path, std::ios::binary) << std::string(4 * page, 'x');
  handle_truncated_mappings();
  {
    const auto file = posix_file_system().map(path);
    EXPECT_EQ(file->bytes()[4 * page - 1], std::byte{'x'});
    EXPECT_NO_THROW(check_mappings());
    std::filesystem::resize_file(path, page);
    EXPECT_EQ(file->bytes()[0], std::byte{'x'});
    EXPECT_EQ(file->bytes()[3 * page], std::byte{0});
    EXPECT_EQ(file->bytes()[2 * page + 1], std::byte{0});
    EXPECT_THROW(write_atomically(path + ".copy", "computed from it"), Error);
    EXPECT_FALSE(posix_file_system().stat(path + ".copy"));
    try {
      check_mappings();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDataLoss);
      EXPECT_NE(error.message().find(path), std::string::npos) << error.message();
    }
  }
  EXPECT_THROW(check_mappings(), Error);  // the mapping that has ended, once
  EXPECT_NO_THROW(check_mappings());
  std::filesystem::remove(path);
}

TEST(MappedFileTest, AMappingOfAnotherFileIsNotConcerned) {
  const std::string path = testing::TempDir() + "lockstep_mapped_again_" + std::to_string(getpid());
  for (int i = 0; i < 3; ++i) {
    std::ofstream(path, std::ios::binary) << std::string(10000, 'y');
    const auto file = posix_file_system().map(path);
    EXPECT_EQ(file->bytes()[9999], std::byte{'y'});
  }
  EXPECT_NO_THROW(check_mappings());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep::io
