// keras.datasets: the arrays of files that Keras has downloaded. Nothing is downloaded here.
//
// A path that is not absolute is one in the folder datasets of Keras's cache: KERAS_HOME, by default ~/.keras.
// load_data() throws NotFound naming the file, DataLoss for damage. Both pairs are (samples, targets).
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::datasets {

// Keras's cache: KERAS_HOME, by default ~/.keras.
std::string cache_folder();

using Arrays = std::pair<Tensor, Tensor>;
using TrainAndTest = std::pair<Arrays, Arrays>;

namespace mnist {
struct Options {
  FieldNamesOnly names_only = {};
  std::string path = "mnist.npz";
};
// uint8 images (60000, 28, 28) and digits (60000,), and 10000 for tests.
TrainAndTest load_data(const Options& options = {});
// A template, because GCC would take {.path = "file"} for a string.
template <std::convertible_to<std::string> Path>
TrainAndTest load_data(const Path& path) {
  return load_data(Options{.path = path});
}
}  // namespace mnist

namespace boston_housing {
struct Options {
  FieldNamesOnly names_only = {};
  std::string path = "boston_housing.npz";
  double test_split = 0.2;
  std::int64_t seed = 113;
};
// float64 (n, 13) and (n,), in Keras's order for the seed.
TrainAndTest load_data(const Options& options = {});
// A template, because GCC would take {.path = "file"} for a string.
template <std::convertible_to<std::string> Path>
TrainAndTest load_data(const Path& path) {
  return load_data(Options{.path = path});
}
}  // namespace boston_housing

namespace california_housing {
struct Options {
  FieldNamesOnly names_only = {};
  std::string version = "large";  // or "small": the first 600 samples
  std::string path = "california_housing.npz";
  double test_split = 0.2;
  std::int64_t seed = 113;
};
// float32 (n, 8) and (n,), in Keras's order for the seed.
TrainAndTest load_data(const Options& options = {});
}  // namespace california_housing

}  // namespace lockstep::datasets
