#include "lockstep/data/keras_datasets.h"

#include <cstdlib>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/npy.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/mersenne_internal.h"

namespace lockstep::datasets {

std::string cache_folder() {
  if (const char* cache = std::getenv("KERAS_HOME"); cache && *cache) return cache;
  const char* const home = std::getenv("HOME");
  return fmt::format("{}/.keras", home ? home : "");
}

namespace {

std::string cached(const std::string& path) {
  return path.starts_with("/") ? path : fmt::format("{}/datasets/{}", cache_folder(), path);
}

formats::NpzReader open(const std::string& path) {
  const std::string file = cached(path);
  try {
    return formats::NpzReader(file);
  } catch (const Error& error) {
    if (error.code() != Code::kNotFound) throw;
    throw_not_found(
        fmt::format("{} does not exist; lockstep downloads nothing: give the path of a file, or let Keras "
                    "download it",
                    file));
  }
}
Tensor read(const formats::NpzReader& file, const char* name) { return Tensor::from_data(file.read(name)); }

// Shuffled, and divided.
TrainAndTest divided(Tensor x, Tensor y, double test_split, std::int64_t seed) {
  if (!(test_split >= 0 && test_split < 1)) {
    throw_invalid_argument(
        fmt::format("invalid test_split: found {}, expected a number from 0 to less than 1", test_split));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(len(x)));
  std::iota(order.begin(), order.end(), 0);
  random::NumpyRandom(static_cast<std::uint32_t>(seed)).shuffle(order);
  const Tensor places = Tensor::from_vector(order);
  x = ops::gather(x, places);
  y = ops::gather(y, places);
  const auto cut = static_cast<std::int64_t>(static_cast<double>(len(x)) * (1 - test_split));
  return {{x[{0, cut}], y[{0, cut}]}, {x[{cut, std::nullopt}], y[{cut, std::nullopt}]}};
}

}  // namespace

TrainAndTest mnist::load_data(const Options& o) {
  const auto file = open(o.path);
  return {{read(file, "x_train"), read(file, "y_train")}, {read(file, "x_test"), read(file, "y_test")}};
}

TrainAndTest boston_housing::load_data(const Options& o) {
  const auto file = open(o.path);
  return divided(read(file, "x"), read(file, "y"), o.test_split, o.seed);
}

TrainAndTest california_housing::load_data(const Options& o) {
  if (o.version != "large" && o.version != "small")
    throw_invalid_argument(fmt::format("unknown version '{}', expected small or large", o.version));
  const auto file = open(o.path);
  const Range samples{0, o.version == "small" ? Place(600) : Place()};
  return divided(read(file, "x")[samples], read(file, "y")[samples], o.test_split, o.seed);
}

}  // namespace lockstep::datasets
