#include "lockstep/ops/spectral_functions.h"

#include <bit>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/audio_functions.h"
#include "lockstep/ops/complex_functions.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/operators.h"

namespace lockstep::signal {
namespace {

// The numbers of an axis from its first `count` ones.
Tensor first_of_last_axis(const Tensor& x, std::int64_t count) {
  ops::Ints begin(static_cast<std::size_t>(x.rank()), 0), size(static_cast<std::size_t>(x.rank()), -1);
  size.back() = count;
  return ops::slice(x, begin, size);
}
// `first`, then `others`.
Tensor ortho_weights(std::int64_t count, double first, double others) {
  std::vector<float> weights(static_cast<std::size_t>(count), static_cast<float>(others));
  weights[0] = static_cast<float>(first);
  return Tensor::from_vector(weights);
}
// 2 exp(sign · iπk / 2n), complex64.
Tensor half_steps(std::int64_t count, float sign) {
  std::vector<float> angles;
  for (std::int64_t k = 0; k < count; ++k)
    angles.push_back(sign * static_cast<float>(k) * static_cast<float>(std::numbers::pi) * 0.5F /
                     static_cast<float>(count));
  const Tensor angle = Tensor::from_vector(angles);
  return ops::complex(ops::cos(angle), ops::sin(angle)) * Tensor::scalar(2.0F).astype(DType::kComplex64);
}

Tensor shifted(const Tensor& x, const std::optional<std::vector<std::int64_t>>& axes, bool back) {
  ops::Ints all = axes.value_or(ops::Ints{});
  if (!axes)
    for (int i = 0; i < x.rank(); ++i) all.push_back(i);
  ops::Ints shifts;
  for (const std::int64_t axis : all) {
    const std::int64_t half = x.dim(static_cast<int>(axis)) / 2;
    shifts.push_back(back ? -half : half);
  }
  return ops::roll(x, shifts, all);
}

Tensor mel_of_hertz(const Tensor& hertz) { return ops::log(1.0 + hertz / 700.0) * 1127.0; }

}  // namespace

Tensor dct(const Tensor& input, const DctKeywords& o) {
  if (!o.norm.empty() && o.norm != "ortho")
    throw_invalid_argument(fmt::format("dct: invalid norm: found \"{}\", expected \"ortho\" or None", o.norm));
  const std::int64_t n = input.dim(-1);
  const bool ortho = o.norm == "ortho";
  if (o.type == 2) {
    const Tensor half = first_of_last_axis(rfft(input, 2 * n), n);
    const Tensor out = ops::real(half * half_steps(n, -1));
    const double first = 0.5 / std::sqrt(static_cast<double>(n));
    return ortho ? out * ortho_weights(n, first, first * std::numbers::sqrt2) : out;
  }
  if (o.type != 3) throw_unimplemented(fmt::format("dct: type {} is not supported; types are 2 and 3", o.type));
  const double root = std::sqrt(static_cast<double>(n));
  const Tensor scaled = ortho ? input * ortho_weights(n, root, root * std::sqrt(0.5)) : input * static_cast<double>(n);
  const Tensor spectrum = half_steps(n, 1) * ops::complex(scaled, ops::zeros_like(scaled));
  return first_of_last_axis(irfft(spectrum, 2 * n), n);
}
Tensor idct(const Tensor& input, const DctKeywords& o) {
  return dct(input, {.type = o.type == 2 ? 3 : o.type == 3 ? 2 : o.type, .norm = o.norm});
}

Tensor overlap_and_add(const Tensor& signal, std::int64_t frame_step) {
  if (signal.rank() < 2 || frame_step < 1) {
    throw_invalid_argument(
        fmt::format("overlap_and_add: found shape {} and frame_step {}, expected (..., frames, length) "
                    "and 1 or more",
                    signal.shape().to_string(), frame_step));
  }
  const std::int64_t frames = signal.dim(-2), length = signal.dim(-1);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < frames; ++i)
    for (std::int64_t j = 0; j < length; ++j) places.push_back(i * frame_step + j);
  const std::int64_t total = frames == 0 ? 0 : (frames - 1) * frame_step + length;
  std::vector<std::int64_t> outer(signal.shape().dims().begin(), signal.shape().dims().end() - 2);
  const Tensor columns = ops::transpose(ops::reshape(signal, {-1, frames * length}));
  const Tensor sums = ops::unsorted_segment_sum(columns, Tensor::from_vector(places), total);
  outer.push_back(total);
  return ops::reshape(ops::transpose(sums), Shape(outer));
}

Tensor inverse_stft(const Tensor& stfts, const InverseStftKeywords& o) {
  if (o.frame_length < 1 || o.frame_step < 1) {
    throw_invalid_argument(fmt::format("inverse_stft: found frame_length {} and frame_step {}, expected 1 or more",
                                       o.frame_length, o.frame_step));
  }
  const std::int64_t fft_length =
      o.fft_length.value_or(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(o.frame_length))));
  Tensor frames = irfft(stfts, fft_length);
  if (o.frame_length > fft_length) {
    ops::Paddings paddings(static_cast<std::size_t>(frames.rank()));
    paddings.back().second = o.frame_length - fft_length;
    frames = ops::pad(frames, paddings);
  } else {
    frames = first_of_last_axis(frames, o.frame_length);
  }
  const Tensor window = o.window_fn ? o.window_fn(o.frame_length) : hann_window(o.frame_length);
  return overlap_and_add(frames * window, o.frame_step);
}
WindowFunction inverse_stft_window_fn(std::int64_t frame_step, const WindowFunction& forward_window_fn) {
  return [=](std::int64_t length) {
    const Tensor window = forward_window_fn ? forward_window_fn(length) : hann_window(length);
    const auto values = window.to_vector<float>();
    // Of each place, the sum of the squares of all windows that cover it.
    std::vector<float> sums(static_cast<std::size_t>(frame_step), 0.0F);
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % sums.size()] += values[i] * values[i];
    std::vector<float> out;
    for (std::size_t i = 0; i < values.size(); ++i) out.push_back(values[i] / sums[i % sums.size()]);
    return Tensor::from_vector(out);
  };
}

Tensor fftshift(const Tensor& x, std::optional<std::vector<std::int64_t>> axes) { return shifted(x, axes, false); }
Tensor ifftshift(const Tensor& x, std::optional<std::vector<std::int64_t>> axes) { return shifted(x, axes, true); }

Tensor linear_to_mel_weight_matrix(const MelKeywords& o) {
  const Tensor hertz = ops::slice(ops::linspace(0.0, o.sample_rate / 2, o.num_spectrogram_bins), {1}, {-1});
  const Tensor bins = ops::expand_dims(mel_of_hertz(hertz), 1);
  const auto mel = [](double hertz_of_edge) { return mel_of_hertz(Tensor::scalar(static_cast<float>(hertz_of_edge))); };
  const Tensor edges = ops::linspace(mel(o.lower_edge_hertz), mel(o.upper_edge_hertz), o.num_mel_bins + 2);
  const auto edge = [&](std::int64_t first) {
    return ops::expand_dims(ops::slice(edges, {first}, {o.num_mel_bins}), 0);
  };
  const Tensor lower = edge(0), centre = edge(1), upper = edge(2);
  const Tensor slopes = ops::minimum((bins - lower) / (centre - lower), (upper - bins) / (upper - centre));
  return ops::pad(ops::relu(slopes), ops::Paddings{{1, 0}, {0, 0}});
}
Tensor mfccs_from_log_mel_spectrograms(const Tensor& log_mel_spectrograms) {
  const auto bins = static_cast<float>(log_mel_spectrograms.dim(-1));
  return dct(log_mel_spectrograms) * static_cast<double>(1.0F / std::sqrt(bins * 2.0F));
}

}  // namespace lockstep::signal
