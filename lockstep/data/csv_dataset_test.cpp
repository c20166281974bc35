// Expected values are those of TensorFlow 2.21 for the same files.
#include "lockstep/data/csv_dataset.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/random/seeds.h"

namespace lockstep::data::experimental {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::vector<std::int64_t>>;

class CsvDatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    for (int file = 0; file < 2; ++file) {
      std::string text = "id,price,name,big,label,wide\n";
      for (int i = 0; i < 7; ++i) {
        text += std::to_string(i + 10 * file) + "," + std::to_string(i * 0.25) + ",\"n,\n" + std::to_string(i) + "\"," +
                std::to_string(i * 3000000000) + "," + std::to_string(i % 2) + "," +
                (i == 3 ? "1e40" : std::to_string(i)) + "\r\n";
      }
      write(std::to_string(file) + ".csv", text);
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
    return folder_ + "/" + name;
  }
  std::string pattern() const { return folder_ + "/?.csv"; }
  static Ids ids(const Dataset& batches) {
    Ids out;
    for (const Element& batch : batches) {
      const Element& features = batch.is_dict() ? batch : batch[0];
      out.emplace_back();
      for (const std::int32_t id : features["id"].to_vector<std::int32_t>()) out.back().push_back(id);
    }
    return out;
  }
  static std::string message(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  }
  const std::string folder_ =
      (std::filesystem::temp_directory_path() / ("lockstep_csv_" + std::to_string(getpid()))).string();
};

TEST_F(CsvDatasetTest, Batches) {
  random::set_random_seed(3);
  EXPECT_EQ(ids(make_csv_dataset(
                pattern(), 4, {.label_name = "label", .num_epochs = 1, .shuffle_buffer_size = 6, .shuffle_seed = 5})),
            (Ids{{0, 5, 1, 6}, {10, 13, 12, 3}, {2, 4, 14, 11}, {16, 15}}));
  EXPECT_EQ(ids(make_csv_dataset(
                pattern(), 4,
                {.select_columns = {{"name", "id"}}, .num_epochs = 1, .shuffle = false, .num_parallel_reads = 2})),
            (Ids{{0, 10, 1, 11}, {2, 12, 3, 13}, {4, 14, 5, 15}, {6, 16}}));
  EXPECT_EQ(ids(make_csv_dataset(pattern(), 5, {.shuffle = false}).take(4)),
            (Ids{{0, 1, 2, 3, 4}, {5, 6, 10, 11, 12}, {13, 14, 15, 16, 0}, {1, 2, 3, 4, 5}}));
}

TEST_F(CsvDatasetTest, TypesOfColumns) {
  const ElementSpec spec = make_csv_dataset(pattern(), 4).element_spec();
  EXPECT_EQ(spec["id"].leaf().dtype, DType::kInt32);
  EXPECT_EQ(spec["price"].leaf().dtype, DType::kFloat32);
  EXPECT_EQ(spec["name"].leaf().dtype, DType::kString);
  EXPECT_EQ(spec["big"].leaf().dtype, DType::kInt64);
  EXPECT_EQ(spec["wide"].leaf().dtype, DType::kFloat64);
}

TEST_F(CsvDatasetTest, Rows) {
  const std::string path = write("rows.txt", "a,b,c\n1,,\"say \"\"hi\"\"\"\n,2.5,x\n");
  std::vector<std::string> rows;
  CsvDataset dataset(path, {7, 0.5, "none"}, {.header = true});
  for (const Element& row : dataset) {
    rows.push_back(std::to_string(row[0].item<std::int32_t>()) + " " + std::to_string(row[1].item<float>()) + " " +
                   row[2].leaf().string_values()[0]);
  }
  EXPECT_THAT(rows, ElementsAre("1 0.500000 say \"hi\"", "7 2.500000 x"));
  const auto read = [&](const CsvDataset& of) {
    return message([&] {
      for (const Element& row : of) static_cast<void>(row);
    });
  };
  EXPECT_THAT(read(CsvDataset(path, {DType::kInt32, 0.5, "none"}, {.header = true})),
              HasSubstr("required but missing"));
  EXPECT_THAT(read(CsvDataset(path, {7, 0.5}, {.header = true})), HasSubstr("expected 2"));
  EXPECT_THAT(message([&] { make_csv_dataset(path, 2, {.label_name = "z"}); }), HasSubstr("'z'"));
  EXPECT_THAT(message([&] { make_csv_dataset(folder_ + "/none*", 2); }), HasSubstr("no file matches"));
  EXPECT_EQ(read(CsvDataset(path, {"none"}, {.header = true, .exclude_cols = {{0, 1}}})), "no error");
}

}  // namespace
}  // namespace lockstep::data::experimental
