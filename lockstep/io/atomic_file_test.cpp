#include "lockstep/io/atomic_file.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/faulty_file_system_internal.h"
#include "lockstep/io/fingerprint_internal.h"
#include "lockstep/io/zip.h"

namespace lockstep::io {
namespace {

using Fault = FaultyFileSystem::Fault;

class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "lockstep_io_" + std::to_string(getpid()) +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    remove_all(files_, folder_);
    make_directories(files_, folder_);
  }
  void TearDown() override { remove_all(files_, folder_); }
  std::string at(const std::string& name) const { return join_path(folder_, name); }

  FileSystem& files_ = posix_file_system();
  std::string folder_;
};

using AtomicFileTest = FolderTest;
using AtomicDirectoryTest = FolderTest;
using ZipTest = FolderTest;

TEST_F(AtomicFileTest, AppearsOnCommitOnly) {
  {
    AtomicFile file(at("a"));
    file.append("hello");
    EXPECT_FALSE(is_file(files_, at("a")));
    file.write_at(0, as_bytes("J"));
    file.commit();
  }
  EXPECT_EQ(read_text(files_, at("a")), "Jello");
  EXPECT_EQ(files_.list(folder_).size(), 1u);
  { AtomicFile(at("a")).append("lost"); }
  EXPECT_EQ(read_text(files_, at("a")), "Jello");
  EXPECT_EQ(files_.list(folder_).size(), 1u);
}

// A process that writes with `work` and is killed in the middle.
void killed(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST_F(AtomicFileTest, TheNextSaveRemovesLeftoversOfAKilledProcess) {
  const auto leave = [&] { killed([&] { (new AtomicFile(at("a")))->append("half"); }); };
  leave();
  ASSERT_EQ(files_.list(folder_).size(), 1u);
  EXPECT_EQ(temporary_target(files_.list(folder_)[0]), "a");
  AtomicFile mine(at("b"));  // of a living process
  write_atomically(at("c"), "x");
  write_atomically(at("b"), "y");
  EXPECT_EQ(files_.list(folder_).size(), 4u);
  write_atomically(at("a"), "whole");
  mine.append("z");
  mine.commit();
  EXPECT_EQ(files_.list(folder_), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(read_text(files_, at("b")), "z");
}

TEST_F(AtomicDirectoryTest, OtherFilesSurviveAKilledCommit) {
  AtomicDirectory first(at("d"), {"ours"});
  write_atomically(join_path(first.staging_path(), "ours"), "1");
  first.commit();
  write_atomically(at("d/theirs"), "keep");
  killed([&] {
    auto* second = new AtomicDirectory(at("d"), {"ours"});
    write_atomically(join_path(second->staging_path(), "ours"), "2");
    files_.exchange(second->staging_path(), at("d"));
  });
  EXPECT_FALSE(is_file(files_, at("d/theirs")));
  AtomicDirectory third(at("d"), {"ours"});
  write_atomically(join_path(third.staging_path(), "ours"), "3");
  third.commit();
  EXPECT_EQ(files_.list(folder_), (std::vector<std::string>{"d"}));
  EXPECT_EQ(files_.list(at("d")), (std::vector<std::string>{"ours", "theirs"}));
}

TEST_F(AtomicFileTest, LargeFileWithPatches) {
  std::string text(9'000'001, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 % 251);
  AtomicFile file(at("big"), files_, text.size());
  for (std::size_t i = 0; i < text.size(); i += 700'001) file.append(std::string_view(text).substr(i, 700'001));
  for (const std::size_t where : {std::size_t{0}, (std::size_t{4} << 20) - 2, text.size() - 4}) {
    text.replace(where, 4, "ABCD");
    file.write_at(where, as_bytes("ABCD"));
  }
  EXPECT_THROW(file.write_at(text.size() - 1, as_bytes("ab")), Error);
  file.commit();
  EXPECT_EQ(read_text(files_, at("big")), text);
}

// After any single failure the old or the new content is there, whole; a failing process leaves nothing else.
TEST_F(AtomicFileTest, EveryCallMayFail) {
  const std::string fresh(5'000'000, 'n');
  for (const Fault fault : {Fault::kFail, Fault::kTear, Fault::kDie}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 50);
      write_atomically(at("f"), "old");
      FaultyFileSystem faulty(files_, fault, n);
      bool failed = false;
      try {
        AtomicFile file(at("f"), faulty, fresh.size());
        file.append(fresh);
        file.commit();
      } catch (const Error& error) {
        failed = true;
        EXPECT_EQ(error.code(), Code::kResourceExhausted);
      }
      const std::string now = read_text(files_, at("f"));
      EXPECT_TRUE(now == fresh || (failed && now == "old"));
      EXPECT_TRUE(fault == Fault::kDie || files_.list(folder_).size() == 1);
      for (const auto& name : files_.list(folder_)) files_.remove_file(at(name));
      if (!failed) break;
    }
  }
}

// Also where the umask would take bits away, as for a folder that several users share.
TEST_F(AtomicFileTest, ModeAndGroupOfAReplacedFileAreKept) {
  const mode_t old_mask = umask(022);
  for (const mode_t mode : {0664u, 0600u, 0444u, 0640u}) {
    write_atomically(at("f"), "old");
    ASSERT_EQ(chmod(at("f").c_str(), mode), 0);
    const auto before = files_.stat(at("f"));
    write_atomically(at("f"), "new");
    const auto after = files_.stat(at("f"));
    EXPECT_EQ(read_text(files_, at("f")), "new");
    EXPECT_EQ(after->mode, mode);
    EXPECT_EQ(after->owner, before->owner);
    EXPECT_EQ(after->group, before->group);
  }
  write_atomically(at("fresh"), "new");
  EXPECT_EQ(files_.stat(at("fresh"))->mode, 0644u);
  umask(old_mask);
}

TEST_F(AtomicDirectoryTest, ModeOfAReplacedFolderIsKept) {
  const mode_t old_mask = umask(077);
  files_.make_directory(at("d"));
  ASSERT_EQ(chmod(at("d").c_str(), 02775), 0);
  const auto before = files_.stat(at("d"));
  AtomicDirectory folder(at("d"), {}, files_);
  folder.commit();
  EXPECT_EQ(files_.stat(at("d"))->mode, before->mode);
  umask(old_mask);
}

TEST_F(AtomicFileTest, SyncsBeforeRenameAndFolderAfter) {
  FaultyFileSystem log(files_, Fault::kFail, 0);
  write_atomically(at("f"), "x", log);
  ASSERT_EQ(log.log().size(), 6u);
  EXPECT_TRUE(log.log()[2].starts_with("sync "));
  EXPECT_TRUE(log.log()[4].starts_with("rename "));
  EXPECT_EQ(log.log()[5], "sync " + folder_);
}

TEST_F(AtomicDirectoryTest, EveryCallMayFailAndForeignFilesStay) {
  for (const Fault fault : {Fault::kFail, Fault::kDie}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 60);
      remove_all(files_, at("d"));
      make_directories(files_, at("d/variables"));
      write_atomically(at("d/variables/old"), "1");
      write_atomically(at("d/notes.txt"), "mine");
      FaultyFileSystem faulty(files_, fault, n);
      bool failed = false;
      try {
        AtomicDirectory directory(at("d"), {"variables"}, faulty);
        faulty.make_directory(join_path(directory.staging_path(), "variables"));
        write_atomically(join_path(directory.staging_path(), "variables/new"), "2", files_);
        directory.commit();
      } catch (const Error&) {
        failed = true;
      }
      const bool is_new = is_file(files_, at("d/variables/new"));
      EXPECT_NE(is_new, is_file(files_, at("d/variables/old")));
      EXPECT_TRUE(failed || is_file(files_, at("d/notes.txt")));
      EXPECT_TRUE(failed || files_.list(folder_).size() == 1);
      if (fault == Fault::kFail && !is_new) {  // nothing has happened
        EXPECT_TRUE(is_file(files_, at("d/notes.txt"))) << n;
        EXPECT_EQ(files_.list(folder_).size(), 1u) << n;
      }
      for (const auto& name : files_.list(folder_)) remove_all(files_, at(name));
      if (!failed) break;
    }
  }
}

TEST(Fingerprint, KnownValues) {
  EXPECT_EQ(fingerprint64(""), 0x9ae16a3b2f90404fu);
  EXPECT_EQ(fingerprint64("a"), 0xb3454265b6df75e3u);
  EXPECT_EQ(fingerprint64("abc"), 0x24a5b3a074e7f369u);
  EXPECT_EQ(fingerprint64("hello world"), 0x588fb7478bd6b01bu);
  EXPECT_EQ(fingerprint64("serving_default"), 0xdb6f4286249c53efu);
  EXPECT_EQ(fingerprint64(std::string(40, 'x')), 0xebf8e8aeac993c94u);
  EXPECT_EQ(fingerprint64(std::string(64, 'x')), 0x5ffb3c754f6913b8u);
  EXPECT_EQ(fingerprint64(std::string(100, 'x')), 0x5b7616b854568a1fu);
  EXPECT_EQ(fingerprint_cat(1, 2), 0xc89a2574412ac8e4u);
}

TEST(Checksum, KnownValuesAndCombination) {
  const auto digits = as_bytes("123456789");
  EXPECT_EQ(crc32(digits), 0xCBF43926u);
  EXPECT_EQ(crc32c(digits), 0xE3069283u);
  EXPECT_EQ(mask_crc(0xE3069283u), 0xC78AB0E5u);
  EXPECT_EQ(unmask_crc(mask_crc(12345)), 12345u);
  for (std::size_t cut = 0; cut <= digits.size(); ++cut) {
    const auto rest = digits.subspan(cut);
    EXPECT_EQ(crc32c_combine(crc32c(digits.first(cut)), crc32c(rest), rest.size()), 0xE3069283u);
  }
}

TEST_F(ZipTest, RoundTripAndDeterminism) {
  for (const char* name : {"a.zip", "b.zip"}) {
    ZipWriter zip(at(name));
    zip.add("metadata.json", "{}");
    zip.begin("wide", std::uint64_t{5} << 30);
    zip.append(as_bytes("0123"));
    zip.end();
    EXPECT_THROW(zip.add("wide", "again"), Error);
    zip.finish();
  }
  EXPECT_EQ(read_text(files_, at("a.zip")), read_text(files_, at("b.zip")));
  const ZipReader zip(at("a.zip"));
  EXPECT_EQ(as_text(zip.read("metadata.json").bytes), "{}");
  EXPECT_EQ(as_text(zip.read("wide").bytes), "0123");
  EXPECT_THROW(zip.read("none"), Error);
}

// Any damage is an error or harmless: the written content is read.
TEST_F(ZipTest, LargeMembersAreAlignedAndTheirMemoryMayGo) {
  const std::string large(std::size_t{9} << 20, 'x');
  for (const char* name : {"a", "seven77", "name of sixteen.", "a name that is somewhat longer than the others"}) {
    ZipWriter writer(at("z"));
    writer.add("small", "text");
    writer.add(name, large);
    writer.finish();
    const ZipReader zip(at("z"));
    EXPECT_EQ(zip.find(name)->data_offset % 64, 0u);
    const SharedBytes bytes = zip.read(name);
    release(bytes.bytes);
    EXPECT_EQ(as_text(bytes.bytes), large);
    std::string own = large;
    release(as_bytes(own));  // not a file's: left alone
    EXPECT_EQ(own, large);
  }
}

TEST_F(ZipTest, TruncatedAndFlipped) {
  ZipWriter writer(at("z"));
  writer.add("one", "first");
  writer.add("two", "second member");
  writer.finish();
  const std::string good = read_text(files_, at("z"));
  const auto harmless = [&](const std::string& bytes) {
    std::ofstream(at("bad"), std::ios::binary) << bytes;
    try {
      const ZipReader zip(at("bad"));
      EXPECT_TRUE(zip.find("one") == nullptr || as_text(zip.read("one").bytes) == "first");
      EXPECT_TRUE(zip.find("two") == nullptr || as_text(zip.read("two").bytes) == "second member");
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(harmless(good.substr(0, size))) << size;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    harmless(bad);
  }
}

}  // namespace
}  // namespace lockstep::io
