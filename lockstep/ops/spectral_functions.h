// tf.signal: cosine transforms, sounds made of spectra, mel scales. Names, order of arguments and defaults are
// TensorFlow's.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::signal {

struct DctKeywords {
  FieldNamesOnly names_only = {};
  int type = 2;                                  // 1 to 4; 3 is what idct of type 2 is
  std::optional<std::int64_t> n = std::nullopt;  // how many numbers of the axis count, with zeros where there are fewer
  int axis = -1;                                 // the last one; another one is an InvalidArgument
  std::string norm = {};                         // or "ortho"
};
// Of the last axis of real tensors.
Tensor dct(const Tensor& input, const DctKeywords& o = {});
Tensor idct(const Tensor& input, const DctKeywords& o = {});
template <std::integral Type>
Tensor dct(const Tensor& input, Type type, DctKeywords o = {}) {
  o.type = static_cast<int>(type);
  return dct(input, o);
}
template <std::integral Type>
Tensor idct(const Tensor& input, Type type, DctKeywords o = {}) {
  o.type = static_cast<int>(type);
  return idct(input, o);
}

// Frames (…, frames, length), each frame_step behind the one before, as their sum.
Tensor overlap_and_add(const Tensor& signal, std::int64_t frame_step);

using WindowFunction = std::function<Tensor(std::int64_t length)>;
struct InverseStftKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t frame_length = 0;
  std::int64_t frame_step = 0;
  std::optional<std::int64_t> fft_length = std::nullopt;  // default: the next power of two
  WindowFunction window_fn = {};                          // default: hann_window
};
Tensor inverse_stft(const Tensor& stfts, const InverseStftKeywords& o);
struct InverseStftOptions {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> fft_length = std::nullopt;
  WindowFunction window_fn = {};
};
inline Tensor inverse_stft(const Tensor& stfts, std::int64_t frame_length, std::int64_t frame_step,
                           const InverseStftOptions& o = {}) {
  return inverse_stft(stfts, InverseStftKeywords{{}, frame_length, frame_step, o.fft_length, o.window_fn});
}
// The window with which inverse_stft() gives back the sound whose frames were multiplied by forward_window_fn, by
// default hann_window.
WindowFunction inverse_stft_window_fn(std::int64_t frame_step, const WindowFunction& forward_window_fn = {});

// Windows for the modified cosine transform and others, (window_length,), float32 or another floating dtype.
struct DTypeOfWindow {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kFloat32;
};
struct KaiserOptions {
  FieldNamesOnly names_only = {};
  double beta = 12.0;
  DTypeLike dtype = DType::kFloat32;
};
Tensor vorbis_window(std::int64_t window_length, const DTypeOfWindow& o = {});
Tensor kaiser_window(std::int64_t window_length, const KaiserOptions& o = {});
Tensor kaiser_bessel_derived_window(std::int64_t window_length, const KaiserOptions& o = {});
template <typename Number>
requires std::is_arithmetic_v<Number> Tensor kaiser_window(std::int64_t window_length, Number beta) {
  return kaiser_window(window_length, KaiserOptions{{}, static_cast<double>(beta)});
}
template <typename Number>
requires std::is_arithmetic_v<Number> Tensor kaiser_bessel_derived_window(std::int64_t window_length, Number beta) {
  return kaiser_bessel_derived_window(window_length, KaiserOptions{{}, static_cast<double>(beta)});
}
// The modified discrete cosine transform of frames of frame_length numbers, a multiple of 4, each half of it behind the
// one before: (…, frames, frame_length / 2); and back.
struct MdctKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t frame_length = 0;
  std::optional<WindowFunction> window_fn = [](std::int64_t length) { return vorbis_window(length); };  // None: 1 / √2
  bool pad_end = false;
  std::string norm = {};  // or "ortho"
};
Tensor mdct(const Tensor& signals, const MdctKeywords& o);
struct InverseMdctKeywords {
  FieldNamesOnly names_only = {};
  std::optional<WindowFunction> window_fn = [](std::int64_t length) { return vorbis_window(length); };
  std::string norm = {};
};
template <std::integral Length>
Tensor mdct(const Tensor& signals, Length frame_length, MdctKeywords o = {}) {
  o.frame_length = frame_length;
  return mdct(signals, o);
}
Tensor inverse_mdct(const Tensor& mdcts, const InverseMdctKeywords& o = {});

// Moves zero frequencies to the middle of the axes (default: all), and back.
Tensor fftshift(const Tensor& x, std::optional<std::vector<std::int64_t>> axes = std::nullopt);
Tensor ifftshift(const Tensor& x, std::optional<std::vector<std::int64_t>> axes = std::nullopt);

struct MelKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num_mel_bins = 20;
  std::int64_t num_spectrogram_bins = 129;
  double sample_rate = 8000;
  double lower_edge_hertz = 125.0;
  double upper_edge_hertz = 3800.0;
};
// (num_spectrogram_bins, num_mel_bins), float32.
Tensor linear_to_mel_weight_matrix(const MelKeywords& o = {});
template <std::integral Bins>
Tensor linear_to_mel_weight_matrix(Bins num_mel_bins, std::int64_t num_spectrogram_bins = 129,
                                   double sample_rate = 8000, double lower_edge_hertz = 125.0,
                                   double upper_edge_hertz = 3800.0) {
  return linear_to_mel_weight_matrix(
      {{}, num_mel_bins, num_spectrogram_bins, sample_rate, lower_edge_hertz, upper_edge_hertz});
}
Tensor mfccs_from_log_mel_spectrograms(const Tensor& log_mel_spectrograms);

}  // namespace lockstep::signal
