#include "lockstep/keras/utils.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

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
  return ops::cast(Tensor::from_vector(values, shape), options.dtype);
}

}  // namespace

Tensor to_categorical(const Tensor& classes, std::optional<std::int64_t> num_classes) {
  if (!is_integer(classes.dtype())) {
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
  return ops::one_hot(numbers, count);
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

}  // namespace lockstep::utils
