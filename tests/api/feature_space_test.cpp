// FeatureSpace, images and sounds of files: values of Keras 3.15 for the same program in Python.
#include <cmath>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/api/results.h"

namespace {

namespace ls = lockstep;
namespace keras = ls::keras;
using keras::utils::FeatureSpace;
using ls::Tensor;

keras::Structure table() {
  return {{"sex", Tensor{0, 1, 1, 0, 1, 0}},
          {"cp", Tensor{1, 2, 4, 3, 1, 2}},
          {"age", Tensor{20.0, 35.5, 60.0, 47.0, 80.0, 29.0}},
          {"trestbps", Tensor{100.0, 120.0, 145.0, 90.0, 130.0, 110.0}},
          {"thal", Tensor{"fixed", "normal", "normal", "reversible", "fixed", "normal"}},
          {"slope", Tensor{.1, .5, -.2, .7, 0.0, .3}}};
}

// The sum of each row, its columns times cos(column): a number that depends on each place.
Numbers rows_of(const Tensor& x) {
  const Tensor values = ls::ops::cast(x, ls::float64);
  const Tensor weights = ls::ops::cos(ls::ops::cast(ls::ops::range(0, x.dim(-1), 1), ls::float64));
  return numbers(ls::ops::reduce_sum(values * weights, -1));
}

TEST(FeatureSpace, ColumnsInOneVector) {
  const FeatureSpace space({.features = {{"sex", "integer_categorical"},
                                         {"cp", "integer_hashed"},
                                         {"thal", "string_categorical"},
                                         {"age", "float_discretized"},
                                         {"trestbps", "float_normalized"},
                                         {"slope", "float"}},
                            .crosses = {{"sex", "age"}, {"thal", "sex"}},
                            .crossing_dim = 16,
                            .hashing_dim = 7,
                            .num_discretization_bins = 4});
  EXPECT_NE(error_of([&] { space(table()); }), "no error");
  space.adapt(ls::data::Dataset::from_tensor_slices(table()).batch(2));
  const Tensor encoded = space(table()).leaf();
  EXPECT_EQ(encoded.shape(), (ls::Shape{6, 52}));
  expect_near(rows_of(encoded), {-1.85856675545325, -0.6361950773278262, -0.4064113243533253, 1.997150371187363,
                                 -1.7689923664523954, 0.030488564472705093});
  // One row of scalars.
  keras::Structure one;
  for (const auto& [name, column] : table().entries()) one[name] = column.leaf()[2];
  EXPECT_EQ(space(one).leaf().shape(), (ls::Shape{52}));
  expect_near(rows_of(space(one).leaf()), {-0.4064113243533253});
  const keras::Model model({.inputs = space.get_inputs(), .outputs = space.get_encoded_features()});
  keras::Structure columns;
  for (const auto& [name, column] : table().entries()) columns[name] = ls::ops::expand_dims(column.leaf(), -1);
  expect_near(rows_of(model.predict(columns, {.verbose = 0})), rows_of(encoded));
  // A file of its own: Keras reads it in test_preprocessing.py.
  const std::string path = ::testing::TempDir() + "feature_space.keras";
  space.save(path);
  const FeatureSpace again(keras::load_model(path));
  expect_near(rows_of(again(table()).leaf()), rows_of(encoded));
  expect_near(rows_of(again(one).leaf()), {-0.4064113243533253});
  EXPECT_EQ(again.get_config(), space.get_config());
  EXPECT_EQ(error_of([&] { space.save(::testing::TempDir() + "space.h5"); }).find("no error"), std::string::npos);
  EXPECT_EQ(error_of([&] { FeatureSpace{model}; }), "model '" + model.name() + "' is not a FeatureSpace");
  std::filesystem::remove(path);
}

TEST(FeatureSpace, ColumnsByName) {
  keras::Structure columns;
  for (const auto& [name, column] : table().entries()) {
    if (name != "slope") columns[name] = column;
  }
  const FeatureSpace space(
      {.features = {{"sex", FeatureSpace::integer_categorical({.num_oov_indices = 0})},
                    {"thal", FeatureSpace::string_categorical({.max_tokens = 3, .output_mode = "int"})},
                    {"cp", FeatureSpace::integer_hashed({.num_bins = 5})},
                    {"age", FeatureSpace::float_discretized({.num_bins = 3})},
                    {"trestbps", FeatureSpace::float_rescaled({.scale = .1, .offset = 1.0})}},
       .output_mode = "dict",
       .crosses = {FeatureSpace::cross({.feature_names = {"sex", "age"}, .crossing_dim = 8})}});
  space.adapt(ls::data::Dataset::from_tensor_slices(columns).batch(3));
  const keras::Structure encoded = space(columns);
  const double c1 = std::cos(1), c2 = std::cos(2), c3 = std::cos(3), c4 = std::cos(4), c5 = std::cos(5),
               c6 = std::cos(6);
  expect_near(rows_of(encoded["age"]), {1, c1, c2, c2, c2, c1});
  expect_near(rows_of(encoded["cp"]), {c4, c4, c3, c1, c4, c4});
  expect_near(rows_of(encoded["sex"]), {c1, 1, 1, c1, 1, c1});
  expect_near(rows_of(encoded["sex_X_age"]), {c1, c3, c6, c5, c6, c1});
  expect_near(rows_of(encoded["thal"]), {2, 1, 1, 0, 2, 1});
  expect_near(rows_of(encoded["trestbps"]), {11, 13, 15.5, 10, 14, 12});
  EXPECT_EQ(encoded["thal"].leaf().shape(), (ls::Shape{6, 1}));
}

class FilesOfData : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("lockstep_data_" + std::to_string(::getpid()))).string();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

// Sums and a pixel, by PIL.
TEST_F(FilesOfData, ImagesAreLoadedAndSaved) {
  const Tensor pixels =
      ls::ops::cast(ls::ops::reshape(ls::ops::range(0, 72, 1), ls::Shape{4, 6, 3}) * 7 % 256, "uint8");
  const std::string path = folder_ + "/a.png";
  keras::utils::save_img(path, pixels, {.scale = false});
  const auto load = [&](const keras::utils::LoadImageOptions& options) {
    return keras::utils::img_to_array(keras::utils::load_img(path, options));
  };
  const auto sum = [](const Tensor& x) { return numbers(ls::ops::reduce_sum(ls::ops::cast(x, ls::float64))).at(0); };
  EXPECT_EQ(numbers(load({})), numbers(pixels));
  const Tensor nearest = load({.target_size = {{5, 3}}});
  EXPECT_EQ(nearest.shape(), (ls::Shape{5, 3, 3}));
  EXPECT_EQ(nearest.dtype(), ls::float32);
  EXPECT_EQ(sum(nearest), 5310);
  EXPECT_EQ(numbers(nearest[1][2]), (Numbers{231, 238, 245}));
  EXPECT_EQ(sum(load({.color_mode = "grayscale"})), 2944);
  EXPECT_EQ(sum(load({.target_size = {{5, 3}}, .interpolation = "bilinear", .keep_aspect_ratio = true})), 5430);
  const Tensor scaled = keras::utils::array_to_img(ls::ops::cast(pixels, "float32") / 100 - 1);
  EXPECT_EQ(sum(scaled), 9003);
  EXPECT_EQ(numbers(scaled[1][2]), (Numbers{169, 177, 184}));
  EXPECT_NE(error_of([&] { load({.color_mode = "cmyk"}); }).find("color_mode"), std::string::npos);
}

void append(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

TEST_F(FilesOfData, SoundsAreReadFromFolders) {
  int number = 0;
  for (const auto& [name, samples] : {std::pair{"a/x", 10}, std::pair{"a/y", 7}, std::pair{"b/z", 12}}) {
    ++number;
    std::string wav = "RIFF";
    append(wav, static_cast<std::uint64_t>(36 + 2 * samples), 4);
    wav += "WAVEfmt ";
    append(wav, 16, 4), append(wav, 1, 2), append(wav, 1, 2), append(wav, 8000, 4), append(wav, 16000, 4);
    append(wav, 2, 2), append(wav, 16, 2);
    wav += "data";
    append(wav, static_cast<std::uint64_t>(2 * samples), 4);
    for (int i = 0; i < samples; ++i) append(wav, static_cast<std::uint64_t>(1000 * number * i), 2);
    std::filesystem::create_directories(folder_ + "/" + name[0]);
    std::ofstream(folder_ + "/" + name + ".wav", std::ios::binary) << wav;
  }
  const auto dataset = keras::utils::audio_dataset_from_directory(
      folder_, {.batch_size = 3, .output_sequence_length = 9, .shuffle = false});
  EXPECT_EQ(dataset.class_names, (std::vector<std::string>{"a", "b"}));
  int batches = 0;
  for (const auto& [sounds, labels] : dataset) {
    EXPECT_EQ(sounds.shape(), (ls::Shape{3, 9, 1}));
    EXPECT_NEAR(numbers(ls::ops::reduce_sum(sounds)).at(0), 5.6762695, 1e-5);
    EXPECT_EQ(numbers(labels), (Numbers{0, 0, 1}));
    ++batches;
  }
  EXPECT_EQ(batches, 1);
}

TEST(Batches, ArePackedAndUnpacked) {
  const auto [x, y, weight] = keras::utils::unpack_x_y_sample_weight({Tensor{1}, Tensor{2}});
  EXPECT_EQ(numbers(x), Numbers{1});
  EXPECT_EQ(numbers(y), Numbers{2});
  EXPECT_FALSE(weight.leaf().defined());
  EXPECT_EQ(numbers(keras::utils::pack_x_y_sample_weight(Tensor{1})), Numbers{1});
  EXPECT_EQ(keras::utils::pack_x_y_sample_weight(Tensor{1}, Tensor{2}, Tensor{3}).size(), 3U);
}

}  // namespace
