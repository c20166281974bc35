#include "lockstep/keras/directory_dataset_internal.h"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/mersenne_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::utils {
namespace {

constexpr std::int64_t kSeedBound = 1000000;

struct Files {
  std::vector<std::string> paths;
  std::vector<std::int32_t> labels;
};

bool has_extension(std::string name, const std::vector<std::string_view>& extensions) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](std::string_view extension) { return name.ends_with(extension); });
}

// Folders sorted by their whole path, files sorted within each, as Python's sorted(os.walk(...)).
void collect(const std::string& root, const DirectoryOptions& o, std::vector<std::string>& paths) {
  auto& files = io::posix_file_system();
  std::vector<std::string> folders{root};
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const std::string folder = folders[i];
    for (const std::string& name : files.list(folder)) {
      const std::string path = folder + "/" + name;
      const auto stat = files.stat(path);
      if (stat && stat->kind == io::FileStat::Kind::kDirectory && (o.follow_links || !files.is_link(path)))
        folders.push_back(path);
    }
  }
  std::sort(folders.begin(), folders.end());
  for (const std::string& folder : folders) {
    for (const std::string& name : files.list(folder)) {
      const auto stat = files.stat(folder + "/" + name);
      if (has_extension(name, o.extensions) && stat && stat->kind == io::FileStat::Kind::kFile)
        paths.push_back(folder + "/" + name);
    }
  }
}

std::vector<std::string> class_folders(const std::string& directory, const DirectoryOptions& o) {
  auto& files = io::posix_file_system();
  std::vector<std::string> found;
  for (const std::string& name : files.list(directory)) {
    const auto stat = files.stat(directory + "/" + name);
    if (stat && stat->kind == io::FileStat::Kind::kDirectory && !name.starts_with(".")) found.push_back(name);
  }
  for (const std::string& name : o.class_names) {
    if (std::find(found.begin(), found.end(), name) == found.end())
      throw_invalid_argument(
          fmt::format("{}: invalid class_names: '{}' has no folder '{}'", o.function, directory, name));
  }
  return o.class_names.empty() ? found : o.class_names;
}

template <typename T>
void reorder(std::vector<T>& items, const std::vector<std::int64_t>& order) {
  std::vector<T> out;
  for (const std::int64_t i : order) out.push_back(std::move(items[static_cast<std::size_t>(i)]));
  items = std::move(out);
}

// Keeps the part before or after the last `validation` items.
template <typename T>
void keep_part(std::vector<T>& items, std::int64_t validation, bool training) {
  const auto size = static_cast<std::int64_t>(items.size());
  // Python's items[:-0] is empty and items[-0:] is everything.
  const auto cut = items.begin() + (validation == 0 ? 0 : size - validation);
  if (training) {
    items.erase(cut, items.end());
  } else {
    items.erase(items.begin(), cut);
  }
}

void check(const DirectoryOptions& o) {
  const auto bad = [&o](const std::string& what) { throw_invalid_argument(o.function + (": " + what)); };
  if (!o.labels.empty() && o.labels != "inferred")
    bad(fmt::format("unknown labels '{}', expected inferred or nothing", o.labels));
  if (!o.label_mode.empty() && o.label_mode != "int" && o.label_mode != "binary" && o.label_mode != "categorical")
    bad(fmt::format("unknown label_mode '{}', expected int, binary, categorical or nothing", o.label_mode));
  if (o.validation_split && !(*o.validation_split > 0 && *o.validation_split < 1))
    bad(fmt::format("invalid validation_split: found {}, expected a number between 0 and 1", *o.validation_split));
  if (o.validation_split.has_value() != o.subset.has_value()) bad("validation_split and subset require each other");
  if (o.subset && *o.subset != "training" && *o.subset != "validation" && *o.subset != "both")
    bad(fmt::format("unknown subset '{}', expected training, validation or both", *o.subset));
  if (o.validation_split && o.shuffle && !o.seed) bad("validation_split with shuffle requires a seed");
  if (o.seed && (*o.seed < 0 || *o.seed > 0xFFFFFFFF))
    bad(fmt::format("invalid seed: found {}, expected 0 to 2^32 - 1", *o.seed));
}

}  // namespace

DirectoryDataset dataset_from_directory(const std::string& directory, const DirectoryOptions& o,
                                        const std::function<Tensor(const std::string& path)>& read) {
  check(o);
  if (o.subset == "both") {
    DirectoryOptions part = o;
    if (!part.seed) part.seed = random::numpy_randint(kSeedBound);
    DirectoryDataset both;
    for (const char* const subset : {"training", "validation"}) {
      part.subset = subset;
      part.in_new_order_each_time = *part.subset == "training";
      both.subsets.push_back(dataset_from_directory(directory, part, read));
      part.prints_total = false;
    }
    both.class_names = both.subsets[0].class_names;
    for (const DirectoryDataset& each : both.subsets)
      both.file_paths.insert(both.file_paths.end(), each.file_paths.begin(), each.file_paths.end());
    return both;
  }
  const bool with_labels = !o.labels.empty() && !o.label_mode.empty();
  const std::int64_t seed = o.seed ? *o.seed : random::numpy_randint(kSeedBound);
  Files files;
  std::vector<std::string> classes;
  if (with_labels) {
    classes = class_folders(directory, o);
    for (std::size_t label = 0; label < classes.size(); ++label) {
      collect(directory + "/" + classes[label], o, files.paths);
      files.labels.resize(files.paths.size(), static_cast<std::int32_t>(label));
    }
  } else {
    collect(directory, o, files.paths);
  }
  if (o.label_mode == "binary" && with_labels && classes.size() != 2) {
    throw_invalid_argument(
        fmt::format("{}: label_mode 'binary' requires two classes, found {}", o.function, classes.size()));
  }
  const std::size_t total = files.paths.size();
  if (o.shuffle) {
    std::vector<std::int64_t> order(files.paths.size());
    std::iota(order.begin(), order.end(), 0);
    random::NumpyRandom(static_cast<std::uint32_t>(seed)).shuffle(order);
    reorder(files.paths, order);
    if (with_labels) reorder(files.labels, order);
  }
  if (o.validation_split) {
    const auto validation = static_cast<std::int64_t>(*o.validation_split * static_cast<double>(files.paths.size()));
    keep_part(files.paths, validation, *o.subset == "training");
    if (with_labels) keep_part(files.labels, validation, *o.subset == "training");
  }
  if (files.paths.empty())
    throw_invalid_argument(
        fmt::format("{}: '{}' has no file *{}", o.function, directory, fmt::join(o.extensions, ", *")));
  if (o.verbose) {
    const std::string of_classes = with_labels ? fmt::format(" belonging to {} classes", classes.size()) : "";
    if (o.prints_total) std::cout << fmt::format("Found {} files{}.\n", total, of_classes);
    if (o.subset) std::cout << fmt::format("Using {} files for {}.\n", files.paths.size(), *o.subset);
    std::cout << std::flush;
  }
  DirectoryDataset result;
  result.class_names = std::move(classes);
  result.file_paths = files.paths;

  using data::Dataset;
  const Shape shape{static_cast<std::int64_t>(files.paths.size())};
  Dataset dataset = Dataset::from_tensor_slices(Tensor::strings(std::move(files.paths), shape));
  if (with_labels) {
    Dataset labels = Dataset::from_tensor_slices(Tensor::from_vector(files.labels));
    if (o.label_mode == "binary") {
      labels = labels.map([](const Tensor& x) { return ops::expand_dims(ops::cast(x, DType::kFloat32), -1); });
    } else if (o.label_mode == "categorical") {
      labels = labels.map(
          [n = static_cast<std::int64_t>(result.class_names.size())](const Tensor& x) { return ops::one_hot(x, n); });
    }
    dataset = Dataset::zip(dataset, labels);
  }
  if (o.shuffle && o.in_new_order_each_time) dataset = dataset.shuffle(o.batch_size ? *o.batch_size * 8 : 1024, seed);
  if (with_labels) {
    dataset = dataset.map([read](const Tensor& path, const Tensor& label) {
      return data::Element{read(path.string_values()[0]), label};
    });
  } else {
    dataset = dataset.map([read](const Tensor& path) { return read(path.string_values()[0]); });
  }
  if (o.batch_size) dataset = o.pads_batches ? dataset.padded_batch(*o.batch_size) : dataset.batch(*o.batch_size);
  static_cast<data::Dataset&>(result) = dataset.prefetch(data::AUTOTUNE);
  return result;
}

void DirectoryDataset::throw_not_both() {
  throw_failed_precondition("a dataset of a folder has two parts only with subset = \"both\"");
}

}  // namespace lockstep::utils
