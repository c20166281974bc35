// tf.signal: cosine transforms, sounds made of spectra, mel scales. Names, order of arguments and defaults are
// TensorFlow's.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::signal {

struct DctKeywords {
  FieldNamesOnly names_only = {};
  int type = 2;           // or 3, which idct of type 2 is; another one is an Unimplemented error
  std::string norm = {};  // or "ortho"
};
// Of the last axis of real tensors.
Tensor dct(const Tensor& input, const DctKeywords& o = {});
Tensor idct(const Tensor& input, const DctKeywords& o = {});

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
// The window with which inverse_stft() gives back the sound whose frames were multiplied by forward_window_fn, by
// default hann_window.
WindowFunction inverse_stft_window_fn(std::int64_t frame_step, const WindowFunction& forward_window_fn = {});

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
