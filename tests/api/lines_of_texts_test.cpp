// Lines of TensorFlow's guide on Unicode: functions of ragged strings and code points, booleans as values. Numbers are
// TensorFlow 2.21's.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace np = lockstep::np;
namespace tf = lockstep::tf;
using ls::Tensor;

namespace lines_of_texts {

TEST(LinesOfTexts, SentencesAreSplitWhereTheScriptChanges) {
  const std::vector<std::string> sentences = {"Hello, world.", "世界こんにちは"};
  const auto codes = tf::strings::unicode_decode(sentences, "UTF-8");
  const auto script = tf::strings::unicode_script(codes);
  EXPECT_EQ(script.to_string(), "[[25, 25, 25, 25, 25, 0, 0, 25, 25, 25, 25, 25, 0], [17, 17, 20, 20, 20, 20, 20]]");
  const tf::RaggedTensor changed =
      tf::not_equal(script.index({ls::all, {1, ls::None}}), script.index({ls::all, {ls::None, -1}}));
  const auto starts_word = tf::concat({tf::fill({script.nrows(), 1}, true), changed}, {.axis = 1});
  const auto word_starts = tf::squeeze(tf::where(starts_word.values()), {.axis = 1});
  EXPECT_EQ(numbers(word_starts), (Numbers{0, 5, 7, 12, 13, 15}));
  const auto words = tf::RaggedTensor::from_row_starts({.values = codes.values(), .row_starts = word_starts});
  const auto counts = tf::reduce_sum(tf::cast(starts_word, tf::int64), {.axis = 1});
  const auto nested = tf::RaggedTensor::from_row_lengths({.values = words, .row_lengths = counts});
  const auto texts = tf::strings::unicode_encode(nested, "UTF-8");
  EXPECT_EQ(texts.to_list(), (ls::Json{{"Hello", ", ", "world", "."}, {"世界", "こんにちは"}}));
  EXPECT_EQ(tf::strings::unicode_decode(texts, "UTF-8").to_string(), nested.to_string());
}

TEST(LinesOfTexts, PartsOfRaggedStrings) {
  const auto words = tf::strings::split({"ab c", "é"});
  EXPECT_EQ(tf::strings::unicode_split(words, "UTF-8").to_list(), (ls::Json{{{"a", "b"}, {"c"}}, {{"é"}}}));
  EXPECT_EQ(tf::strings::split(words, {.sep = "b"}).to_list(), (ls::Json{{{"a", ""}, {"c"}}, {{"é"}}}));
  EXPECT_EQ(tf::strings::bytes_split(words)[0].to_list(), (ls::Json{{"a", "b"}, {"c"}}));
  EXPECT_EQ(tf::strings::unicode_transcode(words, {.input_encoding = "UTF-8", .output_encoding = "UTF-16-BE"})
                .flat_values()
                .to_vector<std::string>()[1],
            std::string("\0c", 2));
}

TEST(LinesOfTexts, TextsOfTwoAxes) {
  const Tensor texts = {{"a b", "c"}, {"d", "e f"}};
  EXPECT_EQ(tf::strings::split(texts).to_list(), (ls::Json{{{"a", "b"}, {"c"}}, {{"d"}, {"e", "f"}}}));
  EXPECT_EQ(tf::strings::bytes_split(texts)[1].to_list(), (ls::Json{{"d"}, {"e", " ", "f"}}));
  EXPECT_EQ(tf::strings::unicode_split(texts, "UTF-8")[0].to_list(), (ls::Json{{"a", " ", "b"}, {"c"}}));
  EXPECT_EQ(tf::strings::unicode_decode(texts, "UTF-8").to_string(), "[[[97, 32, 98], [99]], [[100], [101, 32, 102]]]");
}

TEST(LinesOfTexts, RowsAreMadeByKeyword) {
  const auto inner = tf::RaggedTensor::from_row_limits({.values = {1, 2, 3}, .row_limits = {1, 3}});
  EXPECT_EQ(inner.to_string(), "[[1], [2, 3]]");
  EXPECT_EQ(tf::RaggedTensor::from_uniform_row_length({.values = inner, .uniform_row_length = 2}).to_string(),
            "[[[1], [2, 3]]]");
  EXPECT_EQ(tf::RaggedTensor::from_uniform_row_length(inner, {.uniform_row_length = 1}).to_string(),
            "[[[1]], [[2, 3]]]");
  EXPECT_EQ(numbers(tf::reduce_sum(inner.values())), (Numbers{6}));
}

TEST(LinesOfTexts, BooleansStayBooleans) {
  for (const Tensor& x : {tf::fill({2}, true), np::full({2}, true), tf::where({true, true}, true, false)}) {
    EXPECT_EQ(x.dtype(), ls::DType::kBool);
    EXPECT_EQ(numbers(x), (Numbers{1, 1}));
  }
  EXPECT_EQ(tf::Variable(true).dtype(), ls::DType::kBool);
  EXPECT_EQ(tf::where({true}, true, 0).dtype(), ls::DType::kInt32);
}

TEST(LinesOfTexts, ListsOfTextsAreJoinedElementwise) {
  const Tensor joined = tf::strings::join({{"a", "b"}, {"c", "d"}}, {.separator = "-"});
  EXPECT_EQ(joined.to_vector<std::string>(), (std::vector<std::string>{"a-c", "b-d"}));
  EXPECT_EQ(std::string(tf::io::encode_base64("hello")), "aGVsbG8");
  EXPECT_EQ(std::string(tf::io::decode_base64("aGVsbG8")), "hello");
}

TEST(LinesOfTexts, NumbersAreCountedAsSparseTensors) {
  const auto expect = [](const tf::SparseTensor& found, const Numbers& indices, const Numbers& values,
                         const Numbers& shape) {
    EXPECT_EQ(numbers(found.indices()), indices);
    EXPECT_EQ(numbers(found.values()), values);
    EXPECT_EQ(numbers(found.dense_shape()), shape);
  };
  const Tensor x = {{1, 2, 2}, {5, 1, 1}};
  expect(tf::sparse::bincount(x), {1, 2, 5}, {3, 2, 1}, {6});
  expect(tf::sparse::bincount(x, {.axis = -1}), {0, 1, 0, 2, 1, 1, 1, 5}, {1, 2, 2, 1}, {2, 6});
  const auto weighted = tf::sparse::bincount(x, {.weights = {{.5, 1., 1.}, {1., 1., 2.}}, .axis = -1});
  expect(weighted, {0, 1, 0, 2, 1, 1, 1, 5}, {.5, 2, 3, 1}, {2, 6});
  const auto limited = tf::sparse::bincount(x, {.axis = -1, .minlength = 2, .maxlength = 3, .binary_output = true});
  expect(limited, {0, 1, 0, 2, 1, 1}, {1, 1, 1}, {2, 3});
  const auto sparse = tf::sparse::from_dense({{1, 2, 0}, {3, 3, 1}});
  expect(tf::sparse::bincount(sparse, {.axis = -1}), {0, 1, 0, 2, 1, 1, 1, 3}, {1, 1, 1, 2}, {2, 4});
  expect(tf::sparse::bincount(sparse), {1, 2, 3}, {2, 1, 2}, {4});
  EXPECT_THROW(tf::sparse::bincount(x, {.axis = 1}), ls::errors::InvalidArgumentError);
}

TEST(LinesOfTexts, RecordsAreCompressed) {
  const auto folder = std::filesystem::temp_directory_path() / ("records" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  for (const std::string type : {"GZIP", "ZLIB"}) {
    const std::string path = folder / type;
    {
      tf::io::TFRecordWriter writer(path, {.compression_type = type, .compression_level = 9});
      for (const char* text : {"one", "two"}) writer.write(text);
      writer.write(std::string(std::size_t{1} << 20, 'x'));
    }
    EXPECT_LT(std::filesystem::file_size(path), 5000u);
    std::vector<std::size_t> sizes;
    for (const auto& record : tf::data::TFRecordDataset(path, {.compression_type = type}))
      sizes.push_back(std::string(record).size());
    EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 3, std::size_t{1} << 20}));
  }
  EXPECT_THROW(tf::io::TFRecordWriter(folder / "x", "BZIP"), ls::errors::InvalidArgumentError);
  std::filesystem::remove_all(folder);
}

}  // namespace lines_of_texts
