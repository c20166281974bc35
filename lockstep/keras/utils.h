// keras.utils: labels and sequences as models take them.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/data/dataset.h"
#include "lockstep/keras/trainer/batches.h"
#include "lockstep/random/seeds.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::utils {

using random::set_random_seed;

// Class numbers (integers; a last axis of 1 is dropped) as rows of zeros with a one: shape + (num_classes,), float32.
// Default: the largest number + 1. Throws InvalidArgument for a number outside of [0, num_classes).
Tensor to_categorical(const Tensor& classes, std::optional<std::int64_t> num_classes = std::nullopt);

struct CategoricalOptions {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> num_classes = std::nullopt;
};
inline Tensor to_categorical(const Tensor& classes, const CategoricalOptions& options) {
  return to_categorical(classes, options.num_classes);
}

struct PadOptions {
  std::optional<std::int64_t> maxlen = std::nullopt;  // default: the longest sequence's length
  DType dtype = DType::kInt32;
  std::string_view padding = "pre";     // or "post": where `value` is put
  std::string_view truncating = "pre";  // or "post": which end is cut off
  double value = 0.0;
};
// Sequences of different lengths as one tensor, (sequences, maxlen).
Tensor pad_sequences(const std::vector<std::vector<double>>& sequences, const PadOptions& options = {});
Tensor pad_sequences(const std::vector<std::vector<std::int64_t>>& sequences, const PadOptions& options = {});
Tensor pad_sequences(const std::vector<std::vector<std::int32_t>>& sequences, const PadOptions& options = {});
// Written as lists: pad_sequences({{1, 2, 3}, {4}}).
Tensor pad_sequences(std::initializer_list<std::initializer_list<int>> sequences, const PadOptions& options = {});
Tensor pad_sequences(std::initializer_list<std::initializer_list<double>> sequences, const PadOptions& options = {});

// x over its norm along an axis, where that is not 0: order 1, 2 or infinity. Integers become float64.
Tensor normalize(const Tensor& x, int axis = -1, double order = 2);
struct NormalizeOptions {
  FieldNamesOnly names_only = {};
  int axis = -1;
  double order = 2;
};
inline Tensor normalize(const Tensor& x, const NormalizeOptions& options) {
  return normalize(x, options.axis, options.order);
}
// An image as numbers of a dtype; (height, width) gets an axis of one channel. Throws InvalidArgument for other ranks.
Tensor img_to_array(const Tensor& img, DType dtype = DType::kFloat32);

// Height and width, or none: {224, 224}.
class OptionalImageSize : public std::optional<std::pair<std::int64_t, std::int64_t>> {
 public:
  using optional::optional;
  OptionalImageSize(std::int64_t height, std::int64_t width) : optional(std::pair(height, width)) {}
};
struct LoadImageOptions {
  FieldNamesOnly names_only = {};
  std::string color_mode = "rgb";  // or "rgba", "grayscale"
  OptionalImageSize target_size = std::nullopt;
  std::string interpolation = "nearest";  // "bilinear", "bicubic", "hamming", "box", "lanczos"
  bool keep_aspect_ratio = false;         // the centre of images of another aspect ratio; else they are distorted
};
// An image (JPEG, PNG, BMP, GIF), uint8, (height, width, channels), which is a PIL image in Python; resized as PIL
// does. Throws InvalidArgument for files that are not images and for options that do not fit.
Tensor load_img(const std::string& path, const LoadImageOptions& options = {});
struct ArrayToImageOptions {
  FieldNamesOnly names_only = {};
  bool scale = true;  // from 0 to 255; else the numbers are such
};
// An array (height, width, channels) as uint8. Throws InvalidArgument for another shape.
Tensor array_to_img(const Tensor& x, const ArrayToImageOptions& options = {});
struct SaveImageOptions {
  FieldNamesOnly names_only = {};
  std::string file_format = {};  // "png" or "jpeg"; default: by the path
  bool scale = true;
};
void save_img(const std::string& path, const Tensor& x, const SaveImageOptions& options = {});

// x, y and sample_weight of a batch, which may have one, two or three of them; the others are undefined leaves:
// const auto [x, y, sample_weight] = unpack_x_y_sample_weight(data). Throws InvalidArgument for a longer list.
keras::Batch unpack_x_y_sample_weight(const keras::Structure& data);
template <std::same_as<keras::Batch> Batch>  // a template, so that braces are a Structure
Batch unpack_x_y_sample_weight(const Batch& data) {
  return data;
}
// x alone, or a list of x, y and, where it is given, sample_weight.
keras::Structure pack_x_y_sample_weight(const keras::Structure& x, const keras::Structure& y = {},
                                        const keras::Structure& sample_weight = {});

struct GetFileOptions {
  FieldNamesOnly names_only = {};
  std::string fname = {};  // the name in the cache; default: that of the origin
  std::string origin = {};
  std::string cache_subdir = "datasets";
  // Default: KERAS_HOME, or ~/.keras. As in Keras, /tmp/.keras where it is not there, or not writable.
  std::string cache_dir = {};
  bool force_download = false;
};
// keras.utils.get_file: the path of a copy of a local file, "file:///data/x.csv" or "/data/x.csv", in Keras's cache. A
// file that is there already is not copied again, also of an origin on the network; nothing is downloaded. Throws
// Unavailable for such an origin whose file is not in the cache, NotFound for a missing file. Archives are not
// extracted.
std::string get_file(const GetFileOptions& options);
inline std::string get_file(const std::string& fname, GetFileOptions options) {
  options.fname = fname;
  return get_file(options);
}
// By position. A template, because GCC would take {.origin = ...} for a string.
template <std::convertible_to<std::string> Origin>
std::string get_file(const std::string& fname, const Origin& origin, GetFileOptions options = {}) {
  options.origin = origin;
  return get_file(fname, options);
}

struct TimeseriesOptions {
  FieldNamesOnly names_only = {};
  // Where they are not given by position.
  Tensor data = {};
  Tensor targets = {};
  std::int64_t sequence_length = 0;
  std::int64_t sequence_stride = 1;              // between the beginnings of two sequences
  std::int64_t sampling_rate = 1;                // between two steps of a sequence
  std::optional<std::int64_t> batch_size = 128;  // nullopt: sequences one by one
  bool shuffle = false;
  std::optional<std::int64_t> seed = std::nullopt;  // default: drawn from NumPy's global generator
  std::optional<std::int64_t> start_index = std::nullopt;
  std::optional<std::int64_t> end_index = std::nullopt;
};
// Sequences of sequence_length steps of `data`, whose axis 0 is time, and with each, if targets are given, the
// target of its first step: elements (batch, sequence_length, …), or tuples of these and (batch, …). In Keras's order,
// also when shuffled. Throws InvalidArgument for numbers that do not fit the data.
data::Dataset timeseries_dataset_from_array(const Tensor& data, const Tensor& targets, std::int64_t sequence_length,
                                            const TimeseriesOptions& options = {});
inline data::Dataset timeseries_dataset_from_array(const Tensor& data, const Tensor& targets,
                                                   const TimeseriesOptions& options) {
  return timeseries_dataset_from_array(data, targets, options.sequence_length, options);
}
inline data::Dataset timeseries_dataset_from_array(const Tensor& data, TimeseriesOptions options) {
  options.data = data;
  return timeseries_dataset_from_array(data, options.targets, options.sequence_length, options);
}
inline data::Dataset timeseries_dataset_from_array(const TimeseriesOptions& options) {
  return timeseries_dataset_from_array(options.data, options.targets, options.sequence_length, options);
}

// The names of the folders, in the order of the labels, and the files in the order of the dataset before it is shuffled
// for each iterator; transformations give a plain Dataset.
class DirectoryDataset : public data::Dataset {
 public:
  std::vector<std::string> class_names;
  std::vector<std::string> file_paths;

  // train_ds = train_ds.map(f): the names stay.
  DirectoryDataset& operator=(const data::Dataset& transformed) {
    Dataset::operator=(transformed);
    return *this;
  }

  // const auto [train, validation] = image_dataset_from_directory(...) with subset "both". Throws FailedPrecondition
  // for another subset.
  template <std::size_t I>
  DirectoryDataset get() const {
    static_assert(I < 2);
    if (subsets.size() != 2) throw_not_both();
    return subsets[I];
  }
  std::vector<DirectoryDataset> subsets;  // training and validation, with subset "both"

 private:
  [[noreturn]] static void throw_not_both();
};

// An option's word; None is the empty one.
class WordOrNone : public std::string {
 public:
  template <std::convertible_to<std::string> Word>
  WordOrNone(const Word& word) : std::string(word) {}
  WordOrNone(std::nullopt_t) {}
};
struct TextDatasetOptions {
  WordOrNone labels = "inferred";  // from the names of the folders; None: none
  WordOrNone label_mode = "int";   // int32; "binary": float32 (batch, 1); "categorical": one-hot rows; None: none
  std::vector<std::string> class_names = {};  // the folders in this order; default: all, sorted
  std::optional<std::int64_t> batch_size = 32;
  std::optional<std::int64_t> max_length = std::nullopt;  // bytes; longer strings are cut
  bool shuffle = true;
  std::optional<std::int64_t> seed = std::nullopt;  // default: drawn from NumPy's global generator
  std::optional<double> validation_split = std::nullopt;
  std::optional<std::string> subset = std::nullopt;  // with validation_split: "training", "validation" or "both"
  bool follow_links = false;
  bool verbose = true;  // prints how many files there are
};
// The files *.txt of a folder that has a folder for each class: elements (strings, labels), or strings without labels.
// In Keras's order for the same seed. Throws InvalidArgument for a folder without such files, and for options that do
// not fit.
DirectoryDataset text_dataset_from_directory(const std::string& directory, const TextDatasetOptions& options = {});

struct ImageDatasetOptions {
  WordOrNone labels = "inferred";             // from the names of the folders; None: none
  WordOrNone label_mode = "int";              // as of TextDatasetOptions
  std::vector<std::string> class_names = {};  // the folders in this order; default: all, sorted
  std::string_view color_mode = "rgb";        // or "rgba", "grayscale"
  std::optional<std::int64_t> batch_size = 32;
  std::pair<std::int64_t, std::int64_t> image_size = {256, 256};  // height, width
  bool shuffle = true;
  std::optional<std::int64_t> seed = std::nullopt;  // default: drawn from NumPy's global generator
  std::optional<double> validation_split = std::nullopt;
  std::optional<std::string> subset = std::nullopt;  // with validation_split: "training", "validation" or "both"
  std::string interpolation = "bilinear";            // "nearest", "bicubic", "area", "lanczos3", "lanczos5"
  bool follow_links = false;
  bool crop_to_aspect_ratio = false;  // the centre of images of another aspect ratio; else they are distorted
  bool pad_to_aspect_ratio = false;   // black around them
  bool verbose = true;                // prints how many files there are
};
// The images (JPEG, PNG, BMP, GIF) of a folder that has a folder for each class: elements (images, labels), or images
// without labels; images are float32 (of "nearest" uint8), 0 … 255, (height, width, channels). In Keras's order for the
// same seed. Throws InvalidArgument for a folder without such files, for files that are not images, and for options
// that do not fit.
DirectoryDataset image_dataset_from_directory(const std::string& directory, const ImageDatasetOptions& options = {});

struct AudioDatasetOptions {
  WordOrNone labels = "inferred";             // from the names of the folders; None: none
  WordOrNone label_mode = "int";              // as of TextDatasetOptions
  std::vector<std::string> class_names = {};  // the folders in this order; default: all, sorted
  std::optional<std::int64_t> batch_size = 32;
  // Samples; longer sounds are cut, shorter ones get zeros. Default: those of the longest sound of the batch.
  std::optional<std::int64_t> output_sequence_length = std::nullopt;
  bool shuffle = true;
  std::optional<std::int64_t> seed = std::nullopt;  // default: drawn from NumPy's global generator
  std::optional<double> validation_split = std::nullopt;
  std::optional<std::string> subset = std::nullopt;  // with validation_split: "training", "validation" or "both"
  bool follow_links = false;
  bool verbose = true;  // prints how many files there are
};
// The sounds (*.wav, 16 bits) of a folder that has a folder for each class: elements (sounds, labels), or sounds
// without labels; sounds are float32, -1 … 1, (samples, channels). In Keras's order for the same seed. Throws as
// text_dataset_from_directory.
DirectoryDataset audio_dataset_from_directory(const std::string& directory, const AudioDatasetOptions& options = {});

struct SplitOptions {
  // How much of the data: a part of all as a fraction, 0.8, or a number of samples, 80. One may be left out.
  std::optional<Number> left_size = std::nullopt;
  std::optional<Number> right_size = std::nullopt;
  bool shuffle = false;
  std::optional<std::int64_t> seed = std::nullopt;  // default: drawn from Python's global generator
};
// The first and the last samples of a dataset, or of arrays of the same length: auto [train, test] =
// split_dataset(dataset, {.left_size = 0.8}). All samples are held in memory. The halves of a dataset of batches are
// batches of the same size. Throws InvalidArgument for sizes that do not fit.
std::pair<data::Dataset, data::Dataset> split_dataset(const data::Dataset& dataset, const SplitOptions& options);
std::pair<data::Dataset, data::Dataset> split_dataset(const data::Element& arrays, const SplitOptions& options);

}  // namespace lockstep::utils

template <>
struct std::tuple_size<lockstep::utils::DirectoryDataset> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::utils::DirectoryDataset> {
  using type = lockstep::utils::DirectoryDataset;
};
