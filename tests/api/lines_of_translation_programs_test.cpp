// Lines of programs on translation, audio, tables and files: ragged texts, texts in functions that are saved, arrays of
// other dtypes in fit. Numbers are those of TensorFlow 2.21, Keras 3.15 and NumPy.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace np = lockstep::np;
namespace tf = lockstep::tf;
using ls::Tensor;

namespace lines_of_translation_programs {

TEST(TranslationPrograms, TextsAreSorted) {
  EXPECT_EQ(np::sort(np::array({"b", "a", "c"})).to_vector<std::string>(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(numbers(np::argsort(np::array({"b", "a", "c"}))), (Numbers{1, 0, 2}));
}

TEST(TranslationPrograms, FilesWithMissingNumbers) {
  const std::string path = testing::TempDir() + "/missing.csv";
  std::ofstream(path) << "a,b\n1,2\n3,x\n,6\n";
  const Tensor table = np::genfromtxt(path, {.delimiter = ",", .skip_header = 1});
  EXPECT_EQ(table.shape(), (ls::Shape{3, 2}));
  const Numbers found = numbers(table);
  EXPECT_EQ(found[2], 3);
  EXPECT_TRUE(std::isnan(found[3]) && std::isnan(found[4]));
  EXPECT_EQ(numbers(np::genfromtxt(path, {.delimiter = ",", .skip_header = 1, .usecols = {1}}))[2], 6);
}

// fit casts arrays of other floating dtypes to floatx, datasets keep theirs.
class Recorder : public keras::Model {
 public:
  keras::LayerHandle dense = track("dense", layers::Dense(1));
  std::vector<ls::DType> dtypes;

  keras::Structure call(const keras::Structure& x) override { return dense(x); }
  keras::Results train_step(const keras::Structure& data) override {
    const auto [x, y, weight] = data.parts<3>();
    for (const auto& part : {x, y, weight}) dtypes.push_back(part.leaf().dtype());
    return {{"loss", 0.0}};
  }
};

TEST(TranslationPrograms, ArraysInFitAreFloatx) {
  Recorder model;
  model.compile("sgd", "mse");
  model.fit(np::ones({4, 2}), np::ones({4, 1}), {.verbose = 0, .sample_weight = np::ones({4})});
  EXPECT_EQ(model.dtypes, (std::vector<ls::DType>{tf::float32, tf::float32, tf::float32}));
  model.dtypes.clear();
  model.fit(np::ones({4, 2}, tf::float16), np::ones({4, 1}, tf::int32), {.verbose = 0, .sample_weight = np::ones({4})});
  EXPECT_EQ(model.dtypes, (std::vector<ls::DType>{tf::float32, tf::int32, tf::float32}));
  model.dtypes.clear();
  const auto parts = std::tuple{np::ones({4, 2}), np::ones({4, 1}), np::ones({4})};
  model.fit(tf::data::Dataset::from_tensor_slices(parts).batch(4), {.verbose = 0});
  EXPECT_EQ(model.dtypes, (std::vector<ls::DType>{tf::float64, tf::float64, tf::float64}));
}

TEST(TranslationPrograms, MetricFunctionsOfFloat64Targets) {
  const auto difference = [](const Tensor& y_true, const Tensor& y_pred) {
    return keras::ops::mean(keras::ops::abs(y_true - y_pred));
  };
  const auto inputs = keras::Input({2});
  const keras::Model model(inputs, layers::Dense(1, {.kernel_initializer = "ones"})(inputs));
  model.compile("sgd", "mse", {.metrics = {difference}});
  const auto results = model.evaluate(np::ones({4, 2}), np::ones({4, 1}), {.verbose = 0});
  EXPECT_EQ(static_cast<double>(results[1]), 1.0);
  const auto [loss, metric] = results;
  EXPECT_EQ(numbers(np::round(metric, 2)), (Numbers{1}));
}

class Batches : public keras::utils::PyDataset {
 public:
  std::int64_t len() const override { return 3; }
  tf::data::Element operator[](std::int64_t index) override { return Tensor{index}; }
};

TEST(TranslationPrograms, ListsAndLengths) {
  EXPECT_EQ(ls::len(Batches()), 3);
  std::ostringstream out;
  out << ls::List<float>(std::vector<float>{0.5F, 1.0F});
  EXPECT_EQ(out.str(), "[0.5, 1.0]");
  const std::string name = keras::saving::deserialize_keras_object(ls::Json("mse"));
  const std::vector<std::string> names = keras::saving::deserialize_keras_object(ls::Json::array({"mse", "mae"}));
  EXPECT_EQ(name, "mse");
  EXPECT_EQ(names[1], "mae");
}

}  // namespace lines_of_translation_programs
