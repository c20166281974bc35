// keras.layers: sound as images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/keras/layers/core.h"

namespace lockstep::layers {

struct STFTSpectrogramOptions {
  std::string mode = "log";  // "magnitude", "psd", "real", "imag", "angle", "stft" (real and imaginary)
  std::int64_t frame_length = 256;
  std::optional<std::int64_t> frame_step = {};  // default: half a frame
  std::optional<std::int64_t> fft_length = {};  // default: the next power of two from frame_length on
  Json window = "hann";                         // as of initializers::STFT
  bool periodic = false;
  std::optional<std::string> scaling = "density";
  std::string padding = "valid";  // or "same"
  bool expand_dims = false;
  std::string data_format = {};
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// Short-time Fourier transforms by convolutions, whose kernels can be trained. With F = fft_length / 2 + 1 frequencies:
// (batch, time, channels) to (batch, frames, channels · F), with expand_dims to (batch, frames, F, channels);
// channels_first: (batch, channels, time) to (batch, channels · F, frames) or (batch, channels, frames, F).
LayerHandle STFTSpectrogram(STFTSpectrogramOptions options = {});

struct MelSpectrogramOptions {
  std::int64_t fft_length = 2048;
  std::int64_t sequence_stride = 512;
  std::optional<std::int64_t> sequence_length = {};  // default: fft_length
  Json window = "hann";                              // "hamming", a list of sequence_length numbers, or null
  keras::Number sampling_rate = 16000;
  std::int64_t num_mel_bins = 128;
  keras::Number min_freq = 20.0;
  std::optional<keras::Number> max_freq = {};  // default: half of the sampling rate
  bool power_to_db = true;
  keras::Number top_db = 80.0;
  keras::Number mag_exp = 2.0;
  keras::Number min_power = 1e-10;
  keras::Number ref_power = 1.0;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};
// (batch, time) or (time) to (batch, num_mel_bins, frames) or (num_mel_bins, frames). With power_to_db, values are at
// most top_db below the largest one of the batch.
LayerHandle MelSpectrogram(MelSpectrogramOptions options = {});

}  // namespace lockstep::layers
