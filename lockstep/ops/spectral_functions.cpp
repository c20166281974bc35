#include "lockstep/ops/spectral_functions.h"

#include <bit>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/audio_functions.h"
#include "lockstep/ops/call.h"
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
Tensor ortho_weights(std::int64_t count, double first, double others, DType dtype) {
  std::vector<double> weights(static_cast<std::size_t>(count), others);
  weights[0] = first;
  return ops::cast(Tensor::from_vector(weights), dtype);
}
// 2 exp(sign · iπk / 2n), complex64, or complex128 for float64.
template <typename T>
Tensor half_steps_of(std::int64_t count, T sign) {
  std::vector<T> angles;
  for (std::int64_t k = 0; k < count; ++k)
    angles.push_back(sign * static_cast<T>(k) * static_cast<T>(std::numbers::pi) * T(0.5) / static_cast<T>(count));
  const Tensor angle = Tensor::from_vector(angles);
  return ops::complex(2.0 * ops::cos(angle), 2.0 * ops::sin(angle));
}
Tensor half_steps(std::int64_t count, int sign, DType dtype) {
  return dtype == DType::kFloat64 ? half_steps_of<double>(count, sign)
                                  : half_steps_of<float>(count, static_cast<float>(sign));
}
// The first `count` numbers of the last axis, or all of them with zeros behind them.
Tensor resized_last_axis(const Tensor& x, std::int64_t count) {
  if (count < x.dim(-1)) return first_of_last_axis(x, count);
  ops::Paddings paddings(static_cast<std::size_t>(x.rank()));
  paddings.back().second = count - x.dim(-1);
  return ops::pad(x, paddings);
}
Tensor windowed(const Tensor& frames, const std::optional<WindowFunction>& window_fn, std::int64_t length) {
  return window_fn ? frames * ops::cast((*window_fn)(length), frames.dtype()) : frames * std::sqrt(0.5);
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

Tensor dct(const Tensor& given, const DctKeywords& o) {
  if (!o.norm.empty() && o.norm != "ortho")
    throw_invalid_argument(fmt::format("dct: invalid norm: found \"{}\", expected \"ortho\" or None", o.norm));
  if (o.axis != -1) throw_invalid_argument(fmt::format("dct: invalid axis: found {}, expected -1", o.axis));
  if (o.type < 1 || o.type > 4)
    throw_invalid_argument(fmt::format("dct: invalid type: found {}, expected 1 to 4", o.type));
  const bool ortho = o.norm == "ortho";
  if (o.type == 1 && ortho) throw_invalid_argument("dct: norm \"ortho\" is not defined for type 1");
  const std::int64_t n = o.n.value_or(given.dim(-1));
  const Tensor input = n == given.dim(-1) ? given : resized_last_axis(given, n);
  const double root = std::sqrt(static_cast<double>(n));
  switch (o.type) {
    case 1: {
      if (n < 2) throw_invalid_argument(fmt::format("dct: type 1 needs 2 numbers or more, found {}", n));
      ops::Ints begin(static_cast<std::size_t>(input.rank()), 0), size(static_cast<std::size_t>(input.rank()), -1);
      begin.back() = 1, size.back() = n - 2;
      const Tensor back = ops::reverse(ops::slice(input, begin, size), {-1});
      return ops::real(rfft(ops::concat({input, back}, -1), 2 * n - 2));
    }
    case 2: {
      const Tensor half = first_of_last_axis(rfft(input, 2 * n), n);
      const Tensor out = ops::real(half * half_steps(n, -1, input.dtype()));
      const double first = 0.5 / root;
      return ortho ? out * ortho_weights(n, first, first * std::numbers::sqrt2, input.dtype()) : out;
    }
    case 3: {
      const Tensor scaled =
          ortho ? input * ortho_weights(n, root, root * std::sqrt(0.5), input.dtype()) : input * static_cast<double>(n);
      const Tensor spectrum = half_steps(n, 1, input.dtype()) * ops::complex(scaled, ops::zeros_like(scaled));
      return first_of_last_axis(irfft(spectrum, 2 * n), n);
    }
    default: {
      // The odd numbers of the transform of type 2 of the numbers and as many zeros.
      const Tensor twice = first_of_last_axis(rfft(input, 4 * n), 2 * n);
      const Tensor out =
          ops::slice_axis(ops::real(twice * half_steps(2 * n, -1, input.dtype())), -1, 1, std::nullopt, 2);
      return ortho ? out * (std::sqrt(0.5) / root) : out;
    }
  }
}
Tensor idct(const Tensor& input, const DctKeywords& o) {
  DctKeywords inverse = o;
  inverse.type = o.type == 2 ? 3 : o.type == 3 ? 2 : o.type;
  return dct(input, inverse);
}

namespace {

// Windows are computed in the precision of their dtype, those of 16 bits in float32.
template <typename Compute>
Tensor in_precision(DTypeLike dtype, std::int64_t length, Compute compute) {
  if (length < 1) throw_invalid_argument(fmt::format("invalid window_length: found {}, expected 1 or more", length));
  const DType given = dtype;
  return ops::cast(compute(given == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32), given);
}

}  // namespace
Tensor vorbis_window(std::int64_t length, const DTypeOfWindow& o) {
  return in_precision(o.dtype, length, [&](DType dtype) {
    const Tensor place =
        (ops::cast(ops::range(length), dtype) + 0.5) * (std::numbers::pi / static_cast<double>(length));
    return ops::sin(ops::square(ops::sin(place)) * (std::numbers::pi / 2));
  });
}
Tensor kaiser_window(std::int64_t length, const KaiserOptions& o) {
  return in_precision(o.dtype, length, [&](DType dtype) {
    if (length == 1) return ops::ones({1}, dtype);
    const double half = static_cast<double>(length - 1) / 2;
    const Tensor place = (ops::cast(ops::range(length), dtype) - half) / half, beta = ops::constant(o.beta, dtype);
    const Tensor curve = beta * ops::sqrt(ops::relu(1.0 - ops::square(place)));
    const auto bessel = [](const Tensor& x) { return ops::call1("BesselI0e", {x}); };
    return ops::exp(curve - beta) * (bessel(curve) / bessel(beta));
  });
}
Tensor kaiser_bessel_derived_window(std::int64_t length, const KaiserOptions& o) {
  return in_precision(o.dtype, length, [&](DType dtype) {
    const std::int64_t half = length / 2;
    const Tensor sums = ops::cumsum(kaiser_window(half + 1, {.beta = o.beta, .dtype = dtype}), 0);
    const Tensor rising = ops::sqrt(ops::slice(sums, {0}, {half}) / ops::slice(sums, {half}, {1}));
    return ops::concat({rising, ops::reverse(rising, {0})}, 0);
  });
}

Tensor mdct(const Tensor& signals, const MdctKeywords& o) {
  if (o.frame_length < 4 || o.frame_length % 4 != 0) {
    throw_invalid_argument(
        fmt::format("mdct: invalid frame_length: found {}, expected a multiple of 4", o.frame_length));
  }
  const Tensor framed =
      frame(signals, {.frame_length = o.frame_length, .frame_step = o.frame_length / 2, .pad_end = o.pad_end});
  const Tensor frames = windowed(framed, o.window_fn, o.frame_length);
  const auto quarters = ops::split(frames, 4, -1).parts<4>();
  const auto back = [](const Tensor& x) { return ops::reverse(x, {-1}); };
  return dct(ops::concat({-back(quarters[2]) - quarters[3], quarters[0] - back(quarters[1])}, -1),
             {.type = 4, .norm = o.norm});
}
Tensor inverse_mdct(const Tensor& mdcts, const InverseMdctKeywords& o) {
  const std::int64_t half = mdcts.dim(-1);
  Tensor frames = dct(mdcts, {.type = 4, .norm = o.norm});
  if (o.norm.empty()) frames = frames * (0.5 / static_cast<double>(half));
  const auto [first, second] = ops::split(frames, 2, -1);
  const auto back = [](const Tensor& x) { return ops::reverse(x, {-1}); };
  const Tensor whole = ops::concat({second, -back(second), -back(first), -first}, -1);
  return overlap_and_add(windowed(whole, o.window_fn, 2 * half), half);
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
