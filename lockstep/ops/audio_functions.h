// tf.audio and tf.signal: sound files, and their frames and spectra. Names, order of arguments and defaults are
// TensorFlow's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::audio {

struct DecodeWavKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t desired_channels = -1;  // default: those of the file
  std::int64_t desired_samples = -1;   // longer sounds are cut, shorter ones get zeros
};
// (samples, channels), float32 from -1 to 1, and the samples per second.
struct Wav {
  Tensor audio, sample_rate;
};
// Of 16-bit samples. Throws InvalidArgument for other bytes.
Wav decode_wav(const Tensor& contents, const DecodeWavKeywords& keywords = {});
inline Wav decode_wav(const Tensor& contents, std::int64_t desired_channels, std::int64_t desired_samples = -1) {
  return decode_wav(contents, DecodeWavKeywords{{}, desired_channels, desired_samples});
}
Tensor encode_wav(const Tensor& audio, const Tensor& sample_rate);

}  // namespace lockstep::audio

namespace lockstep::signal {

// (length,), float32 or another floating dtype: 1/2 - 1/2 cos(2π i / length) of a periodic window.
struct WindowOptions {
  FieldNamesOnly names_only = {};
  bool periodic = true;
  DTypeLike dtype = DType::kFloat32;
};
Tensor hann_window(std::int64_t window_length, const WindowOptions& o);
Tensor hamming_window(std::int64_t window_length, const WindowOptions& o);
inline Tensor hann_window(std::int64_t window_length, bool periodic = true) {
  return hann_window(window_length, WindowOptions{{}, periodic});
}
inline Tensor hamming_window(std::int64_t window_length, bool periodic = true) {
  return hamming_window(window_length, WindowOptions{{}, periodic});
}
// Frames of frame_length numbers of an axis, each frame_step behind the one before, (…, frames, frame_length, …).
struct FrameKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t frame_length = 0;
  std::int64_t frame_step = 0;
  bool pad_end = false;  // with pad_value, so that no number is left out
  double pad_value = 0;
  int axis = -1;
};
Tensor frame(const Tensor& signal, const FrameKeywords& keywords);
struct FrameOptions {
  FieldNamesOnly names_only = {};
  bool pad_end = false;
  double pad_value = 0;
  int axis = -1;
};
inline Tensor frame(const Tensor& signal, std::int64_t frame_length, std::int64_t frame_step,
                    const FrameOptions& o = {}) {
  return frame(signal, FrameKeywords{{}, frame_length, frame_step, o.pad_end, o.pad_value, o.axis});
}
// The spectrum of each frame, times a window, complex64, (…, frames, fft_length / 2 + 1). Default of fft_length: the
// next power of two.
struct StftKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t frame_length = 0;
  std::int64_t frame_step = 0;
  std::optional<std::int64_t> fft_length = std::nullopt;
  std::function<Tensor(std::int64_t length)> window_fn = {};  // default: hann_window
  bool pad_end = false;
};
Tensor stft(const Tensor& signals, const StftKeywords& keywords);
struct StftOptions {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> fft_length = std::nullopt;
  std::function<Tensor(std::int64_t length)> window_fn = {};
  bool pad_end = false;
};
struct StftWindowOptions {
  FieldNamesOnly names_only = {};
  std::function<Tensor(std::int64_t length)> window_fn = {};
  bool pad_end = false;
};
inline Tensor stft(const Tensor& signals, std::int64_t frame_length, std::int64_t frame_step,
                   const StftOptions& o = {}) {
  return stft(signals, StftKeywords{{}, frame_length, frame_step, o.fft_length, o.window_fn, o.pad_end});
}
inline Tensor stft(const Tensor& signals, std::int64_t frame_length, std::int64_t frame_step, std::int64_t fft_length,
                   const StftWindowOptions& o = {}) {
  return stft(signals, StftKeywords{{}, frame_length, frame_step, fft_length, o.window_fn, o.pad_end});
}

}  // namespace lockstep::signal
