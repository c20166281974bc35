// Images in a folder for each class: datasets of files, halves of a dataset, a snapshot, a model of raw pixels.
#include <filesystem>
#include <fstream>

#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace layers = ls::layers;
namespace ops = ls::ops;

// A BMP file: rows from below, blue first, each row filled to four bytes.
void write_image(const std::string& path, const std::vector<int>& pixels, int height, int width) {
  const int row = (3 * width + 3) / 4 * 4;
  std::string bytes = "BM";
  const auto add = [&](int value, int size) {
    for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  };
  for (const int value : {54 + row * height, 0, 54, 40, width, height}) add(value, 4);
  add(1, 2);
  add(24, 2);
  for (const int value : {0, row * height, 0, 0, 0, 0}) add(value, 4);
  for (int y = height - 1; y >= 0; --y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 2; c >= 0; --c) add(pixels[static_cast<std::size_t>((y * width + x) * 3 + c)], 1);
    }
    add(0, row - 3 * width);
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

void image_folders(const std::string& folder) {
  ls::random::set_random_seed(19);
  const std::vector<std::string> names = {"circles", "squares"};
  for (int label = 0; label < 2; ++label) {
    const std::string class_folder = folder + "/shapes/" + names[static_cast<std::size_t>(label)];
    std::filesystem::create_directories(class_folder);
    for (int i = 0; i < 12; ++i) {
      const int height = 14 + i % 3, width = 18 - i % 2;
      std::vector<int> pixels;
      for (int n = 0; n < height * width * 3; ++n) pixels.push_back(n * (7 + 5 * label) % (251 - i));
      write_image(class_folder + "/" + (i < 10 ? "0" : "") + std::to_string(i) + ".bmp", pixels, height, width);
    }
  }

  const auto train_ds = ls::utils::image_dataset_from_directory(folder + "/shapes", {.batch_size = 6,
                                                                                     .image_size = {16, 16},
                                                                                     .seed = 1337,
                                                                                     .validation_split = 0.25,
                                                                                     .subset = "training",
                                                                                     .verbose = false});
  const auto val_ds = ls::utils::image_dataset_from_directory(folder + "/shapes", {.batch_size = 6,
                                                                                   .image_size = {16, 16},
                                                                                   .seed = 1337,
                                                                                   .validation_split = 0.25,
                                                                                   .subset = "validation",
                                                                                   .verbose = false});
  for (const std::string& name : train_ds.class_names) report("class " + name, static_cast<double>(name.size()));
  for (const auto& [images, labels] : train_ds.take(1)) {
    for (int i = 0; i < 6; ++i) {
      report("label", labels[i]);
      report("pixels", ops::reduce_mean(images[i]));
    }
  }

  const auto cropped = ls::utils::image_dataset_from_directory(folder + "/shapes", {.labels = "",
                                                                                    .batch_size = 24,
                                                                                    .image_size = {8, 12},
                                                                                    .shuffle = false,
                                                                                    .interpolation = "nearest",
                                                                                    .crop_to_aspect_ratio = true,
                                                                                    .verbose = false});
  report("cropped", ops::reduce_mean(ops::cast(*cropped.begin(), ls::float32)));
  const auto padded = ls::utils::image_dataset_from_directory(folder + "/shapes", {.label_mode = "categorical",
                                                                                   .batch_size = 24,
                                                                                   .image_size = {20, 20},
                                                                                   .shuffle = false,
                                                                                   .interpolation = "bicubic",
                                                                                   .pad_to_aspect_ratio = true,
                                                                                   .verbose = false});
  const auto [images, labels] = *padded.begin();
  report("padded", ops::reduce_mean(images));
  report("categories", ops::reduce_sum(labels.index({ls::all, 1})));

  const keras::Sequential model({keras::Input({16, 16, 3}), layers::Rescaling(1.0 / 255),
                                 layers::Conv2D(8, 3, {.activation = "relu", .strides = 2, .padding = "same"}),
                                 layers::BatchNormalization(), layers::SeparableConv2D(8, 3, {.padding = "same"}),
                                 layers::MaxPooling2D({.pool_size = {3, 3}, .strides = {2, 2}, .padding = "same"}),
                                 layers::GlobalAveragePooling2D(), layers::Dense(1)},
                                {.name = "shapes"});
  model.compile(
      {.optimizer = ls::optimizers::Adam(3e-4), .loss = ls::losses::BinaryCrossentropy({.from_logits = true})});
  const auto history = model.fit(train_ds, {.epochs = 3, .verbose = 0, .validation_data = val_ds});
  for (const char* name : {"loss", "val_loss"}) {
    for (const double value : history.history[name]) report(name, value);
  }
  const auto predictions =
      model.predict(val_ds.map([](const ls::Tensor& x, const ls::Tensor&) { return x; }).take(1), {.verbose = 0});
  report("score", ops::reduce_sum(predictions));

  // Halves of arrays and of datasets.
  const auto x = ops::reshape(ops::range(40.0), {10, 4});
  const auto [left, right] = ls::utils::split_dataset({x, ops::range(10)}, {.left_size = 0.7});
  for (const auto& part : {left, right}) {
    for (const auto& [a, b] : part) report("row", ops::reduce_sum(a) + ops::cast(b, ls::float32));
  }
  const auto [first, second] = ls::utils::split_dataset(ls::data::Dataset::from_tensor_slices(x).batch(4),
                                                        {.right_size = 3, .shuffle = true, .seed = 5});
  for (const auto& part : {first, second}) {
    for (const ls::Tensor& batch : part) {
      report("rows", static_cast<double>(batch.dim(0)));
      report("first", batch[0][0]);
    }
  }

  // Elements that are computed once, also for later programs.
  const auto snapshot =
      ls::data::Dataset::range(5).map([](const ls::Tensor& n) { return n * n; }).snapshot(folder + "/squares");
  for (int i = 0; i < 2; ++i) {
    const auto sum = snapshot.reduce(ls::Tensor::scalar(std::int64_t{0}),
                                     [](const ls::Tensor& state, const ls::Tensor& n) { return state + n; });
    report("snapshot", sum);
  }
  model.save(folder + "/model.keras");
}
