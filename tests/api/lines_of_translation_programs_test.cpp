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

const std::vector<std::string> kWords = {"the", "cat", "sat", "down"};
Tensor sentences() { return tf::constant({"The cat sat!", "", "down the hill"}); }

TEST(TranslationPrograms, RaggedTextVectorization) {
  const auto layer = layers::TextVectorization({.vocabulary = kWords, .ragged = true});
  const tf::RaggedTensor rows = layer(sentences());
  EXPECT_EQ(rows.to_string(), "[[2, 3, 4], [], [5, 2, 1]]");
  EXPECT_EQ(numbers(rows.index({ls::all, {1, {}}}).to_tensor()), (Numbers{3, 4, 0, 0, 2, 1}));
  const auto text = [](const ls::keras::Structure& out) { return tf::RaggedTensor(out).to_string(); };
  EXPECT_EQ(
      text(layers::TextVectorization({.output_sequence_length = 2, .vocabulary = kWords, .ragged = true})(sentences())),
      "[[2, 3], [], [5, 2]]");
  EXPECT_EQ(text(layers::TextVectorization({.ngrams = 2, .vocabulary = {"the", "cat", "the cat"}, .ragged = true})(
                sentences())),
            "[[2, 3, 1, 4, 1], [], [1, 2, 1, 1, 1]]");
  EXPECT_EQ(text(layers::TextVectorization({.split = "character", .vocabulary = {"a", "b", "c"}, .ragged = true})(
                tf::constant({"ab", "cad"}))),
            "[[2, 3], [4, 2, 1]]");
  const auto whole = layers::TextVectorization({.standardize = ls::None,
                                                .split = ls::None,
                                                .output_sequence_length = 2,
                                                .vocabulary = {"a", "b"},
                                                .ragged = true});
  EXPECT_EQ(numbers(whole(Tensor{{"a", "b", "c"}, {"c", "c", "a"}})), (Numbers{2, 3, 1, 1}));
  EXPECT_THROW(layers::TextVectorization({.output_mode = "multi_hot", .ragged = true}),
               ls::errors::InvalidArgumentError);
}

TEST(TranslationPrograms, RaggedTextVectorizationOfDatasets) {
  const auto layer = layers::TextVectorization({.ragged = true});
  layer.adapt(tf::data::Dataset::from_tensor_slices(sentences()).batch(2));
  EXPECT_EQ(layer.vocabulary_size(), 7);
  const auto fixed = layers::TextVectorization({.vocabulary = kWords, .ragged = true});
  std::vector<std::string> rows;
  for (const tf::RaggedTensor batch :
       tf::data::Dataset::from_tensor_slices(sentences()).batch(2).map([&](const Tensor& texts) {
         return fixed(texts);
       }))
    rows.push_back(batch.to_string());
  EXPECT_EQ(rows, (std::vector<std::string>{"[[2, 3, 4], []]", "[[5, 2, 1]]"}));
}

class Server : public tf::Module {
 public:
  keras::LayerHandle layer = track("layer", layers::TextVectorization({.vocabulary = kWords, .ragged = true}));
  tf::Function words = track(
      "words",
      tf::function([](const Tensor& texts) { return tf::strings::split(texts).to_tensor({.default_value = "-"}); },
                   {.input_signature = {tf::TensorSpec({ls::None}, tf::string)}}));
  tf::Function ids = track("ids", tf::function(
                                      [this](const Tensor& texts) {
                                        if (tf::executing_eagerly()) throw std::logic_error("eager");
                                        return tf::RaggedTensor(layer(texts)).to_tensor();
                                      },
                                      {.input_signature = {tf::TensorSpec({ls::None}, tf::string)}}));
};

TEST(TranslationPrograms, RaggedTextsInSavedFunctions) {
  const Server server;
  const std::string folder = testing::TempDir() + "/translation_server";
  tf::saved_model::save(server, folder);
  const auto loaded = tf::saved_model::load(folder);
  const Tensor words = loaded.call("words", tf::constant({"a b", "c"}));
  EXPECT_EQ(words.to_vector<std::string>(), (std::vector<std::string>{"a", "b", "c", "-"}));
  EXPECT_EQ(numbers(loaded.call("ids", sentences())), (Numbers{2, 3, 4, 0, 0, 0, 5, 2, 1}));
  EXPECT_TRUE(tf::executing_eagerly());
}

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

TEST(TranslationPrograms, RaggedResultsOfLayersAreTensors) {
  const auto layer = layers::TextVectorization({.vocabulary = kWords, .ragged = true});
  const Tensor rows = layer(sentences()).to_tensor();
  EXPECT_EQ(numbers(rows), (Numbers{2, 3, 4, 0, 0, 0, 5, 2, 1}));
  EXPECT_EQ(numbers(keras::Structure(Tensor{1, 2}).to_tensor()), (Numbers{1, 2}));
}

TEST(TranslationPrograms, IdentityOfComputedExtents) {
  const auto scores = tf::zeros({2, 3});
  EXPECT_EQ(numbers(tf::eye(tf::shape(scores)[0], tf::shape(scores)[1])), (Numbers{1, 0, 0, 0, 1, 0}));
}

// A class that compiles itself anew from the file.
class OwnCompile : public keras::Model {
 public:
  keras::LayerHandle dense = track("dense", layers::Dense(2));
  std::string loss_name;

  keras::Structure call(const keras::Structure& x) override { return dense(x); }
  void compile(const std::string& optimizer, const std::string& loss) {
    Model::compile(optimizer, loss);
    loss_name = loss;
  }
  ls::Json get_compile_config() const override { return {{"optimizer", "sgd"}, {"loss_name", loss_name}}; }
  void compile_from_config(const ls::Json& config) override {
    compile(keras::utils::deserialize_keras_object(config["optimizer"]),
            keras::utils::deserialize_keras_object(config["loss_name"]));
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(OwnCompile, "TranslationPrograms")

TEST(TranslationPrograms, CompileFromConfigChangesTheModel) {
  OwnCompile model;
  model.compile("sgd", "mae");
  model.fit(np::ones({4, 3}), np::ones({4, 2}), {.verbose = 0});
  const std::string path = testing::TempDir() + "/own_compile.keras";
  model.save(path);
  const auto loaded = keras::models::load_model(path);
  EXPECT_EQ(loaded.as<OwnCompile>().loss_name, "mae");
  EXPECT_EQ(model.get_compile_config().keys(), (std::vector<std::string>{"optimizer", "loss_name"}));
}

}  // namespace lines_of_translation_programs
