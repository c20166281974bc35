#include "lockstep/ops/audio_functions.h"

#include <bit>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/complex_functions.h"
#include "lockstep/ops/functions.h"

namespace lockstep::audio {

Wav decode_wav(const Tensor& contents, const DecodeWavKeywords& o) {
  const Tensors out = ops::call("DecodeWav", {contents},
                                {{"desired_channels", o.desired_channels}, {"desired_samples", o.desired_samples}});
  return {out[0], out[1]};
}
Tensor encode_wav(const Tensor& audio, const Tensor& sample_rate) {
  return ops::call1("EncodeWav", {audio, sample_rate});
}

}  // namespace lockstep::audio

namespace lockstep::signal {
namespace {

// a - b cos(2π i / n), where n of a periodic window is its length, made even and shortened as TensorFlow does.
template <typename T>
Tensor raised_cosine(std::int64_t length, bool periodic, T a, T b) {
  if (length < 1) throw_invalid_argument(fmt::format("invalid window_length: found {}, expected 1 or more", length));
  if (length == 1) return Tensor::from_vector(std::vector<T>{1});
  const std::int64_t even = 1 - length % 2;
  const auto n = static_cast<T>(length + (periodic ? even : 0) - 1);
  std::vector<T> values;
  for (std::int64_t i = 0; i < length; ++i) {
    const T arg = static_cast<T>(2 * std::numbers::pi) * static_cast<T>(i) / n;
    values.push_back(a - b * std::cos(arg));
  }
  return Tensor::from_vector(values);
}
Tensor window_of(std::int64_t length, const WindowOptions& o, double a, double b) {
  const DType dtype = o.dtype;
  if (dtype == DType::kFloat64) return raised_cosine<double>(length, o.periodic, a, b);
  return ops::cast(raised_cosine<float>(length, o.periodic, static_cast<float>(a), static_cast<float>(b)), dtype);
}

}  // namespace

Tensor hann_window(std::int64_t length, const WindowOptions& o) { return window_of(length, o, 0.5, 0.5); }
Tensor hamming_window(std::int64_t length, const WindowOptions& o) { return window_of(length, o, 0.54, 0.46); }

Tensor frame(const Tensor& signal, const FrameKeywords& o) {
  if (o.frame_length < 1 || o.frame_step < 1) {
    throw_invalid_argument(fmt::format("frame: found frame_length {} and frame_step {}, expected 1 or more",
                                       o.frame_length, o.frame_step));
  }
  Tensor padded = signal;
  const int axis = o.axis < 0 ? o.axis + signal.rank() : o.axis;
  const std::int64_t length = signal.dim(axis);
  std::int64_t frames = length < o.frame_length ? 0 : 1 + (length - o.frame_length) / o.frame_step;
  if (o.pad_end) {
    frames = (length + o.frame_step - 1) / o.frame_step;
    const std::int64_t missing = std::max<std::int64_t>(0, o.frame_length + o.frame_step * (frames - 1) - length);
    ops::Paddings paddings(static_cast<std::size_t>(signal.rank()));
    paddings[static_cast<std::size_t>(axis)].second = missing;
    padded = ops::pad(signal, paddings, o.pad_value);
  }
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < frames; ++i) {
    for (std::int64_t j = 0; j < o.frame_length; ++j) places.push_back(i * o.frame_step + j);
  }
  return ops::gather(padded, Tensor::from_vector(places, Shape{frames, o.frame_length}), axis);
}

Tensor stft(const Tensor& signals, const StftKeywords& o) {
  const Tensor frames =
      frame(signals, {.frame_length = o.frame_length, .frame_step = o.frame_step, .pad_end = o.pad_end});
  const auto fft_length =
      o.fft_length.value_or(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(o.frame_length))));
  const Tensor window = o.window_fn ? o.window_fn(o.frame_length) : hann_window(o.frame_length);
  return rfft(ops::mul(frames, window), fft_length);
}

}  // namespace lockstep::signal
