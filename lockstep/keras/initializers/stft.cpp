#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/initializers/stft_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::initializers {
namespace {

// A sum of cosines: c0 - c1 cos(t) + c2 cos(2 t), over one turn.
std::vector<double> cosines(std::int64_t length, bool periodic, std::initializer_list<double> coefficients) {
  std::vector<double> window(static_cast<std::size_t>(length), 1.0);
  if (length == 1) return window;
  const auto turn = static_cast<double>(periodic ? length : length - 1);
  for (std::size_t i = 0; i < window.size(); ++i) {
    double sum = 0, sign = 1, multiple = 0;
    for (const double c : coefficients) {
      sum += sign * c * std::cos(2 * std::numbers::pi * multiple * static_cast<double>(i) / turn);
      sign = -sign;
      ++multiple;
    }
    window[i] = sum;
  }
  return window;
}

}  // namespace

std::vector<double> window_values(const Json& window, std::int64_t length, bool periodic, const std::string& who) {
  if (window.is_string()) {
    const auto name = window.get<std::string>();
    if (name == "hann" || name == "hanning") return cosines(length, periodic, {0.5, 0.5});
    if (name == "hamming") return cosines(length, periodic, {0.54, 0.46});
    if (name == "blackman") return cosines(length, periodic, {0.42, 0.5, 0.08});
    if (name == "boxcar" || name == "ones") return std::vector<double>(static_cast<std::size_t>(length), 1.0);
    throw_invalid_argument(fmt::format(
        "{}: unknown window '{}', expected 'hann', 'hamming', 'blackman', 'boxcar' or a list of numbers", who, name));
  }
  const Json* values = &window;
  if (window.is_object() && window.contains("config") && window["config"].contains("value"))
    values = &window["config"]["value"];  // an array as Keras writes it
  std::vector<double> numbers;
  const bool list = values->is_array() && keras::FieldType<std::vector<double>>::read(*values, numbers);
  if (!list) throw_invalid_argument(fmt::format("{}: window must be a name or a list of numbers", who));
  if (static_cast<std::int64_t>(numbers.size()) != length)
    throw_invalid_argument(
        fmt::format("{}: window has {} numbers, expected {}, the length of a frame", who, numbers.size(), length));
  return numbers;
}

void check_stft(const StftOptions& options) {
  if (options.side != "real" && options.side != "imag")
    throw_invalid_argument(fmt::format("invalid STFT: side is '{}', expected 'real' or 'imag'", options.side));
  if (options.scaling && *options.scaling != "density" && *options.scaling != "spectrum")
    throw_invalid_argument(
        fmt::format("invalid STFT: scaling is '{}', expected 'density', 'spectrum' or null", *options.scaling));
  if (options.window.is_string()) window_values(options.window, 1, false, "invalid STFT");
}

Tensor StftInitializer::operator()(const Shape& shape, DType dtype) const {
  if (shape.rank() != 3 || shape[2] < 2)
    throw_invalid_argument(
        fmt::format("STFT: shape {} was given, expected (frame length, 1, frequencies)", shape.to_string()));
  const std::int64_t length = shape[0], inputs = shape[1], frequencies = shape[2];
  // Angles in float32, as Keras computes them: with rounding errors that grow with time and frequency.
  const auto bins = static_cast<float>((frequencies - 1) * 2);
  std::vector<float> window;
  float scale = 1;
  if (!options_.window.is_null()) {
    float squares = 0, sum = 0;
    for (const double value : window_values(options_.window, length, options_.periodic, "STFT")) {
      window.push_back(static_cast<float>(value));
      squares += window.back() * window.back();
      sum += std::abs(window.back());
    }
    if (options_.scaling) scale = *options_.scaling == "density" ? std::sqrt(squares) : sum;
  }
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(length * inputs * frequencies));
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t c = 0; c < inputs; ++c) {
      for (std::int64_t f = 0; f < frequencies; ++f) {
        const float angle = -2.0f * static_cast<float>(t) * (static_cast<float>(f) / bins) * std::numbers::pi_v<float>;
        const float value = options_.side == "real" ? std::cos(angle) : std::sin(angle);
        values.push_back(window.empty() ? value : value * window[static_cast<std::size_t>(t)] / scale);
      }
    }
  }
  return ops::cast(Tensor::from_vector(values, shape), dtype);
}

}  // namespace lockstep::initializers
