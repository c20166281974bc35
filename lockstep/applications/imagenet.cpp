// What ImageNet's images are scaled to, and its classes.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/applications/applications.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/functions.h"

namespace lockstep::applications {

Tensor preprocessed(const Tensor& x, const std::string& mode) { return mode.empty() ? x : preprocess_input(x, mode); }

Tensor preprocess_input(const Tensor& x, const std::string& mode, const std::string& data_format) {
  if (mode != "tf" && mode != "torch" && mode != "caffe")
    throw_invalid_argument(fmt::format("preprocess_input: unknown mode '{}', expected 'tf', 'torch' or 'caffe'", mode));
  if (data_format != "channels_last" && data_format != "channels_first")
    throw_invalid_argument(fmt::format(
        "preprocess_input: data_format is '{}', expected 'channels_last' or 'channels_first'", data_format));
  const Tensor y = is_floating(x.dtype()) ? x : ops::cast(x, DType::kFloat32);
  if (mode == "tf") return y / 127.5 - 1.0;
  const int axis = data_format == "channels_last" ? x.rank() - 1 : x.rank() - 3;
  if ((x.rank() != 3 && x.rank() != 4) || x.dim(axis) != 3)
    throw_invalid_argument(fmt::format("preprocess_input: found shape {}, expected images of three channels ({})",
                                       x.shape().to_string(), data_format));
  ops::Ints shape(static_cast<std::size_t>(x.rank()), 1);
  shape[static_cast<std::size_t>(axis)] = 3;
  const auto channels = [&](const std::vector<double>& values) {
    return ops::reshape(ops::cast(Tensor::from_vector(values), y.dtype()), shape);
  };
  if (mode == "caffe") return ops::reverse(y, {axis}) - channels({103.939, 116.779, 123.68});
  return (y / 255.0 - channels({0.485, 0.456, 0.406})) / channels({0.229, 0.224, 0.225});
}

std::vector<std::vector<ClassPrediction>> decode_predictions(const Tensor& predictions, const std::string& class_index,
                                                             std::int64_t top) {
  if (predictions.rank() != 2)
    throw_invalid_argument(fmt::format("decode_predictions: found shape {}, expected predictions (batch, classes)",
                                       predictions.shape().to_string()));
  if (top < 1) throw_invalid_argument(fmt::format("decode_predictions: top is {}, expected at least 1", top));
  const auto classes = static_cast<std::size_t>(predictions.dim(1));
  const Json index = parse_json(io::read_text(io::posix_file_system(), class_index), class_index);
  const auto entry = [&](std::size_t number) -> const Json& {
    const std::string key = std::to_string(number);
    const auto found = index.is_object() ? index.find(key) : index.end();
    if (!index.is_object() || found == index.end() || !found->is_array() || found->size() != 2 ||
        !(*found)[0].is_string() || !(*found)[1].is_string())
      throw_invalid_argument(fmt::format(
          "{}: class {} is missing or malformed, expected \"{}\": [\"n01440764\", \"tench\"]", class_index, key, key));
    return *found;
  };
  const std::vector<float> scores = ops::cast(predictions, DType::kFloat32).to_vector<float>();
  std::vector<std::vector<ClassPrediction>> rows;
  for (std::size_t row = 0; row * classes < scores.size(); ++row) {
    const float* const score = &scores[row * classes];
    std::vector<std::size_t> order(classes);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t kept = std::min(classes, static_cast<std::size_t>(top));
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                      [&](std::size_t a, std::size_t b) { return score[a] != score[b] ? score[a] > score[b] : a > b; });
    std::vector<ClassPrediction>& best = rows.emplace_back();
    for (std::size_t i = 0; i < kept; ++i) {
      const Json& names = entry(order[i]);
      best.push_back({names[0].get<std::string>(), names[1].get<std::string>(), score[order[i]]});
    }
  }
  return rows;
}

}  // namespace lockstep::applications
