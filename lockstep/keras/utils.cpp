#include "lockstep/keras/utils.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/keras_datasets.h"
#include "lockstep/io/gfile.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/mersenne_internal.h"
#include "lockstep/random/seeds.h"
#include "lockstep/tensor/array_internal.h"

namespace lockstep::utils {
namespace {

// Whether the choice is "post"; "pre" is the other one.
bool is_post(std::string_view choice, const char* option) {
  if (choice == "post") return true;
  if (choice == "pre") return false;
  throw_invalid_argument(fmt::format("pad_sequences: unknown {} '{}', expected pre or post", option, choice));
}

template <typename T>
Tensor padded(const std::vector<std::vector<T>>& sequences, const PadOptions& options) {
  const bool pad_after = is_post(options.padding, "padding"), cut_end = is_post(options.truncating, "truncating");
  std::size_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, sequence.size());
  if (options.maxlen && *options.maxlen < 0)
    throw_invalid_argument(fmt::format("pad_sequences: invalid maxlen: {}", *options.maxlen));
  const std::size_t width = options.maxlen ? static_cast<std::size_t>(*options.maxlen) : longest;
  std::vector<T> values(sequences.size() * width, static_cast<T>(options.value));
  for (std::size_t row = 0; row < sequences.size(); ++row) {
    const auto& sequence = sequences[row];
    const std::size_t kept = std::min(width, sequence.size());
    const auto from = sequence.begin() + static_cast<std::ptrdiff_t>(cut_end ? 0 : sequence.size() - kept);
    const std::size_t start = row * width + (pad_after ? 0 : width - kept);
    std::copy_n(from, kept, values.begin() + static_cast<std::ptrdiff_t>(start));
  }
  const Shape shape{static_cast<std::int64_t>(sequences.size()), static_cast<std::int64_t>(width)};
  return ops::cast(Tensor::from_vector(values, shape), options.dtype).numpy();
}

}  // namespace

Tensor to_categorical(const Tensor& classes, std::optional<std::int64_t> num_classes) {
  // As in Keras: of an array the result is one of float64, and numbers are cut off to whole ones.
  const bool array = is_array(classes);
  if (!array && !is_integer(classes.dtype())) {
    throw_invalid_argument(
        fmt::format("to_categorical: found {} class numbers, expected integers", dtype_name(classes.dtype())));
  }
  Tensor numbers = ops::cast(classes, DType::kInt64);
  if (numbers.rank() > 1 && numbers.dim(-1) == 1) numbers = ops::squeeze(numbers, {-1});
  const std::vector<std::int64_t> values = numbers.to_vector<std::int64_t>();
  const std::int64_t largest = values.empty() ? -1 : *std::max_element(values.begin(), values.end());
  const std::int64_t count = num_classes.value_or(largest + 1);
  for (const std::int64_t value : values) {
    if (value < 0 || value >= count)
      throw_invalid_argument(fmt::format("to_categorical: class {} is outside of [0, {})", value, count));
  }
  return array ? ops::cast(ops::one_hot(numbers, count), DType::kFloat64).numpy() : ops::one_hot(numbers, count);
}

Tensor pad_sequences(const std::vector<std::vector<double>>& sequences, const PadOptions& options) {
  return padded(sequences, options);
}
Tensor pad_sequences(const std::vector<std::vector<std::int64_t>>& sequences, const PadOptions& options) {
  return padded(sequences, options);
}
Tensor pad_sequences(const std::vector<std::vector<std::int32_t>>& sequences, const PadOptions& options) {
  return padded(sequences, options);
}

Tensor pad_sequences(std::initializer_list<std::initializer_list<int>> sequences, const PadOptions& options) {
  return padded(std::vector<std::vector<std::int32_t>>(sequences.begin(), sequences.end()), options);
}
Tensor pad_sequences(std::initializer_list<std::initializer_list<double>> sequences, const PadOptions& options) {
  return padded(std::vector<std::vector<double>>(sequences.begin(), sequences.end()), options);
}

Tensor img_to_array(const Tensor& img, DType dtype) {
  if (img.rank() != 2 && img.rank() != 3) {
    throw_invalid_argument(fmt::format("img_to_array: invalid image: found shape {}, expected two or three axes",
                                       img.shape().to_string()));
  }
  return ops::cast(img.rank() == 2 ? ops::expand_dims(img, -1) : img, dtype).numpy();
}

keras::Batch unpack_x_y_sample_weight(const keras::Structure& data) {
  if (!data.is_list()) return {data, {}, {}};
  const auto& parts = data.parts();
  if (parts.empty() || parts.size() > 3) {
    throw_invalid_argument(fmt::format(
        "unpack_x_y_sample_weight: found a list of {}, expected x, (x, y) or (x, y, sample_weight)", parts.size()));
  }
  keras::Batch batch{parts[0], {}, {}};
  if (parts.size() > 1) batch.y = parts[1];
  if (parts.size() > 2) batch.sample_weight = parts[2];
  return batch;
}
keras::Structure pack_x_y_sample_weight(const keras::Structure& x, const keras::Structure& y,
                                        const keras::Structure& sample_weight) {
  if (!y.defined()) return x.is_list() ? keras::Structure::list({x}) : x;
  return sample_weight.defined() ? keras::Structure::list({x, y, sample_weight}) : keras::Structure::list({x, y});
}

Tensor normalize(const Tensor& x, int axis, double order) {
  const Tensor numbers = is_floating(x.dtype()) ? x : ops::cast(x, DType::kFloat64);
  static_cast<void>(numbers.dim(axis));
  const ops::Ints axes{axis};
  Tensor norm;
  if (order == 2) {
    norm = ops::sqrt(ops::reduce_sum(ops::square(numbers), axes, true));
  } else if (order == 1) {
    norm = ops::reduce_sum(ops::abs(numbers), axes, true);
  } else if (order == std::numeric_limits<double>::infinity()) {
    norm = ops::reduce_max(ops::abs(numbers), axes, true);
  } else {
    throw_invalid_argument(fmt::format("normalize: invalid order: found {}, expected 1, 2 or infinity", order));
  }
  const Tensor normalized = numbers / ops::where(ops::equal(norm, 0.0), ops::ones_like(norm), norm);
  return is_array(x) ? normalized.numpy() : normalized;
}

namespace {

// A number that must be in [least, below).
void check_range(const char* what, std::int64_t value, std::int64_t least, std::int64_t below) {
  if (value >= least && value < below) return;
  throw_invalid_argument(fmt::format("timeseries_dataset_from_array: invalid {}: found {}, expected {} to {}", what,
                                     value, least, below - 1));
}

}  // namespace

data::Dataset timeseries_dataset_from_array(const Tensor& data, const Tensor& targets, std::int64_t sequence_length,
                                            const TimeseriesOptions& o) {
  const std::int64_t length = data.dim(0);
  constexpr std::int64_t kAny = std::int64_t{1} << 40;
  check_range("sequence_length", sequence_length, 1, kAny);
  check_range("sampling_rate", o.sampling_rate, 1, length);
  check_range("sequence_stride", o.sequence_stride, 1, length);
  if (o.start_index) check_range("start_index", *o.start_index, 0, length);
  const std::int64_t start = o.start_index.value_or(0);
  if (o.end_index) check_range("end_index", *o.end_index, start + 1, length);
  const std::int64_t end = o.end_index.value_or(length);
  std::int64_t count = end - start - (sequence_length - 1) * o.sampling_rate;
  if (targets.defined()) count = std::min(count, targets.dim(0));
  std::vector<std::int64_t> positions;
  for (std::int64_t at = 0; at < count; at += o.sequence_stride) positions.push_back(at);
  std::int64_t seed = 0;
  if (o.shuffle) {
    seed = o.seed ? *o.seed : random::numpy_randint(1'000'000);
    random::NumpyRandom(static_cast<std::uint32_t>(seed)).shuffle(positions);
  }
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 0; i < sequence_length; ++i) steps.push_back(start + i * o.sampling_rate);
  auto dataset =
      data::Dataset::from_tensor_slices(Tensor::from_vector(positions))
          .map([data, targets, start, steps = Tensor::from_vector(steps)](const Tensor& position) -> data::Element {
            const Tensor sequence = ops::gather(data, steps + position);
            if (!targets.defined()) return sequence;
            return {sequence, ops::gather(targets, position + start)};
          });
  if (o.shuffle) dataset = dataset.shuffle(o.batch_size ? *o.batch_size * 8 : 1024, seed);
  return o.batch_size ? dataset.batch(*o.batch_size) : dataset;
}

std::string get_file(const GetFileOptions& o) {
  const bool is_remote = o.origin.find("://") != std::string::npos && !o.origin.starts_with("file://");
  const std::string source = o.origin.starts_with("file://") ? o.origin.substr(7) : o.origin;
  const std::string name = o.fname.empty() ? source.substr(source.find_last_of('/') + 1) : o.fname;
  if (source.empty() || name.empty()) throw_invalid_argument("get_file requires an origin, and the name of a file");
  std::string cache = o.cache_dir.empty() ? datasets::cache_folder() : o.cache_dir;
  if (::access(cache.c_str(), W_OK) != 0) cache = "/tmp/.keras";  // as Keras does
  const std::string folder = io::gfile::join(cache, o.cache_subdir);
  const std::string path = io::gfile::join(folder, name);
  const bool is_there = io::gfile::exists(path);
  if (is_there && !o.force_download) return path;
  if (is_remote) {
    throw_unavailable(fmt::format(
        "get_file: {} is not downloaded: lockstep does not access the network; save the file as {}", o.origin, path));
  }
  if (!io::gfile::exists(source)) throw_not_found(fmt::format("get_file: {} does not exist", source));
  io::gfile::makedirs(folder);
  io::gfile::copy(source, path, true);
  return path;
}

}  // namespace lockstep::utils
