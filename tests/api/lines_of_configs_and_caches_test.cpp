// Lines of programs that give arguments by keyword, make objects from configs, and read files of a cache. Texts
// and numbers are those of TensorFlow 2.21, Keras 3.15 and NumPy.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/bases.h"
#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace np = lockstep::np;
namespace tf = lockstep::tf;
using Dataset = lockstep::data::Dataset;
using ls::Tensor;

namespace lines_of_configs_and_caches {

template <typename T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(KeywordLines, SparseTensorsAreElements) {
  const auto st = tf::SparseTensor({.indices = {{0, 1}, {1, 2}}, .values = {10.0, 20.0}, .dense_shape = {2, 3}});
  int count = 0;
  for (const ls::SparseTensor s : Dataset::from_tensors(st).repeat(2)) {
    EXPECT_EQ(numbers(tf::sparse::to_dense(s)), (Numbers{0, 10, 0, 0, 0, 20}));
    ++count;
  }
  EXPECT_EQ(count, 2);
  const Tensor rows = tf::shape(tf::ones({4, 2}))[0];
  const auto wider = tf::SparseTensor(st.indices(), st.values(), {rows, 5});
  EXPECT_EQ(numbers(wider.dense_shape()), (Numbers{4, 5}));
  EXPECT_EQ(numbers(tf::sparse::to_dense({.sp_input = st, .default_value = -1})), (Numbers{-1, 10, -1, -1, -1, 20}));
}

TEST(KeywordLines, ArgumentsByKeyword) {
  const auto table = tf::lookup::StaticHashTable(
      tf::lookup::KeyValueTensorInitializer({.keys = {"a", "b"}, .values = {0, 1}, .value_dtype = tf::int64}),
      {.default_value = -1});
  EXPECT_EQ(table.value_dtype(), tf::int64);
  EXPECT_EQ(numbers(table.lookup(tf::constant({"b", "z"}))), (Numbers{1, -1}));
  auto counts = tf::lookup::experimental::MutableHashTable(
      {.key_dtype = tf::string, .value_dtype = tf::float32, .default_value = 0.0});
  counts.insert(tf::constant({"x", "y"}), tf::constant({1.0, 2.0}));
  EXPECT_EQ(numbers(counts.lookup(tf::constant({"y", "z"}))), (Numbers{2, 0}));
  const Tensor logits = tf::reshape(waves({24}, 0.4), {4, 2, 3});
  const auto by_position = tf::nn::ctc_greedy_decoder(logits, {4, 4});
  const auto by_keyword = tf::nn::ctc_greedy_decoder({.inputs = logits, .sequence_length = {4, 4}});
  EXPECT_EQ(numbers(by_keyword.log_probability), numbers(by_position.log_probability));
  const auto beams =
      tf::nn::ctc_beam_search_decoder({.inputs = logits, .sequence_length = {4, 4}, .beam_width = 5, .top_paths = 2});
  EXPECT_EQ(beams.decoded.size(), 2U);
  const ls::io::FeatureDescription description = {{"n", tf::io::FixedLenFeature({2}, tf::int64, {7, 8})}};
  const auto parsed = tf::io::parse_single_example(tf::train::Example().SerializeToString(), description);
  EXPECT_EQ(numbers(parsed["n"].leaf()), (Numbers{7, 8}));
}

TEST(KeywordLines, StringsByKeyword) {
  const auto text = tf::constant({"Hello World", "a,b;c", "  pad "});
  EXPECT_EQ(tf::strings::regex_replace(text, "[aeiou]", "*", {.replace_global = false})[0].item<std::string>(),
            "H*llo World");
  EXPECT_EQ(tf::strings::substr(text, {.pos = {1, 0, 2}, .len = {3, 1, 2}})[0].item<std::string>(), "ell");
  EXPECT_EQ(tf::strings::substr(text, {.pos = 1, .len = 2})[1].item<std::string>(), ",b");
  const auto st = tf::SparseTensor({.indices = {{0, 1}}, .values = {10.0}, .dense_shape = {2, 3}});
  EXPECT_EQ(numbers(tf::sparse::reset_shape(st, {3, 4}).dense_shape()), (Numbers{3, 4}));
  const auto w = tf::Variable(1.0), b = tf::Variable(2.0);
  for (const auto& [v, g] : ls::zip({w, b}, ls::Tensors{tf::constant(0.5), tf::constant(0.25)})) v.assign_sub(g);
  EXPECT_EQ(float(b), 1.75F);
}

TEST(KeywordLines, IteratorsGiveTheNextElement) {
  auto it = iter(Dataset::range(2));
  EXPECT_EQ(int(next(it).leaf()), 0);
  EXPECT_EQ(int(it.get_next().leaf()), 1);
  EXPECT_THROW(it.get_next(), ls::errors::OutOfRangeError);
}

TEST(KeywordLines, ArgumentsOfRunInAList) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto per_replica = strategy.run([] { return tf::constant({1.0, 2.0}); });
  const auto sums = strategy.run([](const Tensor& x, const Tensor& y) { return tf::reduce_sum(x * y); },
                                 {.args = {per_replica, tf::constant(3.0)}});
  EXPECT_EQ(sums.size(), 2);
  EXPECT_EQ(double(sums[1]), 9);
  const auto halves =
      strategy.experimental_distribute_dataset(Dataset::from_tensor_slices({waves({4}, 1), waves({4}, 2)}).batch(4));
  for (const auto& batch : halves) {
    const auto sizes = strategy.run(
        [](const auto& inputs) {
          const auto& [x, y] = inputs;
          return tf::size(x) + tf::size(y);
        },
        {.args = {batch}});
    EXPECT_EQ(int(strategy.reduce("SUM", sizes)), 8);
  }
  EXPECT_EQ(error_of([&] {
              strategy.run([](const Tensor& x) { return x; }, {.args = {1.0, 2.0}});
            }),
            "strategy.run: args has 2 arguments, the function takes 1");
}

TEST(ConfigLines, ClassesMakeObjectsFromConfigs) {
  auto config = layers::Dense(8, {.activation = "tanh"}).get_config();
  config["units"] = 4;
  config["name"] = "renamed";
  const auto layer = layers::Dense::from_config(config);
  EXPECT_EQ(layer.name(), "renamed");
  EXPECT_EQ(layer.units(), 4);
  EXPECT_EQ(layer(tf::ones({2, 3})).shape(), (ls::Shape{2, 4}));
  EXPECT_EQ(layers::Dropout::from_config({{"rate", 0.25}, {"name", "d"}}).rate(), 0.25);
  const auto adam = keras::optimizers::Adam::from_config({{"learning_rate", 0.02}, {"beta_1", 0.8}});
  EXPECT_FLOAT_EQ(float(adam.learning_rate()), 0.02F);
  EXPECT_EQ(adam.get_config()["beta_1"], 0.8);
  const auto huber = keras::losses::Huber::from_config({{"delta", 2.0}, {"name", "hub"}, {"reduction", "sum"}});
  EXPECT_FLOAT_EQ(float(huber({{0.0, 5.0}}, {{1.0, 1.0}})), 3.25F);
  const auto top = keras::metrics::TopKCategoricalAccuracy::from_config({{"k", 2}, {"name", "top"}});
  EXPECT_EQ(top.name(), "top");
  EXPECT_EQ(keras::constraints::MaxNorm::from_config({{"max_value", 1.0}}).get_config()["max_value"], 1.0);
  EXPECT_THROW(layers::Dense::from_config({{"name", "no_units"}}), ls::Error);
}

TEST(ConfigLines, SortedNames) {
  const std::map<std::string, int> dict = {{"b", 1}, {"a", 2}};
  EXPECT_EQ(ls::sorted(std::vector<int>{3, 1, 2}), (std::vector<int>{1, 2, 3}));
  ls::keras::History history;
  EXPECT_TRUE(ls::sorted(history.history).empty());
  EXPECT_EQ(numbers(np::cumprod(np::array({{1, 2}, {3, 4}}))), (Numbers{1, 2, 6, 24}));
  EXPECT_EQ(numbers(np::cumprod(np::array({{1, 2}, {3, 4}}), {.axis = 0})), (Numbers{1, 2, 3, 8}));
  EXPECT_EQ(np::array({1, 2}, np::float32).dtype(), tf::float32);
  EXPECT_EQ(numbers(np::linspace(0, 1, 2, {.endpoint = false, .dtype = np::float32})), (Numbers{0, 0.5}));
  EXPECT_EQ(np::zeros({2}, {.dtype = np::uint8}).dtype(), tf::uint8);
  EXPECT_EQ(tf::constant(np::sqrt(np::array({1.0, 4.0})), {.dtype = tf::float32}).dtype(), tf::float32);
  EXPECT_EQ(tf::constant(np::arange(4), {.dtype = tf::int32, .shape = {2, 2}}).shape(), (ls::Shape{2, 2}));
}

TEST(CheckpointLines, NamesOfObjects) {
  const auto step = tf::Variable(1);
  const tf::train::Checkpoint checkpoint({{"step", step}, {"w", tf::Variable({1.0, 2.0})}});
  EXPECT_TRUE(checkpoint.contains("step"));
  EXPECT_FALSE(checkpoint.contains("model"));
  EXPECT_EQ(text(checkpoint), "Checkpoint(step, w)");
  const auto folder = testing::TempDir() + "names_of_objects";
  tf::train::CheckpointManager manager(checkpoint, folder, {.max_to_keep = 1});
  EXPECT_EQ(*manager.save({.checkpoint_number = step}), folder + "/ckpt-1");
  std::filesystem::remove_all(folder);
}

TEST(DebuggingLines, NumericsAreChecked) {
  tf::debugging::enable_check_numerics();
  try {
    tf::math::log(tf::constant({1.0, -1.0}));
    ADD_FAILURE();
  } catch (const ls::Error& error) {
    EXPECT_EQ(error.code(), tf::errors::INVALID_ARGUMENT);
    EXPECT_NE(error.message().find("Log"), std::string::npos) << error.message();
  }
  EXPECT_NO_THROW(tf::concat({tf::fill({2}, np::inf), tf::ones({1})}, 0));
  tf::debugging::disable_check_numerics();
  EXPECT_NO_THROW(tf::math::log(tf::constant({0.0})));
}

TEST(CacheLines, FilesOfTheCache) {
  const std::string folder = testing::TempDir() + "get_file";
  std::filesystem::create_directories(folder + "/cache");
  std::ofstream(folder + "/a.txt") << "hello";
  const auto path = keras::utils::get_file("b.txt", "file://" + folder + "/a.txt", {.cache_dir = folder + "/cache"});
  EXPECT_EQ(path, folder + "/cache/datasets/b.txt");
  EXPECT_EQ(tf::io::read_file(path).item<std::string>(), "hello");
  EXPECT_EQ(
      keras::utils::get_file({.origin = folder + "/a.txt", .cache_subdir = "texts", .cache_dir = folder + "/cache"}),
      folder + "/cache/texts/a.txt");
  EXPECT_EQ(keras::utils::get_file("b.txt", {.origin = "https://example.com/b.txt", .cache_dir = folder + "/cache"}),
            path);
  EXPECT_EQ(
      error_of([&] { keras::utils::get_file("c.txt", "https://example.com/c.txt", {.cache_dir = folder}); }),
      "get_file: https://example.com/c.txt is not downloaded: lockstep does not access the network; save the file "
      "as " +
          folder + "/datasets/c.txt");
  EXPECT_THROW(keras::utils::get_file("d.txt", folder + "/none.txt", {.cache_dir = folder}), ls::errors::NotFoundError);
  std::filesystem::remove_all(folder);
}

}  // namespace lines_of_configs_and_caches
