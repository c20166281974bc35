// tf.image, tf.io, the data sets of keras.datasets, and datasets of folders, as programs use them. Expected numbers:
// TensorFlow 2.21 and Keras 3.15.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/formats/npy.h"
#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace image = lockstep::image;
namespace ops = lockstep::ops;
using ls::Tensor;

// Named: units of a build hold several files.
namespace images_and_files {

class Folder {
 public:
  Folder() : path(std::filesystem::temp_directory_path() / ("images_and_files_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

// 0 … 1
Tensor picture() {
  std::vector<float> values;
  for (int i = 0; i < 60; ++i) values.push_back(static_cast<float>(std::sin(0.31 * i)));
  return Tensor::from_vector(values, {1, 4, 5, 3}) * 0.5 + 0.5;
}

TEST(ImagesAndFiles, ImagesAreResized) {
  const auto im = picture();
  EXPECT_NEAR(weighted(image::resize(im, {3, 7})), 882.897461, 1e-3);
  EXPECT_NEAR(weighted(image::resize(im, {3, 7}, {.method = "nearest"})), 764.061951, 1e-3);
  EXPECT_NEAR(weighted(image::resize(im, {3, 7}, {.method = "bicubic"})), 883.396667, 1e-3);
  EXPECT_NEAR(weighted(image::resize(im, {3, 7}, {.method = "area"})), 886.280701, 1e-3);
  EXPECT_NEAR(weighted(image::resize(im, {2, 3}, {.antialias = true})), 70.931923, 1e-4);
  EXPECT_NEAR(weighted(image::resize(im, {2, 3}, {.method = "lanczos3", .antialias = true})), 69.737198, 1e-4);
  EXPECT_NEAR(weighted(image::resize(im, {2, 3}, {.method = "lanczos3"})), 66.1666718, 1e-4);
  EXPECT_EQ(image::resize(im, {8, 6}, {.preserve_aspect_ratio = true}).shape(), (ls::Shape{1, 5, 6, 3}));
  EXPECT_EQ(
      image::resize(im[0], ops::cast(ls::constant(im[0].shape()[{{}, -1}], ls::float32) * 1.3, ls::int32)).shape(),
      (ls::Shape{5, 6, 3}));
  EXPECT_THROW(image::resize(im, {3}), ls::errors::InvalidArgumentError);
  EXPECT_THROW(image::resize(ops::ones({2, 2}), {3, 3}), ls::errors::InvalidArgumentError);
}

TEST(ImagesAndFiles, ImagesAreAdjusted) {
  const auto im = picture(), u8 = image::convert_image_dtype(im, ls::uint8);
  EXPECT_EQ(int(ops::reduce_sum(ops::cast(u8, ls::int32))), 7666);
  EXPECT_NEAR(float(ops::reduce_sum(image::convert_image_dtype(u8, ls::float32))), 30.062746, 1e-4);
  EXPECT_NEAR(weighted(image::rgb_to_grayscale(im)), 85.0400162, 1e-4);
  EXPECT_EQ(int(ops::reduce_sum(ops::cast(image::rgb_to_grayscale(u8), ls::int32))), 2552);
  EXPECT_NEAR(weighted(image::adjust_brightness(im, 0.1)), 971.385071, 1e-3);
  EXPECT_EQ(int(ops::reduce_sum(ops::cast(image::adjust_brightness(u8, 0.1), ls::int32))), 8962);
  EXPECT_EQ(numbers(image::convert_image_dtype({-0.1, 0.5, 1.2}, ls::uint8, true)), (std::vector<double>{0, 127, 255}));
  EXPECT_NEAR(weighted(image::adjust_contrast(im, 2.0)), 700.568054, 1e-3);
  EXPECT_NEAR(weighted(image::adjust_saturation(im, 2.0)), 681.541992, 1e-3);
  EXPECT_NEAR(weighted(image::adjust_hue(im, 0.2)), 797.443237, 1e-3);
  EXPECT_NEAR(weighted(image::adjust_gamma(im, 2.0)), 582.072021, 1e-3);
  EXPECT_NEAR(weighted(image::per_image_standardization(im)), -264.082581, 1e-3);
  EXPECT_NEAR(float(image::total_variation(im)[0]), 35.3964424, 1e-4);
  EXPECT_NEAR(float(image::psnr(im, im * 0.9, 1.0)[0]), 24.2218094, 1e-4);
  EXPECT_NEAR(float(image::psnr(u8, ops::floor_div(u8, 2), 255)[0]), 10.2252188, 1e-4);
}

TEST(ImagesAndFiles, BoxesByPosition) {
  const auto im = picture();
  EXPECT_NEAR(weighted(image::crop_and_resize(im, {{0.1, 0.2, 0.8, 0.9}}, {0}, {3, 3})), 156.80002, 1e-4);
  EXPECT_NEAR(weighted(image::crop_and_resize(im, {{0.1, 0.2, 1.8, 0.9}}, {0}, {3, 3},
                                              {.method = "nearest", .extrapolation_value = 2.0})),
              452.04321, 1e-4);
  EXPECT_NEAR(weighted(image::draw_bounding_boxes(im, {{{0.1, 0.2, 0.8, 0.9}}}, {{1.0, 0.0, 0.0}})), 763.39618, 1e-3);
  const Tensor boxes = {{0., 0., 1., 1.}, {0., .1, 1., 1.1}, {0., 2., 1., 3.}};
  EXPECT_EQ(numbers(image::non_max_suppression(boxes, {.9, .8, .7}, 2, {.iou_threshold = 0.5})),
            (std::vector<double>{0, 2}));
  EXPECT_NEAR(weighted(image::adjust_jpeg_quality(im[0], 30)), 775.17261, 1e-3);
  EXPECT_NEAR(weighted(ops::cast(image::convert_image_dtype(im * 1.5, ls::uint8, {.saturate = true}), ls::float32)),
              253260, 1);
  EXPECT_THROW(image::adjust_jpeg_quality(im, 30), ls::errors::InvalidArgumentError);
}

TEST(ImagesAndFiles, ImagesAreTurnedAndCut) {
  const auto im = picture();
  EXPECT_NEAR(weighted(image::flip_left_right(im)), 802.161133, 1e-3);
  EXPECT_NEAR(weighted(image::flip_up_down(im)), 974.243286, 1e-3);
  EXPECT_NEAR(weighted(image::rot90(im)), 885.768372, 1e-3);
  EXPECT_NEAR(weighted(image::rot90(im, 3)), 890.635986, 1e-3);
  EXPECT_EQ(image::central_crop(im, 0.5).shape(), (ls::Shape{1, 2, 3, 3}));
  EXPECT_EQ(image::central_crop(ops::ones({7, 9, 1}), 0.6).shape(), (ls::Shape{5, 7, 1}));
  EXPECT_NEAR(float(ops::reduce_sum(image::crop_to_bounding_box(im, 1, 2, 2, 2))), 6.65477133, 1e-4);
  EXPECT_NEAR(weighted(image::pad_to_bounding_box(im[0], 1, 2, 6, 8)), 2050.26953, 1e-3);
  EXPECT_EQ(image::grayscale_to_rgb(ops::ones({2, 2, 1})).shape(), (ls::Shape{2, 2, 3}));
}

TEST(ImagesAndFiles, FilesAndFormats) {
  const Folder folder;
  const std::string path = folder.path / "image.png";
  const auto u8 = image::convert_image_dtype(picture()[0], ls::uint8);
  ls::io::write_file(path, ls::io::encode_png(u8));
  const auto read = ls::io::read_file(path);
  EXPECT_EQ(numbers(ls::io::decode_png(read, 3)), numbers(u8));
  EXPECT_EQ(ls::io::decode_image(read, {.channels = 3, .expand_animations = false}).shape(), (ls::Shape{4, 5, 3}));
  EXPECT_EQ(ls::io::decode_jpeg(ls::io::encode_jpeg(u8), {.channels = 1}).shape(), (ls::Shape{4, 5, 1}));
  EXPECT_THROW(ls::io::decode_png(ls::constant("text")), ls::errors::InvalidArgumentError);
  EXPECT_THROW(ls::io::read_file((folder.path / "none").string()), ls::errors::NotFoundError);
  const auto columns = ls::io::decode_csv({"1,2.5", "3,"}, {ls::constant(0), ls::constant(7.0)});
  EXPECT_EQ(numbers(columns[0]), (std::vector<double>{1, 3}));
  EXPECT_EQ(numbers(columns[1]), (std::vector<double>{2.5, 7}));
  EXPECT_EQ(numbers(ls::io::decode_raw(ls::constant("ab"), ls::uint8)), (std::vector<double>{97, 98}));
}

TEST(ImagesAndFiles, DataSetsOfKeras) {
  const Folder folder;
  std::filesystem::create_directories(folder.path / "datasets");
  const auto digits = ops::cast(ops::reshape(ops::range(8), {2, 2, 2}), ls::uint8);
  const auto write = [&](const std::string& name, const std::vector<std::pair<std::string, Tensor>>& arrays) {
    ls::formats::NpzWriter writer(folder.path / "datasets" / name);
    for (const auto& [key, value] : arrays) writer.add(key, value.to_data());
    writer.finish();
  };
  const auto y = ops::cast(Tensor{3, 4}, ls::uint8);
  write("mnist.npz", {{"x_train", digits}, {"y_train", y}, {"x_test", digits[{0, 1}]}, {"y_test", y[{0, 1}]}});
  const auto rows = ops::reshape(ops::range(30.0), {10, 3});
  write("boston_housing.npz", {{"x", rows}, {"y", ops::range(10.0)}});

  setenv("KERAS_HOME", folder.path.c_str(), 1);
  const auto [train, test] = keras::datasets::mnist::load_data();
  unsetenv("KERAS_HOME");
  const auto& [x_train, y_train] = train;
  EXPECT_EQ(x_train.dtype(), ls::uint8);
  EXPECT_EQ(numbers(x_train), numbers(digits));
  EXPECT_EQ(numbers(y_train), (std::vector<double>{3, 4}));
  EXPECT_EQ(len(test.first), 1);

  const std::string path = folder.path / "datasets" / "boston_housing.npz";
  const auto [housing, rest] = keras::datasets::boston_housing::load_data({.path = path});
  EXPECT_EQ(numbers(housing.second), (std::vector<double>{9, 3, 6, 1, 0, 7, 4, 8}));
  EXPECT_EQ(numbers(rest.first), (std::vector<double>{6, 7, 8, 15, 16, 17}));
  EXPECT_EQ(len(keras::datasets::boston_housing::load_data(path).first.first), 8);
  EXPECT_THROW(keras::datasets::mnist::load_data("/none/mnist.npz"), ls::errors::NotFoundError);
  EXPECT_THROW(keras::datasets::boston_housing::load_data({.path = path, .test_split = 1.0}),
               ls::errors::InvalidArgumentError);
}

TEST(ImagesAndFiles, BothSubsetsOfAFolder) {
  const Folder folder;
  for (const char* const label : {"a", "b"}) {
    std::filesystem::create_directories(folder.path / label);
    for (int i = 0; i < 5; ++i) std::ofstream(folder.path / label / (std::to_string(i) + ".txt")) << label << i;
  }
  const auto [train, validation] = keras::utils::text_dataset_from_directory(
      folder.path, {.batch_size = 3, .seed = 7, .validation_split = 0.3, .subset = "both"});
  const auto part = [&](const std::string& subset) {
    return keras::utils::text_dataset_from_directory(
        folder.path, {.batch_size = 3, .seed = 7, .validation_split = 0.3, .subset = subset});
  };
  EXPECT_EQ(train.class_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(train.file_paths, part("training").file_paths);
  EXPECT_EQ(validation.file_paths, part("validation").file_paths);
  EXPECT_EQ(train.cardinality(), 3);
  // The validation files keep their order in each epoch.
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::size_t at = 0;
    for (const auto& [texts, labels] : validation) {
      for (const auto& text : texts.leaf().string_values())
        EXPECT_NE(validation.file_paths[at++].find("/" + text.substr(0, 1) + "/" + text.substr(1)), std::string::npos);
    }
    EXPECT_EQ(at, validation.file_paths.size());
  }
  EXPECT_THROW(part("training").get<0>(), ls::errors::FailedPreconditionError);
  EXPECT_THROW(part("most"), ls::errors::InvalidArgumentError);
}

TEST(ImagesAndFiles, FunctionsAsLossesGetTensorsOfOneRank) {
  const keras::Sequential model({keras::Input({1}), keras::layers::Dense(1, {.kernel_initializer = "ones"})});
  const auto squares = [](const Tensor& y_true, const Tensor& y_pred) {
    EXPECT_EQ(y_true.shape(), y_pred.shape());
    return ops::reduce_mean(ops::square(y_true - y_pred));
  };
  model.compile({.optimizer = "sgd", .loss = squares});
  EXPECT_NEAR(double(model.evaluate(Tensor{{1.0}, {2.0}}, Tensor{1.0, 4.0}, {.verbose = 0})[0]), 2, 1e-6);
}

TEST(ImagesAndFiles, OnlyDatasetsOfTheSameTypesAreConcatenated) {
  using ls::data::Dataset;
  const auto floats = Dataset::from_tensor_slices(ops::ones({2, 3}));
  const auto count = [](const Dataset& dataset) {
    int n = 0;
    for (const auto& element : dataset) n += static_cast<int>(element.num_leaves());
    return n;
  };
  EXPECT_EQ(count(floats.concatenate(Dataset::from_tensor_slices(ops::ones({1, 5})))), 3);
  EXPECT_THROW(count(floats.concatenate(Dataset::from_tensor_slices({1, 2}))), ls::errors::InvalidArgumentError);
  EXPECT_THROW(count(floats.concatenate(Dataset::zip(floats, floats))), ls::errors::InvalidArgumentError);
}

}  // namespace images_and_files
