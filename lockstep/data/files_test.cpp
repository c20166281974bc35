// Expected values are those of TensorFlow 2.21 for the same files.
#include "lockstep/data/files.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/random/seeds.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Strings = std::vector<std::string>;

Strings strings(const Dataset& dataset) {
  Strings out;
  for (const Element& element : dataset) out.push_back(element.leaf().string_values()[0]);
  return out;
}

std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

// As tf.io.TFRecordWriter writes "abc", "" and "defghdefghdefgh".
const std::string kThreeRecords = from_hex(
    "0300000000000000b099490e6162636e57f121000000000000000029039807d8ea82a20f000000000000006d532b0964656667686465666768"
    "646566676848f7"
    "ab64");

class FilesTest : public testing::Test {
 protected:
  void SetUp() override {
    random::set_global_seed(42);
    folder_ = testing::TempDir() + "files_test_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }
  Strings names(const Dataset& dataset) {
    Strings out;
    for (const std::string& path : strings(dataset)) out.push_back(path.substr(folder_.size() + 1));
    return out;
  }
  std::string folder_;
};

std::string fault(const Dataset& dataset, Code code, Strings* before = nullptr) {
  DatasetIterator iterator = dataset.make_iterator();
  try {
    while (const auto element = iterator.next()) {
      if (before) before->push_back(element->leaf().string_values()[0]);
    }
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message();
  }
  return "no error";
}

TEST_F(FilesTest, LinesLoseTheirEndsAndCarriageReturns) {
  EXPECT_THAT(strings(TextLineDataset({write("a", "x\r\ny\rz\r\n\r\nw\n\n")})), ElementsAre("x", "yz", "", "w", ""));
  EXPECT_THAT(strings(TextLineDataset({write("a", "")})), IsEmpty());
  EXPECT_THAT(strings(TextLineDataset({write("a", "a\nb")})), ElementsAre("a", "b"));
  EXPECT_THAT(strings(TextLineDataset({write("a", "\n")})), ElementsAre(""));
  EXPECT_THAT(strings(TextLineDataset({write("a", "a\r")})), ElementsAre("a"));
  EXPECT_THAT(strings(TextLineDataset({write("a", std::string("a\0b\n\xff\xfe\n", 7))})),
              ElementsAre(std::string("a\0b", 3), "\xff\xfe"));
}

TEST_F(FilesTest, FilesFollowEachOther) {
  const TextLineDataset lines({write("a", "a\nb"), write("b", ""), write("c", "c\n")});
  EXPECT_THAT(strings(lines), ElementsAre("a", "b", "c"));
  EXPECT_THAT(strings(TextLineDataset(Strings{})), IsEmpty());
  EXPECT_EQ(lines.cardinality(), kUnknownCardinality);
  EXPECT_EQ(lines.element_spec().leaf(), (TensorSpec(Shape(), DType::kString)));
  EXPECT_THAT(fault(TextLineDataset({folder_ + "/nope"}), Code::kNotFound), HasSubstr("nope"));
}

TEST_F(FilesTest, ThePlaceIsKeptAcrossFiles) {
  const auto make = [&] {
    return TextLineDataset({write("a", "1\n2\n3\n"), write("b", "4\n"), write("c", "5\n6\n")}).shuffle(2, 7).batch(2);
  };
  Strings whole;
  for (const Element& element : make()) {
    for (const std::string& line : element.leaf().string_values()) whole.push_back(line);
  }
  ASSERT_EQ(whole.size(), 6u);
  for (int taken = 0; taken <= 3; ++taken) {
    const Dataset first = make();
    DatasetIterator iterator = first.make_iterator();
    for (int i = 0; i < taken; ++i) iterator.next();
    const Json state = iterator.save_state();
    const Dataset second = make();
    DatasetIterator resumed = second.make_iterator();
    resumed.restore_state(state);
    Strings rest;
    while (const auto element = resumed.next()) {
      for (const std::string& line : element->leaf().string_values()) rest.push_back(line);
    }
    EXPECT_EQ(rest, Strings(whole.begin() + 2 * taken, whole.end())) << taken;
  }
}

TEST_F(FilesTest, RecordsAreRead) {
  const std::string path = write("r", kThreeRecords);
  EXPECT_THAT(strings(TFRecordDataset({path})), ElementsAre("abc", "", "defghdefghdefgh"));
  EXPECT_THAT(strings(TFRecordDataset({path, write("empty", ""), path}).take(4)),
              ElementsAre("abc", "", "defghdefghdefgh", "abc"));
}

// tf.data takes a header that is cut off for the file's end.
TEST_F(FilesTest, DamagedRecordsAreNamed) {
  for (std::size_t size = 1; size < kThreeRecords.size(); ++size) {
    Strings before;
    const std::string message =
        fault(TFRecordDataset({write("r", kThreeRecords.substr(0, size))}), Code::kDataLoss, &before);
    if (size == 19 || size == 35) {
      EXPECT_EQ(message, "no error");
    } else {
      EXPECT_THAT(message, AllOf(HasSubstr("/r"), HasSubstr("cut off"))) << size;
    }
    EXPECT_EQ(before.size(), size >= 35 ? 2u : size >= 19 ? 1u : 0u) << size;
  }
  for (std::size_t at = 0; at < kThreeRecords.size(); ++at) {
    std::string damaged = kThreeRecords;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    EXPECT_THAT(fault(TFRecordDataset({write("r", damaged)}), Code::kDataLoss), HasSubstr("corrupted record at byte"))
        << at;
  }
}

TEST_F(FilesTest, CompressedFilesAreRead) {
  // gzip.compress(b"1\n2\n"), zlib.compress(b"1\n2\n"), and two members one after the other.
  const std::string gzip = from_hex("1f8b080000000000020333e432e202006178e16904000000");
  const std::string zlib = from_hex("789c33e432e2020001540078");
  EXPECT_THAT(strings(TextLineDataset({write("g", gzip)}, "GZIP")), ElementsAre("1", "2"));
  EXPECT_THAT(strings(TextLineDataset({write("g", gzip + gzip)}, "GZIP")), ElementsAre("1", "2", "1", "2"));
  EXPECT_THAT(strings(TextLineDataset({write("z", zlib)}, "ZLIB")), ElementsAre("1", "2"));
  EXPECT_THAT(strings(TextLineDataset({write("z", "")}, "ZLIB")), IsEmpty());
  EXPECT_THAT(fault(TextLineDataset({write("g", "hello hello hello")}, "GZIP"), Code::kDataLoss),
              HasSubstr("incorrect header check"));
  EXPECT_THAT(fault(TextLineDataset({write("g", gzip.substr(0, 20))}, "GZIP"), Code::kDataLoss),
              HasSubstr("ends within"));
  EXPECT_THROW(TextLineDataset({"x"}, "XZ"), Error);
  EXPECT_THROW(TextLineDataset("x", "XZ"), Error);
  EXPECT_EQ(TextLineDataset({"x", "y"}).cardinality(), kUnknownCardinality);
}

TEST_F(FilesTest, FilesAreListedInOrderOrShuffled) {
  for (const char* name : {"f10", "f2", "f1", "F3"}) write(std::string(name) + ".txt", name);
  std::filesystem::create_directories(folder_ + "/sub/deep");
  write("sub/deep/g.txt", "g");
  EXPECT_THAT(names(list_files(folder_ + "/*.txt", false)), ElementsAre("F3.txt", "f1.txt", "f10.txt", "f2.txt"));
  EXPECT_THAT(names(list_files(folder_ + "/f[12]*.txt", false)), ElementsAre("f1.txt", "f10.txt", "f2.txt"));
  EXPECT_THAT(names(list_files(folder_ + "/f?.txt", false)), ElementsAre("f1.txt", "f2.txt"));
  EXPECT_THAT(names(list_files({folder_ + "/f2.txt", folder_ + "/f*.txt"}, false)),
              ElementsAre("f1.txt", "f10.txt", "f2.txt", "f2.txt"));
  EXPECT_THAT(names(list_files(folder_ + "/*/*/*", false)), ElementsAre("sub/deep/g.txt"));
  EXPECT_THAT(names(list_files({folder_ + "/f2.txt", folder_ + "/no*"}, false)), ElementsAre("f2.txt"));
  EXPECT_THROW(list_files(folder_ + "/nope*"), Error);
  const Dataset shuffled = list_files(folder_ + "/*.txt", true, 3);
  EXPECT_EQ(shuffled.cardinality(), 4);
  EXPECT_THAT(names(shuffled), ElementsAre("f10.txt", "F3.txt", "f2.txt", "f1.txt"));
  EXPECT_THAT(names(shuffled), ElementsAre("f2.txt", "f1.txt", "f10.txt", "F3.txt"));
  EXPECT_THAT(names(shuffled), ElementsAre("f2.txt", "f1.txt", "f10.txt", "F3.txt"));
  random::set_global_seed(5);
  const Dataset by_global = list_files(folder_ + "/*.txt");
  EXPECT_THAT(names(by_global), ElementsAre("f1.txt", "f10.txt", "F3.txt", "f2.txt"));
  EXPECT_THAT(names(by_global), ElementsAre("f2.txt", "f1.txt", "f10.txt", "F3.txt"));
}

}  // namespace
}  // namespace lockstep::data
