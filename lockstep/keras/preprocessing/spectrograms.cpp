#include "lockstep/keras/preprocessing/spectrograms.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/initializers/stft_internal.h"
#include "lockstep/keras/layers/frames_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

constexpr std::int64_t kLongestFrame = 1 << 24;

class StftSpectrogramLayer : public ConfiguredLayer<StftSpectrogramLayer, STFTSpectrogramOptions> {
 public:
  static constexpr const char* kClass = "STFTSpectrogram";
  template <typename V>
  static void fields(V& v, STFTSpectrogramOptions& o) {
    v("mode", o.mode);
    v("frame_length", o.frame_length);
    v("frame_step", o.frame_step);
    v("fft_length", o.fft_length);
    v("window", o.window);
    v("periodic", o.periodic);
    v("scaling", o.scaling);
    v("padding", o.padding);
    v("data_format", DataFormat{o.data_format});
    v("expand_dims", o.expand_dims);
  }
  explicit StftSpectrogramLayer(STFTSpectrogramOptions options) : ConfiguredLayer(std::move(options)) {
    const std::string who = fmt::format("STFTSpectrogram '{}'", name());
    normalize_choice(options_.mode, {"log", "magnitude", "psd", "real", "imag", "angle", "stft"}, who + ": mode");
    normalize_choice(options_.padding, {"valid", "same"}, who + ": padding");
    normalize_data_format(options_.data_format, who + ": data_format");
    initializers::check_stft({.window = options_.window, .scaling = options_.scaling});
    const std::int64_t length = options_.frame_length;
    if (length < 2 || length > kLongestFrame)
      throw_invalid_argument(fmt::format("{}: frame_length is {}, expected at least 2 and at most 2^24", who, length));
    step_ = options_.frame_step.value_or(length / 2);
    if (step_ < 1 || step_ > length)
      throw_invalid_argument(
          fmt::format("{}: frame_step is {}, expected 1 to frame_length, which is {}", who, step_, length));
    const std::int64_t fft =
        options_.fft_length.value_or(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length))));
    if (fft < length || fft > kLongestFrame)
      throw_invalid_argument(
          fmt::format("{}: fft_length is {}, expected at least frame_length, which is {}", who, fft, length));
    frequencies_ = fft / 2 + 1;
  }

  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = 3}}; }
  void build(const Nested<Shape>&) override {
    const auto add = [&](const char* side, const char* weight) {
      return add_weight(
          {.shape = {options_.frame_length, 1, frequencies_},
           .initializer = initializers::STFT(
               {.side = side, .window = options_.window, .scaling = options_.scaling, .periodic = options_.periodic}),
           .name = weight});
    };
    if (options_.mode != "imag") real_kernel_ = add("real", "real_kernel");
    if (options_.mode != "real") imag_kernel_ = add("imag", "imag_kernel");
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& given = inputs.leaf();
    if (!is_floating(given.dtype()))
      throw_invalid_argument(
          fmt::format("invalid input of STFTSpectrogram '{}': found dtype {}, expected a floating one", name(),
                      dtype_name(given.dtype())));
    const bool first = options_.data_format == "channels_first";
    // (batch, channels, time), each channel its own signal.
    const Tensor signals = first ? given : ops::transpose(given, {0, 2, 1});
    const std::int64_t channels = signals.dim(1);
    if (channels == kUnknownDim)
      throw_invalid_argument(fmt::format("STFTSpectrogram '{}': the number of channels must be known, found shape {}",
                                         name(), given.shape().to_string()));
    const Tensor flat = regrouped(signals, 1, signals.dim(2), 1);
    Tensor real, imag;
    if (real_kernel_) real = transform(flat, real_kernel_, channels);
    if (imag_kernel_) imag = transform(flat, imag_kernel_, channels);
    return arranged(combined(real, imag), first);
  }

 private:
  // (batch · channels, 1, time, 1) to (batch, channels, frames, frequencies).
  Tensor transform(const Tensor& flat, const VariablePtr& kernel, std::int64_t channels) const {
    const Tensor window = ops::cast(ops::expand_dims(value(kernel), 0), flat.dtype());
    const Tensor y =
        ops::conv2d(flat, window, {.strides = {1, step_}, .padding = options_.padding == "same" ? "SAME" : "VALID"});
    return regrouped(y, channels, y.dim(2), frequencies_);
  }
  // The last three axes of x are taken as a, b and c; b may be unknown.
  static Tensor regrouped(const Tensor& x, std::int64_t a, std::int64_t b, std::int64_t c) {
    if (b != kUnknownDim) return ops::reshape(x, {-1, a, b, c});
    const auto number = [](std::int64_t n) { return Tensor::scalar(static_cast<std::int32_t>(n)); };
    return ops::reshape(x, ops::stack({number(-1), number(a), ops::dim_of(x, 2), number(c)}));
  }
  Tensor combined(const Tensor& real, const Tensor& imag) const {
    if (options_.mode == "real") return real;
    if (options_.mode == "imag") return imag;
    if (options_.mode == "angle") return ops::atan2(imag, real);
    if (options_.mode == "stft") return ops::concat({real, imag}, -1);
    const Tensor power = ops::square(real) + ops::square(imag);
    if (options_.mode == "psd")  // frequencies between the first and the last stand for two
      return power + ops::pad(ops::slice_axis(power, 3, 1, frequencies_ - 1), {{0, 0}, {0, 0}, {0, 0}, {1, 1}});
    const Tensor magnitude = ops::sqrt(ops::maximum(power, backend::epsilon()));
    return options_.mode == "magnitude" ? magnitude : ops::log(ops::maximum(magnitude, backend::epsilon()));
  }
  // From (batch, channels, frames, frequencies).
  Tensor arranged(const Tensor& x, bool first) const {
    if (options_.expand_dims) return first ? x : ops::transpose(x, {0, 2, 3, 1});
    const Tensor y = ops::transpose(x, first ? ops::Ints{0, 1, 3, 2} : ops::Ints{0, 2, 1, 3});
    const std::int64_t features = x.dim(1) * x.dim(3), frames = x.dim(2);
    const Tensor count = frames == kUnknownDim ? ops::dim_of(x, 2) : Tensor::scalar(static_cast<std::int32_t>(frames));
    const Tensor all = Tensor::scalar(static_cast<std::int32_t>(features)), batch = Tensor::scalar(std::int32_t{-1});
    if (frames == kUnknownDim)
      return ops::reshape(y, first ? ops::stack({batch, all, count}) : ops::stack({batch, count, all}));
    return first ? ops::reshape(y, {-1, features, frames}) : ops::reshape(y, {-1, frames, features});
  }

  std::int64_t step_ = 1, frequencies_ = 2;
  VariablePtr real_kernel_, imag_kernel_;
};

class MelSpectrogramLayer : public ConfiguredLayer<MelSpectrogramLayer, MelSpectrogramOptions> {
 public:
  static constexpr const char* kClass = "MelSpectrogram";
  template <typename V>
  static void fields(V& v, MelSpectrogramOptions& o) {
    v("fft_length", o.fft_length);
    v("sequence_stride", o.sequence_stride);
    v("sequence_length", o.sequence_length);
    v("window", o.window);
    v("sampling_rate", o.sampling_rate);
    v("num_mel_bins", o.num_mel_bins);
    v("min_freq", o.min_freq);
    v("max_freq", o.max_freq);
    v("power_to_db", o.power_to_db);
    v("top_db", o.top_db);
    v("mag_exp", o.mag_exp);
    v("min_power", o.min_power);
    v("ref_power", o.ref_power);
  }
  explicit MelSpectrogramLayer(MelSpectrogramOptions options) : ConfiguredLayer(std::move(options)) {
    auto& o = options_;
    if (o.sequence_length.value_or(0) == 0) o.sequence_length = o.fft_length;
    if (o.max_freq.value_or(0).value == 0) o.max_freq = static_cast<std::int64_t>(o.sampling_rate.value / 2);
    const std::string who = fmt::format("MelSpectrogram '{}'", name());
    if (*o.sequence_length < 1 || *o.sequence_length > o.fft_length || o.fft_length > kLongestFrame)
      throw_invalid_argument(fmt::format("{}: sequence_length is {}, expected 1 to fft_length, which is {}", who,
                                         *o.sequence_length, o.fft_length));
    if (o.sequence_stride < 1 || o.num_mel_bins < 1 || o.num_mel_bins > kLongestFrame)
      throw_invalid_argument(fmt::format("{}: sequence_stride is {} and num_mel_bins {}, expected at least 1", who,
                                         o.sequence_stride, o.num_mel_bins));
    if (o.window.is_string() && o.window != "hann" && o.window != "hamming")
      throw_invalid_argument(fmt::format("{}: window is '{}', expected 'hann', 'hamming', a list of numbers or null",
                                         who, o.window.get<std::string>()));
  }

  void build(const Nested<Shape>&) override {
    mel_weights_ = mel_weights();
    if (!options_.window.is_null())
      window_ = padded_window(options_.window, *options_.sequence_length, options_.fft_length,
                              fmt::format("MelSpectrogram '{}'", name()));
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& given = inputs.leaf();
    const DType dtype = compute_dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const bool single = given.rank() == 1;
    Tensor x = ops::cast(single ? ops::expand_dims(given, 0) : given, dtype);
    if (x.rank() != 2)
      throw_invalid_argument(fmt::format("invalid input of MelSpectrogram '{}': found shape {}, expected (batch, time)",
                                         name(), given.shape().to_string()));
    const std::int64_t half = options_.fft_length / 2;
    if (x.dim(1) != kUnknownDim && x.dim(1) <= half)
      throw_invalid_argument(fmt::format(
          "invalid input of MelSpectrogram '{}': found {} samples, expected more than half of fft_length, which is {}",
          name(), x.dim(1), options_.fft_length));
    const Tensor power = ops::pow(magnitudes(ops::mirror_pad(x, {{0, 0}, {half, half}}, "REFLECT")), options_.mag_exp);
    Tensor y = ops::tensordot_last(power, ops::cast(mel_weights_, dtype));
    if (options_.power_to_db) y = decibels(y);
    y = ops::cast(ops::transpose(y, {0, 2, 1}), compute_dtype());
    return single ? ops::squeeze(y, {0}) : y;
  }

 private:
  // (batch, time) to (batch, frames, frequencies).
  Tensor magnitudes(const Tensor& x) const {
    const std::int64_t fft = options_.fft_length;
    Tensor frames = frames_of(x, fft, options_.sequence_stride);
    if (!window_.empty()) frames = frames * ops::cast(Tensor::from_vector(window_), x.dtype());
    const DType complex = x.dtype() == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
    const Tensor spectrum = ops::call1("RFFT", {frames, ops::constant_ints({fft})}, {{"Tcomplex", complex}});
    return ops::call1("ComplexAbs", {spectrum}, {{"Tout", x.dtype()}});
  }

  // (frequencies, bins): triangles on the mel scale, with a peak of one. In float32, as Keras computes them.
  Tensor mel_weights() const {
    const std::int64_t frequencies = options_.fft_length / 2 + 1, bins = options_.num_mel_bins;
    const auto mel = [](float hertz) { return 1127.0f * std::log(1.0f + hertz / 700.0f); };
    const auto spaced = [](float start, float stop, std::int64_t n, std::int64_t i) {
      if (i == n - 1 && n > 1) return stop;
      return start + (stop - start) / static_cast<float>(std::max<std::int64_t>(n - 1, 1)) * static_cast<float>(i);
    };
    const float low = mel(static_cast<float>(options_.min_freq.value)),
                high = mel(static_cast<float>(options_.max_freq->value)),
                nyquist = static_cast<float>(options_.sampling_rate.value) / 2.0f;
    std::vector<float> edges;
    for (std::int64_t i = 0; i < bins + 2; ++i) edges.push_back(spaced(low, high, bins + 2, i));
    std::vector<float> weights(static_cast<std::size_t>(frequencies * bins), 0.0f);
    for (std::int64_t f = 1; f < frequencies; ++f) {  // the first frequency, the mean, counts nowhere
      const float at = mel(spaced(0.0f, nyquist, frequencies, f));
      for (std::int64_t b = 0; b < bins; ++b) {
        const float* const edge = &edges[static_cast<std::size_t>(b)];
        const float rise = (at - edge[0]) / (edge[1] - edge[0]), fall = (edge[2] - at) / (edge[2] - edge[1]);
        weights[static_cast<std::size_t>(f * bins + b)] = std::max(0.0f, std::min(rise, fall));
      }
    }
    return Tensor::from_vector(weights, Shape{frequencies, bins});
  }

  Tensor decibels(const Tensor& power) const {
    const auto ten_log = [](const Tensor& x) { return ops::log(x) * (10.0 / std::log(10.0)); };
    const double least = options_.min_power, reference = std::max(std::abs(options_.ref_power.value), least);
    const Tensor y = ten_log(ops::maximum(power, least)) - 10.0 * std::log10(reference);
    return ops::maximum(y, ops::reduce_max(y) - options_.top_db.value);
  }

  Tensor mel_weights_;          // (frequencies, bins)
  std::vector<double> window_;  // of fft_length entries; none without a window
};

}  // namespace

void register_spectrogram_layers(ClassTable& registry) {
  registry.add(layer_row<StftSpectrogramLayer>());
  registry.add(layer_row<MelSpectrogramLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle STFTSpectrogram(STFTSpectrogramOptions options) {
  return std::make_shared<keras::StftSpectrogramLayer>(std::move(options));
}
LayerHandle MelSpectrogram(MelSpectrogramOptions options) {
  return std::make_shared<keras::MelSpectrogramLayer>(std::move(options));
}

}  // namespace lockstep::layers
