// Sound: WAV files with 16 bits, spectrograms, mel-frequency cepstral coefficients.
//
//   "RIFF", size:u32, "WAVE", then chunks: name:4 bytes, size:u32, bytes
//   "fmt ": format:u16 = 1 (PCM), channels:u16, rate:u32, bytes of a second:u32, bytes of a frame:u16, bits:u16 = 16
//   "data": frames of one int16 for each channel, little endian
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

constexpr float kFullScale = 32768.0F;

Tensors spectrogram(const Call& call) {
  const at::Tensor& samples = in(call, 0);
  if (samples.dim() != 2) throw_invalid_argument("input must have the shape [samples, channels]");
  const std::int64_t window = call.attr<std::int64_t>("window_size"), stride = call.attr<std::int64_t>("stride");
  if (window < 2 || window > (std::int64_t{1} << 30))
    throw_invalid_argument(fmt::format("invalid window_size: found {}, expected at least 2", window));
  if (stride < 1) throw_invalid_argument(fmt::format("invalid stride: found {}, expected a positive number", stride));
  const auto length = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(window)));
  const std::int64_t count = samples.size(0) < window ? 0 : 1 + (samples.size(0) - window) / stride;
  element_count({samples.size(1), count, length}, sizeof(double) * 2);
  if (count == 0 || samples.size(1) == 0)
    return one(at::zeros({samples.size(1), count, length / 2 + 1}, samples.options()));
  const at::Tensor hann =
      0.5 - 0.5 * at::cos(at::arange(window, at::kDouble) * (2 * M_PI / static_cast<double>(window)));
  const at::Tensor frames = samples.to(at::kDouble).t().unfold(1, window, stride) * hann;
  const at::Tensor spectrum = at::view_as_real(at::fft_rfft(frames, length, -1));
  const at::Tensor power = at::square(spectrum).sum(-1);
  return one((call.attr<bool>("magnitude_squared") ? power : at::sqrt(power)).to(at::kFloat));
}

// ---- WAV files ---------------------------------------------------------------------------------------------------
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  std::string_view take(std::size_t count) {
    if (count > bytes_.size()) throw_invalid_argument("invalid WAV file: it ends too early");
    const std::string_view part = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return part;
  }
  std::uint32_t number(std::size_t size) {
    std::uint32_t value = 0;
    const std::string_view part = take(size);
    for (std::size_t i = 0; i < size; ++i)
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>(part[i])) << (8 * i);
    return value;
  }
  void expect(std::string_view text) {
    if (take(text.size()) != text) throw_invalid_argument(fmt::format("invalid WAV file: '{}' is missing", text));
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

struct Sound {
  std::int64_t channels = 0, rate = 0, frames = 0;
  std::string_view data;
};

Sound read_wav(std::string_view file) {
  Bytes bytes(file);
  bytes.expect("RIFF");
  bytes.number(4);
  bytes.expect("WAVE");
  bytes.expect("fmt ");
  const std::uint32_t header = bytes.number(4);
  if (header != 16 && header != 18)
    throw_invalid_argument(fmt::format("invalid WAV file: a header of {} bytes, expected 16 or 18", header));
  if (const std::uint32_t format = bytes.number(2); format != 1)
    throw_invalid_argument(fmt::format("the WAV file has format {}, only 1 (PCM) is read", format));
  Sound sound;
  sound.channels = bytes.number(2), sound.rate = bytes.number(4);
  bytes.number(4);
  const std::uint32_t frame = bytes.number(2), bits = bytes.number(2);
  if (bits != 16) throw_invalid_argument(fmt::format("the WAV file has {} bits for a sample, only 16 are read", bits));
  if (sound.channels == 0 || frame != 2 * sound.channels)
    throw_invalid_argument(fmt::format("invalid WAV file: {} bytes for {} channels", frame, sound.channels));
  if (header == 18) bytes.take(2);
  for (bool found = false; bytes.left() > 0;) {
    const std::string_view name = bytes.take(4);
    const std::uint32_t size = bytes.number(4);
    if (name != "data") {
      bytes.take(std::min<std::size_t>(size, bytes.left()));
      continue;
    }
    if (found) throw_invalid_argument("invalid WAV file: there are two chunks 'data'");
    found = true;
    sound.frames = size / frame;
    sound.data = bytes.take(static_cast<std::size_t>(sound.frames) * frame);
    bytes.take(std::min<std::size_t>(size % frame, bytes.left()));
  }
  if (!sound.data.data()) throw_invalid_argument("invalid WAV file: there is no chunk 'data'");
  return sound;
}

Tensors decode_wav(const Call& call) {
  const Sound sound = read_wav(string_in(call, 0));
  const std::int64_t channels = call.attr<std::int64_t>("desired_channels"),
                     samples = call.attr<std::int64_t>("desired_samples");
  const Ints shape{samples == -1 ? sound.frames : samples, channels == -1 ? sound.channels : channels};
  element_count(shape, sizeof(float));
  at::Tensor audio = at::zeros(shape, at::kFloat);
  float* to = audio.mutable_data_ptr<float>();
  for (std::int64_t frame = 0; frame < std::min(shape[0], sound.frames); ++frame) {
    for (std::int64_t channel = 0; channel < shape[1]; ++channel) {  // more than there are: the last one again
      const std::int64_t source = frame * sound.channels + std::min(channel, sound.channels - 1);
      std::int16_t value = 0;
      std::memcpy(&value, sound.data.data() + 2 * source, sizeof(value));
      *to++ = static_cast<float>(value) / kFullScale;
    }
  }
  return {wrap(audio), Tensor::scalar(static_cast<std::int32_t>(sound.rate))};
}

Tensors encode_wav(const Call& call) {
  const at::Tensor audio = in(call, 0).contiguous();
  if (audio.dim() != 2) throw_invalid_argument("audio must have the shape [samples, channels]");
  const std::int64_t rate = int_in(call, 1), channels = audio.size(1);
  if (rate < 1) throw_invalid_argument(fmt::format("invalid sample_rate: found {}, expected a positive number", rate));
  if (channels < 1 || channels > 32767 || audio.numel() < 1 || audio.numel() > (std::int64_t{1} << 30))
    throw_invalid_argument(
        fmt::format("audio of the shape {} does not fit a WAV file", call.input(0).shape().to_string()));
  std::string out = "RIFF";
  const auto number = [&out](std::int64_t value, int size) {
    for (int i = 0; i < size; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  };
  number(36 + 2 * audio.numel(), 4);
  out += "WAVEfmt ";
  number(16, 4), number(1, 2), number(channels, 2), number(rate, 4);
  number(rate * channels * 2, 4), number(channels * 2, 2), number(16, 2);
  out += "data";
  number(2 * audio.numel(), 4);
  for (std::int64_t i = 0; i < audio.numel(); ++i) {
    const float value = std::round(audio.const_data_ptr<float>()[i] * kFullScale);
    number(static_cast<std::int64_t>(std::fmin(std::fmax(value, -kFullScale), kFullScale - 1)), 2);
  }
  return {Tensor::strings({std::move(out)}, Shape{})};
}

// ---- cepstral coefficients -----------------------------------------------------------------------------------------
double to_mel(double frequency) { return 1127.0 * std::log1p(frequency / 700.0); }

// How the bins of a spectrum are added to triangular bands whose centers have equal distances on the mel scale: a bin
// goes to two neighbouring bands, `weight` of it to `band`, the rest to the next one.
struct MelBands {
  std::vector<int> band;
  std::vector<double> weight;
  std::int64_t first = 0, last = 0;
};
MelBands mel_bands(std::int64_t bins, double rate, std::int64_t count, double low, double high) {
  const double mel_low = to_mel(low), spacing = (to_mel(high) - mel_low) / static_cast<double>(count + 1);
  const auto center = [&](int i) { return mel_low + spacing * (i + 1); };
  const double width = 0.5 * rate / static_cast<double>(bins - 1);
  MelBands out;
  out.first = static_cast<std::int64_t>(1.5 + low / width);
  out.last = static_cast<std::int64_t>(high / width);
  int next = 0;
  for (std::int64_t i = 0; i < bins; ++i) {
    const double mel = to_mel(static_cast<double>(i) * width);
    while (i >= out.first && i <= out.last && next < count && center(next) < mel) ++next;
    out.band.push_back(next - 1);
    out.weight.push_back((center(next) - mel) / (center(next) - (next == 0 ? mel_low : center(next - 1))));
  }
  return out;
}

Tensors mfcc(const Call& call) {
  const at::Tensor spectrum = in(call, 0).contiguous();
  if (spectrum.dim() != 3) throw_invalid_argument("spectrogram must have the shape [channels, steps, frequencies]");
  const std::int64_t rate = int_in(call, 1), bins = spectrum.size(2),
                     count = call.attr<std::int64_t>("filterbank_channel_count"),
                     kept = call.attr<std::int64_t>("dct_coefficient_count");
  const double low = static_cast<double>(call.attr<float>("lower_frequency_limit")),
               high = static_cast<double>(call.attr<float>("upper_frequency_limit"));
  if (rate < 1 || bins < 2 || !(low >= 0 && low < high) || !std::isfinite(high) || count < 1 || kept < 1 ||
      kept > count)
    throw_invalid_argument(
        fmt::format("invalid sample_rate, limits or counts: {}, {} to {}, {} bands, {} coefficients "
                    "of {} frequencies",
                    rate, low, high, count, kept, bins));
  element_count({count, kept}, sizeof(double));
  const std::int64_t rows = spectrum.size(0) * spectrum.size(1);
  element_count({rows, std::max(count, kept)}, sizeof(double));
  // A spectrum that ends below the upper limit has no bands.
  if (high / (0.5 * static_cast<double>(rate) / static_cast<double>(bins - 1)) >= static_cast<double>(bins))
    return one(at::zeros({spectrum.size(0), spectrum.size(1), kept}, at::kFloat));
  const MelBands bands = mel_bands(bins, static_cast<double>(rate), count, low, high);
  at::Tensor energy = at::zeros({rows, count}, at::kDouble);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = spectrum.const_data_ptr<float>() + row * bins;
    double* to = energy.mutable_data_ptr<double>() + row * count;
    for (std::int64_t i = bands.first; i <= bands.last; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double value = std::sqrt(static_cast<double>(from[i])), share = value * bands.weight[at];
      const int band = bands.band[at];
      if (band >= 0) to[band] += share;
      if (band + 1 < count) to[band + 1] += value - share;
    }
  }
  const at::Tensor frequency = at::arange(kept, at::kDouble).unsqueeze(0),
                   place = at::arange(count, at::kDouble).unsqueeze(1);
  const double n = static_cast<double>(count);
  const at::Tensor cosines = std::sqrt(2.0 / n) * at::cos(frequency * (place + 0.5) * (M_PI / n));
  const at::Tensor out = at::matmul(at::log(at::clamp_min(energy, 1e-12)), cosines);
  return one(out.to(at::kFloat).view({spectrum.size(0), spectrum.size(1), kept}));
}

}  // namespace

void register_audio(Table& table) {
  table.add("AudioSpectrogram", nullptr, spectrogram);
  table.add(
      "DecodeWav",
      [](const Call& call) {
        const auto extent = [&](const char* name) { return std::max<std::int64_t>(call.attr<std::int64_t>(name), -1); };
        return Shapes{Shape{extent("desired_samples"), extent("desired_channels")}, Shape{}};
      },
      decode_wav);
  table.add("EncodeWav", scalar_rule, encode_wav);
  table.add("Mfcc", nullptr, mfcc);
}

}  // namespace lockstep::ops
